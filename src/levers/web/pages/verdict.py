"""The verdict, fit to print; before the end, how far it is."""

from typing import Any

from fastapi import APIRouter, Request, Response

from levers.algorithms.base import Verdict
from levers.charts.view import StudyView
from levers.studies.analysis.describe import BLOCK, enough_words, not_shown, why_below_zero
from levers.web.pages.site import page, service_of
from levers.web.pages.study import context, opened
from levers.web.security import address, name_of

router = APIRouter(include_in_schema=False)
MOST_LEVELS = 5_000
VERIFY_SECONDS = 20.0
"""How long a page recomputes a study."""
MOST_OTHERS = 200
"""The most factors that are listed though they were not shown to matter."""
CERTIFICATES = {
    "slippage": "slippage: equal gaps taken as the worst case",
    "proven": "proven for any gaps",
    "subgaussian": "any sub-Gaussian noise",
}


@router.get("/studies/{name}/verdict")
def verdict_page(request: Request, name: str) -> Response:
    """The verdict."""
    _, view = opened(request, name)
    return page(request, "verdict.html", **report(view), **context(view))


@router.get("/studies/{name}/verification")
def verification_page(request: Request, name: str) -> Response:
    """What came of recomputing a study from its log. The page shows a damaged study too, which no other page does."""
    service = service_of(request)
    study = service.study(request, name_of(name), "read")
    with service.slowly():
        found = study.verify(seconds=VERIFY_SECONDS, progress=False)
    return page(request, "verification.html", name=study.name, address=address(study.name), found=found)


def report(view: StudyView) -> dict[str, Any]:
    """What the page says."""
    found, levels = view.verdict, view.effects
    matter = set(found.parents or ()) if found is not None else set()
    nothing = found is None or found.tolerance is None
    certificate = "none" if found is None or nothing else found.certificate or "none"
    in_doubt = found is not None and bool(found.doubts)
    said = "in doubt" if in_doubt else CERTIFICATES.get(certificate, certificate)  # nothing is proven beside a doubt
    noise = "-" if found is None else found.noise or "-"
    if nothing and view.state.spec.noise_sd is None:
        noise = "not known"  # no run was left to estimate it from
    factors, ruled_out = view.state.spec.inner.factors, view.state.progress.eliminations[:MOST_LEVELS]
    guarantee = [] if found is None or nothing or in_doubt else [found.guarantee]
    return {
        "verdict": found,
        "sure": None if found is None else 1 - found.failure_prob,
        "certificate": said,
        # doubts have a place of their own on the page
        "provisos": [] if found is None else [*guarantee, *(proviso.text for proviso in found.provisos)],
        "noise": noise,
        "levels": levels[:MOST_LEVELS],
        "why_below_zero": None if found is None else why_below_zero(found),
        "n_levels": len(levels),
        "matter": [n for n in view.state.spec.space.names if n in matter],
        "enough": None if found is None else enough_words(found),
        "others": [] if found is None else _others(found, matter),
        # factors and levels as the algorithm sees them
        "ledger": [(factors[e.factor].name, factors[e.factor].levels[e.level], e.n_runs, e.gap) for e in ruled_out],
        "doubt": None if found is None else view.additivity,
        "stages": [] if found is None else [(stage, n) for stage, n in found.runs_by_stage if stage != BLOCK],
        "blocks": [] if found is None else found.blocks,
        "corrections": view.state.corrections[-50:],
        "exclusions": view.state.exclusions[-50:],
    }


def _others(found: Verdict, matter: set[str]) -> list[tuple[str, str]]:
    """The factors that were not shown to matter, and what is said of each: the smallest p-value comes first."""
    p_values = found.p_values_by_lever
    left = [name for name in found.assignment.space.names if name not in matter]
    left.sort(key=lambda name: 1.0 if (p_value := p_values.get(name)) is None else p_value)
    return [(name, not_shown(p_values.get(name))) for name in left[:MOST_OTHERS]]
