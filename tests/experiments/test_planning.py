import pytest

import levers
from harness.hard_worlds import additive_world
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.modl import Modl
from levers.errors import InvalidSettingError
from levers.experiments.runner import run_on_world


def test_a_plan_agrees_with_studies_that_are_run() -> None:
    """No factor matters: the plan's guess is near what a study takes, and its worst case is not exceeded."""
    world = additive_world([[0.0] * 3] * 6)
    found = levers.plan(world.space, tolerance=0.5)
    problem = levers.Problem(world.space, 0.5, 0.1, 1.0)
    runs = [run_on_world(Cfs(problem), world, seed).n_runs for seed in range(5)]
    assert max(runs) <= found.worst_case_runs
    assert found.runs_if_nothing_matters == pytest.approx(sum(runs) / 5, rel=0.25)
    assert found.modl_runs == Modl(problem).most_runs
    assert found.full_factorial == 3**6


def test_assumptions_buy_runs() -> None:
    plain = levers.plan([4] * 12, tolerance=0.5)
    parents = levers.plan([4] * 12, tolerance=0.5, max_parents=2)
    effect = levers.plan([4] * 12, tolerance=0.5, min_effect=1.5)
    assert parents.one_shot_runs < plain.one_shot_runs / 4
    assert effect.runs_if_nothing_matters < plain.runs_if_nothing_matters
    assert plain.runs_if_few_matter < plain.runs_if_nothing_matters
    assert plain.lower_bound < (plain.necessary_runs or 0) <= plain.one_shot_runs < plain.one_at_a_time_runs
    assert plain.one_shot_runs < plain.modl_runs / 10


def test_no_limit_of_a_plan_is_above_what_a_method_takes() -> None:
    """CFS keeps its promise, so where no factor matters its mean runs are above the limit for that."""
    world = additive_world([[0.0] * 3] * 6)
    found = levers.plan(world.space, tolerance=0.5)
    cfs = Cfs(levers.Problem(world.space, 0.5, 0.1, 1.0))
    assert 60 < found.null_bound < sum(run_on_world(cfs, world, seed).n_runs for seed in range(5)) / 5
    for options in ({}, {"min_effect": 1.5}, {"max_parents": 2}):
        plan = levers.plan([4] * 12, tolerance=0.5, **options)
        assert 0 < plan.null_bound < plan.runs_if_nothing_matters
        assert plan.null_bound <= plan.lower_bound < plan.worst_case_runs
    assert plan.null_bound < levers.plan([4] * 12, tolerance=0.5).null_bound / 3


def test_limits_are_those_of_methods_that_know_the_noise() -> None:
    known, unknown = (levers.plan([4] * 6, tolerance=0.5, noise_sd=1.0, expected_noise=e) for e in (None, 1.0))
    for name in ("lower_bound", "null_bound", "necessary_runs"):
        assert getattr(known, name) == getattr(unknown, name)
    assert unknown.over_necessary == unknown.one_shot_runs / (unknown.necessary_runs or 1)


def test_a_budget_is_the_inverse_of_a_tolerance() -> None:
    there = levers.plan([3, 4, 5], tolerance=0.5)
    back = levers.plan([3, 4, 5], budget=there.one_shot_runs)
    assert 0.5 <= back.tolerance < 0.53  # the design of a budget is real, not ideal
    assert [t.runs for t in there.trade_off] == sorted((t.runs for t in there.trade_off), reverse=True)
    assert there.trade_off[2].runs == there.one_shot_runs


def test_a_thousand_factors_can_be_planned() -> None:
    found = levers.plan([5] * 1000, tolerance=0.5)
    assert found.necessary_runs is None
    assert found.one_shot_runs > 4001


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either a tolerance or a budget"),
        ({"tolerance": 0.5, "budget": 10}, "either a tolerance or a budget"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"tolerance": 1e-90}, "takes more than"),
        ({"tolerance": 0.5, "max_parents": 4}, "from 1 to 3"),
        ({"tolerance": 0.5, "min_effect": 0}, "min_effect"),
        ({"tolerance": 0.5, "noise_sd": 0}, "noise_sd"),
        ({"tolerance": 0.5, "certificate": "magic"}, "certificate"),
        ({"budget": 5}, "budget must be a whole number at least 15"),
    ],
)
def test_wrong_plans_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        levers.plan([3, 4, 4], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "tolerance", "options"),
    [([2], 1.5, {}), ([2], 1.5, {"min_effect": 0.4}), ([4] * 10, 1.5, {"max_parents": 1}), ([3, 4, 5], 0.7, {})],
)
def test_the_worst_case_is_not_exceeded(sizes: list[int], tolerance: float, options: dict[str, int]) -> None:
    stated = levers.plan(sizes, tolerance=tolerance, **options).worst_case_runs  # type: ignore[arg-type]
    for effect in (0.0, 0.2, 0.5, 1.0):
        world = additive_world([[effect] + [0.0] * (m - 1) if k == 0 else [0.0] * m for k, m in enumerate(sizes)])
        cfs = Cfs(levers.Problem(world.space, tolerance, 0.1, 1.0), **options)  # type: ignore[arg-type]
        assert max(run_on_world(cfs, world, seed).n_runs for seed in range(10)) <= stated


def test_huge_plans_are_made_without_the_design() -> None:
    assert levers.plan([4] * 10, tolerance=0.001).one_shot_runs > 10**8
    assert levers.plan([4] * 3, tolerance=0.5, failure_prob=0.99).over_lower_bound is None  # guessing will do


def test_a_plan_with_a_noise_that_is_not_known() -> None:
    known, unknown = (
        levers.plan([4] * 6, tolerance=0.5, noise_sd=1.0, expected_noise=expected) for expected in (None, 1.0)
    )
    assert (unknown.noise_known, unknown.noise_sd, unknown.failure_prob) == (False, 1.0, 0.1)
    # the bound on the noise after a first block of about two runs a parameter is a third too high or more
    assert 1.5 * known.one_shot_runs < unknown.one_shot_runs < 4 * known.one_shot_runs
    assert levers.plan([4] * 6, tolerance=1.0, noise_sd=None) == levers.plan(
        [4] * 6, tolerance=1.0, noise_sd=None, expected_noise=1.0
    )
    assert levers.plan([4] * 6, tolerance=0.5, expected_noise=1.0) == unknown  # what is expected is not known
    with pytest.raises(levers.LeversError, match="and not both"):
        levers.plan([4] * 6, tolerance=0.5, noise_sd=2.0, expected_noise=1.0)
    budget = levers.plan([4] * 6, budget=400, noise_sd=None, expected_noise=2.0)
    assert budget.tolerance > levers.plan([4] * 6, budget=400, noise_sd=2.0).tolerance
    with pytest.raises(levers.LeversError, match="with a budget, the plan needs the noise") as refused:
        levers.plan([4] * 6, budget=400, noise_sd=None)
    assert refused.value.field == "noise_sd"


@pytest.mark.parametrize("name", ["tolerance", "noise_sd", "expected_noise", "min_effect"])
@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e300])
def test_numbers_beyond_all_measure_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidSettingError, match="choose another unit") as refused:
        levers.plan([2, 3], **{"tolerance": 1.0, name: value})  # type: ignore[arg-type]
    assert refused.value.field == name


def test_a_plan_for_hardly_any_noise() -> None:
    found = levers.plan([2], tolerance=1e99, noise_sd=1e-99, min_effect=1e-99, max_parents=1)
    assert found.one_shot_runs == 2
