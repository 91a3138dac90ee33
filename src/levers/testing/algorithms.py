"""The contract of an algorithm, as a function that any test can call."""

import copy
import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import Algorithm, Batch, Verdict
from levers.core.codec import from_json, restored, to_json
from levers.errors import InvalidOutcomeError, OutcomeMismatchError

Answer = Callable[[Batch], tuple[Batch, ArrayLike]]


def check_contract(algorithm: Algorithm, make_answer: Callable[[], Answer], seed: int = 0) -> Verdict:
    """Run an algorithm twice, once made without its checks and with all that it keeps
    written to JSON and read back between steps; raise if anything differs.

    `make_answer` returns a fresh function that makes the runs, with the same outcomes each time.

    >>> from levers.algorithms.base import Problem
    >>> from levers.algorithms.modl import Modl
    >>> from levers.core.space import Space
    >>> def make_answer():
    ...     noise = np.random.default_rng(1)
    ...     return lambda batch: (batch, batch.codes[:, 0] + noise.normal(size=batch.n_runs))
    >>> check_contract(Modl(Problem(Space.sized([2, 2]), 0.5, 0.1, 1.0)), make_answer).assignment["X1"]
    2
    """
    plain = _run(algorithm, make_answer(), np.random.default_rng(seed), saved=False)
    unchecked = restored(type(algorithm), {f.name: getattr(algorithm, f.name) for f in fields(algorithm) if f.init})
    saved = _run(unchecked, make_answer(), np.random.default_rng(seed), saved=True)
    _require(to_json(plain) == to_json(saved), algorithm, "a run that was saved between steps ended differently")
    _require(to_json(_through_json(plain)) == to_json(plain), algorithm, "the verdict does not survive being saved")
    _require(plain.algorithm == algorithm.name, algorithm, f"the verdict says that {plain.algorithm!r} gave it")
    return plain


def _require(kept: bool, algorithm: Algorithm, broken: str) -> None:
    if not kept:
        raise AssertionError(f"{algorithm.name}: {broken}")


def _run(algorithm: Algorithm, answer: Answer, rng: np.random.Generator, saved: bool) -> Verdict:
    state = algorithm.start()
    total = 0
    while True:
        again = copy.deepcopy(rng)
        step = algorithm.ask(state, rng)
        if isinstance(step, Verdict):
            counted = step.n_runs == sum(n for _, n in step.runs_by_stage) == total
            _require(counted, algorithm, f"the verdict counts {step.n_runs} runs, {total} were made")
            return step
        repeated = algorithm.ask(state, again)
        same = isinstance(repeated, Batch) and to_json(repeated) == to_json(step)
        _require(same, algorithm, "asking again with the same randomness gave other runs")
        total += step.n_runs
        before = to_json(state)
        _check_reports(algorithm, state, step)
        batch, outcomes = answer(step)
        _check_refusals(algorithm, state, batch, outcomes)
        if saved:
            state, batch = _through_json(state), _through_json(batch)
            rng = _generator_through_json(rng)
        told = algorithm.tell(state, batch, outcomes)
        _require(to_json(state) == before, algorithm, "tell changed the state it was given")
        state = told


def _check_reports(algorithm: Algorithm, state: Any, batch: Batch) -> None:
    """What studies ask of a state besides runs: nothing of it may fail, nor contradict what is promised of it."""
    progress, outlook = algorithm.progress(state), algorithm.outlook(state, batch.n_runs)
    _require(not progress.finished, algorithm, "progress says it is the end, and ask has more runs")
    if progress.leaders:
        algorithm.problem.space.assignment(progress.leaders)
    possible = all(n is None or n >= 0 for n in (outlook.likely, outlook.worst_case))
    _require(possible, algorithm, f"the outlook has fewer runs than none: {outlook}")
    silent = algorithm.certifies_early or algorithm.interim(state) is None
    _require(silent, algorithm, "interim says something although certifies_early is False")


def _check_refusals(algorithm: Algorithm, state: Any, batch: Batch, outcomes: ArrayLike) -> None:
    y = np.asarray(outcomes, dtype=np.float64)
    bad = y.copy()
    bad[-1] = np.nan
    for wrong, error in ((y[:-1], OutcomeMismatchError), (bad, InvalidOutcomeError)):
        try:
            algorithm.tell(state, batch, wrong)
        except error:
            continue
        raise AssertionError(f"{algorithm.name}: tell accepted outcomes that should raise {error.__name__}")


def _through_json(value: Any) -> Any:
    return from_json(to_json(value), type(value))


def _generator_through_json(rng: np.random.Generator) -> np.random.Generator:
    fresh = np.random.default_rng()
    fresh.bit_generator.state = json.loads(json.dumps(rng.bit_generator.state))
    return fresh
