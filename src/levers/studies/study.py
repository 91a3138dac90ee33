"""A study: ask for runs, tell their outcomes, get the verdict. Everything is kept before it is acted on."""

import copy
import hashlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import CHUNK, Verdict
from levers.core.space import Assignment, Codes, Level, Space
from levers.core.validation import MAX_NAME, check_count, check_positive, check_text
from levers.errors import (
    InvalidSettingError,
    LateOutcomeError,
    NotFinishedError,
    ObservedLevelError,
    RepeatedKeyError,
    StorageError,
    StudyError,
    SurprisingOutcomesError,
    TrialError,
    surprising,
)
from levers.progress import progress_bar
from levers.studies.analysis import views
from levers.studies.events import (
    Asked,
    Checked,
    ConfirmationClosed,
    Corrected,
    Excluded,
    Expired,
    Failed,
    Imported,
    Numbers,
    Renewed,
    Told,
    Values,
    numbers,
)
from levers.studies.log import StudyLog, Transaction
from levers.studies.outcomes import (
    Accepted,
    Observed,
    Surprise,
    check_correctable,
    check_running,
    check_settings,
    check_told,
    corrected_levels,
    forbidden_rows,
    new_outcomes,
    off_scale,
    past_runs,
    still_running,
    taken_levels,
    whole_numbers,
)
from levers.studies.run import AnyStudy, ByTrial, LogEntry, Outcomes, observed_levels, outcome_pairs, trial_number
from levers.studies.space_text import tolerance_amount
from levers.studies.spec import StudySpec, restated_spec
from levers.studies.state import Correction, Exclusion, StudyState, Trial
from levers.studies.storage.base import Storage
from levers.studies.storage.memory import MemoryStorage
from levers.studies.transitions import (
    after_revision,
    confirming,
    continuing,
    expired_trials,
    finishing,
    following_events,
    is_check_due,
    next_trials,
    restating,
    revision,
)
from levers.studies.workers.names import login_name as login_name

if TYPE_CHECKING:
    import polars

    from levers.studies.analysis.expectation import Outlook
    from levers.studies.analysis.verification import StudyVerification
    from levers.studies.sheets.runs import SheetReport

    FileName = str | os.PathLike[str]

T = TypeVar("T")
DRAFTS = 3
"""How often something that takes long is worked out without the lock before it is done with it."""
PATIENCE, PAUSE = 2.0, 0.02
"""Seconds for which a decision is left to whoever told the last outcome, if that was another process, and between looks
at whether it is there: designing the same round in many processes at once would only make each of them slower."""

QUICK_SECONDS, QUICK_TRIALS = 0.6, 5_000
"""What a study is estimated to cost, start included, and its trials, up to which what follows from a round is worked
out with the lock, in about a tenth of a second. Else every process of a fleet that waits for it may work it out."""


@dataclass(frozen=True, slots=True)
class TakenPast:
    """How many past runs came in, and which of their outcomes are a surprise."""

    n_imported: int
    flags: tuple[Surprise, ...]


MAX_KEY = 200
"""How long a key may be."""


class NoOutcomeWarning(UserWarning):
    """An outcome was NaN: the run counts as failed and is asked for again."""


class SurprisingOutcomeWarning(UserWarning):
    """Outcomes were stored that are far from what the study's runs lead one to expect; `flags` has them as data."""

    def __init__(self, flags: Sequence[Surprise]) -> None:
        super().__init__(f"{surprising(flags)}; stored as told, `correct` mends what was mistyped")
        self.flags = tuple(flags)


def callers_level() -> int:
    """The `stacklevel` at which a warning of whoever calls this names the line outside of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "levers":
        level, frame = level + 1, frame.f_back
    return level


def no_outcomes(n: int) -> str:
    """What a `NoOutcomeWarning` says."""
    from levers.studies.analysis.describe import several

    return several(
        n,
        "outcome was NaN; this run counts as failed and is asked for again",
        "outcomes were NaN; these runs count as failed and are asked for again",
    )


class Study(AnyStudy):
    """A study in a storage. Any number of processes may hold the same one.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"], "time": [10, 20]}, tolerance=1.0, noise_sd=1.0)
    >>> trial = study.ask()[0]
    >>> sorted(trial.params), trial.state.name
    (['heat', 'time'], 'RUNNING')
    >>> study.tell(trial, 3.5)
    >>> study.status().n_complete
    1
    """

    warns = True
    """Whether an outcome that is NaN, or a surprise, warns whoever calls. A service has nobody to warn."""

    def __init__(
        self, name: str, storage: Storage, study: int, *, who: str | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.name = name
        self.storage = storage
        self.who = check_text("who", who, MAX_NAME) if who is not None else login_name()
        self.id = study
        self._log = StudyLog(storage, study, clock)
        self._lock = threading.RLock()
        self._deciding = threading.Lock()
        self._outlook: list[Outlook] = []  # shared by all that follow the log together

    def __repr__(self) -> str:
        return f"Study({self.name!r}, {self.storage.url!r})"

    @property
    def address(self) -> str | None:
        """Where it is kept, without any password, the same from whatever folder; None in memory."""
        file = self.storage.url.removeprefix("sqlite:///")
        if file != self.storage.url:
            return f"sqlite:///{os.path.abspath(file)}"
        return None if isinstance(self.storage, MemoryStorage) else self.storage.url

    @property
    def state(self) -> StudyState:
        """The state as of now: read it, do not change it. Other threads do; `frozen` gives a copy."""
        with self._lock:
            return self._log.current()

    def frozen(self) -> StudyState:
        """A copy of the state as of now, for looking at it at length while other threads go on."""
        with self._lock:
            return self._log.current().copy()

    @property
    def spec(self) -> StudySpec:
        """What is asked for."""
        return self.state.spec

    @property
    def space(self) -> Space:
        """The levers. Terms may change, and they do not: the log is not read again for them."""
        with self._lock:
            return self._log.folded.spec.space

    @property
    def is_finished(self) -> bool:
        """Whether there is a verdict, and no run is awaited."""
        return self.state.awaited_block is None

    @property
    def is_held(self) -> bool:
        """Whether it has come to its end on outcomes that contradict what the verdict rests on; see `verdict().doubts`.

        Then somebody has to say how it goes on: `correct`, `exclude`, `restate`, `go_on` or `finish`.
        """
        return self.state.is_held

    @property
    def n_running(self) -> int:
        """How many trials were handed out and not told."""
        with self._lock:
            return len(views.running(self.state))

    @property
    def n_free(self) -> int | None:
        """How many runs wait to be handed out, as of the last look; None before the first, and at the end.

        It neither looks again nor waits for whoever changes the study.
        """
        state = self._log.last_seen
        return None if state is None else state.n_free

    def shares_log_with(self, other: "Study") -> bool:
        """Whether two handles follow the log together, so that one can join the other's transaction."""
        return self._log is other._log

    def trial(self, number: int) -> Trial:
        """One trial."""
        with self._lock:
            return views.trial(self.state, number)

    def running(self, worker: str | None = None) -> list[Trial]:
        """The trials that were handed out and not told, all of them or one worker's."""
        with self._lock:
            state = self.state
            return [t for t in views.trials(state, views.running(state)) if worker is None or t.worker == worker]

    def status(self) -> views.Status:
        """Where the study stands."""
        with self._lock:
            return views.status(self.name, self.state)

    def effects(self) -> views.Effects:
        """What each level loses against the leading one, with intervals that all hold at once."""
        with self._lock:
            return views.effects(self.state)

    def part_effects(self) -> views.Effects:
        """What each level of levers that are tied together loses by itself, where their effects add up; else nothing.

        These are ordinary estimates with ordinary intervals; what is chosen and promised is of the combinations.
        """
        with self._lock:
            return views.part_effects(self.state)

    def forecast(self) -> views.Forecast:
        """How many runs are still to go."""
        with self._lock:
            return views.forecast(self.state)

    def best(self) -> views.Best | None:
        """The setting that the estimates favour, and how far it may be from the best; None before any decision."""
        with self._lock:
            return views.best(self.state)

    def verdict(self) -> Verdict:
        """The verdict of a finished study."""
        with self._lock:
            found = views.verdict(self.state)
        if found is None:
            if self.state.is_undecided:
                raise NotFinishedError("the last round is complete, and what follows is not decided yet; `ask` decides")
            to_go = self.forecast()
            raise NotFinishedError(f"the study is not finished: {to_go}; `status` says where it stands")
        return found

    def corrections(self) -> list[Correction]:
        """Outcomes that were corrected, oldest first."""
        with self._lock:
            return list(self.state.corrections)

    def exclusions(self) -> list[Exclusion]:
        """Outcomes that do not count, oldest first."""
        with self._lock:
            return list(self.state.exclusions)

    def log(self) -> list[LogEntry]:
        """Everything that happened, oldest first."""
        return self.log_page(0)

    def log_page(self, after: int, n: int | None = None) -> list[LogEntry]:
        """Some of the log: at most n events, from the one after a place on."""
        from levers.studies.analysis.describe import words

        stored = self.storage.read(self.id, after)[:n]
        return [LogEntry(one.seq, one.at, one.who, words(one.record().event)) for one in stored]

    def _verify(self, head: str | None, seconds: float, progress: bool | None) -> "StudyVerification":
        from levers.studies.analysis.verification import read_log, verify_log

        header, stored = read_log(self.storage, self.id)
        snapshot = self.storage.snapshot(self.id)
        if snapshot is not None and snapshot.seq > header.n_events:  # made by somebody who went on meanwhile
            header, stored = read_log(self.storage, self.id)
        with progress_bar(f"{self.name} events", len(stored), shown=progress) as advance:
            return verify_log(header, stored, snapshot, head=head, seconds=seconds, advance=advance)

    def export(self, path: "FileName") -> None:
        """Write all trials that were handed out (.csv, .tsv, .xlsx, .parquet), or the verdict (.json) to a file."""
        from levers.studies.analysis.tables import export_study

        export_study(self, path)

    def trials_dataframe(self, *, pandas: bool = False) -> "polars.DataFrame | Any":
        """One row per trial, with a column for each factor. With `pandas`, as a pandas frame."""
        from levers.studies.analysis.tables import as_pandas, trials_frame

        frame = trials_frame(self.frozen())
        return as_pandas(frame) if pandas else frame

    def ask(self, n: int = 1, *, worker: str | None = None, lease: float | None = None) -> list[Trial]:
        """Up to n runs to make. Fewer, or none, when the rest of the round is with others or the study is finished.

        With a `lease` in seconds, trials that were not told by then go to whoever asks next.
        """

        def hand_out(transaction: Transaction) -> list[Trial]:
            return list(views.trials(transaction.state, self._hand_out(transaction, n, worker, lease)))

        return self._once_decided(hand_out, n, worker, lease)

    def ask_numbers(self, n: int = 1, *, worker: str | None = None, lease: float | None = None) -> Numbers:
        """Like `ask`, but only the trials' numbers: for very many at a time."""
        return self._once_decided(lambda transaction: self._hand_out(transaction, n, worker, lease), n, worker, lease)

    def _hand_out(self, transaction: Transaction, n: int, worker: str | None, lease: float | None) -> Numbers:
        late = expired_trials(transaction.state, transaction.now)
        if late.size:
            transaction.write(Expired(late))
        due = next_trials(transaction.state, n)
        if due.size:
            transaction.write(Asked(due, worker or self.who, None if lease is None else transaction.now + lease))
        return due

    def _once_decided(self, act: Callable[[Transaction], T], n: int, worker: str | None, lease: float | None) -> T:
        """Ask for n runs of the round that follows: it may still have to be designed.

        Also those who are likely to get nothing wait for the lock. If they only looked, they would look again and
        again, and take the processor from those who have something to tell (decision 0046).
        """
        check_count("n", n)
        if worker is not None:
            check_text("worker", worker, MAX_NAME)
        if lease is not None:
            check_positive("lease", lease)
        while True:
            try:
                with self.writing(defers=not self._decides_quickly) as transaction:
                    decide(transaction)
                    return act(transaction)
            except UndecidedError:
                if self._log.is_mine:  # for whoever opened the transaction to do it again
                    raise
                self.decide(patient=True)

    def renew(self, trials: Iterable[Trial | int], *, lease: float) -> list[int]:
        """Keep trials that are still being run for `lease` seconds more; returns the numbers of those that are kept.

        The others are not yours any more: told, given up, or out for longer than their lease and so with somebody else.

        >>> import levers
        >>> study = levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0)
        >>> study.renew(study.ask(2, lease=60), lease=60)
        [0, 1]
        """
        wanted, seconds = [trial_number(trial) for trial in trials], check_positive("lease", lease)
        with self.writing() as transaction:
            held = still_running(transaction.state, wanted)
            if held.size:
                transaction.write(Renewed(held, transaction.now + seconds))
            return [int(number) for number in held]

    def tell_many(self, outcomes: Outcomes, *, observed: ByTrial | None = None, insist: bool = True) -> int:
        """Many outcomes at once, all or none of them; returns how many were new.

        `observed` has, for each trial that left levers alone (`trial.params.free`), the level that each of them took.

        Outcomes far from what the runs so far lead one to expect are stored with a `SurprisingOutcomeWarning`; without
        `insist` they are refused, as a `SurprisingOutcomesError`, and nothing is stored.
        """
        given = list(outcomes.items() if isinstance(outcomes, Mapping) else outcomes)
        told = outcome_pairs(given)
        levels = observed_levels(observed)
        asked = {trial.number: trial.params for trial, _ in given if isinstance(trial, Trial)}
        values = [v for _, v in told]
        return len(self.accept([t for t, _ in told], values, observed=levels, insist=insist, asked=asked).trials)

    def tell_arrays(
        self, trials: ArrayLike, values: ArrayLike, *, observed: Observed | None = None, insist: bool = True
    ) -> int:
        """Like `tell_many`, from an array of trial numbers and one of outcomes."""
        return len(self.accept(trials, values, observed=observed, insist=insist).trials)

    def accept(
        self,
        trials: ArrayLike,
        values: ArrayLike,
        *,
        observed: Observed | None = None,
        insist: bool = True,
        asked: Mapping[int, Assignment] | None = None,
    ) -> Accepted:
        """Like `tell_arrays`; returns what was new. `asked` is what trials set, as far as whoever tells knows it."""
        which, y = whole_numbers(trials), np.atleast_1d(np.asarray(values, dtype=np.float64))
        if which.shape != y.shape or which.ndim != 1:
            raise TrialError(f"{which.size} trials and {y.size} outcomes came; give one outcome for each trial")
        with self.writing() as transaction:
            taken = taken_levels(transaction.state.spec.space, which.tolist(), observed)
            accepted = new_outcomes(transaction.state, which, y, taken)
            problems = accepted.problems + accepted.late
            if problems:
                more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
                kind: type[TrialError] = ObservedLevelError if problems[0][0] in accepted.unobserved else TrialError
                kind = kind if accepted.problems else LateOutcomeError
                raise kind(f"{problems[0][1]}{more}; nothing was stored")
            check_settings(transaction.state, accepted.trials, asked or {})
            flags = self.surprises(transaction.state, accepted.trials, accepted.values)
            if flags and not insist:
                raise SurprisingOutcomesError.of(flags)
            self.take(transaction, accepted.trials, accepted.values, accepted.observed)
        self.warn_of(flags)
        return replace(accepted, flags=flags)

    def surprises(self, state: StudyState, trials: Numbers, values: Values) -> tuple[Surprise, ...]:
        """Which new outcomes are far from what the runs so far lead one to expect."""
        from levers.studies.analysis.expectation import Outlook, are_few, surprises

        if not are_few(state, len(trials)):
            return surprises(state, trials, values)
        if not self._outlook or not self._outlook[0].serves(state):
            self._outlook[:] = [Outlook.of(state)]
        return surprises(state, trials, values, self._outlook[0])

    def warn_of(self, flags: Sequence[Surprise]) -> None:
        """Warn whoever calls of outcomes that were stored."""
        if flags and self.warns:
            warnings.warn(SurprisingOutcomeWarning(flags), stacklevel=callers_level())

    def take(self, transaction: Transaction, trials: Numbers, values: Values, observed: Codes | None = None) -> None:
        """Store outcomes that were checked, with the levels of levers that were left alone.

        What follows from a round that is complete now is decided after they are kept.
        """
        without = np.isnan(values)
        told, y = trials[~without], values[~without]
        levels = None if observed is None else observed[~without]
        for begin in range(0, len(told), CHUNK):
            part = slice(begin, begin + CHUNK)
            transaction.write(Told(told[part], y[part], None if levels is None else levels[part]))
        if without.any():
            check_running(transaction.state, trials[without].tolist())
            transaction.write(Failed(trials[without], "the outcome was not a number"))
            if self.warns:
                warnings.warn(no_outcomes(int(without.sum())), NoOutcomeWarning, stacklevel=callers_level())

    def ask_sheet(
        self, path: "FileName", n: int | None = None, *, worker: str | None = None, lease: float | None = None
    ) -> int:
        """Write runs to make into a run sheet (.csv, .tsv, .xlsx); returns how many, and none write no file.

        Without n, as many as the study's block size. A file is written over only if it is a sheet of this study, and
        has no outcome that was not told.
        """
        from levers.studies.sheets.runs import check_target, write_asked

        check_target(self, path)
        wanted = n if n is not None else self.spec.block_size or 1
        return write_asked(self, self.ask_numbers(wanted, worker=worker, lease=lease), path)

    def open_sheet(self, path: "FileName", n: int | None = None, *, worker: str | None = None) -> int:
        """Write the runs that are out into a run sheet once more; returns how many."""
        from levers.studies.sheets.runs import check_target, write_asked

        check_target(self, path)
        return write_asked(self, numbers([trial.number for trial in self.running(worker)][:n]), path)

    def tell_sheet(self, path: "FileName", *, insist: bool = True) -> "SheetReport":
        """The outcomes of a filled-in run sheet (.csv, .tsv, .xlsx), all or none; see docs/studies.

        Surprising outcomes are stored with a warning or, without `insist`, refused with the whole sheet.
        """
        from levers.studies.sheets.runs import tell_sheet

        report = tell_sheet(self, path, insist=insist)
        self.warn_of(report.flags)
        return report

    def correct_sheet(self, path: "FileName", reason: str) -> list[Correction]:
        """Correct the outcomes that are another in a sheet than was told."""
        from levers.studies.sheets.runs import correct_sheet

        return correct_sheet(self, path, reason)

    def import_sheet(self, path: "FileName", note: str, *, insist: bool = True) -> int:
        """Take in past runs that the study did not ask for: a column for each factor, and `outcome`."""
        from levers.studies.sheets.runs import import_sheet

        taken = import_sheet(self, path, note, insist=insist)
        self.warn_of(taken.flags)
        return taken.n_imported

    def fail(self, trial: Trial | int, reason: str = "") -> None:
        """A run that gave no outcome; its row of the design is asked for again."""
        check_text("reason", reason)
        with self.writing() as transaction:
            check_running(transaction.state, [trial_number(trial)])
            transaction.write(Failed(numbers(trial_number(trial)), reason))

    def _correct(self, wanted: list[tuple[int, float]], reason: str, observed: ByTrial | None) -> list[Correction]:
        return self.apart(lambda: self._correct_under_lock(wanted, reason, observed))

    def _correct_under_lock(
        self, wanted: list[tuple[int, float]], reason: str, observed: ByTrial | None
    ) -> list[Correction]:
        with self.writing() as transaction:
            decide(transaction)
            taken = taken_levels(self.space, [number for number, _ in wanted], observed_levels(observed))
            for i, (number, value) in enumerate(wanted):
                levels = corrected_levels(transaction.state, number, None if taken is None else taken[i])
                before = check_correctable(transaction.state, number, value, same=levels is not None)
                transaction.write(Corrected(number, before, value, reason, levels))
            self._decide_again(transaction, [number for number, _ in wanted])
            return transaction.state.corrections[-len(wanted) :]

    def _exclude(self, wanted: list[int], reason: str) -> list[Exclusion]:
        return self.apart(lambda: self._exclude_under_lock(wanted, reason))

    def _exclude_under_lock(self, wanted: list[int], reason: str) -> list[Exclusion]:
        with self.writing() as transaction:
            decide(transaction)
            for number in wanted:
                transaction.write(Excluded(number, check_told(transaction.state, number), reason))
            self._decide_again(transaction, wanted)
            return transaction.state.exclusions[-len(wanted) :]

    def finish(self, reason: str = "") -> Verdict:
        """End the study now: its verdict, with what is certified by the runs made so far.

        Runs that are out are given up. A study that is in doubt is finished with its doubts. `go_on` takes it back.
        A confirmation under way is ended by it, and answered by the fresh runs that have come in.
        """
        check_text("reason", reason)
        self.apart(lambda: self._finish(reason))
        return self.verdict()

    def _finish(self, reason: str) -> None:
        with self.writing() as transaction:
            decide(transaction)
            state = transaction.state
            if state.confirming_block is not None:
                transaction.write(ConfirmationClosed(reason))
                check(transaction)
                return
            if state.ended is not None or (state.open_block is None and not state.is_held):
                raise StudyError("the study is finished already; `verdict` has its answer")
            if state.open_block is not None and not state.spec.solver.finishes_early:
                raise StudyError(f"{state.spec.algorithm} cannot stop before its end; cfs can")
            if not state.n_complete:
                raise StudyError("there is no outcome yet, so there is nothing to answer by; tell some first")
            transaction.write(finishing(state, reason))
            check(transaction)

    def go_on(self, n_runs: int | None = None, reason: str = "") -> None:
        """More runs after the end: so many, or as many as the algorithm likes. What is certified afterwards says so."""
        if n_runs is not None:
            check_count("n_runs", n_runs)
        check_text("reason", reason)
        self.apart(lambda: self._go_on(n_runs, reason))

    def _go_on(self, n_runs: int | None, reason: str) -> None:
        with self.writing() as transaction:
            decide(transaction)
            state = transaction.state
            check_not_confirming(state)
            if state.open_block is not None:
                raise StudyError("the study is not at its end; `ask` hands out the next runs")
            if not state.spec.solver.finishes_early:
                raise StudyError(f"{state.spec.algorithm} cannot go on after its end; cfs can")
            transaction.write(*continuing(state, n_runs, reason))

    def _confirm(self, n_runs: int, reason: str) -> None:
        check_text("reason", reason)
        self.apart(lambda: self._confirm_under_lock(n_runs, reason))

    def _confirm_under_lock(self, n_runs: int, reason: str) -> None:
        with self.writing() as transaction:
            decide(transaction)
            state = transaction.state
            check_not_confirming(state)
            if state.open_block is not None:
                to_go = views.forecast(state)
                raise NotFinishedError(f"there is no verdict to confirm yet: {to_go}; `finish` ends it now")
            transaction.write(confirming(state, n_runs, reason))

    def restate(self, *, reason: str = "", **terms: Any) -> tuple[str, ...]:
        """Change what is asked for, or known, under way; returns what changed, in words.

        `tolerance` or `budget` take the place of whichever there was; `noise_sd` (None: not known), `max_runs`, `aim`,
        `max_parents`, `min_effect` (None: no longer claimed). All runs so far are taken in under the new terms.
        """
        check_text("reason", reason)
        return self.apart(lambda: self._restate(reason, dict(terms)))

    def _restate(self, reason: str, terms: dict[str, Any]) -> tuple[str, ...]:
        with self.writing() as transaction:
            decide(transaction)
            state = transaction.state
            if not (state.spec.solver.finishes_early and state.spec.solver.absorbs_runs):
                raise StudyError(f"{state.spec.algorithm} cannot go on under other terms; cfs can")
            check_not_confirming(state)
            if "tolerance" in terms:
                spec = state.spec
                terms["tolerance"] = tolerance_amount(terms["tolerance"], spec.baseline_outcome, spec.scale)
            spec, changes = restated_spec(state.spec, terms)
            if not changes:
                raise StudyError("these are the terms of the study already; nothing was changed")
            budget = dict(spec.options).get("budget")
            if "budget" in terms and budget is not None and budget < state.n_complete:
                raise StudyError(f"{state.n_complete} runs were made already; give a budget above that, or finish")
            transaction.write(*restating(state, spec, changes, reason))
            check(transaction, again=True)
            return changes

    def _decide_again(self, transaction: Transaction, changed: Sequence[int]) -> None:
        """Take the decisions again that rested on some trials, and check what is decided now."""
        revised = revision(transaction.state, changed)
        if revised is not None:
            transaction.write(revised)
            transaction.write(*after_revision(transaction.state))
        transaction.write(*following_events(transaction.state))
        check(transaction, again=revised is not None)

    def import_runs(
        self, rows: Sequence[Mapping[str, Level]], values: Sequence[float], note: str, *, insist: bool = True
    ) -> int:
        """Runs that were made before or beside the study; they count from the next decision on.

        They must have been set, not only watched, with the same noise, and not be chosen for their outcomes: the
        verdict says that the guarantee rests on that. Surprising outcomes are treated as `tell_many` does.
        """
        space = self.space
        codes = np.array([space.encode(row).codes for row in rows], dtype=np.int16)
        return self.import_arrays(codes.reshape(-1, space.n_factors), values, note, insist=insist)

    def import_arrays(self, codes: ArrayLike, values: ArrayLike, note: str, *, insist: bool = True) -> int:
        """Like `import_runs`, from level positions of all factors."""
        taken = self.take_past(codes, values, note, insist=insist)
        self.warn_of(taken.flags)
        return taken.n_imported

    def take_past(
        self, codes: ArrayLike, values: ArrayLike, note: str, *, insist: bool = True, lines: Sequence[int] | None = None
    ) -> TakenPast:
        """Like `import_arrays`; returns what was surprising too. `lines` are the rows of the sheet they come from."""
        from levers.studies.analysis.expectation import past_surprises

        check_text("note", note)
        rows, y = past_runs(self.space, codes, values)
        with self.writing() as transaction:
            spec = transaction.state.spec
            if not spec.solver.absorbs_runs:
                raise StudyError(f"{spec.algorithm} cannot use runs that it did not ask for; cfs can")
            for i, why in off_scale(spec.outcome_scale, y):
                where = f"outcome {i + 1} of {len(y)}" if lines is None else f"the outcome in row {lines[i]}"
                raise TrialError(f"{where} is {y[i]:g}; {why}; nothing was stored")
            if transaction.state.open_block is None:
                raise StudyError("the study is finished; past data can only enter before the verdict")
            for i, why in forbidden_rows(spec, rows):
                where = f"run {i + 1} of {len(y)}" if lines is None else f"row {lines[i]}"
                raise StudyError(f"{where} cannot have been made: {why}; nothing was stored")
            if any(np.array_equal(p.codes, rows) and np.array_equal(p.values, y) for p in transaction.state.past):
                raise StudyError("these very runs were imported before; counting them twice would void the guarantee")
            flags = past_surprises(transaction.state, rows, y, lines)
            if flags and not insist:
                raise SurprisingOutcomesError.of(flags)
            transaction.write(Imported(rows, y, note))
        return TakenPast(len(y), flags)

    def once(self, key: str, request: str, act: Callable[[], str]) -> str:
        """Do something once, however often it is asked for with the same key.

        What `act` returns is kept in the same transaction as what it did, and returned again to whoever comes with the
        key later: for callers who cannot know whether their first request arrived. `request` says what was asked.
        """
        check_key(key)
        digest = hashlib.sha256(request.encode()).hexdigest()
        while True:
            waits = True
            try:
                with self.writing(defers=True) as transaction:
                    waits = transaction.state.is_undecided
                    found = transaction.answer(key)
                    if found is None:
                        answer = act()
                        transaction.keep_answer(key, digest, answer)
                        return answer
                break
            except UndecidedError:
                if self._log.is_mine:
                    raise
                if not waits:  # it completed the round itself, which is taken back with it: both are worked out at once
                    return self.apart(lambda: self.once(key, request, act))
                self.decide(patient=True)
        if found.request != digest:
            raise RepeatedKeyError(f"the key {key!r} was used for another request; take a new key for each")
        return found.answer

    def by(self, who: str) -> "Study":
        """The same study, with another name for the log."""
        twin = copy.copy(self)
        twin.who = check_text("who", who, MAX_NAME)
        return twin

    @contextmanager
    def writing(self, *, defers: bool = False, decides: bool = True) -> Iterator[Transaction]:
        """The end of the log, locked, for a change that is made in one piece. Inside, other verbs join it.

        If a round is complete when it ends, what follows is decided afterwards, without the lock, unless the caller
        does (`decides=False`). Inside, what needs that decision takes it with the lock; with `defers` it raises an
        UndecidedError, for the caller to decide first and do it again.
        """
        if self._log.is_mine:
            with self._log.writing(self.who) as transaction:
                yield transaction
            return
        with self._lock, self._log.writing(self.who) as transaction:
            transaction.defers, was_undecided = defers, transaction.state.is_undecided
            yield transaction
            is_complete = transaction.state.is_undecided and not was_undecided
            if is_complete:
                self._log.completed_at = transaction.state.seq
        if is_complete and decides:
            self.decide_quietly()

    def decide(self, *, patient: bool = False) -> None:
        """Take the decision that a complete round waits for, if it does.

        It is worked out without the lock, and kept if nothing else happened meanwhile: others go on, in this study and
        all others. The `patient` leave it for a moment to another process that told the last outcome. What is worked
        out in no time is worked out with the lock, so that not every process of a fleet does it.
        """
        if self._decides_quickly:
            self._decide()
            return
        with self._deciding:  # other threads of this process wait for it
            began = time.monotonic()
            while True:
                with self._lock:
                    state = self._log.current()
                    if not state.is_undecided:
                        return
                    is_ours = self._log.completed_at == state.seq
                    age = self._log.clock() - state.updated_at
                waited = time.monotonic() - began
                if patient and not is_ours and 0 <= age < PATIENCE and waited < PATIENCE:
                    time.sleep(PAUSE)
                    continue
                self.apart(self._decide)

    def decide_quietly(self) -> None:
        """Like `decide`, after outcomes were kept: if the storage is away now, whoever asks next decides."""
        with suppress(StorageError):
            self.decide()

    @property
    def _decides_quickly(self) -> bool:
        """Whether the next round is designed, and what came of the last one checked, in a small part of a second."""
        state = self._log.last_seen
        if state is None or not state.known or state.trials.n_trials > QUICK_TRIALS:
            return False
        return state.spec.solver.cost.seconds <= QUICK_SECONDS

    def _decide(self) -> None:
        with self.writing(decides=False) as transaction:
            decide(transaction)

    def apart(self, act: Callable[[], T]) -> T:
        """Make a change that may take long to work out: without the lock, and kept if nothing else happened meanwhile.

        If something did, it is worked out again; after a few times with the lock, so that it comes to an end.
        """
        if self._log.is_mine:
            return act()
        for _ in range(DRAFTS):
            with self._lock:
                draft = self._log.new_draft(self.who)
            with self._log.working_on(draft):
                answer = act()
            with self._lock:
                if self._log.keep(draft, self.who):
                    return answer
        with self.writing() as transaction:
            transaction.take_long()
            return act()


class UndecidedError(StudyError):
    """The last round is complete, and what follows has to be decided first."""


def decide(transaction: Transaction) -> None:
    """What follows from a complete round, in the transaction itself unless that has to wait."""
    if not transaction.state.is_undecided:
        return
    if transaction.defers:
        raise UndecidedError("the last round is complete, and the next one is being designed; try again")
    transaction.write(*following_events(transaction.state))
    check(transaction)


def check_not_confirming(state: StudyState) -> None:
    """Refuse what has to wait until fresh runs have confirmed the verdict, or not."""
    if state.confirming_block is not None:
        raise StudyError(
            "fresh runs that confirm the verdict are under way; `tell` them, or `finish` to do without the rest"
        )


def check(transaction: Transaction, again: bool = False) -> None:
    """Keep what the checks say of what was just decided, if they are due, or `again` if decisions were taken again."""
    from levers.studies.analysis.doubts import doubts

    state = transaction.state
    if is_check_due(state) or (again and state.doubts is not None):
        transaction.write(Checked(doubts(state), state.n_closed))


def check_key(key: str) -> str:
    """A key that can be kept.

    >>> check_key("9b2f")
    '9b2f'
    """
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise InvalidSettingError(f"a key is a text of 1 to {MAX_KEY} printable ASCII characters, not {key!r}")
    return key
