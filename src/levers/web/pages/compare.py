"""Several studies side by side."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from levers.errors import LeversError
from levers.web.charts import NARROW, WIDE, compare
from levers.web.pages.headline import Headline
from levers.web.pages.rendering import page, service_of
from levers.web.pages.study import sights_of
from levers.web.seen import Sight

MOST_COMPARED, MOST_FACTORS, MOST_CHOICES = 7, 200, 500
router = APIRouter(include_in_schema=False)


@router.get("/compare")
def compare_page(request: Request, study: Annotated[list[str] | None, Query()] = None) -> Response:
    """Settings, runs and answers of some studies, and how certainty grew in each."""
    service = service_of(request)
    names = service.names(service.allow(request, "read"))
    chosen = list(dict.fromkeys(study or []))
    wanted = [name for name in chosen if name in names]
    unknown = [name for name in chosen if name not in names]
    sights: list[Sight] = []
    failed: list[str] = []
    for name in wanted[:MOST_COMPARED]:
        try:
            sights.append(sights_of(request).of(service.study(request, name, "read")))
        except LeversError:
            failed.append(name)
    drawn = [sight.look() for sight in sights]
    pairs = [(sight.name, sight.state) for sight in sights]
    chart = (compare(pairs, WIDE, drawn), compare(pairs, NARROW, drawn)) if sights else None
    bests = [sight.views.best for sight in sights]
    factors = list(dict.fromkeys(name for sight in sights for name in sight.state.spec.space.names))
    return page(
        request,
        "compare.html",
        names=names[:MOST_CHOICES],
        chosen=wanted,
        missing=[*unknown, *failed],
        n_left_out=max(len(wanted) - MOST_COMPARED, 0),
        most=MOST_COMPARED,
        sights=sights,
        heads=[sight.kept("headline", partial(Headline.of, sight)) for sight in sights],
        bests=bests,
        factors=factors[:MOST_FACTORS],
        n_factors=len(factors),
        chart=chart,
        most_rows=2000,
    )
