"""What every study can do wherever it is kept, and running a function on what a study asks for."""

import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from levers.algorithms.base import Verdict
from levers.core.outcome_scale import OutcomeScale
from levers.core.space import Assignment, Level, Space
from levers.core.validation import check_count, check_positive, check_text
from levers.errors import InvalidSettingError, ObservedLevelError, StudyError, TrialError
from levers.progress import progress_bar
from levers.studies.analysis.views import Best, Status
from levers.studies.outcomes import outcome_number
from levers.studies.spec import StudySpec
from levers.studies.state import Correction, Exclusion, StudyState, Trial
from levers.studies.workers.loop import MOST_FAILURES, Limits, work
from levers.studies.workers.loop import Returned as Returned
from levers.studies.workers.worker import Worker

if TYPE_CHECKING:
    from levers.studies.analysis.verification import StudyVerification

Outcomes: TypeAlias = Mapping[int, float] | Iterable[tuple[Trial | int, float]]
"""Trials and their outcomes: `{3: 1.5}`, or pairs of a trial, as `ask` gave it or by its number, and an outcome."""

ByTrial: TypeAlias = Mapping[int, Mapping[str, Level]] | Mapping[Trial, Mapping[str, Level]]
"""The levels that levers took which were left alone: `{3: {"heat": "low"}}`, with trials as `ask` gave them or by
number."""
MOST_FRESH = 10_000
"""The most fresh runs at a setting that are asked for at once."""
VERIFY_SECONDS = 60.0
"""How long a study is recomputed; the rest of its log is then only checked as a chain."""
OLD_WORKER = "levers.optimize"
"""Who had the runs of a function in older versions, without a lease. They are gone on with."""
log = logging.getLogger("levers")


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One event of a study: its place in the log, when (seconds since 1970), who, and what in a few words."""

    seq: int
    at: float
    who: str
    what: str


class AnyStudy(ABC):
    """A study, wherever it is kept (`Study` here, `RemoteStudy` on a server): the verbs that follow from others."""

    name: str

    @property
    @abstractmethod
    def address(self) -> str | None:
        """Where it is kept; None in memory."""

    @property
    @abstractmethod
    def spec(self) -> StudySpec:
        """What is asked for."""

    @property
    @abstractmethod
    def state(self) -> StudyState:
        """The state as of now."""

    @abstractmethod
    def frozen(self) -> StudyState:
        """A copy of it."""

    @abstractmethod
    def log(self) -> list[LogEntry]:
        """Everything that happened, oldest first."""

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """Whether there is a verdict, and no run is awaited."""

    @abstractmethod
    def ask(self, n: int = 1, *, worker: str | None = None, lease: float | None = None) -> list[Trial]:
        """Up to n runs to make."""

    @abstractmethod
    def renew(self, trials: Iterable[Trial | int], *, lease: float) -> list[int]:
        """Keep runs that take longer."""

    @abstractmethod
    def tell_many(self, outcomes: Outcomes, *, observed: ByTrial | None = None, insist: bool = True) -> int:
        """Many outcomes at once."""

    @abstractmethod
    def fail(self, trial: Trial | int, reason: str = "") -> None:
        """A run that gave no outcome."""

    @abstractmethod
    def _correct(self, wanted: list[tuple[int, float]], reason: str, observed: ByTrial | None) -> list[Correction]:
        """What `correct_many` does, with a reason."""

    @abstractmethod
    def _exclude(self, wanted: list[int], reason: str) -> list[Exclusion]:
        """What `exclude_many` does, with a reason."""

    @abstractmethod
    def finish(self, reason: str = "") -> Verdict:
        """End the study now."""

    @abstractmethod
    def go_on(self, n_runs: int | None = None, reason: str = "") -> None:
        """More runs after the end."""

    @abstractmethod
    def _confirm(self, n_runs: int, reason: str) -> None:
        """What `confirm` does, with a number of runs that there can be."""

    @abstractmethod
    def restate(self, *, reason: str = "", **terms: Any) -> tuple[str, ...]:
        """Change what is asked for, or known, under way."""

    @abstractmethod
    def running(self, worker: str | None = None) -> list[Trial]:
        """The trials that are out."""

    @abstractmethod
    def _verify(self, head: str | None, seconds: float, progress: bool | None) -> "StudyVerification":
        """What `verify` does, with a digest that there can be."""

    @abstractmethod
    def status(self) -> Status:
        """Where the study stands."""

    @abstractmethod
    def best(self) -> Best | None:
        """The setting that the estimates favour."""

    @abstractmethod
    def verdict(self) -> Verdict:
        """The verdict of a finished study."""

    def _repr_html_(self) -> str:
        from levers.extensions import html_of

        return html_of(self)

    @property
    def space(self) -> Space:
        """The levers."""
        return self.spec.space

    @property
    def outcome_scale(self) -> OutcomeScale:
        """How outcomes add up, and how differences of them are said."""
        return self.spec.outcome_scale

    @property
    def best_params(self) -> Assignment:
        """The setting that the estimates favour: never the one of the luckiest run."""
        found = self.best()
        if found is None:
            raise StudyError("no round of runs is complete yet, so there is no estimate; see status()")
        return found.params

    def tell(
        self,
        trial: Trial | int,
        value: float,
        *,
        observed: Mapping[str, Level] | None = None,
        insist: bool = True,
    ) -> None:
        """The outcome of a trial. Telling the same again changes nothing; telling another needs `correct`.

        A trial that left levers alone (`trial.params.free`) is told with the level that each took, as in
        `observed={"heat": "low"}`.

        NaN means that the run gave no outcome: it fails, with a warning, and is asked for again. An outcome far from
        what the runs so far lead one to expect is stored with a `SurprisingOutcomeWarning`; without `insist` it is
        refused, as a `SurprisingOutcomesError`.
        """
        self.tell_many([(trial, value)], observed=_of_one(trial, observed), insist=insist)

    def correct(
        self, trial: Trial | int, value: float, reason: str, *, observed: Mapping[str, Level] | None = None
    ) -> Correction:
        """Another outcome for a trial that was told. Decisions that rested on it are taken again; see `changes`.

        `observed` corrects what levers took that it left alone.
        """
        return self.correct_many([(trial, value)], reason, observed=_of_one(trial, observed))[0]

    def correct_many(self, outcomes: Outcomes, reason: str, *, observed: ByTrial | None = None) -> list[Correction]:
        """Correct several outcomes at once, all or none; decisions are taken again once, after the last.

        `observed` corrects the levels that levers took which were left alone; the outcome may then stay the same.
        """
        wanted = outcome_pairs(outcomes)
        check_reason(reason, wanted)
        return self._correct(wanted, reason, observed)

    def exclude(self, trial: Trial | int, reason: str) -> Exclusion:
        """An outcome that must not count, and why. Decisions that rested on it are taken again; see `changes`.

        `correct` brings it back.
        """
        return self.exclude_many([trial], reason)[0]

    def exclude_many(self, trials: Iterable[Trial | int], reason: str) -> list[Exclusion]:
        """Several outcomes that must not count, all or none; decisions are taken again once, after the last."""
        wanted = [trial_number(trial) for trial in trials]
        check_reason(reason, wanted)
        return self._exclude(wanted, reason)

    def confirm(self, n_runs: int, reason: str = "") -> None:
        """Ask for fresh runs at the verdict's setting, and as many at the baseline if there is one; `ask` gives them.

        When they are told, or `finish` ends it, `verdict().confirmation` compares them with what was predicted, and
        says "confirmed" or "in doubt". No fit rests on them, and what is certified stays as it is. Confirming again
        adds more; all fresh runs count together.

        >>> import levers
        >>> study = levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=0.5, seed=1)
        >>> study.optimize(lambda params: 2.0 * params["heat"]).assignment["heat"]
        2
        >>> study.confirm(4)
        >>> [trial.params["heat"] for trial in study.ask(10)]
        [2, 2, 2, 2]
        """
        check_count("n_runs", n_runs, 2, MOST_FRESH)
        self._confirm(n_runs, reason)

    def verify(
        self, head: str | None = None, *, seconds: float = VERIFY_SECONDS, progress: bool | None = None
    ) -> "StudyVerification":
        """Recompute the study from its log alone: the chain, designs, decisions, checks and verdict.

        `head` is a digest that an earlier call returned and that was kept elsewhere: the log must still contain it.
        After so many `seconds` the rest is only checked as a chain; a service has limits to them. Nothing is locked or
        changed meanwhile.

        >>> import levers
        >>> study = levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=1)
        >>> found = study.verify()
        >>> found.ok, study.verify(found.head).contains_head
        (True, True)
        """
        check_head(head)
        return self._verify(head, check_positive("seconds", seconds), progress)

    def optimize(
        self,
        fn: Callable[[Assignment], Returned],
        *,
        workers: int = 1,
        timeout: float | None = None,
        n_runs: int | None = None,
        until: "Callable[[AnyStudy], bool] | None" = None,
        lease: float | None = None,
        worker: str | None = None,
        patience: float | None = None,
        max_failures: int = MOST_FAILURES,
        progress: bool | None = None,
    ) -> Verdict | None:
        """Run `fn` on what the study asks for, until there is a verdict; None when this call stops before that.

        It stops after `timeout` seconds, after `n_runs` runs, or when `until(study)` is true, which is asked before
        each run. Calls under way are waited for and told.

        One worker calls `fn` in this thread; more do so at the same time, in threads of this process, and outcomes are
        told as they come. Other processes may work on the same study. A process that was killed and is started again
        goes on with the runs it had: it is known by its name (`worker`), which is made of who works here and the
        machine if it is not given. Progress is shown in a terminal, if not said otherwise.

        Where the study is in a storage or on a service, every outcome is in a journal on this machine's disk before it
        is told (`levers journal`, docs/reliability). A storage or service that is away is tried again for `patience`
        seconds, ten minutes if not given. Runs are leased, for 60 seconds if `lease` does not say otherwise, and the
        lease is renewed while `fn` is at work: a slow worker keeps its runs, those of a killed one go to others.

        A function raises `levers.errors.FailedRunError` for a run that gave no outcome: it is made again, and after
        `max_failures` of them in a row, or of NaN, an error says so.

        Where the study leaves levers alone (`params.free`), `fn` returns the outcome with the level that each of them
        took: `return 3.5, {"heat": "low"}`.
        """
        check_count("workers", workers)
        check_count("max_failures", max_failures)
        if timeout is not None:
            check_positive("timeout", timeout)
        if n_runs is not None:
            check_count("n_runs", n_runs)
        if not callable(fn):
            raise InvalidSettingError(f"fn must be a function of an assignment, not {type(fn).__name__}")
        deadline = None if timeout is None else time.monotonic() + timeout
        limits = Limits(deadline, n_runs, None if until is None else lambda: bool(until(self)), max_failures)
        with Worker.open(self, worker, lease=lease, patience=patience, adopts=[OLD_WORKER]) as hand:
            with progress_bar(f"{self.name} runs", None, shown=progress) as advance:
                finished = work(hand, fn, limits, calls_at_once=workers, advance=lambda trial: advance(1, trial.stage))
            found = hand.patiently(self.verdict) if finished else None
        if found is not None and found.doubts:
            log.warning("%s: %s", self.name, _doubted(found))
        return found


def outcome_pairs(outcomes: Outcomes) -> list[tuple[int, float]]:
    """Trial numbers and outcomes, checked one by one.

    >>> outcome_pairs({3: 1.5})
    [(3, 1.5)]
    """
    pairs = outcomes.items() if isinstance(outcomes, Mapping) else outcomes
    return [(number := trial_number(trial), outcome_number(number, value)) for trial, value in pairs]


def check_head(head: str | None) -> None:
    """Refuse what is no digest.

    >>> check_head("abc")
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: a head is the 64 hexadecimal digits that `levers verify` prints, not 'abc'
    """
    if head is not None and (not isinstance(head, str) or not re.fullmatch("[0-9a-f]{64}", head)):
        raise InvalidSettingError(f"a head is the 64 hexadecimal digits that `levers verify` prints, not {head!r}")


def observed_levels(observed: ByTrial | None) -> dict[int, Mapping[str, Level]] | None:
    """What levers took that were left alone, by the trials' numbers.

    >>> observed_levels({3: {"heat": "low"}})
    {3: {'heat': 'low'}}
    """
    if observed is None:
        return None
    if not isinstance(observed, Mapping) or not all(isinstance(levels, Mapping) for levels in observed.values()):
        raise ObservedLevelError(f'what levers took looks like {{3: {{"heat": "low"}}}}, not {observed!r}')
    return {trial_number(trial): levels for trial, levels in observed.items()}


def _of_one(trial: Trial | int, observed: Mapping[str, Level] | None) -> dict[int, Mapping[str, Level]] | None:
    """What levers took in one trial."""
    if observed is None:
        return None
    if not isinstance(observed, Mapping):
        raise ObservedLevelError(f'what levers took looks like {{"heat": "low"}}, not {observed!r}')
    return {trial_number(trial): observed}


def check_reason(reason: str, wanted: Sequence[object]) -> None:
    """Refuse to change outcomes that were told without a reason, and to change none at all."""
    if not isinstance(reason, str) or not reason.strip():
        raise InvalidSettingError("this needs a reason (--reason), for whoever reads the log later", field="reason")
    check_text("reason", reason)
    if not wanted:
        raise TrialError("there is nothing to change; give at least one trial")


def trial_number(trial: Trial | int) -> int:
    """The number of a trial that is given as `ask` returned it, or by its number.

    >>> trial_number(3)
    3
    """
    if isinstance(trial, Trial):
        return trial.number
    if isinstance(trial, bool) or not isinstance(trial, int | np.integer):
        raise TrialError(f"a trial is given by its number or as ask returned it, not as {trial!r}")
    return int(trial)


def _doubted(verdict: Verdict) -> str:
    """What contradicts a verdict, for somebody who would act on it, and how to answer."""
    texts = "; ".join(doubt.text for doubt in verdict.doubts)
    return f"the verdict is in doubt: {texts}. Answer with correct, exclude, restate, go_on or finish"
