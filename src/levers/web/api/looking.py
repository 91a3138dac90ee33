"""Status, effects, forecast, best setting, verdict: what a study says, read from a copy so that nobody waits."""

from fastapi import APIRouter, Request, Response

from levers.errors import NotFinishedError
from levers.studies import views
from levers.web.api.answering import Name, answer, answer_value, responses, study_of
from levers.web.api.shapes import BestShape, VerdictShape

router = APIRouter(tags=["looking"])
_ERRORS = responses(404)


@router.get(
    "/studies/{name}/status",
    operation_id="getStatus",
    summary="Where a study stands",
    response_model=views.Status,
    responses=_ERRORS,
)
def status(request: Request, name: Name) -> Response:
    """Runs made, out and to go; times are seconds since 1970."""
    study = study_of(request, name, "read")
    return answer_value(views.Status, views.status(study.name, study.frozen()))


@router.get(
    "/studies/{name}/effects",
    operation_id="getEffects",
    summary="What each level loses",
    response_model=list[views.EffectRow],
    responses=_ERRORS,
)
def effects(request: Request, name: Name) -> Response:
    """Against the leading level, with intervals that all hold at once."""
    return answer_value(list[views.EffectRow], views.effects(study_of(request, name, "read").frozen()))


@router.get(
    "/studies/{name}/forecast",
    operation_id="getForecast",
    summary="How many runs are to go",
    response_model=views.Forecast,
    responses=_ERRORS,
)
def forecast(request: Request, name: Name) -> Response:
    """In the block under way, likely, and in the worst case."""
    return answer_value(views.Forecast, views.forecast(study_of(request, name, "read").frozen()))


@router.get(
    "/studies/{name}/best",
    operation_id="getBest",
    summary="The setting that the estimates favour",
    response_model=BestShape,
    responses=_ERRORS,
)
def best(request: Request, name: Name) -> Response:
    """With how far it may be from the best one; all null before the first decision."""
    return answer(BestShape.of(views.best(study_of(request, name, "read").frozen())))


@router.get(
    "/studies/{name}/verdict",
    operation_id="getVerdict",
    summary="The answer and its guarantee",
    response_model=VerdictShape,
    responses=responses(404, 409),
)
def verdict(request: Request, name: Name) -> Response:
    """409 while the study is not finished."""
    state = study_of(request, name, "read").frozen()
    found, chosen = views.verdict(state), views.best(state)
    if found is None or chosen is None:
        raise NotFinishedError(f"the study is not finished: {views.forecast(state)}")
    return answer(VerdictShape.of(found, chosen.params))
