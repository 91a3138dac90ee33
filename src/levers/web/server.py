"""Start and stop the service."""

import ipaddress
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType

import uvicorn
from anyio import to_thread
from starlette.types import ASGIApp

from levers.charts.drawings import CHARTS, charts_of
from levers.charts.view import StudyView
from levers.errors import InvalidSettingError
from levers.studies.library import create_study
from levers.studies.storage.base import Storage
from levers.studies.storage.tokens import active_tokens
from levers.web.access.network import allowed_hosts, proxy_networks
from levers.web.app import make_app
from levers.web.limits.connections import Connections, FewRepeats, LimitedProtocol, most_connections, open_file_limit
from levers.web.limits.pool import close_pools
from levers.web.pages.site import environment
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


MOST_THREADS = 200
"""More than all lanes of requests have places, so that none waits for the threads of another."""
SWITCH_SECONDS = 0.001
"""How long a thread may go on while others wait, a fifth of the usual: the one that takes requests is one of many."""
BACKLOG = 1024
"""Connections that wait to be accepted."""
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
    hosts: tuple[str, ...] = ()
    """More names that the service answers to."""
    proxies: tuple[str, ...] = ()
    """Addresses of proxies on other machines."""

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


def check_network(host: str, hosts: tuple[str, ...], proxies: tuple[str, ...]) -> None:
    """Refuse names of hosts and addresses of proxies that make no sense, before anything is opened.

    >>> check_network("127.0.0.1", ("https://lab.example.org",), ())
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: a host is a name such as lab.example.org, without https:// or /, not \
'https://lab.example.org'
    """
    allowed_hosts(host, False, hosts)
    proxy_networks(proxies)


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

    def __init__(
        self,
        service: Service,
        address: Address,
        on_ready: Callable[[str], None] | None = None,
        app_of: Callable[..., ASGIApp] = make_app,
    ) -> None:
        hosts = allowed_hosts(address.host, address.is_loopback, address.hosts)
        n_files = open_file_limit()
        backlog = max(min(BACKLOG, n_files // 8), 16)
        most = most_connections(service.limits.connections, n_files, backlog)
        # behind a proxy all come from one address
        connections = Connections(service.limits, most, by_address=address.public is None and not address.proxies)
        super().__init__(
            uvicorn.Config(
                app_of(service, hosts, address.public, address.proxies),
                proxy_headers=False,  # the guard believes them of the proxies that it was told of
                http=partial(LimitedProtocol, connections=connections),  # type: ignore[arg-type]
                ws="none",
                host=address.host,
                port=address.port,
                log_config=None,
                access_log=False,  # the guard has its own, without queries
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
                timeout_keep_alive=75,
                ssl_certfile=address.certificate,
                ssl_keyfile=address.key,
                backlog=backlog,
            )
        )
        self._service, self._address, self._on_ready = service, address, on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; then say where."""
        to_thread.current_default_thread_limiter().total_tokens = MOST_THREADS
        log = logging.getLogger("uvicorn.error")
        level = log.level
        log.setLevel(logging.CRITICAL)  # `serve` says why an address cannot be listened on
        try:
            await super().startup(sockets)
        finally:
            log.setLevel(level)
        if self.started and self._on_ready is not None:
            port = self.servers[0].sockets[0].getsockname()[1] if self.servers else self._address.port
            self._on_ready(replace(self._address, port=port).url)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop taking requests and finish those under way."""
        self._service.stopping.set()
        threading.Thread(target=close_pools, daemon=True).start()  # what takes long is refused, and can be sent again
        super().handle_exit(sig, frame)


def serve(
    service: Service,
    address: Address,
    on_ready: Callable[[str], None] | None = None,
    app_of: Callable[..., ASGIApp] = make_app,
) -> None:
    """Serve until SIGINT or SIGTERM. Everything that was answered is in the storage.

    `app_of` makes what is served, from the service and what is known of the way to it.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    for name in ("uvicorn.error", "asyncio", "levers.web"):
        logging.getLogger(name).addFilter(FewRepeats())
    warm_up()
    sys.setswitchinterval(SWITCH_SECONDS)
    service.pool.warm()
    server = Server(service, address, on_ready, app_of)
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
        close_pools()
        for kind, handler in before.items():
            signal.signal(kind, handler)
