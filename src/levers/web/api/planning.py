"""Plan a study before there is one."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from levers.core.space import Space
from levers.errors import InvalidSettingError, InvalidSpaceError
from levers.experiments.planning import Plan, plan
from levers.web.api.answering import answer_value, responses, service_of
from levers.web.api.managing import space_of
from levers.web.api.wire import PlanFor

router = APIRouter(tags=["planning"])
_MOST_FACTORS = 1_000
_MOST_PROVEN = 12  # levels in all, of factors that differ in their number: a few seconds


@router.post(
    "/plan",
    operation_id="planStudy",
    summary="How many runs a study takes",
    response_model=Plan,
    responses=responses(400, 413),
)
def make_plan(request: Request, body: Annotated[PlanFor, Body()]) -> Response:
    """For a tolerance; or with a budget, the smallest tolerance that it can certify. Nothing is kept."""
    service_of(request).allow(request, "read")
    if len(body.factors) > _MOST_FACTORS:
        raise InvalidSpaceError(f"{len(body.factors)} factors are too many to plan here; at most {_MOST_FACTORS}")
    space = _space(body.factors)
    if body.certificate == "proven" and sum(set(space.n_levels)) > _MOST_PROVEN:
        raise InvalidSettingError(
            "the proven certificate takes long to compute for so many levels; plan with levers.plan on your own machine"
        )
    with service_of(request).slowly():
        found = plan(
            space,
            tolerance=body.tolerance,
            failure_prob=body.failure_prob,
            noise_sd=body.noise_sd,
            max_parents=body.max_parents,
            min_effect=body.min_effect,
            budget=body.budget,
            certificate=body.certificate,
        )
    return answer_value(Plan, found)


def _space(factors: object) -> Space:
    """The space of a request, which may also be a list of level counts."""
    if isinstance(factors, Sequence) and all(isinstance(one, int) for one in factors):
        return Space.sized(factors)
    return space_of(factors)  # type: ignore[arg-type]
