from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

import levers
from harness.hard_worlds import additive_world
from harness.tied import Group, mean_runs, two
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.settings import PARTS_RULES
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.modl import Modl
from levers.errors import InvalidSettingError
from levers.experiments.plan import Plan, merged_plan
from levers.experiments.runner import run_on_world
from levers.experiments.typical_loss import typical_studies

COUNTS = ("one_shot_runs", "worst_case_runs", "runs_if_nothing_matters", "runs_if_few_matter", "one_at_a_time_runs")


def test_a_plan_counts_what_other_methods_take() -> None:
    found = levers.plan([3] * 6, tolerance=0.5, noise_sd=1.0)
    assert found.modl_runs == Modl(levers.Problem(levers.Space.sized([3] * 6), 0.5, 0.1, 1.0)).most_runs
    assert found.full_factorial == 3**6


@pytest.mark.parametrize("noise_sd", [1.0, None])
@pytest.mark.parametrize(
    ("sizes", "tolerance", "options"),
    [
        ([3] * 6, 0.5, {}),
        ([4] * 8, 0.6, {}),
        ([2] * 14, 0.5, {}),
        ([3, 4, 5], 0.7, {}),
        ([4] * 12, 0.5, {"max_parents": 5}),
    ],
)
def test_a_plan_agrees_with_studies_that_are_run(
    sizes: list[int], tolerance: float, options: dict[str, Any], noise_sd: float | None
) -> None:
    """What is planned if nothing matters, and if three factors clearly do, is near what such studies take."""
    expected = 1.0 if noise_sd is None else None
    found = levers.plan(sizes, tolerance=tolerance, noise_sd=noise_sd, expected_noise=expected, **options)
    for n_parents, planned, near in ((0, found.runs_if_nothing_matters, 0.12), (3, found.runs_if_few_matter, 0.35)):
        world = additive_world([[4.0 * tolerance * (k < n_parents)] + [0.0] * (m - 1) for k, m in enumerate(sizes)])
        cfs = Cfs(levers.Problem(world.space, tolerance, 0.1, noise_sd), **options)
        runs = [run_on_world(cfs, world, seed).n_runs for seed in range(5)]
        assert max(runs) <= found.worst_case_runs < 1.8 * found.runs_if_nothing_matters
        if n_parents < len(sizes):
            assert planned == pytest.approx(np.mean(runs), rel=near)


def test_assumptions_buy_runs() -> None:
    plain = levers.plan([4] * 12, tolerance=0.5, noise_sd=1.0)
    parents = levers.plan([4] * 12, tolerance=0.5, max_parents=2, noise_sd=1.0)
    effect = levers.plan([4] * 12, tolerance=0.5, min_effect=1.5, noise_sd=1.0)
    assert parents.one_shot_runs < plain.one_shot_runs / 4
    assert effect.runs_if_nothing_matters < plain.runs_if_nothing_matters
    assert plain.runs_if_few_matter < plain.runs_if_nothing_matters
    assert (plain.lower_bound or 0) < (plain.necessary_runs or 0) <= plain.one_shot_runs < plain.one_at_a_time_runs
    assert plain.one_shot_runs < (plain.modl_runs or 0) / 10


def test_no_limit_of_a_plan_is_above_what_a_method_takes() -> None:
    """CFS keeps its promise, so where no factor matters its mean runs are above the limit for that."""
    world = additive_world([[0.0] * 3] * 6)
    found = levers.plan(world.space, tolerance=0.5, noise_sd=1.0)
    cfs = Cfs(levers.Problem(world.space, 0.5, 0.1, 1.0))
    assert 60 < _null_bound(found) < sum(run_on_world(cfs, world, seed).n_runs for seed in range(5)) / 5
    for options in ({}, {"min_effect": 1.5}, {"max_parents": 2}):
        plan = levers.plan([4] * 12, tolerance=0.5, **options, noise_sd=1.0)
        assert 0 < _null_bound(plan) < plan.runs_if_nothing_matters
        assert _null_bound(plan) <= (plan.lower_bound or 0) < plan.worst_case_runs
    assert _null_bound(plan) < _null_bound(levers.plan([4] * 12, tolerance=0.5, noise_sd=1.0)) / 3


def _null_bound(plan: Plan) -> int:
    assert plan.null_bound is not None  # left out only where nothing is certified
    return plan.null_bound


def test_limits_are_those_of_methods_that_know_the_noise() -> None:
    known = levers.plan([4] * 6, tolerance=0.5, noise_sd=1.0)
    unknown = levers.plan([4] * 6, tolerance=0.5, expected_noise=1.0)
    for name in ("lower_bound", "null_bound", "necessary_runs"):
        assert getattr(known, name) == getattr(unknown, name)
    assert unknown.over_necessary == unknown.one_shot_runs / (unknown.necessary_runs or 1)


@pytest.mark.usefixtures("few_worlds")
def test_a_budget_is_the_inverse_of_a_tolerance() -> None:
    there = levers.plan([3, 4, 5], tolerance=0.5, noise_sd=1.0)
    back = levers.plan([3, 4, 5], budget=there.one_shot_runs, noise_sd=1.0)
    assert 0.5 <= (back.tolerance or 0) < 0.53  # the design of a budget is real, not ideal
    assert [t.runs for t in there.trade_off] == sorted((t.runs for t in there.trade_off), reverse=True)
    assert there.trade_off[2].runs == there.one_shot_runs


def test_a_plan_of_very_many_levers_is_that_of_the_study_that_finds_the_few() -> None:
    """It was that of a study in two stages, which takes ten times as many."""
    found = levers.plan([5] * 400, tolerance=0.5, noise_sd=1.0, max_parents=5)
    space = levers.Space.sized([5] * 400)
    study = levers.create_study("many", space, tolerance=0.5, noise_sd=1.0, max_parents=5, seed=1)
    to_go = study.status().to_go
    assert (to_go.likely, to_go.worst_case) == (found.runs_if_nothing_matters, found.worst_case_runs)
    rng = np.random.default_rng(2)
    study.optimize(lambda run: float(rng.normal()))
    n_runs = study.state.n_complete
    assert found.runs_if_few_matter < found.runs_if_nothing_matters
    assert 0.8 < found.runs_if_nothing_matters / n_runs < 1.25
    assert found.worst_case_runs >= n_runs


def test_a_thousand_factors_can_be_planned() -> None:
    found = levers.plan([5] * 1000, tolerance=0.5, noise_sd=1.0)
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
        ({"tolerance": 0.5, "certificate": "magic"}, "certificate must be one of slippage, proven, not 'magic'"),
        ({"tolerance": 0.5, "noise": "loud"}, "noise must be one of gaussian, subgaussian"),
        ({"budget": 1}, "budget must be a whole number at least 2"),
        ({"budget": 5, "noise": "subgaussian"}, "budget must be a whole number at least"),
        ({"budget": 20, "effect_sd": 0}, "effect_sd"),
    ],
)
def test_wrong_plans_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        levers.plan([3, 4, 4], **{"noise_sd": 1.0, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "tolerance", "options"),
    [([2], 1.5, {}), ([2], 1.5, {"min_effect": 0.4}), ([4] * 10, 1.5, {"max_parents": 1}), ([3, 4, 5], 0.7, {})],
)
def test_the_worst_case_is_not_exceeded(sizes: list[int], tolerance: float, options: dict[str, int]) -> None:
    stated = levers.plan(sizes, tolerance=tolerance, **options, noise_sd=1.0).worst_case_runs  # type: ignore[arg-type]
    for effect in (0.0, 0.2, 0.5, 1.0):
        world = additive_world([[effect] + [0.0] * (m - 1) if k == 0 else [0.0] * m for k, m in enumerate(sizes)])
        cfs = Cfs(levers.Problem(world.space, tolerance, 0.1, 1.0), **options)  # type: ignore[arg-type]
        assert max(run_on_world(cfs, world, seed).n_runs for seed in range(10)) <= stated


def test_huge_plans_are_made_without_the_design() -> None:
    assert levers.plan([4] * 10, tolerance=0.001, noise_sd=1.0).one_shot_runs > 10**8
    guessing_will_do = levers.plan([4] * 3, tolerance=0.5, failure_prob=0.99, noise_sd=1.0)
    assert guessing_will_do.over_lower_bound is None


def test_a_plan_with_a_noise_that_is_not_known() -> None:
    known = levers.plan([4] * 6, tolerance=0.5, noise_sd=1.0)
    unknown = levers.plan([4] * 6, tolerance=0.5, expected_noise=1.0)
    assert (unknown.noise_known, unknown.noise_sd, unknown.failure_prob) == (False, 1.0, 0.1)
    assert known.one_shot_runs < unknown.one_shot_runs < 1.1 * known.one_shot_runs  # it is learned as runs come
    assert known.worst_case_runs < unknown.worst_case_runs
    assert levers.plan([4] * 6, tolerance=1.0) == levers.plan([4] * 6, tolerance=1.0, expected_noise=1.0)
    with pytest.raises(levers.LeversError, match="and not both"):
        levers.plan([4] * 6, tolerance=0.5, noise_sd=2.0, expected_noise=1.0)
    # the bound on the noise after a first block of about two runs a parameter is a third too high or more
    look, bounded = (
        levers.plan([4] * 6, tolerance=0.5, min_effect=1.5, noise_sd=sd, expected_noise=e).one_shot_runs
        for sd, e in ((1.0, None), (None, 1.0))
    )
    assert 1.5 * look < bounded < 4 * look
    with pytest.raises(InvalidSettingError, match="sub-Gaussian noise cannot be bounded"):
        levers.plan([4] * 6, tolerance=0.5, expected_noise=1.0, noise="subgaussian")


@pytest.mark.usefixtures("few_worlds")
def test_a_budget_whose_noise_is_not_known() -> None:
    unknown, known = (
        levers.plan([4] * 3, budget=40, noise_sd=sd, expected_noise=e) for sd, e in ((None, 2.0), (2.0, None))
    )
    assert (unknown.noise_known, unknown.noise_sd) == (False, 2.0)
    assert 1 < (unknown.tolerance or 0) / (known.tolerance or 1) < 1.3
    units = levers.plan([4] * 3, budget=40, noise_sd=None)  # nothing is said about the noise: all is in units of it
    assert units.noise_sd == 1.0
    assert units.tolerance == pytest.approx((unknown.tolerance or 0) / 2)
    for half, whole in zip(units.budgets, unknown.budgets, strict=True):
        assert half.loss == pytest.approx((whole.loss or 0) / 2)


@pytest.mark.usefixtures("few_worlds")
def test_no_row_of_a_budget_contradicts_it() -> None:
    found = levers.plan([3, 4, 5, 2], budget=60, noise_sd=1.0)
    assert found.budget == 60
    assert {getattr(found, name) for name in COUNTS if name != "one_at_a_time_runs"} == {60}
    assert [row.runs for row in found.budgets] == [30, 60, 120]
    certified = [row.tolerance or 0 for row in found.budgets]
    losses = [row.loss or 0 for row in found.budgets]
    assert certified == sorted(certified, reverse=True)
    assert found.tolerance == certified[1]
    assert losses == sorted(losses, reverse=True)
    assert all(loss < tolerance for loss, tolerance in zip(losses, certified, strict=True))
    assert (found.necessary_runs or 0) <= 60
    assert levers.plan([3, 4, 5, 2], budget=60, noise_sd=1.0) == found


def test_a_budget_too_small_to_certify_anything_is_planned_all_the_same(request: pytest.FixtureRequest) -> None:
    found = levers.plan([4] * 10, budget=5, noise_sd=1.0)
    assert (found.tolerance, found.least_certified, found.modl_runs, found.lower_bound) == (None, 31, None, None)
    assert [row.runs for row in found.budgets] == [2, 5, 10]
    assert all((row.loss or 0) > 3 * (row.loss_error or 0) > 0 for row in found.budgets)
    request.getfixturevalue("few_worlds")  # the other plans are not about losses
    assert levers.plan([4] * 10, budget=31, noise_sd=1.0).tolerance is not None
    assert levers.plan([4] * 10, budget=31, noise_sd=None).tolerance is None
    assert [row.runs for row in levers.plan([4] * 10, budget=2, noise_sd=1.0).budgets] == [2, 4]


@pytest.mark.usefixtures("few_worlds")
@pytest.mark.parametrize("noise_sd", [1.0, None])
@pytest.mark.parametrize("budget", [30, 200])
def test_a_budget_certifies_what_is_planned_if_nothing_can_be_ruled_out(budget: int, noise_sd: float | None) -> None:
    planned = levers.plan([3] * 6, budget=budget, noise_sd=noise_sd).tolerance
    world = additive_world([[0.0] * 3] * 6)
    solver = Pooled(levers.Problem(world.space, None, 0.1, noise_sd), budget=budget, aim="certify")
    found = [run_on_world(solver, world, seed).within for seed in range(12)]
    assert np.mean(found) == pytest.approx(planned, rel=0.05 if noise_sd else 0.15)


def test_what_is_assumed_about_effects_counts() -> None:
    common: dict[str, Any] = {"noise_sd": 1.0, "effect_sd": 1.0, "n_parents": 3}
    assumed = (common, {**common, "effect_sd": 0.05}, {**common, "n_parents": 1})
    usual, small, few = (one.loss for options in assumed for one in typical_studies([3] * 6, [12], **options) if one)
    assert max(small, few) < usual
    assert typical_studies([5] * 100, [4000], **common) == (None,)  # would take too long


@pytest.mark.usefixtures("few_worlds")
@pytest.mark.parametrize("given", [{"tolerance": 0.5}, {"tolerance": 0.5, "noise_sd": None}, {"budget": 14}])
@pytest.mark.parametrize(
    ("merged", "apart"), [([15, 3, 2], [4, 4, 3, 2]), ([3, 2], [2, 2, 2]), ([8, 5], [3, 3, 5]), ([11, 7], [3, 4, 2, 4])]
)
def test_a_plan_never_promises_fewer_runs_for_more_constraints(
    merged: list[int], apart: list[int], given: dict[str, Any]
) -> None:
    tied, free = merged_plan(merged, apart, **given), levers.plan(apart, **given)
    for name in COUNTS:
        assert getattr(tied, name) >= getattr(free, name), name
    assert asdict(tied)["n_factors"] == len(apart)
    for one, other in zip(tied.budgets, free.budgets, strict=True):
        assert one.tolerance is None or one.tolerance >= (other.tolerance or 0)


def test_what_a_forbidden_pair_costs_is_planned_as_it_is() -> None:
    """Levers of 4, 3, 2 and 3 levels, of which a pair cannot be run together; studied where nothing matters."""
    group = Group((4, 3), (two(0, 3, 1, 2),), others=(2, 3))
    given: dict[str, Any] = {"tolerance": 0.5, "noise_sd": 1.0}
    tied, free = merged_plan([11, 2, 3], [4, 3, 2, 3], group.parts, **given), levers.plan([4, 3, 2, 3], **given)
    for name in COUNTS:
        assert getattr(free, name) < getattr(tied, name) < 1.4 * getattr(free, name), name
    assert (tied.n_factors, tied.full_factorial) == (4, 66)
    assert tied.runs_if_nothing_matters == pytest.approx(mean_runs(group, PARTS_RULES, 3), rel=0.1)
    spent = merged_plan([11, 2, 3], [4, 3, 2, 3], group.parts, budget=60, noise_sd=1.0)
    assert [one.runs for one in spent.budgets] == [30, 60, 120]
    assert spent.tolerance == spent.budgets[1].tolerance
    for one, other in zip(spent.budgets, levers.plan([4, 3, 2, 3], budget=60, noise_sd=1.0).budgets, strict=True):
        assert one.tolerance is not None
        assert other.tolerance is not None
        assert other.tolerance < one.tolerance < 1.3 * other.tolerance
    on_purpose = merged_plan([12, 2, 3], [4, 3, 2, 3], ((), (), ()), **given)
    assert on_purpose.one_shot_runs > tied.one_shot_runs


@pytest.mark.parametrize("name", ["tolerance", "noise_sd", "expected_noise", "min_effect"])
@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e300])
def test_numbers_beyond_all_measure_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidSettingError, match="choose another unit") as refused:
        levers.plan([2, 3], **{"tolerance": 1.0, name: value})  # type: ignore[arg-type]
    assert refused.value.field == name


def test_a_plan_for_hardly_any_noise() -> None:
    found = levers.plan([2], tolerance=1e99, noise_sd=1e-99, min_effect=1e-99, max_parents=1)
    assert found.one_shot_runs == 2


@pytest.mark.usefixtures("few_worlds")
def test_days_are_counted_by_the_runs_made_together() -> None:
    assert levers.plan([3] * 4, budget=24).days(24) is None
    found = levers.plan([3] * 4, tolerance=0.5, noise_sd=1.0, block_size=8)
    assert [found.days(n) for n in (1, 8, 9, 16)] == [1, 1, 2, 2]
    assert replace(found, block_size=None) == levers.plan([3] * 4, tolerance=0.5, noise_sd=1.0)
    with pytest.raises(InvalidSettingError, match="block_size"):
        levers.plan([3] * 4, budget=24, block_size=0)
