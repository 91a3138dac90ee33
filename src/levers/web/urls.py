"""Names of studies in addresses. A name may have any printable character, also a slash or a percent sign."""

from urllib.parse import quote, unquote_to_bytes

from starlette.types import Scope


def routed(scope: Scope) -> str:
    """The path to route by: each part decoded, but slashes and percent signs inside of a part encoded again.

    Servers hand over the path decoded, where a study called `a/b` looks like two parts; the raw path still tells.

    >>> routed({"raw_path": b"/studies/a%2Fb%20%25%C3%BC/ask", "path": ""})
    '/studies/a%2Fb %25ü/ask'
    """
    raw = scope.get("raw_path")
    if raw is None:
        return str(scope["path"])
    return "/".join(_part(part) for part in raw.split(b"?")[0].decode("ascii", "replace").split("/"))


def _part(part: str) -> str:
    text = unquote_to_bytes(part).decode("utf-8", "replace")
    return text.replace("%", "%25").replace("/", "%2F")


def name_of(part: str) -> str:
    """The name in a routed part.

    >>> name_of("a%2Fb %25ü")
    'a/b %ü'
    """
    return part.replace("%2F", "/").replace("%25", "%")


def address(name: str) -> str:
    """A name as a part of an address.

    >>> address("a/b %")
    'a%2Fb%20%25'
    """
    return quote(name, safe="")
