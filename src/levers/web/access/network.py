"""Where a request comes from and which name it calls the service by, also through a proxy."""

import ipaddress
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from levers.errors import InvalidSettingError

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
ANY_NUMBER = "<number>"
"""Among allowed hosts: any address in numbers. Nobody can point one of these at another machine, as a name can be."""
_LOOPBACK_PROXIES = ("127.0.0.0/8", "::1/128")

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


def host_name(host: str) -> str:
    """The name in a `Host` header, without the port.

    >>> host_name("Lab.example.org:8080"), host_name("[::1]:80"), host_name("::1")
    ('lab.example.org', '[::1]', '::1')
    """
    name, colon, port = host.rpartition(":")
    if colon and port.isdigit() and (":" not in name or name.endswith("]")):
        host = name
    return host.lower().removesuffix(".")


def allowed_hosts(host: str, is_loopback: bool, more: Iterable[str] = ()) -> tuple[str, ...]:
    """The names that a service on an address answers to: the address, this machine's own names, and what is given.

    On a loopback address only that address's names: whatever else points there was made to by somebody else.

    >>> allowed_hosts("127.0.0.1", True, ["lab.example.org"])
    ('localhost', '127.0.0.1', '[::1]', 'lab.example.org')
    >>> ANY_NUMBER in allowed_hosts("0.0.0.0", False)
    True
    """
    given = [host_name(one) for one in more]
    for one in given:
        if not one or any(c in one for c in "/@ *<>") or not one.isprintable():
            raise InvalidSettingError(f"a host is a name such as lab.example.org, without https:// or /, not {one!r}")
    here = [f"[{host}]" if ":" in host else host_name(host)]
    if not is_loopback:
        own = socket.gethostname().lower()
        here += [own, own.partition(".")[0], f"{own.partition('.')[0]}.local", ANY_NUMBER]
    return tuple(dict.fromkeys([*LOOPBACK, *(name for name in here if name), *given]))


def proxy_networks(given: Iterable[str]) -> tuple[IPNetwork, ...]:
    """Addresses of proxies, or ranges of them.

    >>> proxy_networks(["10.0.0.7"])
    (IPv4Network('10.0.0.7/32'),)
    """
    try:
        return tuple(ipaddress.ip_network(one) for one in given)
    except ValueError as error:
        raise InvalidSettingError(
            f"a proxy is an address such as 10.0.0.7 or a range such as 10.0.0.0/24: {error}"
        ) from None


@dataclass(frozen=True, slots=True)
class Network:
    """What a service knows of the way to it.

    `hosts` are the names that it answers to (None: any), `public` is how browsers call a proxy in front of it, and
    `proxies` are the addresses whose word about the caller's address counts; with `public`, those of this machine do.
    """

    hosts: tuple[str, ...] | None = None
    public: str | None = None
    proxies: tuple[IPNetwork, ...] = ()

    @classmethod
    def of(cls, hosts: Sequence[str] | None, public: str | None, proxies: Iterable[str] = ()) -> "Network":
        """From what was given to the service.

        >>> Network.of(["127.0.0.1"], "https://lab.example.org").answers_to("lab.example.org:443")
        True
        """
        public = None if public is None else public.rstrip("/")
        trusted = [*proxies, *(_LOOPBACK_PROXIES if public is not None else ())]
        name = None if public is None else urlsplit(public).hostname
        known = None if hosts is None else (*hosts, *([name] if name else []))
        return cls(known, public, proxy_networks(trusted))

    def answers_to(self, host: str) -> bool:
        """Whether the service is called that.

        >>> net = Network.of(["lab.example.org", ANY_NUMBER], None)
        >>> [net.answers_to(host) for host in ("LAB.example.org:80", "192.168.1.5:8080", "evil.example", "")]
        [True, True, False, False]
        """
        if self.hosts is None:
            return True
        name = host_name(host)
        return name in self.hosts or (ANY_NUMBER in self.hosts and _is_number(name))

    def seen(self, scope: Scope) -> dict[str, Any]:
        """What is known of a request before anything is asked of it."""
        return {"caller": self.caller(scope), "secure": self.is_secure(scope)}

    def is_own_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this service would have that origin."""
        return origin == self.public or origin.partition("://")[2] == host

    def caller(self, scope: Scope) -> str:
        """The address of whoever calls. A header says so only where a trusted proxy wrote it.

        Each proxy adds the address that it was called from at the end, so the last one that is no proxy is the caller;
        what stands before it, the caller may have made up.

        >>> net, peer = Network.of(None, "https://lab.example.org"), {"type": "http", "client": ("127.0.0.1", 9)}
        >>> net.caller({**peer, "headers": [(b"x-forwarded-for", b"6.6.6.6, 203.0.113.9")]})
        '203.0.113.9'
        >>> Network().caller({**peer, "headers": [(b"x-forwarded-for", b"203.0.113.9")]})
        '127.0.0.1'
        """
        peer = str((scope.get("client") or ("unknown", 0))[0])
        if not self._is_trusted(peer):
            return peer
        hops = [hop.strip() for line in Headers(scope=scope).getlist("x-forwarded-for") for hop in line.split(",")]
        for hop in reversed(hops):
            if not _is_number(hop):
                return peer
            if not self._is_trusted(hop):
                return hop
        return peer

    def is_secure(self, scope: Scope) -> bool:
        """Whether the browser's connection is encrypted: here, or by the proxy in front.

        >>> Network.of(None, "https://lab.example.org").is_secure({"scheme": "http"})
        True
        """
        if scope.get("scheme") == "https" or (self.public is not None and self.public.startswith("https://")):
            return True
        peer = str((scope.get("client") or ("unknown", 0))[0])
        return self._is_trusted(peer) and Headers(scope=scope).get("x-forwarded-proto", "").strip() == "https"

    def _is_trusted(self, address: str) -> bool:
        if not self.proxies or not _is_number(address):
            return False
        found = ipaddress.ip_address(address.strip("[]"))
        return any(found.version == network.version and found in network for network in self.proxies)


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
    except ValueError:
        return False
    return ":" not in name or name.startswith("[") or "." not in name


def neighbourhood(address: str) -> str:
    """What one caller can choose its address from: an IPv6 customer has a whole /64.

    >>> neighbourhood("2001:db8::1"), neighbourhood("203.0.113.9"), neighbourhood("testclient")
    ('2001:db8::/64', '203.0.113.9', 'testclient')
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    mapped = found.ipv4_mapped
    return str(mapped) if mapped is not None else str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
