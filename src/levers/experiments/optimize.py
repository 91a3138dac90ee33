"""Optimise any Python function of an assignment."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import Batch, Problem, Verdict, run_to_verdict
from levers.algorithms.registry import DEFAULT_ALGORITHM, make_algorithm
from levers.core.space import Assignment, Level, Space
from levers.core.validation import check_choice, check_count
from levers.errors import InvalidOutcomeError, InvalidSettingError
from levers.progress import progress_bar
from levers.studies.settings import GOALS


def optimize(
    fn: Callable[[Assignment], float],
    space: Space | Mapping[str, Sequence[Level]],
    *,
    tolerance: float | None = None,
    noise_sd: float | None = None,
    failure_prob: float = 0.1,
    goal: str = "maximize",
    algorithm: str = DEFAULT_ALGORITHM,
    seed: int | None = None,
    progress: bool = False,
    **options: Any,
) -> Verdict:
    """Find the assignment at which a noisy function is best, up to `tolerance`, except with `failure_prob`.

    `fn` takes an assignment (a mapping of factor names to levels) and returns one noisy number; `noise_sd` is the
    standard deviation of that noise, estimated when it is not given. Instead of a tolerance, `budget=200` spends that
    many runs. Other options go to the algorithm too, for example `max_parents=3`.

    >>> rng = np.random.default_rng(0)
    >>> def yield_of(run):
    ...     return {"low": 0.0, "high": 2.0}[run["heat"]] + 0.5 * rng.normal()
    >>> verdict = optimize(yield_of, {"heat": ["low", "high"], "shift": ["day", "night"]},
    ...                    tolerance=0.5, noise_sd=0.5, seed=1)
    >>> verdict.assignment["heat"], verdict.parents
    ('high', ('heat',))
    """
    check_choice("goal", goal, GOALS)
    if not callable(fn):
        raise InvalidSettingError(f"fn must be a function of an assignment, not {type(fn).__name__}")
    problem = Problem(Space.of(space), tolerance, failure_prob, noise_sd)
    chosen = make_algorithm(algorithm, problem, **options)
    if seed is not None:
        check_count("seed", seed, 0)
    sign = 1.0 if goal == "maximize" else -1.0

    with progress_bar(f"{algorithm} runs", None, shown=progress) as advance:

        def outcomes_of(batch: Batch) -> tuple[Batch, ArrayLike]:
            if not batch.is_global:
                raise InvalidSettingError(f"{algorithm} watches without setting, which a function cannot do; try modl")
            outcomes = []
            for run in problem.space.assignments(batch.codes):
                value = fn(run)
                if not (isinstance(value, float) and math.isfinite(value)):
                    value = _number(value, run)
                outcomes.append(sign * value)
                if progress:
                    advance(1, batch.stage)
            return batch, outcomes

        return replace(run_to_verdict(chosen, outcomes_of, np.random.default_rng(seed)), goal=goal)


def _number(value: object, run: Assignment) -> float:
    """What a function returned, as a finite number, or an error that says at which run."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidOutcomeError(f"the function returned {value!r} at {dict(run)}; it must be a number") from None
    if not math.isfinite(number):
        raise InvalidOutcomeError(f"the function returned {number} at {dict(run)}; it must be finite")
    return number
