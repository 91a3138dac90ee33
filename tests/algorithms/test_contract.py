"""Every algorithm keeps the contract, on a world where it can be right."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from levers.algorithms.base import Batch, Problem
from levers.algorithms.baselines.budgeted import NOTHING_PROMISED
from levers.algorithms.registry import ALGORITHMS, make_algorithm
from levers.core.space import Space
from levers.errors import (
    InvalidSettingError,
    InvalidSpaceError,
    OutcomeMismatchError,
    TooManyActionsError,
    UnknownAlgorithmError,
)
from levers.testing.algorithms import Answer, check_contract
from levers.worlds.named import even_table
from levers.worlds.outcome import AdditiveOutcome
from levers.worlds.scm import World, gap

WORLD = World(
    Space.sized([3, 2, 4]),
    [even_table(3), even_table(2), even_table(4)],
    AdditiveOutcome({0: (0, 1, 3), 2: (2, 0, 0, 0)}),
)
PROBLEM = Problem(WORLD.space, tolerance=1.0, failure_prob=0.1, noise_sd=1.0)
OPTIONS: dict[str, dict[str, object]] = {
    "oracle": {"parents": ["X1", "X3"]},
    "naive-search": {"target": 5.0},
    "ucb": {"growth": 0.5},
    "lingape": {"growth": 0.2},
    "thompson": {"batch_size": 10},
    "tpe": {"batch_size": 10},
}
UNCERTIFIED = ("one-at-a-time", "fractional-factorial", "random", "thompson", "tpe")
"""Those that spend a budget and promise nothing."""
CHUNKED = ("cfs.two_stage", "modl", "restricted", "arms", "observational", "ucb", "linear_bandits.phases")


def make_answer() -> Answer:
    noise = np.random.default_rng(99)

    def answer(batch: Batch) -> tuple[Batch, ArrayLike]:
        runs = WORLD.sample(batch.codes, noise)
        return batch.observed(runs.codes), runs.outcomes

    return answer


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("chunk", [7, 16_384])
def test_every_algorithm_keeps_the_contract(name: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saved and read back between all steps, with small batches and large: the same verdict, and a right one."""
    for module in (*CHUNKED, "linear_bandits.lingape", "baselines.random_search"):
        monkeypatch.setattr(f"levers.algorithms.{module}.CHUNK", chunk)
    algorithm = make_algorithm(name, PROBLEM, **OPTIONS.get(name, {}))
    verdict = check_contract(algorithm, make_answer, seed=1)
    assert verdict.algorithm == algorithm.name == name
    assert gap(WORLD, verdict.assignment.codes) <= 1.0
    assert verdict.failure_prob == 0.1
    if name in UNCERTIFIED:
        assert (verdict.tolerance, verdict.n_runs, verdict.statement) == (None, 100, NOTHING_PROMISED.text)
    else:
        assert verdict.within == 1.0 or (name == "cfs" and verdict.within <= 1.0)  # cfs says how close it really is
    assert verdict.guarantee


@pytest.mark.parametrize("name", ALGORITHMS)
def test_asking_after_the_end_gives_the_verdict_again(name: str) -> None:
    algorithm = make_algorithm(name, PROBLEM, **OPTIONS.get(name, {}))
    rng, answer, state = np.random.default_rng(0), make_answer(), algorithm.start()
    while isinstance(step := algorithm.ask(state, rng), Batch):
        state = algorithm.tell(state, *answer(step))
    assert algorithm.ask(state, rng) == step


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_foreign_batch_is_refused(name: str) -> None:
    algorithm = make_algorithm(name, PROBLEM, **OPTIONS.get(name, {}))
    with pytest.raises(OutcomeMismatchError, match="factors"):
        algorithm.tell(algorithm.start(), Batch(np.zeros((1, 2), dtype=np.int16), "x"), [1.0])
    with pytest.raises(OutcomeMismatchError, match="tell needs the batch"):
        algorithm.tell(algorithm.start(), "batch", [1.0])  # type: ignore[arg-type]
    with pytest.raises(OutcomeMismatchError, match="left to nature"):
        algorithm.tell(algorithm.start(), Batch(np.full((1, 3), -1, dtype=np.int16), "x"), [1.0])


def test_observed_levels_must_fit_the_batch() -> None:
    batch = Batch(np.array([[0, -1]], dtype=np.int16), "x")
    with pytest.raises(OutcomeMismatchError, match="shape"):
        batch.observed([[0]])
    with pytest.raises(OutcomeMismatchError, match="differ"):
        batch.observed([[1, 1]])


def test_unknown_algorithms_and_options_are_named() -> None:
    with pytest.raises(UnknownAlgorithmError, match=r"did you mean 'parents-first'.*known are cfs"):
        make_algorithm("parent-first", PROBLEM)
    with pytest.raises(InvalidSettingError, match="modl has no option 'speed'; its options are schedule"):
        make_algorithm("modl", PROBLEM, speed=3)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("modl", {"schedule": "fast"}, "schedule must be one of"),
        ("modl", {"max_parents": 0}, "max_parents must be a whole number from 1 to 3"),
        ("modl", {"max_parents": 4}, "from 1 to 3"),
        ("modl", {"outcome_bound": -1.0}, "outcome_bound"),
        ("parents-first", {"max_parents": 9}, "from 1 to 3"),
        ("parents-first", {"schedule": "fast"}, "schedule must be one of"),
        ("oracle", {}, "needs the true parents"),
        ("observational-regression", {"runs": 0}, "runs"),
        ("rage", {"outcome_bound": 0.0}, "outcome_bound"),
        ("xy-adaptive", {"alpha": 1.0}, "alpha"),
        ("lingape", {"mean_bound": -1.0}, "mean_bound"),
        ("ucb", {"growth": -0.1}, "growth"),
        ("fractional-factorial", {"significance": 0.0}, "significance"),
        ("thompson", {"effect_sd": 0.0}, "effect_sd"),
        ("tpe", {"batch_size": 0}, "batch_size"),
        *((name, {"budget": 0}, "budget must be a whole number at least 1") for name in UNCERTIFIED),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        make_algorithm(name, PROBLEM, **options)


def test_wrong_names_and_baselines_are_refused() -> None:
    with pytest.raises(InvalidSpaceError, match="no factor 'X9'"):
        make_algorithm("oracle", PROBLEM, parents=["X9"])
    with pytest.raises(InvalidSpaceError, match="needs 3 levels"):
        make_algorithm("parents-first", PROBLEM, baseline=(0, 0))


@pytest.mark.parametrize("name", ["rage", "xy-adaptive", "lingape"])
def test_a_linear_bandit_is_refused_beyond_a_number_of_arms(name: str) -> None:
    with pytest.raises(TooManyActionsError, match=r"at most .* of them, not 59,049; use cfs or modl"):
        make_algorithm(name, Problem(Space.sized([3] * 10), 0.5, 0.1, 1.0))
    with pytest.raises(TooManyActionsError, match="at most 20 of them, not 24"):
        make_algorithm(name, PROBLEM, max_actions=20)


@pytest.mark.parametrize("name", ["successive-elimination", "naive-search", "ucb"])
def test_too_many_assignments_are_refused_with_a_way_out(name: str) -> None:
    problem = Problem(Space.sized([6] * 30), 0.5, 0.1, 1.0)
    with pytest.raises(TooManyActionsError, match=r"221,073,919,720,733,357,899,776 assignments.*use modl"):
        make_algorithm(name, problem)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("tolerance", value) for value in (0.0, -1, float("nan"), True, "x")),
        *(("failure_prob", value) for value in (0, 1, 1.5, -0.1)),
        *(("noise_sd", value) for value in (0, float("inf"))),
    ],
)
def test_wrong_problems_are_refused(field: str, value: object) -> None:
    settings = {"tolerance": 0.5, "failure_prob": 0.1, "noise_sd": 1.0, field: value}
    with pytest.raises(InvalidSettingError, match=field):
        Problem(WORLD.space, **settings)  # type: ignore[arg-type]
