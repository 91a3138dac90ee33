"""A real Chromium, the machine's own, and people who use it. For tests, benchmarks and screenshots.

    with running_chromium() as chromium, running_server(storage) as server:
        with Visitors(chromium, server.address) as people:
            people.new_page().goto("/")

When the block ends, whatever went wrong on any page is an error: messages of scripts, what the page's own policy
blocked, requests that failed or went elsewhere, dialogs. A test that provokes some of it says so with `expect`.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, WebError, expect, sync_playwright

from levers.errors import StudyError

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MILLISECONDS = 60_000
"""How long a page may take to show what a test waits for: much more than it does, for machines that are busy."""


def find_chromium() -> str:
    """The browser's program on PATH."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        names = ", ".join(PROGRAMS)
        raise StudyError(f"no browser is on PATH ({names}): `apt-get install chromium`, or let ./scripts/test do it")
    return found


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """A browser without a window, until the block ends. No event loop can run in this thread meanwhile."""
    program = find_chromium()
    expect.set_options(timeout=MILLISECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(OPTIONS))
        yield browser
        browser.close()


class Visitors:
    """People with a browser each, and what went wrong on their pages."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.browser = browser
        self.address = address
        self.problems: list[str] = []
        self._expected: list[str] = []

    def new_page(self, **options: Any) -> Page:
        """A page in a browser that knows nothing yet. Options are those of Playwright's `new_context`."""
        known = {"base_url": self.address, "locale": "en-GB", "timezone_id": "UTC"}
        context = self.browser.new_context(**{**known, **options})
        context.set_default_timeout(MILLISECONDS)
        context.on("console", self._console)
        context.on("weberror", self._web_error)
        context.on("dialog", self._dialog)
        context.on("request", self._request)
        context.on("requestfailed", self._failed)
        return context.new_page()

    def expect(self, *texts: str) -> None:
        """Problems with one of these texts in them are meant to happen."""
        self._expected += texts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for context in self.browser.contexts:
            context.close()
        wrong = [problem for problem in self.problems if not any(text in problem for text in self._expected)]
        if kind is None:  # an error of the test itself says more
            assert not wrong, "\n".join(wrong)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.problems.append(f"console {message.type}: {message.text} ({message.location['url']})")

    def _web_error(self, error: WebError) -> None:
        self.problems.append(f"script error: {error.error}")

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog {dialog.type}: {dialog.message}")
        dialog.accept()  # a dialog that nobody answers stops its page for good

    def _request(self, request: Request) -> None:
        if not request.url.startswith(("http:", "https:", "ws:", "wss:")):
            return  # data: and blob: go nowhere
        if urlsplit(request.url).hostname != urlsplit(self.address).hostname:
            self.problems.append(f"request to another host: {request.url}")

    def _failed(self, request: Request) -> None:
        # the browser gives up itself on streams and files when a page is left or a download takes over
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"failed request: {request.failure} {request.url}")
