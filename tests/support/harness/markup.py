"""Pages as a browser without scripts sees them: whether their markup is in order, and forms that are sent back."""

import time
from html.parser import HTMLParser
from typing import Any

from starlette.testclient import TestClient

from levers.studies.storage.base import Storage
from levers.studies.storage.sessions import start_session
from levers.studies.storage.tokens import find_token

VOID = {"meta", "link", "input", "br", "img", "hr"}
FOREIGN = {"path", "rect", "circle", "line"}


class Tidy(HTMLParser):
    """Refuses what a page must not have: open tags, scripts and styles in the page, ids that come twice."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.problems: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if "style" in given or tag == "style" or any(name.startswith("on") for name in given):
            self.problems.append(f"inline {tag} {attrs}")
        if tag == "script" and not (given.get("src") or "").startswith("/static/"):
            self.problems.append("inline script")
        found = given.get("id")
        if found is not None and found in self.ids:
            self.problems.append(f"id {found} twice")
        self.ids.add(found or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> at {self.getpos()}")


def tidy(text: str) -> None:
    found = Tidy()
    found.feed(text)
    assert not found.problems, found.problems[:3]
    assert not found.open


def post(client: TestClient, path: str, data: dict[str, Any] | None = None, **more: Any) -> Any:
    """Send a form with the value that pages put into theirs."""
    if "levers_form" not in client.cookies:
        client.get("/login")
    return client.post(
        path, data={"form_token": client.cookies["levers_form"], **(data or {})}, **{"follow_redirects": True, **more}
    )


def session_of(storage: Storage, token: str) -> str:
    """The value of a new session for the bearer of a token, as a browser has it in its cookie after the login."""
    found = find_token(storage, token)
    assert found is not None
    return start_session(storage, found, time.time())
