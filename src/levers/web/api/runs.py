"""Ask, tell, fail, correct, exclude, finish and more: what changes a study. Each may carry a key, and happens once."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, Field

from levers.algorithms.base import Verdict
from levers.core.space import Level
from levers.studies.analysis import views
from levers.studies.outcomes import Surprise
from levers.studies.state import Correction, Exclusion
from levers.studies.study import Study
from levers.web.api.deps import Insist, Key, Name, changed, of_study, responses
from levers.web.api.schemas import (
    FLAGS,
    Ask,
    Confirm,
    Correct,
    Corrected,
    Corrections,
    Exclude,
    Fail,
    Finish,
    GoOn,
    Import,
    Outcome,
    Renew,
    Restate,
    Shape,
    Taken,
    Told,
    Trials,
)
from levers.web.limits.large import LargeBodyRoute

router = APIRouter(tags=["runs"], route_class=LargeBodyRoute)
_NAN = float("nan")
_SAME_STUDY = {"path.name": "$request.path.name"}
_ASKED = "$response.body#/trials/0/trial"
_ERRORS = responses(400, 404, 409, 413, changes=200)
_ASK = responses(400, 404, 409, 413, changes=200)
_ASK[200]["links"] = {
    "tell": {"operationId": "tell", "parameters": _SAME_STUDY, "requestBody": {"trial": _ASKED, "value": 1.5}},
    "fail": {"operationId": "fail", "parameters": _SAME_STUDY, "requestBody": {"trial": _ASKED}},
    "getTrial": {"operationId": "getTrial", "parameters": {**_SAME_STUDY, "path.number": _ASKED}},
}


class Kept(Shape):
    """The trials that are kept. The others were told, given up, or went to somebody else."""

    trials: list[int]


class Failed(Shape):
    """The trial that failed; its run will be asked for again."""

    trial: int


class CorrectionsMade(Shape):
    """What was corrected. The last one says which decisions change."""

    corrections: list[Correction]


class ExclusionsMade(Shape):
    """What does not count. The last one says which decisions change."""

    exclusions: list[Exclusion]


class Standing(Shape):
    """Where the study stands after a change, and what the change was, in words."""

    status: views.Status
    changes: list[str]


class Imported(Shape):
    """How many past runs came in, and which of their outcomes are a surprise."""

    n_imported: int
    flags: list[Surprise] = Field(default=[], description=FLAGS)


@of_study(router.post, "ask", "ask", "Get runs to make", Trials, responses=_ASK)
def ask(request: Request, name: Name, body: Annotated[Ask, Body()], key: Key = None) -> Response:
    """Up to `n` runs. Fewer, or none, when the rest of the round is with others or the study is finished."""

    def act(study: Study) -> Trials:
        return Trials.of(study.ask(body.n, worker=body.worker, lease=body.lease))

    return changed(request, name, key, body, act, body.n)


@of_study(router.post, "renew", "renew", "Keep runs that take longer", Kept, responses=_ERRORS)
def renew(request: Request, name: Name, body: Annotated[Renew, Body()], key: Key = None) -> Response:
    """A worker that is at work sends this before its lease is over, so that only one that stopped loses its runs."""

    def act(study: Study) -> Kept:
        return Kept(trials=study.renew(body.trials, lease=body.lease))

    return changed(request, name, key, body, act, len(body.trials))


@of_study(router.post, "tell", "tell", "Tell outcomes", Taken, responses=_ERRORS)
def tell(
    request: Request, name: Name, body: Annotated[Told, Body()], insist: Insist = True, key: Key = None
) -> Response:
    """One outcome, or many: all of them or none. Telling the same again changes nothing; another needs `correct`.

    A trial that left levers alone (`free`) comes with the level that each of them took (`observed`).
    """
    told = [body] if isinstance(body, Outcome) else body.outcomes

    def act(study: Study) -> Taken:
        values = [_NAN if one.value is None else one.value for one in told]
        found = study.accept([one.trial for one in told], values, observed=_observed(told), insist=insist)
        return Taken(n_new=len(found.values), n_failed=sum(map(math.isnan, found.values)), flags=[*found.flags])

    return changed(request, name, key, body, act, len(told))


def _observed(told: Sequence[Outcome | Corrected]) -> dict[int, dict[str, Level]]:
    """What levers took that trials left alone."""
    return {one.trial: one.observed for one in told if one.observed is not None}


@of_study(router.post, "fail", "fail", "Say that a run gave no outcome", Failed, responses=_ERRORS)
def fail(request: Request, name: Name, body: Annotated[Fail, Body()], key: Key = None) -> Response:
    """The run's row of the design is asked for again."""

    def act(study: Study) -> Failed:
        study.fail(body.trial, body.reason)
        return Failed(trial=body.trial)

    return changed(request, name, key, body, act)


@of_study(
    router.post, "correct", "correct", "Correct outcomes that were told wrong", CorrectionsMade, responses=_ERRORS
)
def correct(request: Request, name: Name, body: Annotated[Corrections, Body()], key: Key = None) -> Response:
    """Decisions that rested on them are taken again; `changes` of the last one says what is different now."""
    given = [body] if isinstance(body, Correct) else body.outcomes
    wanted = [(one.trial, one.value) for one in given]

    def act(study: Study) -> CorrectionsMade:
        return CorrectionsMade(corrections=study.correct_many(wanted, body.reason, observed=_observed(given)))

    return changed(request, name, key, body, act, len(wanted), apart=True)


@of_study(
    router.post, "exclude", "exclude", "Leave outcomes out that must not count", ExclusionsMade, responses=_ERRORS
)
def exclude(request: Request, name: Name, body: Annotated[Exclude, Body()], key: Key = None) -> Response:
    """Decisions that rested on them are taken again. A correction brings an outcome back."""

    def act(study: Study) -> ExclusionsMade:
        return ExclusionsMade(exclusions=study.exclude_many(body.trials, body.reason))

    return changed(request, name, key, body, act, len(body.trials), apart=True)


def _on_course(
    request: Request,
    name: str,
    key: str | None,
    body: BaseModel,
    act: Callable[[Study], tuple[str, ...] | Verdict | None],
) -> Response:
    """Change a study's course, and answer where it stands then; `act` may return the terms that changed."""

    def made(study: Study) -> Standing:
        changes = act(study)
        return Standing(status=study.status(), changes=list(changes) if isinstance(changes, tuple) else [])

    return changed(request, name, key, body, made, apart=True)


@of_study(router.post, "finish", "finish", "End a study now", Standing, responses=_ERRORS)
def finish(request: Request, name: Name, body: Annotated[Finish, Body()], key: Key = None) -> Response:
    """The verdict is then what is certified by the runs made so far; runs that are out are given up."""
    return _on_course(request, name, key, body, lambda study: study.finish(body.reason))


@of_study(router.post, "continue", "goOn", "Go on after the end", Standing, responses=_ERRORS)
def go_on(request: Request, name: Name, body: Annotated[GoOn, Body()], key: Key = None) -> Response:
    """One more round of runs; what is certified afterwards allows for it."""
    return _on_course(request, name, key, body, lambda study: study.go_on(body.n_runs, body.reason))


@of_study(router.post, "confirm", "confirm", "Confirm the verdict by fresh runs", Standing, responses=_ERRORS)
def confirm(request: Request, name: Name, body: Annotated[Confirm, Body()], key: Key = None) -> Response:
    """Runs at the verdict's setting, and at the baseline if there is one; `confirmation` of the verdict compares them.

    `ask` hands them out in random order. No fit rests on them.
    """
    return _on_course(request, name, key, body, lambda study: study.confirm(body.n_runs, body.reason))


@of_study(router.post, "restate", "restate", "Change the terms under way", Standing, responses=_ERRORS)
def restate(request: Request, name: Name, body: Annotated[Restate, Body()], key: Key = None) -> Response:
    """A tolerance in place of a budget or the other way round, another noise: all runs so far count under them."""
    terms = {field: getattr(body, field) for field in body.model_fields_set if field != "reason"}
    return _on_course(request, name, key, body, lambda study: study.restate(reason=body.reason, **terms))


@of_study(router.post, "import", "importRuns", "Take in past runs", Imported, responses=_ERRORS)
def import_runs(
    request: Request, name: Name, body: Annotated[Import, Body()], insist: Insist = True, key: Key = None
) -> Response:
    """Runs that the study did not ask for. They must have been set, with the same noise, and not picked."""

    def act(study: Study) -> Imported:
        codes = [study.space.encode(row).codes for row in body.rows]
        return Imported.read(study.take_past(codes, body.values, body.note, insist=insist))

    return changed(request, name, key, body, act, len(body.rows), apart=True)
