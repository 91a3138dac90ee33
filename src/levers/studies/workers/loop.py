"""Running a function on what a study asks for: the loop that every worker is in."""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from levers.core.outcome_scale import OutcomeScale
from levers.core.space import Assignment, Level
from levers.errors import FailedRunError, LeversError, ObservedLevelError, StudyError, UnreachableError
from levers.studies.outcomes import outcome_number
from levers.studies.state import Trial
from levers.studies.workers.worker import WorkedStudy, Worker

Returned: TypeAlias = float | tuple[float, Mapping[str, Level]]
"""What a function returns of a run: its outcome; with what levers took that were left alone, where some were."""

MOST_FAILURES = 20
"""Runs that may give no outcome in a row before `optimize` gives up."""
_SAY_SO = 5.0  # seconds of waiting for others after which it is said
_SHORTEST_WAIT, _LONGEST_WAIT = 0.02, 1.0
log = logging.getLogger("levers")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """When a loop stops before there is a verdict: at a time (`time.monotonic`), after so many runs, or at a condition.

    It gives up after `max_failures` runs in a row that gave no outcome.
    """

    deadline: float | None = None
    n_runs: int | None = None
    until: Callable[[], bool] | None = None
    max_failures: int = MOST_FAILURES


def work(
    worker: Worker,
    fn: Callable[[Assignment], Returned],
    limits: Limits,
    *,
    calls_at_once: int = 1,
    advance: Callable[[Trial], None] = lambda trial: None,
) -> bool:
    """Run `fn` on what the study asks for; returns whether the study is finished. `advance` is called after each run.

    Runs are begun in the order in which they are handed out. While the study is away, those in hand go on.
    """
    calls: Executor = _Here() if calls_at_once == 1 else ThreadPoolExecutor(calls_at_once)
    waiting, failures, n_begun = _Waiting(worker.study), 0, 0
    scale = worker.patiently(lambda: worker.study.outcome_scale)
    under_way: dict[Future[Returned], Trial] = {}
    with calls:
        try:
            while True:
                worker.send()
                free = calls_at_once - len(under_way)
                free = free if limits.n_runs is None else min(free, limits.n_runs - n_begun)
                over = _is_over(worker, limits, free, n_begun)
                asked = [] if over or not free else worker.ask(free)
                n_begun += len(asked)
                under_way |= {calls.submit(fn, trial.params): trial for trial in asked}
                if not under_way:  # finished, the study is away, or others have the rest of the round
                    if worker.is_away:
                        worker.pause()
                    finished = worker.attempt(lambda: worker.study.is_finished)
                    if finished is None or worker.journal.unsent:  # still away; or just back, and has to be told first
                        continue
                    if finished or over:
                        return finished
                    worker.attempt(waiting.wait)
                    continue
                waiting.reset()
                done, _ = wait(under_way, timeout=worker.until_next_try, return_when=FIRST_COMPLETED)
                for future in done:
                    trial = under_way.pop(future)
                    why = _finish(worker, trial, future, scale)
                    failures = 0 if why is None else failures + 1
                    advance(trial)
                    if failures >= limits.max_failures:
                        raise StudyError(
                            f"the last {failures} runs gave no outcome, so no more are made; mend what is wrong, then "
                            f"go on. The last one: {why}"
                        )
        except BaseException:
            for future, trial in under_way.items():
                _salvage(worker, trial, future, scale)
            raise


class _Waiting:
    """Waiting for trials that others have, with pauses that grow; after a while it says for whom."""

    def __init__(self, study: WorkedStudy) -> None:
        self._study = study
        self.reset()

    def reset(self) -> None:
        self._pause, self._waited, self._said = _SHORTEST_WAIT, 0.0, False

    def wait(self) -> None:
        time.sleep(self._pause)
        self._waited += self._pause
        if self._waited > _SAY_SO and not self._said:
            self._said = True
            log.warning("%s", _awaited(self._study))
        self._pause = min(2 * self._pause, _LONGEST_WAIT)


class _Here(Executor):
    """Calls that are made at once, in the thread that submits them: there Ctrl-C reaches the function itself."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        made: Future[T] = Future()
        try:
            made.set_result(fn(*args, **kwargs))
        except BaseException as error:
            made.set_exception(error)
        return made


def _is_over(worker: Worker, limits: Limits, free: int, n_begun: int) -> bool:
    """Whether no more runs are to be begun."""
    if limits.deadline is not None and time.monotonic() >= limits.deadline:
        return True
    if n_begun == limits.n_runs:
        return True
    return limits.until is not None and free > 0 and bool(worker.attempt(limits.until))


def _awaited(study: WorkedStudy) -> str:
    """What a study waits for, for somebody who wonders why nothing happens."""
    out = study.running()
    listed = ", ".join(f"{trial.number} ({trial.worker})" for trial in out[:5])
    more = f" and {len(out) - 5} more" if len(out) > 5 else ""
    return (
        f"{study.name}: waiting for trials that others have: {listed}{more}; what comes next depends on them. "
        "Tell their outcomes, or report them as failed"
    )


def _finish(worker: Worker, trial: Trial, future: "Future[Returned]", scale: OutcomeScale) -> str | None:
    """Keep an outcome and tell it; returns why there is none, if the run failed.

    An exception of the function fails the trial and goes on up. A run that left levers alone, and of which the function
    did not say what they took, stays out: its outcome is in the error, and can be told by hand.
    """
    try:
        found = future.result()
        value, observed = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
        value = outcome_number(trial.number, value, scale)
    except FailedRunError as error:
        worker.failed(trial, str(error))
        return str(error)
    except BaseException as error:
        with suppress(UnreachableError):
            stopped = isinstance(error, KeyboardInterrupt)
            worker.failed(trial, "stopped" if stopped else f"{type(error).__name__}: {error}")
        raise
    try:
        worker.measured(trial, value, observed)
    except ObservedLevelError as error:
        taken = ", ".join(f'"{name}": level' for name in trial.params.free)
        by_hand = f"or tell it by hand: study.tell({trial.number}, {value:g}, observed={{{taken}}})"
        raise ObservedLevelError(f"{error}. Let the function return outcome, {{{taken}}}; {by_hand}") from None
    return None if value == value else "the outcome was not a number"


def _salvage(worker: Worker, trial: Trial, future: "Future[Returned]", scale: OutcomeScale) -> None:
    """When one call failed: the others' outcomes still count, once they are there; what has not begun is let go."""
    with suppress(LeversError):
        if future.cancel():
            worker.failed(trial, "stopped")
            return
    with suppress(Exception):
        _finish(worker, trial, future, scale)
