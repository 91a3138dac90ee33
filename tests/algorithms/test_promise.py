"""Later runs of a budget for the best setting serve what can be promised of it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.hard_worlds import additive_world
from levers.algorithms.base import Batch, Problem
from levers.algorithms.cfs.pooled.promise import (
    mixed_shares,
    never_far_by_chance,
    promised_shares,
    share_for_promise,
)
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.settings import LATEST_RULES, PARTS_RULES, SURELY_FAR
from levers.core.model.choices import Choices
from levers.core.model.posterior import Posterior
from levers.core.space import Codes
from levers.experiments.runner import run_on_world

T = 2.5
CLEAR = additive_world([[0.0, 0.9, 2.0], [0.0, 0.0, 1.5], [0.0, 0.2, 0.0]])


def posterior_of(mean: list[float], runs: list[float]) -> Posterior:
    """Levels with so many runs each, noise sd 1: what all levels share is taken off a variance (own_variances)."""
    return Posterior(np.array(mean), np.diag(1.0 / np.array(runs)), 1.0, 1.0)


def own_runs(choices: Choices, found: Posterior) -> NDArray[np.float64]:
    """How many runs each level of the only factor is worth to the allocation."""
    joint = found.covariance
    m = len(joint)
    own = (np.diagonal(joint) - 2 * joint.mean(axis=1) + joint.mean()) * m / (m - 1)
    return np.asarray(1.0 / own)


def test_no_runs_serve_the_promise_before_the_setting_is_about_found() -> None:
    shares = [share_for_promise(per) for per in (0.5, 3.0, 5.0, 8.0, 10.2, 50.0)]
    assert shares[:2] == [0.0, 0.0]
    assert shares == sorted(shares)
    assert shares[-1] == 0.9


def test_each_level_gets_what_it_lacks() -> None:
    """Levels in question end with equal runs, one that a few would leave out gets these, and one far behind none."""
    choices, n_left = Choices((4,)), 100
    found = posterior_of([1.0, 0.9, 0.2, -3.0], [20.0, 12.0, 9.0, 5.0])
    [share] = promised_shares(choices, found, n_left, T)
    runs = own_runs(choices, found)
    after = runs + n_left * share
    assert share.sum() == pytest.approx(1.0)
    assert after[0] == pytest.approx(after[1])
    needed = 1 / ((0.8 / (SURELY_FAR * T)) ** 2 - 1 / after[0])
    assert runs[2] < needed < after[0]
    assert after[2] == pytest.approx(needed)
    assert share[3] == 0.0


def test_where_nothing_is_in_question_runs_stay_at_the_leader() -> None:
    found = posterior_of([0.0, 9.0, 0.0, 0.0, 0.0], [30.0, 30.0, 30.0, 10.0, 10.0])
    first, second = promised_shares(Choices((3, 2)), found, 10, T)
    assert first.tolist() == pytest.approx([0.0, 1.0, 0.0])
    assert second.tolist() == pytest.approx([0.5, 0.5])
    assert mixed_shares([np.array([0.0, 1.0, 0.0])], [first], 0.3)[0].tolist() == pytest.approx([0.0, 1.0, 0.0])


def test_combinations_of_tied_levers_have_shares_too() -> None:
    choices = Choices((3,), (((0, 0), (0, 1), (1, 0)),))
    found = Posterior(np.array([0.5, -0.5, 0.3, -0.3]), 0.05 * np.eye(4), 1.0, 1.0)
    [share] = promised_shares(choices, found, 40, T)
    assert share.sum() == pytest.approx(1.0)
    assert (share[:2] > 0).all()


def rows_of(rules: int) -> Codes:
    """All runs of a study whose first lever is clear."""
    solver = Pooled(Problem(CLEAR.space, None, 0.1, 1.0), budget=120, aim="best", rules=rules)
    rng, state, rows = np.random.default_rng(3), solver.start(), []
    while isinstance(step := solver.ask(state, rng), Batch):
        rows.append(step.codes)
        state = solver.tell(state, step, CLEAR.sample(step.codes, rng).outcomes)
    return np.concatenate(rows)


def test_more_is_certified_by_as_many_runs() -> None:
    effects = ([0.0, 0.8, 1.0, 0.1, 0.2], [0.0, 1.2, 0.3, 0.0], [0.0, 0.5, 0.9], [0.0] * 4, [0.0] * 3)
    world = additive_world([list(one) for one in effects])
    for noise_sd in (1.0, None):
        problem = Problem(world.space, None, 0.1, noise_sd)
        solvers = [Pooled(problem, budget=140, aim="best", rules=rules) for rules in (PARTS_RULES, LATEST_RULES)]
        before, now = (np.median([run_on_world(one, world, seed).within for seed in range(7)]) for one in solvers)
        assert now < 0.85 * before


def test_the_first_runs_are_as_before() -> None:
    """Up to three runs a parameter the setting is all that counts."""
    before, now = rows_of(PARTS_RULES), rows_of(LATEST_RULES)
    assert len(before) == len(now) == 120
    assert np.array_equal(before[:18], now[:18])
    assert not np.array_equal(before, now)


def test_two_equal_levels_are_hardly_ever_that_far_apart() -> None:
    """Sums of two levels looked at while runs become a hundred times as many, an eighth more from look to look."""
    looks = np.unique((4 * 1.12 ** np.arange(42)).astype(int))
    steps = np.random.default_rng(0).normal(size=(4000, looks[-1])).cumsum(axis=1)[:, looks - 1]
    furthest = np.abs(steps / np.sqrt(looks)).max(axis=1)
    for error in (0.1, 0.02):
        distance = never_far_by_chance(2, error, 100.0)
        ever = int((furthest > distance).sum())
        assert ever <= 4000 * error
        assert ever >= 4000 * error / 4  # and no further than that takes
    assert (
        never_far_by_chance(2, 0.02, 1.0) < never_far_by_chance(2, 0.02, 100.0) < never_far_by_chance(20, 0.02, 100.0)
    )


def test_a_rival_that_may_look_far_by_chance_gets_more_runs() -> None:
    found = posterior_of([1.0, 0.0], [20.0, 20.0])  # 3.2 standard errors of a difference
    choices = Choices((2,))
    [without], [with_it] = (promised_shares(choices, found, 40, T, apart) for apart in (0.0, 4.0))
    assert without[1] == 0.0
    assert 40 * with_it[1] == pytest.approx(
        1 / (1 / 4.0**2 - 1 / 58) - 20, rel=0.05
    )  # what it lacks beside 58 of the leader
