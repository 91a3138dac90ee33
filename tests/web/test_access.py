"""Who is who over the network: tokens that end, sessions of browsers, wrong tokens, hosts, proxies, and HEAD."""

import json
import logging
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

import levers
from harness.markup import post
from levers.errors import StorageError, TokenError
from levers.studies.library import load_study, open_storage
from levers.studies.storage.base import Storage
from levers.studies.storage.memory import MemoryStorage
from levers.studies.storage.sessions import IDLE_SECONDS, LONGEST_SECONDS, SEEN_EVERY, find_session, start_session
from levers.studies.storage.tokens import DAY, create_token, find_token, revoke_token, rotate_token
from levers.web.access import attempts
from levers.web.access.attempts import MOST_FAILURES, WINDOW_SECONDS, Attempts
from levers.web.access.network import allowed_hosts
from levers.web.app import make_app
from levers.web.security import ENDS
from levers.web.server import Address, Server
from levers.web.service import Service

STUDIES = "/api/v1/studies"
SECONDS = 60  # for what takes a fraction of one, or for ever
Serve = Callable[..., AbstractContextManager[str]]


class Clock:
    """A time that the test moves on."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guarded(storage: Storage, clock: Clock) -> Service:
    """A service that needs a token, over SQLite, with a time of its own."""
    levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1, storage=storage)
    service = Service(storage, needs_token=True)
    service.clock, service.attempts = clock, Attempts(clock=clock)
    return service


@pytest.fixture
def browser(guarded: Service) -> Iterator[TestClient]:
    with TestClient(make_app(guarded)) as found:
        yield found


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


def log_in(browser: TestClient, text: str) -> str:
    """Log in; returns the value of the session's cookie."""
    answer = post(browser, "/login", {"token": text, "then": "/"}, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return str(browser.cookies["levers_session"])


def test_a_token_ends_by_itself_and_says_so_a_week_before(
    browser: TestClient, storage: Storage, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    text = create_token(storage, "read", note="bench 2")
    fresh = browser.get(STUDIES, headers=bearer(text))
    assert fresh.status_code == 200
    assert ENDS not in fresh.headers
    clock.now += 84 * DAY
    with caplog.at_level(logging.WARNING, "levers.web"):
        for _ in range(3):
            late = browser.get(STUDIES, headers=bearer(text))
            assert late.status_code == 200
    assert abs(datetime.fromisoformat(late.headers[ENDS]).timestamp() - clock.now - 6 * DAY) < 60
    said = [record.getMessage() for record in caplog.records if "expires in" in record.getMessage()]
    assert len(said) == 1
    assert f"bench 2 (token {text.split('_')[1]})" in said[0]
    clock.now += 7 * DAY
    over = browser.get(STUDIES, headers=bearer(text))
    assert over.status_code == 401
    assert "has expired" in over.json()["error"]["message"]


def test_two_tokens_of_one_note_are_told_apart_in_the_log(browser: TestClient, storage: Storage) -> None:
    texts = [create_token(storage, "write", note="ann") for _ in range(2)] + [create_token(storage, "write")]
    for text in texts:
        assert browser.post(f"{STUDIES}/oven/ask", json={"n": 1}, headers=bearer(text)).status_code == 200
    log_in(browser, texts[0])
    assert post(browser, "/studies/oven/ask", {"n": "1"}, follow_redirects=False).status_code == 303
    names = [entry.who for entry in load_study("oven", storage).log()[-4:]]
    first, second, third = (text.split("_")[1] for text in texts)
    ann = f"ann (token {first})"
    assert names == [ann, f"ann (token {second})", f"token {third}", ann]


def test_the_longest_note_leaves_room_for_the_id(browser: TestClient, storage: Storage) -> None:
    text = create_token(storage, "write", note="n" * 200)
    assert browser.post(f"{STUDIES}/oven/ask", json={"n": 1}, headers=bearer(text)).status_code == 200
    who = load_study("oven", storage).log()[-1].who
    assert len(who) == 200
    assert who.endswith(f" (token {text.split('_')[1]})")


def test_a_rotated_token_is_for_the_same_and_the_old_one_has_its_grace(
    browser: TestClient, storage: Storage, clock: Clock
) -> None:
    old = create_token(storage, "write", study="oven", note="bench 2", seconds=30 * DAY)
    new = rotate_token(storage, old.split("_")[1], grace=DAY)
    newer = rotate_token(storage, new.split("_")[1])
    for text, status in ((old, 200), (new, 401), (newer, 200)):
        assert browser.get(f"{STUDIES}/oven", headers=bearer(text)).status_code == status
    clock.now += 1.01 * DAY
    assert browser.get(f"{STUDIES}/oven", headers=bearer(old)).status_code == 401
    found = {token.id: token for token in storage.tokens()}
    first, last = found[old.split("_")[1]], found[newer.split("_")[1]]
    assert (first.role, first.study, first.note) == (last.role, last.study, last.note)
    assert last.expires_at is not None
    assert last.expires_at - last.created_at == pytest.approx(30 * DAY)
    with pytest.raises(TokenError, match="could be rotated"):
        rotate_token(storage, new.split("_")[1])


def test_the_cookie_is_a_session_and_not_the_token(browser: TestClient, storage: Storage, database: str) -> None:
    text = create_token(storage, "read")
    value = log_in(browser, text)
    assert browser.get("/").status_code == 200
    secret = text.split("_", 2)[2]
    assert all(secret not in str(kept) and text.split("_")[1] not in str(kept) for kept in browser.cookies.values())
    assert "levers_token" not in browser.cookies
    # what the cookie has is nowhere in the storage, so a copy of the storage opens nothing
    held = sqlite3.connect(database.removeprefix("sqlite:///")).execute("SELECT * FROM sessions").fetchall()
    assert len(held) == 1
    assert value not in str(held)
    # a token in the place of a session's value is no session
    with TestClient(browser.app, cookies={"levers_session": text}) as other:
        assert other.get("/").status_code == 401


def test_a_new_login_has_a_new_value_and_ends_the_one_before(browser: TestClient, storage: Storage) -> None:
    text = create_token(storage, "read")
    first = log_in(browser, text)
    second = log_in(browser, text)
    assert first != second
    for value, status in ((first, 401), (second, 200)):
        with TestClient(browser.app, cookies={"levers_session": value}) as other:
            assert other.get("/").status_code == status


def test_logging_out_ends_the_session_in_the_storage(browser: TestClient, storage: Storage) -> None:
    value = log_in(browser, create_token(storage, "read"))
    assert len(storage.sessions()) == 1
    post(browser, "/logout")
    assert storage.sessions() == []
    assert "levers_session" not in browser.cookies
    with TestClient(browser.app, cookies={"levers_session": value}) as thief:
        assert thief.get("/").status_code == 401


def test_revoking_rotating_and_expiry_end_sessions_too(browser: TestClient, storage: Storage, clock: Clock) -> None:
    for end in (
        lambda token_id: revoke_token(storage, token_id),
        lambda token_id: rotate_token(storage, token_id),
        lambda token_id: storage.expire_token(token_id, clock.now - 1),
    ):
        text = create_token(storage, "read")
        log_in(browser, text)
        assert browser.get("/").status_code == 200
        end(text.split("_")[1])
        out = browser.get("/")
        assert out.status_code == 401
        assert "session has ended" in out.text
        assert "levers_session" not in browser.cookies  # the browser was told to forget it


def test_a_session_ends_when_nobody_is_there_and_after_a_week(
    browser: TestClient, guarded: Service, storage: Storage, clock: Clock
) -> None:
    value = log_in(browser, create_token(storage, "read"))
    for _ in range(4):  # in use, it goes on beyond the idle time
        clock.now += IDLE_SECONDS - 60
        assert browser.get("/").status_code == 200
        assert guarded.sightings.settle(SECONDS)
    clock.now += IDLE_SECONDS + 60
    assert browser.get("/").status_code == 401
    value = log_in(browser, create_token(storage, "read"))
    began = clock.now
    while clock.now + IDLE_SECONDS < began + LONGEST_SECONDS:
        clock.now += IDLE_SECONDS - 60
        assert browser.get("/").status_code == 200
        assert guarded.sightings.settle(SECONDS)
    clock.now = began + LONGEST_SECONDS
    assert browser.get("/").status_code == 401
    assert find_session(storage, value, clock.now) is None
    log_in(browser, create_token(storage, "read"))
    assert len(storage.sessions()) == 1  # those that are over are gone


def test_looking_writes_to_the_storage_only_now_and_then(
    browser: TestClient, guarded: Service, storage: Storage, clock: Clock
) -> None:
    log_in(browser, create_token(storage, "read"))
    began = storage.sessions()[0].seen_at
    clock.now += SEEN_EVERY - 1
    browser.get("/")
    assert guarded.sightings.settle(SECONDS)
    assert storage.sessions()[0].seen_at == began
    clock.now += 2
    browser.get("/")
    assert guarded.sightings.settle(SECONDS)
    assert storage.sessions()[0].seen_at == clock.now


def test_what_a_page_asks_for_by_itself_does_not_keep_its_session(
    browser: TestClient, guarded: Service, storage: Storage, clock: Clock
) -> None:
    log_in(browser, create_token(storage, "write"))

    def seen() -> float:
        assert guarded.sightings.settle(SECONDS)
        return storage.sessions()[0].seen_at

    began = seen()
    clock.now += IDLE_SECONDS - 60
    for path in ("/studies/oven/panels", "/studies/oven/panels?open=0", "/studies/oven/checks?part_only=true"):
        assert browser.get(path).status_code == 200
        assert seen() == began
    guarded.stopping.set()  # else the stream would not end
    assert browser.get("/studies/oven/stream").status_code == 503
    assert seen() == began
    for path in ("/studies/oven", "/studies/oven/checks", "/"):
        assert browser.get(path).status_code == 200
        assert seen() == clock.now
        clock.now += SEEN_EVERY + 1
    assert post(browser, "/studies/oven/ask", {"n": "1"}, follow_redirects=False).status_code == 303
    assert seen() == clock.now
    clock.now += IDLE_SECONDS / 2
    assert browser.get("/studies/oven/panels").status_code == 200
    clock.now += IDLE_SECONDS / 2 + 60
    assert browser.get("/studies/oven/panels").status_code == 401


class NotNoting(MemoryStorage):
    """A storage in which a note that a session is in use waits for somebody's lock, and then fails."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.unlocked = threading.Event()

    def see_session(self, value: str, at: float) -> None:
        self.asked.append(value)
        self.unlocked.wait(SECONDS)
        raise StorageError("database is locked")


def test_looking_does_not_wait_for_a_note_that_a_session_is_in_use(clock: Clock) -> None:
    storage = NotNoting()
    service = Service(storage, needs_token=True)
    service.clock = clock
    token = find_token(storage, create_token(storage, "read"))
    assert token is not None
    values = [start_session(storage, token, clock.now) for _ in range(3)]
    clock.now += SEEN_EVERY + 1
    with TestClient(make_app(service)) as web:
        for value in values * 2:
            web.cookies.set("levers_session", value)
            assert web.get("/").status_code == 200  # with the lock held: nothing sets `unlocked` before
        assert not service.sightings.settle(0.0)
        storage.unlocked.set()
        assert service.sightings.settle(SECONDS)
        assert web.get("/").status_code == 200  # and after notes that failed
        assert service.sightings.settle(SECONDS)
        n_asked = len(storage.asked)
        assert set(storage.asked) == {one.value for one in storage.sessions()}
        assert n_asked <= 2 * len(values) + 1  # one each at a time
        clock.now += IDLE_SECONDS
        assert web.get("/").status_code == 401  # what was not noted makes no session longer


def test_a_session_that_somebody_wrote_or_changed_by_hand_opens_nothing(
    browser: TestClient, storage: Storage, database: str
) -> None:
    reader, admin = create_token(storage, "read"), create_token(storage, "admin")
    log_in(browser, reader)
    assert browser.get("/studies/new").status_code == 403
    with sqlite3.connect(database.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE sessions SET token_id = ?", (admin.split("_")[1],))
    connection.close()
    assert browser.get("/studies/new").status_code == 401


def test_a_session_outlives_the_process_of_the_service(browser: TestClient, storage: Storage, clock: Clock) -> None:
    value = log_in(browser, create_token(storage, "read"))
    again = Service(open_storage(storage.url), needs_token=True)
    again.clock = clock
    with TestClient(make_app(again), cookies={"levers_session": value}) as other:
        assert other.get("/").status_code == 200


@pytest.mark.parametrize(
    ("public", "headers", "secure"),
    [
        (None, {}, False),
        ("https://lab.example.org", {}, True),
        ("http://lab.example.org", {}, False),
        ("http://lab.example.org", {"x-forwarded-proto": "https"}, False),  # said by the caller, which is no proxy
    ],
)
def test_cookies_are_secure_behind_a_proxy(public: str | None, headers: dict[str, str], secure: bool) -> None:
    storage = MemoryStorage()
    text = create_token(storage, "read")
    app = make_app(Service(storage, needs_token=True), public=public)
    with TestClient(app, base_url="https://testserver") as browser:  # the client must send secure cookies back

        async def plain(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "scheme": "http"} if scope["type"] == "http" else scope, receive, send)

        browser._transport.app = plain  # type: ignore[attr-defined]
        page = browser.get("/login", headers=headers)
        name = "__Host-levers_form" if secure else "levers_form"
        form = {"token": text, "then": "/", "form_token": browser.cookies[name]}
        answer = browser.post("/login", data=form, headers=headers, follow_redirects=False)
        assert answer.status_code == 303
        for cookie in [*page.headers.get_list("set-cookie"), *answer.headers.get_list("set-cookie")]:
            assert ("secure" in cookie.lower().split("; ")) is secure, cookie
            assert "httponly" in cookie.lower()
            assert "samesite=strict" in cookie.lower()
            assert cookie.startswith("__Host-") is secure
            assert "path=/" in cookie.lower()
            assert "domain" not in cookie.lower()
        assert browser.get("/", headers=headers).status_code == 200


def test_a_proxy_on_this_machine_says_how_the_browser_came() -> None:
    app = make_app(Service(MemoryStorage()), public="http://lab.example.org")
    with TestClient(app, client=("127.0.0.1", 5), base_url="http://lab.example.org") as browser:
        assert "__Host-" in browser.get("/login", headers={"x-forwarded-proto": "https"}).headers["set-cookie"]


def test_wrong_tokens_are_limited_by_address_and_logged_with_it(
    guarded: Service, storage: Storage, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    text = create_token(storage, "read")
    app = make_app(guarded)
    with (
        TestClient(app, client=("203.0.113.9", 1)) as guesser,
        TestClient(app, client=("203.0.113.10", 1)) as other,
        caplog.at_level(logging.WARNING, "levers.web"),
    ):
        wrong = bearer(text[:-1] + ("x" if text[-1] != "x" else "y"))
        answers = [guesser.get(STUDIES, headers=wrong) for _ in range(MOST_FAILURES + 5)]
        assert [a.status_code for a in answers] == [401] * MOST_FAILURES + [429] * 5
        assert 0 < int(answers[-1].headers["retry-after"]) <= WINDOW_SECONDS
        lines = [record.getMessage() for record in caplog.records if "wrong token" in record.getMessage()]
        assert len(lines) == MOST_FAILURES  # whoever goes on does not fill the log
        assert all("203.0.113.9" in line and text.split("_", 2)[2] not in line for line in lines)
        refused = post(guesser, "/login", {"token": "levers_aa_bb", "then": "/"})  # the login page has the same limit
        assert refused.status_code == 429
        assert "retry-after" in refused.headers
        assert "too many wrong" in refused.text
        # whoever shares the address with somebody who guesses is not locked out, nor is any other address
        assert guesser.get(STUDIES, headers=bearer(text)).status_code == 200
        log_in(guesser, text)
        assert other.get(STUDIES, headers=wrong).status_code == 401
        clock.now += WINDOW_SECONDS + 1
        assert guesser.get(STUDIES, headers=wrong).status_code == 401


def test_the_caller_is_whom_a_trusted_proxy_names(storage: Storage, caplog: pytest.LogCaptureFixture) -> None:
    wrong = {**bearer("levers_aa_bb"), "x-forwarded-for": "1.1.1.1, 203.0.113.77"}
    public = "https://lab.example.org"
    cases = [
        (("127.0.0.1", 1), {"public": public}, "203.0.113.77"),
        (("127.0.0.1", 1), {}, "127.0.0.1"),  # nobody said that there is a proxy
        (("198.51.100.4", 1), {"public": public}, "198.51.100.4"),  # not a proxy that we know
        (("198.51.100.4", 1), {"proxies": ("198.51.100.0/24",)}, "203.0.113.77"),
    ]
    for peer, given, expected in cases:
        caplog.clear()
        app = make_app(Service(storage), **given)  # type: ignore[arg-type]
        with TestClient(app, client=peer) as client, caplog.at_level(logging.WARNING, "levers.web"):
            assert client.get(STUDIES, headers=wrong).status_code == 401
        assert [record.getMessage() for record in caplog.records] == [f"a wrong token from {expected}"]


def test_what_is_remembered_of_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "MOST_ADDRESSES", 50)
    kept = Attempts()
    for i in range(500):
        kept.failed(f"203.0.113.{i}")
    assert len(kept) == 50
    for i in range(MOST_FAILURES):  # a caller of IPv6 has many addresses of its own
        kept.failed(f"2001:db8::{i:x}")
    assert kept.wait("2001:db8::ffff") > 0
    assert kept.wait("2001:db8:0:1::1") == 0


def answered(server: Server, host: str) -> Any:
    with TestClient(server.config.app, base_url="http://127.0.0.1") as client:  # type: ignore[arg-type]
        return client.get("/health", headers={"host": host})


def test_other_names_are_refused_on_any_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "Bench7.lab.example.org")
    storage = MemoryStorage()
    create_token(storage, "read")
    service = Service(storage, needs_token=True)
    for address in (Address("0.0.0.0"), Address("::"), Address("192.168.1.5")):
        server = Server(service, address)
        for host in ("evil.example", "192.168.1.5.evil.example", "bench7.evil.example", "", "x@192.168.1.5"):
            refused = answered(server, host)
            assert refused.status_code == 421, host
            if host:
                assert "--allow-host" in refused.json()["error"]["message"]
        for host in (
            "bench7:8080",
            "BENCH7.lab.example.org",
            "bench7.local",
            "localhost:80",
            "192.168.1.5:8080",
            "[::1]",
        ):
            assert answered(server, host).status_code == 200, host
    more = Server(service, Address("0.0.0.0", hosts=("Lab.example.org",), public="https://door.example.org:8443"))
    for host in ("lab.example.org:80", "door.example.org:8443"):
        assert answered(more, host).status_code == 200
    assert answered(more, "evil.example").status_code == 421
    loopback = Server(service, Address("127.0.0.1"))
    assert answered(loopback, "192.168.1.5").status_code == 421
    assert answered(loopback, "bench7").status_code == 421
    assert "lab.example.org" in allowed_hosts("127.0.0.1", True, ["lab.example.org:99"])


def test_head_is_answered_as_get_is_without_a_body(browser: TestClient, storage: Storage) -> None:
    token = create_token(storage, "read")
    log_in(browser, token)
    for path in ("/health", STUDIES, f"{STUDIES}/oven", "/", "/studies/oven", "/login", "/metrics", "/favicon.ico"):
        got, head = browser.get(path), browser.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"") == (200, b""), path
        assert head.headers["content-type"] == got.headers["content-type"]
    assert browser.head("/no/such/page").status_code == 404
    assert browser.head(f"{STUDIES}/nothing").status_code == 404
    assert browser.head("/logout").status_code == 405
    assert "HEAD" in browser.put("/health").headers["allow"]
    browser.cookies.clear()
    assert browser.head(STUDIES).status_code == 401


def test_head_of_a_real_service_also_of_a_stream(serve: Serve, database: str) -> None:
    levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1, storage=database)
    with serve(database) as address, httpx.Client(timeout=60) as client:
        for path in ("/health", "/studies/oven/stream"):
            head = client.head(address + path)
            assert (head.status_code, head.content) == (200, b"")
        assert client.get(f"{address}/health").json() == {"status": "ok"}  # on the same connection
        followers = re.search(r"\nlevers_followers (\S+)", client.get(f"{address}/metrics").text)
        assert followers is not None
        assert float(followers[1]) == 0


@pytest.mark.parametrize("field", ["worker", "level", "reason", "name", "factor", "note"])
def test_half_a_character_is_refused_over_http(client: TestClient, storage: Storage, field: str) -> None:
    study = levers.create_study("oven", {"heat": ["a", "b"]}, tolerance=1.0, noise_sd=1.0, seed=1, storage=storage)
    trial = study.ask()[0].number
    n_events, half = len(study.log()), "x\ud800"
    new = {"name": "new", "factors": {"x": ["a", "b"]}, "tolerance": 1}
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "worker": ("/oven/ask", {"n": 1, "worker": half}),
        "level": ("", {**new, "factors": {"x": ["a", half]}}),
        "factor": ("", {**new, "factors": {half: ["a", "b"]}}),
        "name": ("", {**new, "name": half}),
        "reason": ("/oven/fail", {"trial": trial, "reason": half}),
        "note": ("/oven/import", {"rows": [{"heat": "a"}], "values": [1], "note": half}),
    }
    path, body = requests[field]
    bodies = [body] if path == "" else [body, {**body, field: "x\x1b[2J"}]
    for one in bodies:
        kind = {"content-type": "application/json"}
        answer = client.post(STUDIES + path, content=json.dumps(one), headers=kind)
        assert answer.status_code == 422, answer.text
        message = answer.json()["error"]["message"]
        assert "\n" not in message
    assert len(study.log()) == n_events
    assert levers.list_studies(storage) == ["oven"]
