"""Where a study stands, in a few words and one action."""

from dataclasses import dataclass

from levers.studies.views import Best, Status
from levers.studies.words import several
from levers.web.pages.words import count, number, percent
from levers.web.seen import Sight

BAR = 1000.0
"""Width of the bar of runs, in its own units."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Runs so far, likely to go, and to go in the worst case, as widths of a bar."""

    so_far: float
    likely: float
    worst: float
    words: str


@dataclass(frozen=True, slots=True)
class Headline:
    """What a page says first."""

    finished: bool
    word: str
    runs: str
    to_go: str
    action: str
    note: str | None
    lost: str
    status: Status
    best: Best | None
    within: str | None
    expected: str | None
    bar: Bar | None

    @classmethod
    def of(cls, sight: Sight) -> "Headline":
        """From the study's views."""
        seen = sight.look()
        status, best = seen.status, seen.best
        finished = sight.is_finished
        runs = several(status.n_complete, "run", "runs") + " so far"
        if finished:
            runs = several(status.n_complete, "run", "runs") + " made"
        if status.n_past:
            runs += f", and {several(status.n_past, 'imported one', 'imported ones')}"
        return cls(
            finished,
            "Stop: there is a verdict" if finished else "Go on",
            runs,
            _to_go(status, finished),
            _action(status, finished),
            status.note,
            _lost(status),
            status,
            best,
            _within(sight, best),
            _expected(best),
            _bar(status),
        )


def _to_go(status: Status, finished: bool) -> str:
    to_go = status.to_go
    if finished:
        return "no runs to go"
    if to_go.worst_case is None:
        return f"{count(to_go.now)} to go in this block, then more"
    if to_go.likely is None:
        return f"at most {count(to_go.worst_case)} to go, {count(to_go.now)} in this block"
    if to_go.now >= to_go.worst_case:
        return f"{count(to_go.now)} to go, all in this block"
    if to_go.likely >= to_go.worst_case:
        return f"{count(to_go.likely)} to go, {count(to_go.now)} in this block"
    return (
        f"about {count(to_go.likely)} to go, {count(to_go.worst_case)} in the worst case; "
        f"{count(to_go.now)} in this block"
    )


def _action(status: Status, finished: bool) -> str:
    if finished:
        return "Read the verdict, and set the levers as it says."
    if status.n_running:
        ready = "Enter the outcome of the run that is out"
        if status.n_running > 1:
            ready = f"Enter the outcomes of the {count(status.n_running)} runs that are out"
        return f"{ready}, or ask for more." if status.n_waiting else f"{ready}: what comes next depends on them."
    return f"Ask for runs, make them in the order given, and enter their outcomes. {count(status.n_waiting)} are ready."


def _lost(status: Status) -> str:
    parts = [f"{count(n)} {word}" for n, word in ((status.n_failed, "failed"), (status.n_stale, "stale")) if n]
    return f"{' and '.join(parts)}; these runs are asked for again" if parts else ""


def _within(sight: Sight, best: Best | None) -> str | None:
    if best is None or best.within is None:
        return None
    sure = percent(1 - sight.state.spec.failure_prob)
    when = "" if sight.is_finished else ", at whatever time you look"
    return f"within {number(best.within)} of the best with probability {sure}{when}"


def _expected(best: Best | None) -> str | None:
    if best is None or best.predicted is None:
        return None
    return f"{number(best.predicted)} ({number(best.low)} to {number(best.high)})"


def _bar(status: Status) -> Bar | None:
    done, to_go = status.n_complete, status.to_go
    most = to_go.worst_case if to_go.worst_case is not None else to_go.now
    if done + most == 0:
        return None
    likely = to_go.likely if to_go.likely is not None else to_go.now
    unit = BAR / (done + max(most, likely))
    words = f"{count(done)} runs made, about {count(likely)} to go, {count(most)} in the worst case"
    return Bar(done * unit, likely * unit, max(most, likely) * unit, words)
