"""What was found by attacking the service stays mended."""

import asyncio
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from starlette.testclient import TestClient
from starlette.types import Message

import levers
from harness.markup import session_of
from levers.errors import SheetError, StorageError
from levers.studies.library import load_study
from levers.studies.sheets.read import read_sheet
from levers.studies.storage.base import Stored, Token
from levers.studies.storage.memory import MemoryStorage
from levers.studies.storage.tokens import create_token
from levers.studies.study import Study
from levers.web.api.schemas import Exclude, NewStudy, PlanFor, Told
from levers.web.app import make_app
from levers.web.errors import RefusedError
from levers.web.live import Live
from levers.web.security import Metrics
from levers.web.service import Limits, Service

SPACE: dict[str, list[str]] = {"heat": ["low", "high"], "speed": ["1", "2"]}


def oven(storage: Any, name: str = "oven") -> Study:
    return levers.create_study(name, SPACE, tolerance=0.5, noise_sd=1.0, seed=1, storage=storage)


def client(service: Service, **named: Any) -> TestClient:
    return TestClient(make_app(service, **named), base_url="http://127.0.0.1", raise_server_exceptions=False)


def in_time(act: Callable[[], object]) -> None:
    """Do something that would wait for itself if it were wrong."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


def test_a_body_is_not_read_for_somebody_without_a_token() -> None:
    storage = MemoryStorage()
    text = create_token(storage, "write")
    app: Any = make_app(Service(storage, needs_token=True))
    read: list[bool] = []
    sent: list[Message] = []

    async def receive() -> Message:
        read.append(True)
        return {"type": "http.request", "body": b"{}" + b" " * 99_998, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    def ask(headers: list[tuple[bytes, bytes]], length: int = 100_000) -> int:
        sent.clear()
        path = "/api/v1/studies/oven/ask"
        given = [
            (b"host", b"127.0.0.1"),
            (b"content-length", str(length).encode()),
            (b"content-type", b"application/json"),
            *headers,
        ]
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
        asyncio.run(app({**scope, "headers": given, "http_version": "1.1", "scheme": "http"}, receive, send))
        return int(sent[0]["status"])

    assert ask([]) == 401
    assert not read
    assert ask([(b"authorization", f"Bearer {text}".encode())]) == 404
    assert read


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Told, {"outcomes": [{}] * 100_000}),
        (Exclude, {"trials": [None] * 100_000, "reason": "x"}),
        (PlanFor, {"factors": [None] * 100_000, "tolerance": 1.0}),
        (PlanFor, {"factors": [1] * 100_000, "tolerance": 1.0}),
        (PlanFor, {"factors": {"a": [None] * 100_000}, "tolerance": 1.0}),
        (PlanFor, {str(i): 1 for i in range(100_000)}),
        (NewStudy, {"name": "x", "factors": {str(i): None for i in range(100_000)}}),
    ],
)
def test_very_wrong_input_makes_few_messages(kind: Any, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    assert caught.value.error_count() < 10


def test_two_handles_on_one_study_do_not_wait_for_each_other(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    oven(url)
    service = Service(load_study("oven", url).storage)
    service.open("oven")
    other = load_study("oven", service.storage)
    in_time(lambda: service.change(other, lambda: other.ask(2)))
    assert other.status().n_running == 2


def test_the_first_of_two_threads_that_open_a_study_wins() -> None:
    storage = MemoryStorage()
    oven(storage)
    service = Service(storage)
    found: list[Study] = []
    threads = [threading.Thread(target=lambda: found.append(service.open("oven"))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(study is service.open("oven") for study in found)


def test_a_change_reads_the_storage_once_however_many_rows_it_has() -> None:
    class Counting(MemoryStorage):
        n_reads = 0

        def read(self, study: int, after: int) -> list[Stored]:
            self.n_reads += 1
            return super().read(study, after)

    storage = Counting()
    study = oven(storage)
    before = storage.n_reads
    rows = [{"heat": "low", "speed": "1"}, {"heat": "high", "speed": "2"}] * 500
    study.once("k", "import", lambda: str(study.import_runs(rows, [1.0, 2.0] * 500, "past")))
    assert storage.n_reads - before <= 2


def test_a_sheet_has_as_many_rows_as_a_request_may_have() -> None:
    storage = MemoryStorage()
    oven(storage)
    web = client(Service(storage, limits=Limits(rows=3)))
    text = "heat,speed,outcome\n" + "low,1,2.5\n" * 4
    kind = {"content-type": "text/csv"}
    assert web.post("/api/v1/studies/oven/sheet/past", content=text, headers=kind).status_code == 413
    fewer = web.post("/api/v1/studies/oven/sheet/past", content=text[:-10], headers=kind)
    assert (fewer.status_code, fewer.json()) == (200, {"n_imported": 3, "flags": []})


def test_a_sheet_with_too_many_cells_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in range(1, 30):
        book.active.cell(row, 16_384, "x")
    book.save(tmp_path / "far.xlsx")
    assert zipfile.is_zipfile(tmp_path / "far.xlsx")
    monkeypatch.setattr("levers.studies.sheets.ooxml.MAX_CELLS", 20)
    with pytest.raises(SheetError, match="cells"):
        read_sheet(tmp_path / "far.xlsx", levers.Space.of(SPACE))


class Away(MemoryStorage):
    """A storage that stops answering."""

    is_away = False

    def _check(self) -> None:
        if self.is_away:
            raise StorageError("the storage postgresql://ann:secret@db/x does not answer")

    def token(self, token_id: str) -> Token | None:
        self._check()
        return super().token(token_id)

    def names(self) -> list[tuple[int, str]]:
        self._check()
        return super().names()

    def read(self, study: int, after: int) -> list[Stored]:
        self._check()
        return super().read(study, after)


@pytest.mark.parametrize("path", ["/", "/studies/oven", "/nothing", "/api/v1/studies", "/health", "/login"])
def test_pages_and_programs_are_told_when_the_storage_is_away(path: str) -> None:
    storage = Away()
    oven(storage)
    web = client(Service(storage, needs_token=True))
    web.cookies.set("levers_session", session_of(storage, create_token(storage, "read")))
    assert web.get(path).status_code in (200, 404)
    storage.is_away = True
    away = web.get(path)
    assert away.status_code in ((503,) if path != "/login" and path != "/nothing" else (200, 401, 404, 503))
    assert "secret" not in away.text
    storage.is_away = False
    assert web.get(path).status_code in (200, 404)


def events(live: Live, check: Callable[[], object], during: Callable[[], None]) -> list[str]:
    """What a follower gets, from before to after something happens."""

    async def follow() -> list[str]:
        found = []
        async for text in live.follow("oven", 0, check):
            found.append(text)
            if len(found) == 2:
                during()
            if len(found) > 2 or "gone" in text:
                break
        return found

    return asyncio.run(asyncio.wait_for(follow(), 20))


def test_a_live_page_waits_for_a_storage_that_comes_back() -> None:
    storage = Away()
    study = oven(storage)

    def away_for_a_while() -> None:
        storage.is_away = True
        threading.Timer(1.2, come_back).start()

    def come_back() -> None:
        storage.is_away = False
        study.ask()

    found = events(Live(Service(storage), Metrics().followers), lambda: None, away_for_a_while)
    assert found[-1].startswith("event: changed")


def test_a_live_page_ends_when_its_token_is_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levers.web.live._BEAT_SECONDS", 0.1)
    storage = MemoryStorage()
    oven(storage)
    revoked = threading.Event()

    def check() -> None:
        if revoked.is_set():
            raise RefusedError(401, "revoked")

    found = events(Live(Service(storage), Metrics().followers), check, revoked.set)
    assert "gone" in found[-1]


def test_the_list_does_not_say_where_the_storage_is(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    oven(storage)
    oven(storage, "farm")
    service = Service(storage)
    kept = service.open

    def opened(name: str) -> Study:
        if name == "oven":
            raise StorageError("the storage sqlite:////secret/x.db does not answer: no such table")
        return kept(name)

    monkeypatch.setattr(service, "open", opened)
    page = client(service).get("/")
    assert page.status_code == 200
    assert "farm" in page.text
    assert "/secret/" not in page.text


def test_one_damaged_study_does_not_hide_the_others() -> None:
    storage = MemoryStorage()
    damaged = oven(storage)
    oven(storage, "farm")
    with storage.writing(damaged.id) as writing:
        writing.append([Stored(99, 0.0, "x", "Nonsense", "{}")])
    answer = client(Service(storage)).get("/api/v1/studies")
    assert answer.status_code == 200
    assert [item["name"] for item in answer.json()["items"]] == ["farm"]


@pytest.mark.parametrize("given", ["Bearer ", "Token levers_x_y", "Basic YTpi"])
def test_a_misspelt_token_opens_no_doors_on_loopback(given: str) -> None:
    web = client(Service(MemoryStorage()))
    assert web.get("/api/v1/studies").status_code == 200
    assert web.get("/api/v1/studies", headers={"authorization": given}).status_code == 401


def test_a_proxy_in_front_may_have_another_name() -> None:
    storage = MemoryStorage()
    oven(storage)
    web = client(Service(storage), hosts=("127.0.0.1",), public="https://lab.example.org")
    ask = "/api/v1/studies/oven/ask"
    for host in ("lab.example.org", "127.0.0.1:8080"):
        named = {"host": host, "origin": "https://lab.example.org", "sec-fetch-site": "same-origin"}
        assert web.post(ask, json={}, headers=named).status_code == 200
        assert web.post(ask, json={}, headers={**named, "origin": "https://evil.example.org"}).status_code == 403
    assert web.post(ask, json={}, headers={"host": "evil.example.org"}).status_code == 421


def test_metrics_tell_pages_from_the_api() -> None:
    storage = MemoryStorage()
    oven(storage)
    web = client(Service(storage))
    for path in ("/studies/oven", "/api/v1/studies/oven"):
        assert web.get(path).status_code == 200
    text = web.get("/metrics").text
    assert 'route="/api/v1/studies/{name}",status="200"} 1.0' in text
    assert 'route="/studies/{name}",status="200"} 1.0' in text


def test_a_token_for_a_study_does_not_open_a_new_one_of_its_name() -> None:
    storage = MemoryStorage()
    first = oven(storage)
    text = create_token(storage, "write", study="oven")
    web = client(Service(storage, needs_token=True))
    web.headers["authorization"] = f"Bearer {text}"
    assert web.get("/api/v1/studies/oven").status_code == 200
    storage.delete(first.id)
    oven(storage)
    assert web.get("/api/v1/studies/oven").status_code in (401, 403)
