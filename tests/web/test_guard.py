"""The gate in front of everything: hosts, origins, sizes, headers, the log, and errors that nobody expected."""

import asyncio
import logging
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from harness.markup import session_of
from levers.errors import InvalidSettingError
from levers.studies.storage.memory import MemoryStorage
from levers.studies.storage.tokens import create_token, revoke_token
from levers.web.app import make_app
from levers.web.security import LOOPBACK, POLICY, Guard, Metrics
from levers.web.server import Address, new_service
from levers.web.service import Limits, Service


class Answer:
    """What came back."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""

    async def take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message.get("body", b"")


def request(
    app: Any,
    method: str = "GET",
    path: str = "/health",
    headers: dict[str, str] | None = None,
    parts: tuple[bytes, ...] = (b"",),
) -> Answer:
    """One request, spoken as a server does."""
    given = {"host": "127.0.0.1:8080", **(headers or {})}
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "server": ("127.0.0.1", 8080),
        "client": ("127.0.0.1", 50000),
    }
    left = list(parts)

    async def receive() -> Message:
        body = left.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(left)}

    answer = Answer()
    asyncio.run(app(scope, receive, answer.take))
    return answer


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Says how many bytes came; breaks on demand."""
    if scope["path"] == "/break":
        raise RuntimeError("the password is hunter2")
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message["body"]), message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


def guarded(most: int = 100, hosts: tuple[str, ...] | None = LOOPBACK) -> Guard:
    return Guard(echo, Service(MemoryStorage(), limits=Limits(body_bytes=most)), hosts, Metrics())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8080", "localhost:99", "[::1]:8080", "[::1]"])
def test_it_answers_to_names_of_this_machine(host: str) -> None:
    assert request(guarded(), headers={"host": host}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "::1"])
def test_a_name_that_somebody_points_here_is_refused(host: str) -> None:
    answer = request(guarded(), headers={"host": host})
    assert answer.status == 421
    assert b"this machine" in answer.body
    assert request(guarded(hosts=None), headers={"host": host}).status == 200


OTHER_SITES = [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:9999"},
    {"origin": "http://127.0.0.1:8080.evil.example"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


@pytest.mark.parametrize("headers", OTHER_SITES)
@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
def test_other_sites_cannot_change_anything(headers: dict[str, str], method: str) -> None:
    assert request(guarded(), method, headers=headers).status == 403
    assert request(guarded(), "GET", headers=headers).status == 200


@pytest.mark.parametrize("headers", [{}, {"origin": "http://127.0.0.1:8080"}, {"sec-fetch-site": "same-origin"}])
def test_own_pages_and_programs_can(headers: dict[str, str]) -> None:
    assert request(guarded(), "POST", headers=headers).status == 200


def test_a_body_is_limited_by_its_stated_length_and_as_it_comes() -> None:
    app = guarded(100)
    assert request(app, "POST", headers={"content-length": "100"}, parts=(b"x" * 100,)).body == b"100"
    for stated in ("101", "99999999999999999999", "-1", "1e3", "ü"):
        assert request(app, "POST", headers={"content-length": stated}, parts=(b"x",)).status == 413
    chunked = {"transfer-encoding": "chunked"}
    assert request(app, "POST", headers=chunked, parts=(b"x" * 60, b"y" * 40)).body == b"100"
    answer = request(app, "POST", headers=chunked, parts=(b"x" * 60, b"y" * 41, b"z"))
    assert answer.status == 413
    assert b"in parts" in answer.body


def test_every_answer_has_the_policy_also_errors() -> None:
    for path, status in (("/health", 200), ("/break", 500)):
        answer = request(guarded(), path=path)
        assert answer.status == status
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
    assert "unsafe" not in POLICY


def test_an_error_that_nobody_expected_tells_the_client_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "levers.web"):
        answer = request(guarded(), path="/break")
    assert b"hunter2" not in answer.body
    assert b"Traceback" not in answer.body
    name = answer.body.decode().split("has it as ")[1][:12]
    assert any(name in record.getMessage() and record.exc_info for record in caplog.records)


def test_the_request_log_has_no_secrets_and_no_broken_lines(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    text = create_token(storage, "read")
    app = make_app(Service(storage, needs_token=True))
    with caplog.at_level(logging.INFO, "levers.web"):
        answer = request(app, path="/metrics", headers={"authorization": f"Bearer {text}"})
        request(app, path="/%0Aforged%20line?token=hunter2")
    assert answer.status == 200
    said = [record.getMessage() for record in caplog.records]
    assert text.split("_")[1] in said[0]
    assert all(text.split("_", 2)[2] not in line and "hunter2" not in line and "\n" not in line for line in said)


def test_a_token_is_needed_and_checked() -> None:
    storage = MemoryStorage()
    text = create_token(storage, "read")
    app = make_app(Service(storage, needs_token=True))
    assert request(app, path="/health").status == 200
    refused = request(app, path="/metrics")
    assert refused.status == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert request(app, path="/metrics", headers={"authorization": f"bearer {text}"}).status == 200
    for wrong in (f"Basic {text}", f"Bearer {text}x", "Bearer", "Bearer \xff"):
        assert request(app, path="/metrics", headers={"authorization": wrong}).status == 401
    revoke_token(storage, text.split("_")[1])
    assert request(app, path="/metrics", headers={"authorization": f"Bearer {text}"}).status == 401


def test_a_wrong_token_is_refused_even_where_none_is_needed() -> None:
    app = make_app(Service(MemoryStorage()))
    assert request(app, path="/metrics").status == 200
    assert request(app, path="/metrics", headers={"authorization": "Bearer levers_ab_cd"}).status == 401


def test_metrics_count_routes_and_not_names() -> None:
    app = make_app(Service(MemoryStorage()))
    request(app, path="/health")
    request(app, path="/no/such/page")
    request(app, "BREW", path="/health")
    text = request(app, path="/metrics").body.decode()
    assert 'levers_requests_total{method="GET",route="/health",status="200"} 1.0' in text
    assert 'route="other",status="404"' in text
    assert "such" not in text
    assert "BREW" not in text


@pytest.mark.parametrize(
    ("host", "loopback"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.9.9.9", True)]
)
def test_a_loopback_address_works_without_a_token(host: str, loopback: bool) -> None:
    assert Address(host).is_loopback is loopback
    assert not new_service(MemoryStorage(), Address(host)).needs_token


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "127.0.0.1.example.org", ""])
def test_any_other_address_needs_one(host: str) -> None:
    storage = MemoryStorage()
    with pytest.raises(InvalidSettingError, match="levers token create"):
        new_service(storage, Address(host))
    text = create_token(storage, "read")
    assert new_service(storage, Address(host)).needs_token
    revoke_token(storage, text.split("_")[1])
    with pytest.raises(InvalidSettingError):
        new_service(storage, Address(host))


def test_a_cookie_alone_changes_nothing_over_the_api() -> None:
    storage = MemoryStorage()
    text = create_token(storage, "admin")
    app = make_app(Service(storage, needs_token=True))
    cookie = {"cookie": f"levers_session={session_of(storage, text)}", "content-type": "application/json"}
    assert request(app, path="/api/v1/studies", headers=cookie).status == 200
    assert request(app, "DELETE", path="/api/v1/studies/oven", headers=cookie).status == 401
    bearer = {"authorization": f"Bearer {text}"}
    assert request(app, "DELETE", path="/api/v1/studies/oven", headers=bearer).status == 404
