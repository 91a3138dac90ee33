"""The operations of the API, for people."""

from typing import Any

from fastapi import APIRouter, Request, Response

from levers.web.pages.rendering import page, service_of

router = APIRouter(include_in_schema=False)
_METHODS = ("get", "post", "put", "patch", "delete")


@router.get("/api")
def api_page(request: Request) -> Response:
    """What programs can ask of this service, from its OpenAPI document."""
    service_of(request).allow(request, "read")
    return page(request, "api.html", groups=operations(request.app.openapi()))


def operations(document: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    """The operations by their first tag.

    >>> operations({"paths": {"/health": {"get": {"summary": "Health", "tags": ["service"]}}}})
    {'service': [{'method': 'GET', 'path': '/health', 'summary': 'Health', 'about': ''}]}
    """
    groups: dict[str, list[dict[str, str]]] = {}
    for path, methods in document.get("paths", {}).items():
        for method in _METHODS:
            found = methods.get(method)
            if found is not None:
                about = (found.get("description") or "").strip().split("\n\n")[0]
                line = {
                    "method": method.upper(),
                    "path": path,
                    "summary": found.get("summary", ""),
                    "about": " ".join(about.split()),
                }
                groups.setdefault((found.get("tags") or ["studies"])[0], []).append(line)
    return groups
