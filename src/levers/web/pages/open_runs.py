"""The runs that are out, as rows of a form; rows that were typed into are never thrown away."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from levers.core.space import Level
from levers.studies import views
from levers.studies.events import numbers
from levers.studies.sheet_runs import block_numbers
from levers.studies.study import Study
from levers.studies.trials import Trial, TrialState
from levers.web.pages.words import number
from levers.web.seen import Sight, who_told

MOST_ROWS = 100
"""Runs that a page lists; a sheet has them all."""
MOST_KEPT = 1_000
"""Rows that a page has shown and is told about, also when they are out no longer."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run: what to set, what was typed, what became of it."""

    trial: int
    block: int
    params: tuple[tuple[str, Level], ...]
    worker: str
    asked_at: float | None
    is_open: bool
    became: str = ""
    typed: str = ""
    problem: str = ""
    may_correct: bool = False
    is_told: bool = False


@dataclass(frozen=True, slots=True)
class OpenRuns:
    """The rows that a page has, and how many more are out."""

    rows: list[RunRow]
    n_open: int
    n_waiting: int
    names: tuple[str, ...]

    @property
    def n_more(self) -> int:
        """Runs that are out and not listed."""
        return max(self.n_open - sum(row.is_open for row in self.rows), 0)


def open_runs(
    sight: Sight,
    study: Study,
    shown: Iterable[int] = (),
    typed: Mapping[int, str] | None = None,
    problems: Mapping[int, str] | None = None,
) -> OpenRuns:
    """Rows for the runs that are out, and for those that a page has `shown` and that are out no longer."""
    state, wanted, wrong = sight.state, dict(typed or {}), dict(problems or {})
    out = views.running(state)
    kept = [t for t in (*shown, *wanted, *wrong) if 0 <= t < state.trials.n_trials]
    listed = sorted({*out[:MOST_ROWS].tolist(), *kept[:MOST_KEPT]})
    blocks = block_numbers(state, numbers(listed))
    closed = [t for t in listed if state.trials.state[t] == TrialState.COMPLETE]
    tellers = who_told(study, state, closed) if closed else {}
    rows = [
        _row(views.trial(state, t), int(b), tellers.get(t), wanted.get(t, ""), wrong.get(t, ""))
        for t, b in zip(listed, blocks.tolist(), strict=True)
    ]
    waiting = sight.views.status.n_waiting
    return OpenRuns(rows, len(out), waiting, state.spec.space.names)


def _row(trial: Trial, block: int, teller: str | None, typed: str, problem: str) -> RunRow:
    is_open = trial.state is TrialState.RUNNING
    return RunRow(
        trial.number,
        block,
        tuple(trial.params.items()),
        trial.worker or "",
        trial.asked_at,
        is_open,
        "" if is_open else became(trial, teller),
        typed,
        problem,
        trial.state is TrialState.COMPLETE and bool(typed),
        trial.state is TrialState.COMPLETE,
    )


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
        case TrialState.RUNNING:
            return "out"
        case TrialState.WAITING:
            return "not handed out yet"
