"""The verdict, fit to print; before the end, how far it is."""

from typing import Any

from fastapi import APIRouter, Request, Response

from levers.charts.verdict_facts import verdict_facts
from levers.web.pages.site import page
from levers.web.pages.study import context, opened

router = APIRouter(include_in_schema=False)
_MOST_CHANGES = 50


@router.get("/studies/{name}/verdict")
def verdict_page(request: Request, name: str) -> Response:
    """The verdict."""
    _, view = opened(request, name)
    said = verdict_facts(view)
    changes: dict[str, Any] = {
        "corrections": view.state.corrections[-_MOST_CHANGES:],
        "exclusions": view.state.exclusions[-_MOST_CHANGES:],
        "doubt": None if said.verdict is None else view.additivity,
    }
    return page(request, "verdict.html", **vars(said), **changes, **context(view))
