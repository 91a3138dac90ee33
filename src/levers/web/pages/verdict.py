"""The verdict, fit to print; before the end, how far it is."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from levers.charts.view import StudyView
from levers.web.pages.site import page
from levers.web.pages.study import context, opened

router = APIRouter(include_in_schema=False)
MOST_LEVELS = 5_000
CERTIFICATES = {
    "slippage": "slippage: equal gaps taken as the worst case",
    "proven": "proven for any gaps",
    "subgaussian": "any sub-Gaussian noise",
}


@dataclass(frozen=True, slots=True)
class Ruled:
    """A line of the ledger: a level that was ruled out, after how many runs, and what it was estimated to lose."""

    factor: str
    level: Any
    n_runs: int
    gap: float


@router.get("/studies/{name}/verdict")
def verdict_page(request: Request, name: str) -> Response:
    """The verdict."""
    _, view = opened(request, name)
    return page(request, "verdict.html", **report(view), **context(view))


def report(view: StudyView) -> dict[str, Any]:
    """What the page says."""
    found, levels = view.verdict, view.effects
    matter = set(found.parents or ()) if found is not None else set()
    return {
        "verdict": found,
        "sure": None if found is None else 1 - found.failure_prob,
        "certificate": "none"
        if found is None
        else CERTIFICATES.get(found.certificate or "", found.certificate or "none"),
        # doubts have a place of their own on the page
        "provisos": [] if found is None else [found.guarantee, *(proviso.text for proviso in found.provisos)],
        "levels": levels[:MOST_LEVELS],
        "n_levels": len(levels),
        "matter": [n for n in view.state.spec.space.names if n in matter],
        "ledger": ledger(view),
        "doubt": None if found is None else view.additivity,
        "blocks": [] if found is None else found.blocks,
        "corrections": view.state.corrections[-50:],
    }


def ledger(view: StudyView) -> list[Ruled]:
    """Which level was ruled out when, in the space as the algorithm sees it."""
    factors, found = view.state.spec.inner.factors, view.state.progress.eliminations
    return [Ruled(factors[e.factor].name, factors[e.factor].levels[e.level], e.n_runs, e.gap) for e in found][
        :MOST_LEVELS
    ]
