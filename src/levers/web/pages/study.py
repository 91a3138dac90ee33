"""The page of a study: where it stands, the runs that are out, charts, and how it follows what others do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from levers.charts.check_facts import check_rows
from levers.charts.drawings import charts_of
from levers.charts.view import StudyView
from levers.errors import LeversError
from levers.studies.analysis import views
from levers.studies.analysis.describe import CONFIRMATIONS, and_fresh, expected_words, gain_words, promise, several
from levers.studies.analysis.views import AWAITS, Forecast, Status
from levers.studies.state import StudyState, Trial, TrialState
from levers.studies.storage.tokens import short_name
from levers.studies.study import Study
from levers.web.cache import ViewCache, who_told
from levers.web.errors import RefusedError, lines_of, status_of
from levers.web.pages.doubts import doubts_of
from levers.web.pages.filters import count, number, percent
from levers.web.pages.site import fragment, is_quiet, page, part, service_of
from levers.web.security import address, name_of

if TYPE_CHECKING:
    from levers.studies.analysis.diagnostics import Additivity


@dataclass(frozen=True, slots=True)
class Bar:
    """Runs so far, likely to go, and to go in the worst case, as widths of a bar."""

    so_far: float
    likely: float
    worst: float
    words: str


class Headline:
    """What a page says first."""

    def __init__(self, view: StudyView) -> None:
        status, best = view.status, view.best
        self.finished, self.status, self.best = view.is_finished, status, best
        self.held = view.state.is_held
        self.confirming = status.state == "confirming"
        self.awaits = status.state in AWAITS
        self.css = "doubt" if status.doubts else "finished" if self.finished else "running"
        self.word = _word(status)
        self.runs = several(status.n_complete, "run", "runs") + (" made" if self.finished else " so far")
        if status.n_past:
            self.runs += f", and {several(status.n_past, 'imported one', 'imported ones')}"
        self.runs += and_fresh(status.n_fresh)
        self.confirmed = CONFIRMATIONS.get(status.confirmation or "", "")
        self.to_go = _to_go(status.to_go) if self.awaits else "no runs to go"
        self.action = _action(status)
        lost = [f"{count(n)} {word}" for n, word in ((status.n_failed, "failed"), (status.n_stale, "stale")) if n]
        self.lost = f"{' and '.join(lost)}; these runs are asked for again" if lost else ""
        self.within = self.expected = self.gain = ""
        scale = view.state.spec.outcome_scale
        self.expected_words = expected_words(scale)
        if best is not None:
            within, unclaimed = best.said()
            sure, in_doubt = percent(1 - view.state.spec.failure_prob), bool(status.doubts)
            self.within = promise(within, sure, self.finished, in_doubt, best.compared_with, unclaimed)
        if best is not None and best.predicted is not None:
            self.expected = f"{number(best.predicted)} ({number(best.low)} to {number(best.high)})"
        if best is not None and best.gain is not None:
            self.gain = gain_words(best.gain, self.finished, view.state.spec.baseline_outcome, scale)
        self.bar = _bar(status)

    @classmethod
    def of(cls, view: StudyView) -> "Headline":
        """That of a view, made once."""
        return view.keep("headline", lambda: cls(view))


def _to_go(to_go: Forecast) -> str:
    if to_go.worst_case is None:
        return f"{count(to_go.now)} to go in this round, then perhaps more"
    if to_go.likely is None:
        return f"at most {count(to_go.worst_case)} to go, {count(to_go.now)} in this round"
    if to_go.now >= to_go.worst_case:
        return f"{count(to_go.now)} to go, all in this round"
    if to_go.likely >= to_go.worst_case:
        return f"{count(to_go.likely)} to go, {count(to_go.now)} in this round"
    likely, worst = count(to_go.likely), count(to_go.worst_case)
    return f"about {likely} to go, {worst} in the worst case; {count(to_go.now)} in this round"


def _word(status: Status) -> str:
    """What to do, in a few words: whatever speaks against the outcomes comes first."""
    if status.state == "confirming":
        return "Confirm the verdict: fresh runs are awaited"
    if status.state == "in doubt":
        return "Wait: outcomes contradict the answer"
    if status.state == "finished":
        return "Ended, and in doubt" if status.doubts else "Stop: there is a verdict"
    return "Look first: something does not fit" if status.doubts else "Go on"


def _action(status: Status) -> str:
    if status.state == "in doubt":
        return "It is not finished on this. Say how it goes on: see the doubts."
    if status.state == "finished":
        return "Read the verdict" + (
            " with its doubts, before anything is set." if status.doubts else ", and set the levers as it says."
        )
    if status.n_running:
        ready = "Enter the outcome of the run that is out"
        if status.n_running > 1:
            ready = f"Enter the outcomes of the {count(status.n_running)} runs that are out"
        if status.n_waiting:
            return f"{ready}, or ask for more."
        if not status.to_go.is_last:
            return f"{ready}: what comes next depends on them."
        return f"{ready}: {'it is' if status.n_running == 1 else 'they are'} the last."
    return f"Ask for runs, make them in the order given, and enter their outcomes. {count(status.n_waiting)} are ready."


BAR = 1000.0
"""Width of the bar of runs, in its own units."""


def _bar(status: Status) -> Bar | None:
    done, to_go = status.n_complete, status.to_go
    most = to_go.worst_case if to_go.worst_case is not None else to_go.now
    if done + most == 0:
        return None
    likely = to_go.likely if to_go.likely is not None else to_go.now
    unit = BAR / (done + max(most, likely))
    words = f"{count(done)} runs made, about {count(likely)} to go, {count(most)} in the worst case"
    return Bar(done * unit, likely * unit, max(most, likely) * unit, words)


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run, what became of it (empty while it is out), what was typed for it, and what is wrong with that.

    `asked` says that it is only a surprise: it is stored if whoever typed it says that it is right. `taken` is what was
    chosen for levers that the run leaves alone, by their positions.
    """

    trial: Trial
    became: str
    typed: str = ""
    problem: str = ""
    asked: bool = False
    taken: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenRuns:
    """The rows that a page has, and how many more are out."""

    rows: list[RunRow]
    n_open: int

    @property
    def n_asked(self) -> int:
        """Outcomes that are asked about."""
        return sum(row.asked for row in self.rows)

    @property
    def n_more(self) -> int:
        """Runs that are out and not listed."""
        return max(self.n_open - sum(row.trial.state is TrialState.RUNNING for row in self.rows), 0)


MOST_ROWS, MOST_KEPT = 100, 1_000
"""Runs that a page lists, where a sheet has them all; and rows of those that it has shown and are out no longer."""


def open_runs(
    view: StudyView,
    study: Study,
    shown: Iterable[int] = (),
    typed: Mapping[int, tuple[str, str, bool, Mapping[int, str]]] | None = None,
) -> OpenRuns:
    """Rows for the runs that are out, and for those that a page has `shown` and that are out no longer.

    `typed` is what was typed for some, what is wrong with that, whether it is only a surprise, and what was chosen for
    levers that are left alone.
    """
    state, entered = view.state, typed or {}
    out = views.running(state)
    kept = [t for t in (*shown, *entered) if 0 <= t < state.trials.n_trials]
    listed = sorted({*out[:MOST_ROWS].tolist(), *kept[:MOST_KEPT]})
    closed = [t for t in listed if state.trials.state[t] == TrialState.COMPLETE]
    tellers = {t: short_name(who) for t, who in who_told(study, state, closed).items()} if closed else {}
    rows = []
    for trial in views.trials(state, listed):
        said = "" if trial.state is TrialState.RUNNING else became(trial, tellers.get(trial.number))
        rows.append(RunRow(trial, said, *entered.get(trial.number, ())))
    return OpenRuns(rows, len(out))


def became(trial: Trial, teller: str | None = None) -> str:
    """What became of a run that is out no longer."""
    match trial.state:
        case TrialState.COMPLETE:
            assert trial.value is not None  # of a complete trial
            return f"told by {teller}: {number(trial.value)}" if teller else f"told: {number(trial.value)}"
        case TrialState.FAIL:
            return "reported as failed; it will be asked for again"
        case TrialState.STALE:
            return "its time was over; it goes to whoever asks next"
        case TrialState.ABANDONED:
            return "not needed any more"
        case TrialState.EXCLUDED:
            return f"excluded: {number(trial.value)} does not count" if trial.value is not None else "excluded"
        case TrialState.RUNNING:
            return "out"
        case TrialState.WAITING:
            return "not handed out yet"


CHARTS = ("effects", "elimination", "forecast", "history", "evidence")
"""What is on the page from the start."""
CHECKS = ("residuals", "order", "additivity")
"""What is loaded when somebody scrolls there: it takes longer to work out."""
MOST_CORRECTIONS, MOST_TABLE_ROWS, MOST_SHOWN = 50, 2_000, 1_000

router = APIRouter(include_in_schema=False)


def opened(request: Request, name: str, role: str = "read") -> tuple[Study, StudyView]:
    """A study that whoever asks may see, and its view."""
    study = service_of(request).study(request, name_of(name), role)
    return study, view_cache_of(request).view(study)


def only_watches(request: Request) -> None:
    """Say that a page's script asks, not a person: a page that is left open does not keep its session alive."""
    request.scope["levers.state"]["only_watching"] = True


def view_cache_of(request: Request) -> ViewCache:
    """The views of the studies that were looked at last."""
    found = request.app.state.view_cache
    assert isinstance(found, ViewCache)  # add_pages made it
    return found


def context(view: StudyView) -> dict[str, Any]:
    """What every page of a study needs."""
    return {
        "name": view.name,
        "address": address(view.name),
        "seq": view.seq,
        "spec": view.state.spec,
        "headline": Headline.of(view),
        "doubts": doubts_of(view),
        "most_rows": MOST_TABLE_ROWS,
    }


@router.get("/studies/{name}")
def study_page(request: Request, name: str) -> Response:
    """The page of a study."""
    study, view = opened(request, name)
    return page(request, "study.html", wrong=(), **panels_of(view, open_runs(view, study)))


def refused(
    request: Request, study: Study, view: StudyView, error: LeversError, fields: Mapping[str, str] | None = None
) -> Response:
    """The page after a form that could not be taken; a script of the page is told in words instead."""
    if is_quiet(request):
        raise error
    shown = panels_of(view, open_runs(view, study), fields)
    return page(request, "study.html", status_of(error), wrong=lines_of(error), **shown)


def panels_of(view: StudyView, runs: OpenRuns, fields: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What the parts of the page show that change when the study does; `fields` are what was typed into a form."""
    return {
        "runs": runs,
        "charts": charts_of(view, CHARTS),
        "corrections": view.state.corrections[-MOST_CORRECTIONS:][::-1],
        "n_corrections": len(view.state.corrections),
        "exclusions": view.state.exclusions[-MOST_CORRECTIONS:][::-1],
        "n_exclusions": len(view.state.exclusions),
        "can_end": view.state.spec.solver.finishes_early,
        "fields": fields or {},
        **context(view),
    }


@router.get("/studies/{name}/panels")
def panels(request: Request, name: str, open: str = "") -> Response:  # noqa: A002
    """The parts of the page that change, as they are now. `open` lists the runs that the page shows as being out."""
    only_watches(request)
    study, view = opened(request, name)
    shown = [int(part) for part in open.split(",")[:MOST_SHOWN] if part.isascii() and part.isdigit() and len(part) < 16]
    return part(fragment(request, "panels.html", **panels_of(view, open_runs(view, study, shown))))


@router.get("/studies/{name}/checks")
def checks(request: Request, name: str, part_only: bool = False) -> Response:
    """Whether the outcomes look like what the certificate assumes; as a page of its own, or the part for the page."""
    if part_only:
        only_watches(request)
    _, view = opened(request, name)
    found = view.additivity
    shown = {"charts": charts_of(view, CHECKS), "doubt": found, "remedies": remedies(view.state, found)}
    given: dict[str, Any] = {**shown, "rows": check_rows(view), **context(view)}
    if part_only:
        return part(fragment(request, "parts/checks.html", **given))
    return page(request, "checks.html", **given)


def remedies(state: StudyState, found: "Additivity") -> list[tuple[str, str]]:
    """For each pair that seems to interact: its levers in words, and the query of the page that merges them."""
    from levers.studies.analysis.diagnostics import can_merge

    groups, suspects = state.spec.merging.groups, [pair for pair in found.suspects if can_merge(state, pair)]
    pairs = [(*groups[pair.first], *groups[pair.second]) for pair in suspects]
    names = [[state.spec.space.names[k] for k in pair] for pair in pairs]
    return [(" and ".join(group), urlencode([("factors", one) for one in group])) for group in names]


@router.get("/studies/{name}/stream")
async def stream(request: Request, name: str, since: int = 0) -> Response:
    """Server-sent events: `changed` when the study has changed since a place in its log."""
    only_watches(request)  # a browser connects again by itself
    service = service_of(request)
    study = await to_thread.run_sync(lambda: service.study(request, name_of(name), "read"))
    if service.stopping.is_set():
        raise RefusedError(503, "the service is stopping", retry_after=5)
    last = request.headers.get("last-event-id", "")  # sent by a browser that connects again
    seq = int(last) if last.isascii() and last.isdigit() and len(last) < 16 else since

    def still_allowed() -> None:
        request.scope["levers.state"].pop("access", None)  # ask the storage, not what it said when this began
        service.study(request, name_of(name), "read")

    events = request.app.state.live.follow(study.name, seq, still_allowed)
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
