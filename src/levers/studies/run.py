"""Run a function on what a study asks for."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Protocol

from levers.algorithms.base import Verdict
from levers.core.space import Assignment
from levers.core.validation import check_count, check_positive
from levers.errors import InvalidSettingError, StudyError, TrialError
from levers.progress import progress_bar
from levers.studies.outcomes import outcome_number
from levers.studies.state import Trial

MOST_FAILURES = 20
"""Runs that may give NaN in a row before `optimize` gives up."""

_SAY_SO = 5.0  # seconds of waiting for others after which it is said
log = logging.getLogger("levers")
_SHORTEST_WAIT, _LONGEST_WAIT = 0.02, 1.0


class Runnable(Protocol):
    """What it takes to run a study, here or on a server."""

    name: str

    @property
    def is_finished(self) -> bool:
        """Whether there is a verdict."""

    def ask(self, n: int = 1, *, worker: str | None = None, lease: float | None = None) -> list[Trial]:
        """Up to n runs to make."""

    def tell(self, trial: Trial | int, value: float) -> None:
        """The outcome of a trial."""

    def fail(self, trial: Trial | int, reason: str = "") -> None:
        """A run that gave no outcome."""

    def running(self, worker: str | None = None) -> list[Trial]:
        """The trials that are out."""

    def verdict(self) -> Verdict:
        """The verdict of a finished study."""


def run_study(
    study: Runnable,
    fn: Callable[[Assignment], float],
    *,
    workers: int,
    timeout: float | None,
    lease: float | None,
    progress: bool,
) -> Verdict | None:
    """Ask, run in up to `workers` threads, tell as results come; see `Study.optimize`."""
    check_count("workers", workers)
    if timeout is not None:
        check_positive("timeout", timeout)
    if not callable(fn):
        raise InvalidSettingError(f"fn must be a function of an assignment, not {type(fn).__name__}")
    until = None if timeout is None else time.monotonic() + timeout
    with progress_bar(f"{study.name} runs", None, shown=progress) as advance, ThreadPoolExecutor(workers) as pool:
        under_way: dict[Future[float], Trial] = {}
        pause, waited, said, failures = _SHORTEST_WAIT, 0.0, False, 0
        try:
            while True:
                over = until is not None and time.monotonic() >= until
                free = 0 if over else workers - len(under_way)
                asked = study.ask(free, lease=lease) if free else []
                under_way |= {pool.submit(fn, trial.params): trial for trial in asked}
                if not under_way:  # finished, or others have the rest of the block
                    if study.is_finished:
                        break
                    if over:
                        return None
                    time.sleep(pause)
                    waited += pause
                    if waited > _SAY_SO and not said:
                        said = True
                        log.warning("%s", _awaited(study))
                    pause = min(2 * pause, _LONGEST_WAIT)
                    continue
                pause, waited, said = _SHORTEST_WAIT, 0.0, False
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    trial = under_way.pop(future)
                    failures = 0 if _finish(study, trial, future) else failures + 1
                    advance(1, trial.stage)
                if failures >= MOST_FAILURES:
                    raise StudyError(f"the last {failures} runs gave no outcome; mend the function, then go on")
        except BaseException:
            for future, trial in under_way.items():
                _salvage(study, trial, future)
            raise
    return study.verdict()


def _awaited(study: Runnable) -> str:
    """What a study waits for, for somebody who wonders why nothing happens."""
    out = study.running()
    listed = ", ".join(f"{trial.number} ({trial.worker})" for trial in out[:5])
    more = f" and {len(out) - 5} more" if len(out) > 5 else ""
    return (
        f"{study.name}: waiting for trials that others have: {listed}{more}; what comes next depends on them. "
        "Tell their outcomes, or report them as failed"
    )


def _finish(study: Runnable, trial: Trial, future: "Future[float]") -> bool:
    """Tell an outcome; an exception of the function fails the trial and goes on up. False when there was none."""
    try:
        value = outcome_number(trial.number, future.result())
    except BaseException as error:
        _let_go(study, trial, f"{type(error).__name__}: {error}")
        raise
    with suppress(TrialError):  # its lease ran out and another worker was faster
        study.tell(trial, value)
    return value == value


def _salvage(study: Runnable, trial: Trial, future: "Future[float]") -> None:
    """When one call failed: the others' outcomes still count, once they are there; what has not begun is let go."""
    if future.cancel():
        _let_go(study, trial, "stopped")
        return
    with suppress(Exception):
        _finish(study, trial, future)


def _let_go(study: Runnable, trial: Trial, reason: str) -> None:
    with suppress(TrialError):  # told or expired meanwhile
        study.fail(trial, reason)
