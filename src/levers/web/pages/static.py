"""Files of the package that pages load. Their address has a version in it, so that browsers can keep them for good."""

import hashlib
import mimetypes
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter, Response

from levers.web.refusing import RefusedError

FOLDER = Path(__file__).parent.parent / "static"
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FOR_GOOD, _ASK_AGAIN = "public, max-age=31536000, immutable", "no-cache"

router = APIRouter(include_in_schema=False)


@lru_cache(maxsize=1)
def files() -> dict[str, bytes]:
    """All static files, read once."""
    return {file.name: file.read_bytes() for file in sorted(FOLDER.iterdir()) if file.is_file()}


@lru_cache(maxsize=1)
def version() -> str:
    """Changes when any of the files does."""
    digest = hashlib.sha256()
    for name, content in files().items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()[:12]


def static(name: str) -> str:
    """The address of a static file."""
    return f"/static/{version()}/{name}"


@router.get("/static/{asked}/{name}")
def static_file(asked: str, name: str) -> Response:
    """One static file; an old version's address gives the file as it is now, for pages loaded before an update."""
    content = files().get(name)
    if content is None:
        raise RefusedError(404, "there is no such file")
    kind = _KINDS.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    keep = _FOR_GOOD if asked == version() else _ASK_AGAIN
    return Response(content, media_type=kind, headers={"cache-control": keep})


@router.get("/favicon.ico")
def favicon() -> Response:
    """Browsers ask for it wherever they are."""
    return static_file(version(), "icon.svg")
