"""The page of a study: where it stands, the runs that are out, charts, and how it follows what others do."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from levers.studies.fold import StudyState
from levers.studies.study import Study
from levers.web.pages.headline import Headline
from levers.web.pages.open_runs import open_runs
from levers.web.pages.rendering import fragment, page, part, service_of
from levers.web.paths import name_of
from levers.web.refusing import RefusedError
from levers.web.seen import Sight, Sights

if TYPE_CHECKING:
    from levers.studies.diagnostics import Additivity

CHARTS = ("effects", "elimination", "forecast", "history", "evidence")
"""What is on the page from the start."""
CHECKS = ("residuals", "additivity")
"""What is loaded when somebody scrolls there: it takes longer to work out."""
MOST_CORRECTIONS, MOST_TABLE_ROWS, MOST_SHOWN = 50, 2_000, 1_000

router = APIRouter(include_in_schema=False)


def opened(request: Request, name: str, role: str = "read") -> tuple[Study, Sight]:
    """A study that whoever asks may see, and what there is to see."""
    study = service_of(request).study(request, name_of(name), role)
    return study, sights_of(request).of(study)


def sights_of(request: Request) -> Sights:
    """What was seen of studies before."""
    found = request.app.state.sights
    assert isinstance(found, Sights)  # add_pages made it
    return found


def context(sight: Sight) -> dict[str, Any]:
    """What every page of a study needs."""
    return {
        "name": sight.name,
        "seq": sight.seq,
        "spec": sight.state.spec,
        "sight": sight,
        "headline": sight.kept("headline", lambda: Headline.of(sight)),
        "most_rows": MOST_TABLE_ROWS,
    }


@router.get("/studies/{name}")
def study_page(request: Request, name: str) -> Response:
    """The page of a study."""
    study, sight = opened(request, name)
    return show(request, study, sight)


def show(
    request: Request,
    study: Study,
    sight: Sight,
    status: int = 200,
    typed: Mapping[int, str] | None = None,
    problems: Mapping[int, str] | None = None,
    wrong: str = "",
    fields: Mapping[str, str] | None = None,
) -> Response:
    """The page, after a form that could not be taken with everything that was typed and what is wrong with it."""
    corrections = sight.state.corrections[-MOST_CORRECTIONS:][::-1]
    return page(
        request,
        "study.html",
        status,
        runs=open_runs(sight, study, (), typed, problems),
        charts=sight.charts(CHARTS),
        corrections=corrections,
        n_corrections=len(sight.state.corrections),
        wrong=wrong,
        fields=dict(fields or {}),
        **context(sight),
    )


@router.get("/studies/{name}/panels")
def panels(request: Request, name: str, open: str = "") -> Response:  # noqa: A002
    """The parts of the page that change, as they are now. `open` lists the runs that the page shows as being out."""
    study, sight = opened(request, name)
    shown = [int(part) for part in open.split(",")[:MOST_SHOWN] if part.isascii() and part.isdigit() and len(part) < 16]
    corrections = sight.state.corrections[-MOST_CORRECTIONS:][::-1]
    text = fragment(
        request,
        "panels.html",
        runs=open_runs(sight, study, shown),
        charts=sight.charts(CHARTS),
        corrections=corrections,
        n_corrections=len(sight.state.corrections),
        fields={},
        **context(sight),
    )
    return part(text)


@router.get("/studies/{name}/checks")
def checks(request: Request, name: str, part_only: bool = False) -> Response:
    """Whether the outcomes look like what the certificate assumes; as a page of its own, or the part for the page."""
    _, sight = opened(request, name)
    with service_of(request).slowly():
        found = doubt(sight)
        given = {"charts": sight.charts(CHECKS), "doubt": found, "remedies": remedies(sight.state, found)}
        given |= context(sight)
    if part_only:
        return part(fragment(request, "parts/checks.html", **given))
    return page(request, "checks.html", **given)


def doubt(sight: Sight) -> Any:
    """What the tests for interactions say."""
    from levers.studies.diagnostics import additivity

    return sight.kept("additivity", lambda: additivity(sight.state))


def remedies(state: StudyState, found: "Additivity") -> list[tuple[str, str]]:
    """For each pair that seems to interact: its levers in words, and the query of the page that merges them."""
    from levers.studies.diagnostics import can_merge

    groups, suspects = state.spec.merging.groups, [pair for pair in found.suspects if can_merge(state, pair)]
    pairs = [(*groups[pair.first], *groups[pair.second]) for pair in suspects]
    names = [[state.spec.space.names[k] for k in pair] for pair in pairs]
    return [(" and ".join(group), urlencode([("factors", one) for one in group])) for group in names]


@router.get("/studies/{name}/stream")
async def stream(request: Request, name: str, since: int = 0) -> Response:
    """Server-sent events: `changed` when the study has changed since a place in its log."""
    service = service_of(request)
    study = await to_thread.run_sync(lambda: service.study(request, name_of(name), "read"))
    if service.stopping.is_set():
        raise RefusedError(503, "the service is stopping")
    last = request.headers.get("last-event-id", "")  # sent by a browser that connects again
    seq = int(last) if last.isascii() and last.isdigit() and len(last) < 16 else since

    def still_allowed() -> None:
        request.scope["levers.state"].pop("access", None)  # ask the storage, not what it said when this began
        service.study(request, name_of(name), "read")

    events = request.app.state.live.follow(study.name, seq, still_allowed)
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
