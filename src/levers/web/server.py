"""Start and stop the service."""

import ipaddress
import logging
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

import uvicorn
from anyio import to_thread

from levers.charts.drawings import CHARTS, charts_of
from levers.charts.view import StudyView
from levers.errors import InvalidSettingError
from levers.studies.library import create_study
from levers.studies.storage.base import Storage
from levers.studies.storage.tokens import active_tokens
from levers.web.app import make_app
from levers.web.pages.site import environment
from levers.web.security import LOOPBACK
from levers.web.service import Limits, Service


def warm_up() -> None:
    """Load and compute once what every first look at a study needs: libraries, tables of tails, templates.

    >>> warm_up()
    """
    space = {f"x{k}": list(range(4)) for k in range(5)}
    study = create_study("nobody's", space, tolerance=1.0, noise_sd=1.0, seed=0)
    for _ in range(2):
        study.tell_many((trial, float(trial.number % 7)) for trial in study.ask(1000))
    charts_of(StudyView(study.name, study.frozen()), CHARTS)
    for name in environment().list_templates():
        environment().get_template(name)


MOST_AT_ONCE = 100
"""Requests that are worked on at the same time; more of one study's make fewer transactions."""
GRACE_SECONDS = 20
"""How long requests that are under way may take when the service is asked to stop."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and with which certificate."""

    host: str = "127.0.0.1"
    port: int = 8080
    certificate: str | None = None
    key: str | None = None
    public: str | None = None
    """How a proxy in front of the service is called, such as https://lab.example.org."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it.

        >>> Address("127.0.0.1").is_loopback, Address("0.0.0.0").is_loopback
        (True, False)
        """
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """As a browser wants it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.certificate else ''}://{host}:{self.port}"


def new_service(
    storage: Storage, address: Address, *, needs_token: bool = False, limits: Limits | None = None
) -> Service:
    """A service for an address. Any address but a loopback one needs a token, and there must be one."""
    needs_token = needs_token or not address.is_loopback
    if needs_token and not active_tokens(storage):
        why, otherwise = "--require-token was given:", "leave --require-token out"
        if not address.is_loopback:
            why, otherwise = f"{address.host} can be reached by others, so", "use --host 127.0.0.1"
        raise InvalidSettingError(
            f"{why} a token is needed and there is none: "
            f"make one with `levers token create --role write --storage {storage.url}`, or {otherwise}"
        )
    return Service(storage, needs_token=needs_token, limits=limits)


class Server(uvicorn.Server):
    """A server that ends its live streams when it is asked to stop, so that it can."""

    def __init__(self, service: Service, address: Address, on_ready: Callable[[str], None] | None = None) -> None:
        hosts = (*LOOPBACK, address.host) if address.is_loopback else None
        super().__init__(
            uvicorn.Config(
                make_app(service, hosts, address.public),
                host=address.host,
                port=address.port,
                log_config=None,
                access_log=False,  # the guard has its own, without queries
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
                timeout_keep_alive=75,
                ssl_certfile=address.certificate,
                ssl_keyfile=address.key,
                backlog=1024,
            )
        )
        self._service, self._address, self._on_ready = service, address, on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; then say where."""
        to_thread.current_default_thread_limiter().total_tokens = MOST_AT_ONCE
        log = logging.getLogger("uvicorn.error")
        level = log.level
        log.setLevel(logging.CRITICAL)  # `serve` says why an address cannot be listened on
        try:
            await super().startup(sockets)
        finally:
            log.setLevel(level)
        if self.started and self._on_ready is not None:
            port = self.servers[0].sockets[0].getsockname()[1] if self.servers else self._address.port
            self._on_ready(Address(self._address.host, port, self._address.certificate).url)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop taking requests and finish those under way."""
        self._service.stopping.set()
        super().handle_exit(sig, frame)


def serve(service: Service, address: Address, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve until SIGINT or SIGTERM. Everything that was answered is in the storage."""
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    warm_up()
    server = Server(service, address, on_ready)
    # uvicorn sends a signal on to whoever handled it before; by then everything is done, so nobody needs it
    before = {kind: signal.signal(kind, lambda *_: None) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run()
    except SystemExit:  # uvicorn's way to say that it could not start
        raise InvalidSettingError(
            f"cannot listen on {address.host} port {address.port}: it is in use, or not an address of this machine"
        ) from None
    finally:
        service.stopping.set()
        for kind, handler in before.items():
            signal.signal(kind, handler)
