"""List, create, read, delete, copy, merge and plan studies."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from levers.algorithms.registry import option_names
from levers.core.space import Level
from levers.errors import InvalidSettingError, InvalidSpaceError, LeversError, StorageError, StudyExistsError
from levers.experiments.plan import Plan
from levers.studies.analysis import views
from levers.studies.library import copy_study, delete_study
from levers.studies.study import Study
from levers.web.api.deps import (
    Key,
    Limit,
    Name,
    Offset,
    answer,
    body_text,
    of_study,
    once,
    operation,
    page_size,
    responses,
    service_of,
    study_of,
)
from levers.web.api.schemas import CopyTo, FactorIn, MergeTo, NewStudy, Page, PlanFor, StudyShape
from levers.web.costs import check_cost
from levers.web.limits import jobs
from levers.web.limits.large import LargeBodyRoute
from levers.web.security import address, name_of
from levers.web.service import log

router = APIRouter(tags=["studies"], route_class=LargeBodyRoute)
_CREATED = responses(400, 409, 413, changes=201)
_CREATED[201]["headers"] = {
    **_CREATED[201]["headers"],
    "Location": {"description": "Where the study is.", "schema": {"type": "string"}},
}
_CREATED[201]["links"] = {
    linked: {"operationId": linked, "parameters": {"path.name": "$response.body#/name"}}
    for linked in ("getStudy", "getStatus", "ask", "askSheet", "listTrials", "deleteStudy")
}
_MADE: dict[str, Any] = {"status_code": 201, "responses": {**_CREATED, **responses(404)}}


@operation(router.get, "/studies", "listStudies", "List the studies", Page[views.Status], responses=responses())
def list_studies(request: Request, offset: Offset = 0, limit: Limit = 50) -> Response:
    """Where each study stands, oldest first: those that the token opens."""
    service = service_of(request)
    names = service.names(service.allow(request, "read"))
    size = page_size(request, limit)
    found = []
    for name in names[offset : offset + size]:
        try:
            found.append(views.status(name, service.open(name).frozen()))
        except StorageError:
            raise
        except LeversError as error:  # deleted a moment ago, or damaged: the others are still there
            log.warning("study %r cannot be listed: %s", name, error)
    return answer(Page[views.Status](items=found, total=len(names), offset=offset, limit=size))


@operation(router.post, "/studies", "createStudy", "Begin a study", StudyShape, status_code=201, responses=_CREATED)
def create(request: Request, body: Annotated[NewStudy, Body()], key: Key = None) -> Response:
    """Its first round of runs is designed and kept before this returns."""
    service = service_of(request)
    who = service.allow(request, "admin").who
    settings = body.settings()
    algorithm = settings["algorithm"]
    fields = set(settings) - {"noise", "certificate"}  # which were options before they were fields, and still may be
    wrong = sorted(set(body.options) - (set(option_names(algorithm)) - fields))
    if wrong:
        raise InvalidSettingError(
            f"{algorithm} has no option {wrong[0]!r} here; some are fields of the request", field=wrong[0]
        )

    def make() -> Study:
        service.check_new(body.name)
        given: dict[str, Any] = {**settings, **body.options, "who": who}
        factors = plain_factors(body.factors)
        check_cost(jobs.sizes_of(factors), service.limits.computing_seconds)
        return service.begin(body.name, service.compute(request, jobs.new_study, body.name, factors, given), who)

    return _created(request, key, f"create {body_text(body)}", body.name, make)


@of_study(router.get, "", "getStudy", "What a study is asked to find", StudyShape)
def get(request: Request, name: Name) -> Response:
    """Its factors and settings, as they were when it began."""
    return answer(StudyShape.of(name_of(name), study_of(request, name, "read").spec))


@of_study(router.delete, "", "deleteStudy", "Remove a study for good", None, status_code=204)
def delete(request: Request, name: Name) -> Response:
    """The study and everything that was told to it. There is no way back."""
    study, service = study_of(request, name, "admin"), service_of(request)
    delete_study(study.name, service.storage)
    service.forget_deleted()
    return Response(status_code=204)


@of_study(router.post, "copy", "copyStudy", "Copy a study with its whole log", StudyShape, **_MADE)
def copy(request: Request, name: Name, body: Annotated[CopyTo, Body()], key: Key = None) -> Response:
    """Under another name, in the same storage."""
    study, storage = study_of(request, name, "admin"), service_of(request).storage
    what = f"copy {study.name} {body_text(body)}"
    return _created(request, key, what, body.name, lambda: copy_study(study.name, body.name, storage))


@of_study(
    router.post,
    "merge",
    "mergeStudy",
    "Go on with levers that influence each other studied as one",
    StudyShape,
    **_MADE,
)
def merge(request: Request, name: Name, body: Annotated[MergeTo, Body()], key: Key = None) -> Response:
    """A new study, with all runs of the old one as evidence. The old one stays as it is."""
    study, service = study_of(request, name, "admin"), service_of(request)

    def make() -> Study:
        given = {"budget": body.budget, "seed": body.seed, "who": study.who}
        past = study.storage.read(study.id, 0)
        found = service.compute(request, jobs.merged_study, study.name, past, body.name, body.factors, **given)
        return service.begin(body.name, found, study.who)

    return _created(request, key, f"merge {study.name} {body_text(body)}", body.name, make)


def plain_factors(factors: dict[str, list[Level]] | list[FactorIn] | list[int]) -> jobs.Factors:
    """The factors that a request describes, by levels or by how many there are.

    >>> plain_factors({"heat": ["low", "high"]})
    [('heat', ['low', 'high'])]
    """
    if isinstance(factors, dict):
        return list(factors.items())
    named = [(factor.name, factor.levels) for factor in factors if isinstance(factor, FactorIn)]
    return named or [n for n in factors if isinstance(n, int)]


def _created(request: Request, key: str | None, what: str, name: str, make: Callable[[], Study]) -> Response:
    """Make a study, or find the one that the same request made before, and answer what it is asked to find."""
    try:
        study = make()
    except StudyExistsError:
        study = service_of(request).open(name)
        if key is None:
            raise
        with study.writing() as transaction:
            if transaction.answer(key) is None:  # another request made it
                raise
    text, headers = once(request, study, key, what, lambda: StudyShape.of(study.name, study.spec))
    where = f"{request.url.path.split('/studies', 1)[0]}/studies/{address(study.name)}"
    return answer(text, 201, {"location": where, **headers})


planning = APIRouter(tags=["planning"], route_class=LargeBodyRoute)
_MOST_FACTORS = 1_000
_MOST_PROVEN = 12  # levels in all, of factors that differ in their number: a few seconds


@operation(
    planning.post,
    "/plan",
    "planStudy",
    "How many runs a study takes, or what a budget does",
    Plan,
    responses=responses(400, 413),
)
def make_plan(request: Request, body: Annotated[PlanFor, Body()]) -> Response:
    """For a tolerance; or with a budget, what it certifies and what it typically achieves. Nothing is kept."""
    service_of(request).allow(request, "read")
    if len(body.factors) > _MOST_FACTORS:
        raise InvalidSpaceError(f"{len(body.factors)} factors are too many to plan here; at most {_MOST_FACTORS}")
    factors, settings = plain_factors(body.factors), body.settings()
    sizes = jobs.sizes_of(factors)
    if settings["certificate"] == "proven" and sum(set(sizes)) > _MOST_PROVEN:
        raise InvalidSettingError(
            "the proven certificate takes long to compute for so many levels; plan with levers.plan on your own machine"
        )
    check_cost(sizes, service_of(request).limits.computing_seconds)
    return answer(service_of(request).compute(request, jobs.plan_text, factors, settings))
