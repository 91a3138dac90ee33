"""Shared by the tests of the service: a real server on a free port of 127.0.0.1, over SQLite.

`database` is the address of a new storage, `serve(storage)` runs a server in a thread for a with-block and gives its
URL, and `server` is one that runs on `database` for the whole test. On loopback no token is needed unless a test says
`needs_token=True`.

For the tests in a browser: one service for each test process, one Chromium for each module. A browser for longer than
a module would leave Playwright's event loop in the thread of other tests.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from starlette.testclient import TestClient

from harness.browser import Visitors, running_chromium
from harness.http_load import running_server
from levers.studies.library import open_storage
from levers.studies.storage.base import Storage
from levers.web.access.attempts import MOST_FAILURES, Attempts
from levers.web.app import make_app
from levers.web.server import Address, Server
from levers.web.service import Limits, Service

Serve = Callable[..., AbstractContextManager[str]]


@contextmanager
def _serving(
    storage: str, *, needs_token: bool = False, limits: Limits | None = None, most_failures: int = MOST_FAILURES
) -> Iterator[str]:
    ready = threading.Event()
    urls: list[str] = []

    def say(url: str) -> None:
        urls.append(url)
        ready.set()

    # a busy disk may take seconds; what /health says of a storage that hangs has a test of its own
    patient = replace(limits or Limits(), health_seconds=60.0)
    service = Service(open_storage(storage), needs_token=needs_token, limits=patient)
    service.attempts = Attempts(most_failures)
    if limits is None:  # as `serve` does: the first plan of a test should not wait for a process
        service.pool.warm()
    running = Server(service, Address(port=0), say)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        assert ready.wait(20)
        yield urls[0]
    finally:
        service.stopping.set()
        running.should_exit = True
        thread.join(30)


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/served.db"


@pytest.fixture
def serve() -> Serve:
    return _serving


@pytest.fixture
def server(database: str) -> Iterator[str]:
    with _serving(database) as url:
        yield url


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the storage that the shared service serves; every test has studies of its own in it."""
    return f"sqlite:///{tmp_path_factory.mktemp('served')}/levers.db"


@pytest.fixture(scope="session")
def address(shared: str) -> Iterator[str]:
    with running_server(shared) as server:
        yield server.address


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with running_chromium() as browser:
        yield browser


@pytest.fixture
def people(chromium: Browser, address: str) -> Iterator[Visitors]:
    """Whoever uses the service; the test fails when anything goes wrong on one of their pages."""
    with Visitors(chromium, address) as found:
        yield found


@pytest.fixture
def storage(database: str) -> Iterator[Storage]:
    opened = open_storage(database)
    yield opened
    opened.close()


@pytest.fixture
def service(storage: Storage) -> Iterator[Service]:
    made = Service(storage)
    yield made
    made.stopping.set()


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(make_app(service)) as found:
        yield found
