"""What every study can do wherever it is kept, and running a function on what a study asks for."""

import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from levers.algorithms.base import Verdict
from levers.core.space import Assignment, Level, Space
from levers.core.validation import check_count, check_positive, check_text
from levers.errors import InvalidSettingError, ObservedLevelError, StudyError, TrialError
from levers.progress import progress_bar
from levers.studies.analysis.views import Best
from levers.studies.outcomes import outcome_number
from levers.studies.spec import StudySpec
from levers.studies.state import Correction, Exclusion, StudyState, Trial

if TYPE_CHECKING:
    from levers.studies.analysis.verification import StudyVerification

Outcomes: TypeAlias = Mapping[int, float] | Iterable[tuple[Trial | int, float]]
"""Trials and their outcomes: `{3: 1.5}`, or pairs of a trial, as `ask` gave it or by its number, and an outcome."""

ByTrial: TypeAlias = Mapping[int, Mapping[str, Level]] | Mapping[Trial, Mapping[str, Level]]
"""The levels that levers took which were left alone: `{3: {"heat": "low"}}`, with trials as `ask` gave them or by
number."""
Returned: TypeAlias = float | tuple[float, Mapping[str, Level]]
"""What a function returns of a run: its outcome; with what levers took that were left alone, where some were."""

T = TypeVar("T")

VERIFY_SECONDS = 60.0
"""How long a study is recomputed; the rest of its log is then only checked as a chain."""
MOST_FAILURES = 20
"""Runs that may give NaN in a row before `optimize` gives up."""

_SAY_SO = 5.0  # seconds of waiting for others after which it is said
log = logging.getLogger("levers")
_SHORTEST_WAIT, _LONGEST_WAIT = 0.02, 1.0


class AnyStudy(ABC):
    """A study, wherever it is kept (`Study` here, `RemoteStudy` on a server): the verbs that follow from others."""

    name: str

    @property
    @abstractmethod
    def spec(self) -> StudySpec:
        """What is asked for."""

    @property
    @abstractmethod
    def state(self) -> StudyState:
        """The state as of now."""

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """Whether there is a verdict."""

    @abstractmethod
    def ask(self, n: int = 1, *, worker: str | None = None, lease: float | None = None) -> list[Trial]:
        """Up to n runs to make."""

    @abstractmethod
    def tell_many(self, outcomes: Outcomes, *, observed: ByTrial | None = None, insist: bool = True) -> int:
        """Many outcomes at once."""

    @abstractmethod
    def fail(self, trial: Trial | int, reason: str = "") -> None:
        """A run that gave no outcome."""

    @abstractmethod
    def correct_many(self, outcomes: Outcomes, reason: str, *, observed: ByTrial | None = None) -> list[Correction]:
        """Correct several outcomes at once."""

    @abstractmethod
    def exclude_many(self, trials: Iterable[Trial | int], reason: str) -> list[Exclusion]:
        """Several outcomes that must not count."""

    @abstractmethod
    def finish(self, reason: str = "") -> Verdict:
        """End the study now."""

    @abstractmethod
    def go_on(self, n_runs: int | None = None, reason: str = "") -> None:
        """More runs after the end."""

    @abstractmethod
    def restate(self, *, reason: str = "", **terms: Any) -> tuple[str, ...]:
        """Change what is asked for, or known, under way."""

    @abstractmethod
    def running(self, worker: str | None = None) -> list[Trial]:
        """The trials that are out."""

    @abstractmethod
    def verify(
        self, head: str | None = None, *, seconds: float = VERIFY_SECONDS, progress: bool | None = None
    ) -> "StudyVerification":
        """Recompute the study from its log alone."""

    @abstractmethod
    def best(self) -> Best | None:
        """The setting that the estimates favour."""

    @abstractmethod
    def verdict(self) -> Verdict:
        """The verdict of a finished study."""

    @property
    def space(self) -> Space:
        """The levers."""
        return self.spec.space

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

    def exclude(self, trial: Trial | int, reason: str) -> Exclusion:
        """An outcome that must not count, and why. Decisions that rested on it are taken again; see `changes`.

        `correct` brings it back.
        """
        return self.exclude_many([trial], reason)[0]

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
        progress: bool | None = None,
    ) -> Verdict | None:
        """Run `fn` on what the study asks for, until there is a verdict; None when this call stops before that.

        It stops after `timeout` seconds, after `n_runs` runs, or when `until(study)` is true, which is asked before
        each run. Calls under way are waited for and told.

        One worker calls `fn` in this thread; more do so at the same time, in threads of this process, and outcomes are
        told as they come. Other processes may work on the same study. With a name of its own (`worker`) a process that
        was killed and is started again goes on with the runs it had. Progress is shown in a terminal, if not said
        otherwise.

        Where the study leaves levers alone (`params.free`), `fn` returns the outcome with the level that each of them
        took: `return 3.5, {"heat": "low"}`.
        """
        check_count("workers", workers)
        if timeout is not None:
            check_positive("timeout", timeout)
        if n_runs is not None:
            check_count("n_runs", n_runs)
        if not callable(fn):
            raise InvalidSettingError(f"fn must be a function of an assignment, not {type(fn).__name__}")
        deadline = None if timeout is None else time.monotonic() + timeout
        calls: Executor = _Here() if workers == 1 else ThreadPoolExecutor(workers)
        with progress_bar(f"{self.name} runs", None, shown=progress) as advance, calls:
            under_way: dict[Future[Returned], Trial] = {}
            left = [] if worker is None else self.running(worker)
            pause, waited, said, failures, n_begun = _SHORTEST_WAIT, 0.0, False, 0, 0
            try:
                while True:
                    over = deadline is not None and time.monotonic() >= deadline
                    free = workers - len(under_way)
                    free = free if n_runs is None else min(free, n_runs - n_begun)
                    over = over or n_begun == n_runs or (until is not None and free > 0 and until(self))
                    asked = [] if over or not free else left[:free] or self.ask(free, worker=worker, lease=lease)
                    left, n_begun = left[len(asked) :], n_begun + len(asked)
                    under_way |= {calls.submit(fn, trial.params): trial for trial in asked}
                    if not under_way:  # finished, or others have the rest of the block
                        if self.is_finished:
                            break
                        if over:
                            return None
                        time.sleep(pause)
                        waited += pause
                        if waited > _SAY_SO and not said:
                            said = True
                            log.warning("%s", _awaited(self))
                        pause = min(2 * pause, _LONGEST_WAIT)
                        continue
                    pause, waited, said = _SHORTEST_WAIT, 0.0, False
                    done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                    for future in done:
                        trial = under_way.pop(future)
                        failures = 0 if _finish(self, trial, future) else failures + 1
                        advance(1, trial.stage)
                    if failures >= MOST_FAILURES:
                        raise StudyError(f"the last {failures} runs gave no outcome; mend the function, then go on")
            except BaseException:
                for future, trial in under_way.items():
                    _salvage(self, trial, future)
                raise
        found = self.verdict()
        if found.doubts:
            log.warning("%s: %s", self.name, _doubted(found))
        return found


class _Here(Executor):
    """Calls that are made at once, in the thread that submits them: there Ctrl-C reaches the function itself."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        made: Future[T] = Future()
        try:
            made.set_result(fn(*args, **kwargs))
        except BaseException as error:
            made.set_exception(error)
        return made


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


def check_corrections(wanted: Sequence[tuple[int, float]], reason: str) -> None:
    """Refuse corrections without a reason, and none at all."""
    check_reason(reason, wanted)


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


def _awaited(study: AnyStudy) -> str:
    """What a study waits for, for somebody who wonders why nothing happens."""
    out = study.running()
    listed = ", ".join(f"{trial.number} ({trial.worker})" for trial in out[:5])
    more = f" and {len(out) - 5} more" if len(out) > 5 else ""
    return (
        f"{study.name}: waiting for trials that others have: {listed}{more}; what comes next depends on them. "
        "Tell their outcomes, or report them as failed"
    )


def _doubted(verdict: Verdict) -> str:
    """What contradicts a verdict, for somebody who would act on it, and how to answer."""
    texts = "; ".join(doubt.text for doubt in verdict.doubts)
    return f"the verdict is in doubt: {texts}. Answer with correct, exclude, restate, go_on or finish"


def _finish(study: AnyStudy, trial: Trial, future: "Future[Returned]") -> bool:
    """Tell an outcome; an exception of the function fails the trial and goes on up. False when there was none.

    A run that left levers alone, and of which the function did not say what they took, stays out: its outcome is in
    the error, and can be told by hand.
    """
    try:
        found = future.result()
        value, observed = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
        value = outcome_number(trial.number, value)
    except BaseException as error:
        _let_go(study, trial, f"{type(error).__name__}: {error}")
        raise
    try:
        study.tell(trial, value, observed=observed)
    except KeyboardInterrupt:  # while it was being kept: once more, which changes nothing if it was kept
        with suppress(TrialError):
            study.tell(trial, value, observed=observed)
        raise
    except ObservedLevelError as error:
        taken = ", ".join(f'"{name}": level' for name in trial.params.free)
        by_hand = f"or tell it by hand: study.tell({trial.number}, {value:g}, observed={{{taken}}})"
        raise ObservedLevelError(f"{error}. Let the function return outcome, {{{taken}}}; {by_hand}") from None
    except TrialError:  # its lease ran out and another worker was faster
        pass
    return value == value


def _salvage(study: AnyStudy, trial: Trial, future: "Future[Returned]") -> None:
    """When one call failed: the others' outcomes still count, once they are there; what has not begun is let go."""
    if future.cancel():
        _let_go(study, trial, "stopped")
        return
    with suppress(Exception):
        _finish(study, trial, future)


def _let_go(study: AnyStudy, trial: Trial, reason: str) -> None:
    with suppress(TrialError):  # told or expired meanwhile
        study.fail(trial, reason)
