"""What keeps one client from taking the service away from the others, each limit at a small scale.

benchmarks/attack.py has the same at full scale, against a service in a process of its own, and prints latencies.
"""

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.testclient import TestClient
from starlette.types import Message

import levers
from levers.errors import InvalidSettingError
from levers.studies.library import open_storage
from levers.studies.storage.memory import MemoryStorage
from levers.studies.storage.tokens import create_token
from levers.web.app import make_app
from levers.web.errors import RefusedError
from levers.web.limits import Limits, jobs
from levers.web.limits.admission import LARGE, Body, Held, lanes, needed_role
from levers.web.limits.connections import Connections
from levers.web.limits.pool import Job, Pool
from levers.web.service import Service

SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "high"], "speed": [1, 2, 3]}
SECONDS = 60  # for what takes a fraction of one, or for ever
Serve = Callable[..., contextlib.AbstractContextManager[str]]


def within(seconds: float, holds: Any) -> bool:
    """Whether something becomes true in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.02)
    return bool(holds())


def oven(storage: Any) -> levers.Study:
    return levers.create_study("oven", SPACE, tolerance=0.5, noise_sd=1.0, seed=1, storage=storage)


# Who may send how much


BODIES: dict[str, tuple[str, str, Any]] = {
    "ask": ("POST", "/studies/oven/ask", {}),
    "tell": ("POST", "/studies/oven/tell", {"trial": 0, "value": 1.0}),
    "fail": ("POST", "/studies/oven/fail", {"trial": 0}),
    "correct": ("POST", "/studies/oven/correct", {"trial": 0, "value": 1.0, "reason": "typo"}),
    "exclude": ("POST", "/studies/oven/exclude", {"trials": [0], "reason": "typo"}),
    "finish": ("POST", "/studies/oven/finish", {}),
    "continue": ("POST", "/studies/oven/continue", {}),
    "confirm": ("POST", "/studies/oven/confirm", {}),
    "restate": ("POST", "/studies/oven/restate", {"tolerance": 1.0}),
    "import": ("POST", "/studies/oven/import", {"rows": [{"heat": "low", "speed": 1}], "values": [1.0]}),
    "sheet": ("PUT", "/studies/oven/sheet", None),
    "past": ("POST", "/studies/oven/sheet/past", None),
    "corrections": ("POST", "/studies/oven/sheet/corrections?reason=x", None),
    "create": ("POST", "/studies", {"name": "b", "factors": SPACE, "tolerance": 0.5}),
    "copy": ("POST", "/studies/oven/copy", {"name": "c"}),
    "merge": ("POST", "/studies/oven/merge", {"name": "d", "factors": ["heat", "speed"]}),
    "delete": ("DELETE", "/studies/oven", None),
    "plan": ("POST", "/plan", {"factors": [2, 2], "tolerance": 0.5}),
}


@pytest.mark.parametrize("what", BODIES)
def test_the_table_of_roles_says_what_the_operations_do(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, path, body = BODIES[what]
    storage = MemoryStorage()
    oven(storage)
    role = needed_role(method, f"/api/v1{path.partition('?')[0]}")
    assert role is not None
    monkeypatch.setattr("levers.web.security.needed_role", lambda *_: None)  # so that only the operations decide
    lower = {"read": None, "write": "read", "admin": "write"}[role]
    with TestClient(make_app(Service(storage, needs_token=True))) as web:
        sent: dict[str, Any] = {"json": body} if body is not None else {"content": b"x", "headers": {}}
        for given in (lower, role):
            headers = {"content-type": "text/csv"} if body is None else {}
            headers |= {} if given is None else {"authorization": f"Bearer {create_token(storage, given)}"}
            status = web.request(method, f"/api/v1{path}", **{**sent, "headers": headers}).status_code
            assert (status in (401, 403)) is (given is lower), (what, given, status)


def asgi(app: Any, method: str, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], int]:
    """A request whose body never comes: status, headers, and how often somebody wanted it."""
    asked: list[bool] = []
    sent: list[Message] = []

    async def receive() -> Message:
        asked.append(True)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    given = {"host": "127.0.0.1", "content-type": "application/json", **headers}
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": [(k.encode(), v.encode()) for k, v in given.items()], "http_version": "1.1", "scheme": "http"}
    asyncio.run(app(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return int(sent[0]["status"]), found, len(asked)


@pytest.mark.parametrize(
    ("role", "path", "length", "status"),
    [
        ("read", "/api/v1/plan", 62 << 20, 413),
        ("read", "/api/v1/studies/oven/tell", 1 << 20, 403),
        ("read", "/api/v1/studies/oven/sheet/past", 1 << 20, 403),
        ("write", "/api/v1/studies", 1 << 20, 403),
        ("write", "/api/v1/studies/oven/tell", 62 << 20, 413),
        ("admin", "/api/v1/studies", 62 << 20, 413),
        ("read", "/studies/oven/upload", 1 << 20, 403),
        ("read", "/plan", 1 << 20, 413),
    ],
)
def test_a_body_is_refused_by_role_and_size_before_it_is_read(role: str, path: str, length: int, status: int) -> None:
    storage = MemoryStorage()
    oven(storage)
    token = {"authorization": f"Bearer {create_token(storage, role)}"}
    app = make_app(Service(storage, needs_token=True))
    assert asgi(app, "POST", path, {**token, "content-length": str(length)})[::2] == (status, 0)


def test_what_is_wrong_with_a_body_is_not_told_to_who_may_not_send_it() -> None:
    storage = MemoryStorage()
    oven(storage)
    token = {"authorization": f"Bearer {create_token(storage, 'read')}"}
    with TestClient(make_app(Service(storage, needs_token=True))) as web:
        for body in (b"{", b'{"trial": "x"}'):
            kind = {"content-type": "application/json"}
            answer = web.post("/api/v1/studies/oven/tell", content=body, headers={**token, **kind})
            assert answer.status_code == 403


@pytest.mark.parametrize("body", [b"[" * 1_000_000, b'{"trial": ' + b"1" * 1_000_000 + b', "value": 1}'])
def test_json_that_is_hard_to_read_is_refused(body: bytes) -> None:
    storage = MemoryStorage()
    oven(storage)
    with TestClient(make_app(Service(storage))) as web:
        answer = web.post("/api/v1/studies/oven/tell", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)


def test_large_bodies_are_read_and_checked_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    loads = json.loads

    def watched(text: Any, **more: Any) -> Any:
        threads.append(threading.current_thread().name)
        return loads(text, **more)

    storage = MemoryStorage()
    study = oven(storage)
    trials = study.ask(3)
    told = json.dumps({"outcomes": [{"trial": t.number, "value": 1.0} for t in trials]})
    with TestClient(make_app(Service(storage))) as web:
        monkeypatch.setattr("starlette.requests.json.loads", watched)
        for text in (told, told + " " * (1 << 20)):
            answer = web.post("/api/v1/studies/oven/tell", content=text, headers={"content-type": "application/json"})
            assert answer.status_code == 200
    assert len(set(threads)) == 2
    assert study.status().n_complete == 3


async def take(body: Body, size: int) -> None:
    """As if so much had come."""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * size, "more_body": False}

    await body.take(receive)


def test_all_bodies_together_have_a_limit_and_one_sender_a_share_of_it() -> None:
    held = Held(most=4 * LARGE, share=2 * LARGE)

    def body(sender: str) -> Body:
        return Body({"headers": [(b"content-length", b"1")]}, 8 * LARGE, Limits(), held, sender)

    bodies = [body("ann"), body("ann"), body("bob"), body("eve")]
    asyncio.run(take(bodies[0], LARGE + 1))
    with pytest.raises(RefusedError, match="of yours") as caught:
        asyncio.run(take(bodies[1], LARGE + 1))
    assert caught.value.status == 503
    bodies[1].let_go()
    asyncio.run(take(bodies[2], 2 * LARGE))
    with pytest.raises(RefusedError, match="too many large requests are") as caught:
        asyncio.run(take(bodies[3], LARGE + 1))
    assert caught.value.status == 503
    for sender in ("ann", "eve"):  # what is small comes through whatever others hold
        asyncio.run(take(body(sender), LARGE))
    for one in bodies:
        one.let_go()
    assert (held.now, held.by_sender) == (0, {})


def test_a_writer_of_one_study_shuts_nobody_out_by_large_bodies(serve: Serve, database: str) -> None:
    storage = open_storage(database)
    oven(storage)
    ann, bob = create_token(storage, "write"), create_token(storage, "write")
    size = 1 << 20

    def put(url: str, token: str) -> socket.socket:
        """A sheet of which the last byte does not come."""
        found = connect(url)
        head = f"PUT /api/v1/studies/oven/sheet HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        found.sendall(f"{head}Content-Type: text/csv\r\nContent-Length: {size}\r\n\r\n".encode())
        found.sendall(b"x" * (size - 1))
        return found

    limits = Limits(body_bytes=size, json_bytes=size, held_bytes=4 * size)
    with serve(database, needs_token=True, limits=limits) as url, contextlib.ExitStack() as held:
        anns = [held.enter_context(put(url, ann)) for _ in range(5)]
        assert within(SECONDS, lambda: len(select.select(anns, [], [], 0)[0]) == 4)
        refused = select.select(anns, [], [], 0)[0]
        assert all(b" 503 " in one.recv(1 << 16).split(b"\r\n")[0] for one in refused)
        asked = httpx.post(f"{url}/api/v1/studies/oven/ask", json={}, headers={"authorization": f"Bearer {bob}"})
        assert asked.status_code == 200
        bobs = held.enter_context(put(url, bob))
        bobs.sendall(b"x")
        assert b" 422 " in bobs.recv(1 << 16).split(b"\r\n")[0]  # it is read, and is no sheet


# What takes long


def test_a_plan_that_takes_too_long_is_refused_before_it_is_begun() -> None:
    answers: list[Any] = []
    storage = MemoryStorage()

    def ask() -> None:
        with TestClient(make_app(Service(storage))) as web:
            wanted = {"factors": list(range(2, 1_002)), "tolerance": 0.5, "noise_sd": 1.0}
            answers.append(web.post("/api/v1/plan", json=wanted))
            levels = {f"x{k}": list(range(n)) for k, n in enumerate(range(2, 402))}
            answers.append(web.post("/api/v1/studies", json={"name": "a", "factors": levels, "tolerance": 0.5}))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert [answer.status_code for answer in answers] == [422, 422]
    assert all("different sizes" in answer.json()["error"]["message"] for answer in answers)


@contextlib.contextmanager
def busy(pool: Pool, n: int) -> Iterator[None]:
    """Keep so many places of a pool busy."""
    work = [Job() for _ in range(n)]
    threads = [threading.Thread(target=_asleep, args=(pool, job), daemon=True) for job in work]
    for thread in threads:
        thread.start()
    assert within(SECONDS, lambda: pool.n_taken == n)
    yield
    for job in work:
        job.cancel()
    for thread in threads:
        thread.join(SECONDS)


def _asleep(pool: Pool, job: Job) -> None:
    with contextlib.suppress(RefusedError):
        pool.run(job, time.sleep, 600)


def test_plans_wait_in_a_short_line_and_nobody_else_waits() -> None:
    service = Service(MemoryStorage(), limits=Limits(workers=1, waiting=1))
    study = oven(service.storage)
    with TestClient(make_app(service)) as web:
        wanted = {"factors": [2, 2], "tolerance": 0.5}
        with busy(service.pool, 2):
            refused = web.post("/api/v1/plan", json=wanted)
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) > 0
            assert "try again" in refused.json()["error"]["message"]
            assert web.get("/health").status_code == 200
            asked = web.post("/api/v1/studies/oven/ask", json={}).json()["trials"]
            told = {"trial": asked[0]["trial"], "value": 1.0}
            assert web.post("/api/v1/studies/oven/tell", json=told).status_code == 200
        assert web.post("/api/v1/plan", json=wanted).status_code == 200
    service.pool.close()
    assert study.status().n_complete == 1


def test_a_lane_takes_so_many_and_refuses_the_rest() -> None:
    async def fill() -> None:
        lane = lanes(Limits(workers=1, waiting=1))["computing"]
        first, _second = await lane.take(), await lane.take()
        with pytest.raises(RefusedError) as caught:
            await lane.take()
        assert (caught.value.status, "retry-after" in caught.value.headers) == (503, True)
        first.give_back()
        first.give_back()
        await lane.take()
        with pytest.raises(RefusedError):
            await lane.take()

    asyncio.run(fill())


def test_jobs_end_when_they_take_too_long() -> None:
    pool = Pool(Limits(workers=1, computing_seconds=0.5))
    with pytest.raises(RefusedError, match=r"more than 0.5 s") as caught:
        pool.run(Job(), time.sleep, 600)
    assert caught.value.status == 422
    gone = Job()
    gone.cancel()
    with pytest.raises(RefusedError):
        pool.run(gone, time.sleep, 600)
    pool.close()
    with pytest.raises(RefusedError):
        pool.run(Job(), divmod, 7, 2)


def test_jobs_end_when_they_take_too_much() -> None:
    pool = Pool(Limits(workers=1, worker_bytes=2 << 30))
    with pytest.raises(RefusedError, match="more memory"):
        pool.run(Job(), bytes, 3 << 30)
    with pytest.raises(InvalidSettingError) as caught:  # what is raised on purpose comes back as it was
        pool.run(Job(), jobs.plan_text, [2, 2], {})
    assert caught.value.field == "budget"
    with pytest.raises(RefusedError, match="more memory"):
        pool.run(Job(), os._exit, 1)
    assert pool.run(Job(), divmod, 7, 2) == (3, 1)  # in a new process
    pool.close()


def test_no_process_is_left_when_the_service_is_killed() -> None:
    program = (
        "import os, threading, time\n"
        "from levers.web.limits import Limits\n"
        "from levers.web.limits.pool import Job, Pool\n"
        "pool = Pool(Limits(workers=1))\n"
        "print(pool.run(Job(), os.getpid), flush=True)\n"
        "pool.run(Job(), sum, range(10**12))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(0.3)
        parent.send_signal(signal.SIGKILL)
        parent.wait(SECONDS)

    def ended() -> bool:
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return True
        return Path(f"/proc/{child}/stat").read_text().split()[2] == "Z"  # where nobody takes note of the end

    assert within(SECONDS, ended)


# Connections


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=SECONDS)


def answered(connection: socket.socket, text: bytes) -> bytes:
    """What comes back until the connection ends, or b"" where it is only cut off."""
    found = b""
    with contextlib.suppress(ConnectionError):
        connection.sendall(text)
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            found += part
    return found


def get(url: str, path: str = "/health", headers: str = "") -> bytes:
    with connect(url) as connection:
        text = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{headers}\r\n"
        return answered(connection, text.encode())


def test_connections_that_do_nothing_end_when_there_are_too_many(serve: Serve, database: str) -> None:
    with serve(database, limits=Limits(connections=20)) as url, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(url)) for _ in range(60)]
        assert b"200 OK" in get(url)

        def n_open() -> int:
            found = 0
            for one in idle:
                one.setblocking(False)
                try:
                    found += one.recv(1) != b""
                except BlockingIOError:
                    found += 1
                except ConnectionError:
                    pass
            return found

        assert within(SECONDS, lambda: n_open() <= 20)


class Idle:
    """A connection as its number and address count."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: str | None) -> None:
        self.loop, self.address, self.cycle, self.since = loop, address, None, time.monotonic()
        self.is_idle, self.is_arriving, self.has_ended = True, False, False

    def end(self) -> None:
        self.has_ended = True

    def check(self, now: float) -> None:
        pass


def test_one_address_has_half_of_the_connections() -> None:
    async def fill(by_address: bool) -> int:
        known = Connections(Limits(), 20, by_address=by_address)
        loop = asyncio.get_running_loop()
        first = [Idle(loop, "192.0.2.7") for _ in range(15)]
        for one in first:
            known.add(one)  # type: ignore[arg-type]
        for address in (None, "192.0.2.8"):
            known.add(Idle(loop, address))  # type: ignore[arg-type]
        return sum(one.has_ended for one in first)

    assert asyncio.run(fill(True)) >= 5
    assert asyncio.run(fill(False)) == 0


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/health", f"X-A: {'a' * 100_000}\r\n"),
        ("/health", f"X-A: {'a' * 2_000_000}\r\n"),
        ("/health", "X-A: a\r\n" * 200),
        (f"/?q={'a' * 100_000}", ""),
        ("/", f"Cookie: {'a=b; ' * 20_000}\r\n"),
    ],
)
def test_a_head_has_a_limit(path: str, headers: str, server: str) -> None:
    found = get(server, path, headers)
    assert found == b"" or found.startswith(b"HTTP/1.1 431 ")
    assert b"200 OK" in get(server, headers=f"X-A: {'a' * 30_000}\r\n")


def test_a_head_or_a_body_that_does_not_come_is_not_waited_for(serve: Serve, database: str) -> None:
    oven(open_storage(database))
    with serve(database, limits=Limits(head_seconds=0.3, body_seconds=0.3)) as url:
        with connect(url) as silent:
            assert answered(silent, b"") == b""
        with connect(url) as slow:
            assert answered(slow, b"GET /health HTTP/1.1\r\nHost: 127").startswith(b"HTTP/1.1 408 ")
        head = "POST /api/v1/studies/oven/tell HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        for ending in ("Content-Length: 100\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"):
            with connect(url) as slow:
                slow.sendall((head + ending).encode())
                assert slow.recv(1 << 16).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("ending", [b"0\r\nX-A: " + b"a" * 2_000_000, b"1\r\n \r\n" * 100_000])
def test_what_comes_with_a_body_in_chunks_has_a_limit(ending: bytes, server: str) -> None:
    head = b"POST /api/v1/plan HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect(server) as connection:
        found = answered(connection, head + ending)
    assert b"200 OK" not in found  # it has ended, as it would not by itself
    assert b"200 OK" in get(server)


def test_a_job_ends_when_its_client_leaves(serve: Serve, database: str) -> None:
    limits = Limits(workers=1, waiting=2)
    pool = Service(MemoryStorage(), limits=limits).pool  # services with the same limits share it
    body = json.dumps({"factors": list(range(2, 62)), "tolerance": 0.5, "noise_sd": 1.0}).encode()
    text = b"POST /api/v1/plan HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with serve(database, limits=limits) as url:
        with connect(url) as connection:
            connection.sendall(text + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert within(SECONDS, lambda: pool.n_taken == 1)
            time.sleep(0.2)
        assert within(3.0, lambda: pool.n_taken == 0)  # the plan takes longer
    pool.close()


def test_so_many_pages_may_follow(serve: Serve, database: str) -> None:
    oven(open_storage(database))
    text = b"GET /studies/oven/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with serve(database, limits=Limits(followers=1)) as url, connect(url) as first, connect(url) as second:
        first.sendall(text)
        assert b"200 OK" in first.recv(1 << 16)
        second.sendall(text)
        refused = second.recv(1 << 16).lower()
        assert b"503" in refused.split(b"\r\n")[0]
        assert b"retry-after: " in refused
        assert b"200 OK" in get(url)


class Hanging(MemoryStorage):
    """A storage that does not answer, and does not say so."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def token(self, token_id: str) -> Any:
        self.go_on.wait(SECONDS)
        return super().token(token_id)


def test_health_does_not_wait_for_a_storage_that_hangs() -> None:
    storage = Hanging()
    with TestClient(make_app(Service(storage, limits=Limits(health_seconds=0.2)))) as web:
        before = threading.active_count()
        for _ in range(3):
            assert web.get("/health").status_code == 503
        assert threading.active_count() <= before + 1  # they ask together
        storage.go_on.set()
        assert within(SECONDS, lambda: web.get("/health").status_code == 200)
