"""The verdict, fit to print; before the end, how far it is; and what came of recomputing it."""

from typing import Any

from fastapi import APIRouter, Request, Response

from levers.charts.drawings import charts_of
from levers.charts.html import PART_HEADER, PARTS_WORDS
from levers.charts.verdict_facts import verdict_facts
from levers.web.pages.site import page, service_of
from levers.web.pages.study import context, opened
from levers.web.security import address, name_of

router = APIRouter(include_in_schema=False)
_MOST_CHANGES = 50
VERIFY_SECONDS = 20.0
"""How long a page recomputes a study."""


@router.get("/studies/{name}/verdict")
def verdict_page(request: Request, name: str) -> Response:
    """The verdict."""
    _, view = opened(request, name)
    said = verdict_facts(view)
    changes: dict[str, Any] = {
        "corrections": view.state.corrections[-_MOST_CHANGES:],
        "exclusions": view.state.exclusions[-_MOST_CHANGES:],
        "picture": charts_of(view, ["confirmation"])[0] if said.confirmed else None,
        "doubt": None if said.verdict is None else view.additivity,
        "parts_words": PARTS_WORDS,
        "part_header": PART_HEADER,
    }
    return page(request, "verdict.html", **vars(said), **changes, **context(view))


@router.get("/studies/{name}/verification")
def verification_page(request: Request, name: str) -> Response:
    """What came of recomputing a study from its log. The page shows a damaged study too, which no other page does."""
    service = service_of(request)
    study = service.study(request, name_of(name), "read")
    found = study.verify(seconds=VERIFY_SECONDS, progress=False)
    return page(request, "verification.html", name=study.name, address=address(study.name), found=found)
