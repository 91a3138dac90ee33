"""Trials and the log, page by page."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from levers.studies.analysis import views
from levers.studies.analysis.trials import EVERY, TrialFilter, find_trials
from levers.studies.run import LogEntry
from levers.studies.storage.base import Stored
from levers.web.api.deps import Absent, Limit, Name, Offset, answer, of_study, page_size, study_of
from levers.web.api.schemas import MOST, Page, State, Trials, TrialShape

router = APIRouter(tags=["trials"])
Worker = Annotated[Annotated[str, Field(max_length=200)] | Absent, Query(description="Only this worker's.")]


@of_study(router.get, "trials", "listTrials", "Trials, page by page", Page[TrialShape])
def trials(
    request: Request,
    name: Name,
    offset: Offset = 0,
    limit: Limit = 100,
    state: Annotated[State | Absent, Query(description="Only those in this state.")] = None,
    worker: Worker = None,
    sort: Annotated[
        str, Query(description="trial, block, stage, state, outcome, worker, asked_at, told_at, or a factor's name.")
    ] = "trial",
    order: Annotated[Literal["up", "down"], Query(description="From small to large, or from large to small.")] = "up",
) -> Response:
    """What has no value comes last, in either order. Levels are sorted as the study lists them."""
    now = study_of(request, name, "read").frozen()
    which = find_trials(now, TrialFilter(state or EVERY, worker, sort=sort, descending=order == "down"))
    size = page_size(request, limit)
    items = [TrialShape.of(trial) for trial in views.trials(now, which[offset : offset + size])]
    return answer(Page[TrialShape].model_construct(items=items, total=len(which), offset=offset, limit=size))


@of_study(router.get, "trials/{number}", "getTrial", "One trial", TrialShape)
def trial(request: Request, name: Name, number: Annotated[int, Path(ge=0, le=MOST)]) -> Response:
    """By its number."""
    return answer(TrialShape.of(study_of(request, name, "read").trial(number)))


@of_study(router.get, "running", "listRunning", "The runs that are out", Trials)
def running(request: Request, name: Name, worker: Worker = None) -> Response:
    """Handed out and not told: all of them, or one worker's."""
    return answer(Trials.of(study_of(request, name, "read").running(worker)))


@of_study(router.get, "log", "getLog", "Everything that happened, page by page", Page[LogEntry])
def log(request: Request, name: Name, offset: Offset = 0, limit: Limit = 100) -> Response:
    """Who did what, and when, oldest first. Nothing is ever removed from it."""
    study, size = study_of(request, name, "read"), page_size(request, limit)
    total = study.state.seq
    items = study.log_page(offset, size) if offset < total else []
    return answer(Page[LogEntry](items=items, total=total, offset=offset, limit=size))


@of_study(router.get, "events", "listEvents", "The events themselves, page by page", Page[Stored])
def events(request: Request, name: Name, offset: Offset = 0, limit: Limit = 100) -> Response:
    """Each as JSON text, in the form of this version of levers: who folds them has the whole state of the study."""
    study, size = study_of(request, name, "read"), page_size(request, limit)
    total = study.state.seq
    items = study.storage.read(study.id, offset)[:size] if offset < total else []
    return answer(Page[Stored](items=items, total=total, offset=offset, limit=size))
