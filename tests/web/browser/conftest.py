"""Shared by the tests in a browser: one service for each test process, one Chromium for each module.

A browser for longer than a module would leave Playwright's event loop in the thread of other tests.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from levers.testing.browser import Visitors, running_chromium
from levers.testing.http_load import running_server


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
