"""What is particular to the peers and baselines that CFS is compared with."""

import numpy as np
import pytest

from levers.algorithms.arms import action_codes
from levers.algorithms.base import Batch, Problem, run_to_verdict
from levers.algorithms.baselines.fractional_factorial import FractionalFactorial
from levers.algorithms.baselines.one_at_a_time import OneAtATime
from levers.algorithms.baselines.random_search import RandomSettings
from levers.algorithms.baselines.thompson import Thompson
from levers.algorithms.baselines.tpe import Tpe
from levers.algorithms.linear_bandits.features import (
    arm_features,
    directions,
    information,
    inverted,
    rounded,
    spreads,
    xy_design,
)
from levers.algorithms.linear_bandits.lingape import LinGapE, telling_runs
from levers.algorithms.linear_bandits.rage import Rage
from levers.algorithms.linear_bandits.unions import MarginalUnions, cover
from levers.algorithms.linear_bandits.xy_adaptive import XYAdaptive, greedy_runs
from levers.algorithms.modl import Modl
from levers.algorithms.registry import make_algorithm
from levers.core.space import Space
from levers.errors import InvalidSettingError
from levers.experiments.compare import Comparison
from levers.experiments.runner import run_on_world
from levers.worlds.named import even_table
from levers.worlds.outcome import AdditiveOutcome, Noise
from levers.worlds.scm import World, gap

STOPPING = ("rage", "xy-adaptive", "lingape", "ucb", "modl-unions")


def world_with(effects: dict[int, tuple[float, ...]], sizes: list[int], sd: float = 1.0) -> World:
    return World(Space.sized(sizes), [even_table(m) for m in sizes], AdditiveOutcome(effects, Noise(sd)))


# designs


def test_features_span_what_the_one_hot_design_does() -> None:
    sizes = (2, 3, 4)
    features = arm_features(sizes)
    assert np.linalg.matrix_rank(features) == features.shape[1] == sum(sizes) - len(sizes) + 1
    assert np.allclose(information(features, np.full(24, 1 / 24)), np.eye(7))  # orthonormal over all arms
    effects = [np.array([0.0, 1.0]), np.array([3.0, 0.0, 1.0]), np.array([0.0, 0.5, 2.0, 1.0])]
    codes = action_codes(Space.sized(sizes), np.arange(24))
    means = sum(effect[codes[:, k]] for k, effect in enumerate(effects))
    assert np.allclose(features @ np.linalg.lstsq(features, means)[0], means)


def test_the_search_for_a_design_beats_equal_weights_and_is_near_what_a_solver_finds() -> None:
    """For one direction the optimum is known: ||y||^2 of the least weights that write y as a sum of arms (here 4)."""
    features = arm_features((3, 3))
    side = (features[0] - features[4])[None, :]
    weights, found = xy_design(features, side)
    equal = float(spreads(side, inverted(information(features, np.full(9, 1 / 9))))[0])
    assert weights.sum() == pytest.approx(1.0)
    assert 4.0 <= found < 4.1 < equal == pytest.approx(12.0)


def test_rounding_keeps_the_number_of_runs_and_the_proportions() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(20))
    for n_runs in (3, 25, 1000):
        counts = rounded(weights, n_runs)
        assert counts.sum() == n_runs
    assert np.abs(counts / 1000 - weights).max() < 1.5 / 1000 + 0.01


def test_greedy_rules_choose_what_a_search_over_all_arms_chooses() -> None:
    features = arm_features((2, 3))
    sides = directions(features)
    counts, _ = greedy_runs(features, sides, target=0.0, enough=0.5)
    worst = float(spreads(sides, inverted(information(features, counts))).max())
    assert worst <= 0.5 + 1e-6
    matrix = np.eye(4) + information(features, np.array([3, 1, 0, 2, 1, 0]))
    arms = telling_runs(features, matrix, 0, 4, 3)
    side = features[0] - features[4]
    for arm in arms:
        after = [side @ np.linalg.inv(matrix + np.outer(x, x)) @ side for x in features]
        assert after[int(arm)] == pytest.approx(min(after))
        matrix = matrix + np.outer(features[arm], features[arm])


# methods that stop


@pytest.mark.parametrize("name", STOPPING)
def test_they_stop_within_the_tolerance_on_a_flat_and_on_a_clear_outcome(name: str) -> None:
    flat = world_with({0: (0.0, 0.0)}, [2, 2])
    clear = world_with({0: (0.0, 3.0), 1: (0.0, 3.0)}, [2, 2])
    runs = []
    for world in (flat, clear):
        algorithm = make_algorithm(name, Problem(world.space, 0.5, 0.1, 1.0))
        verdict = run_on_world(algorithm, world, seed=0)
        runs.append(verdict.n_runs)
        assert gap(world, verdict.assignment.codes) == 0.0
    assert runs[1] < runs[0] / 2  # clear effects are seen early


@pytest.mark.parametrize("name", STOPPING)
def test_they_keep_their_promise_on_random_worlds(name: str) -> None:
    """10 studies each: more than 3 failures are beyond chance at 0.1 (p = 0.013). benchmarks/peers.py counts more."""
    plan = Comparison(3, 3, (2, 3), tolerance=1.0, make_worlds=False)
    failures = 0
    for seed in range(10):
        world = plan.world(seed)
        failures += gap(world, run_on_world(plan.algorithm(name, world), world, seed).assignment.codes) > 1.0
    assert failures <= 3


def test_rage_drops_arms_so_that_its_designs_leave_them() -> None:
    world = world_with({0: (0.0, 3.0), 1: (0.0, 0.0, 0.1)}, [2, 3])
    rage = Rage(Problem(world.space, 0.5, 0.1, 1.0), outcome_bound=8.0)
    noise, state, alive = np.random.default_rng(3), rage.start(), list[int]()
    while isinstance(step := rage.ask(state, noise), Batch):
        state = rage.tell(state, step, world.sample(step.codes, noise).outcomes)
        alive.append(len(state.alive))
    assert rage.widths == (2.0, 1.0, 0.5)
    assert alive[0] == 3  # the worse level of the first factor is gone
    assert step.assignment["X1"] == 2


def test_phases_of_xy_adaptive_follow_its_rule_until_the_tolerance_ends_them() -> None:
    xy = XYAdaptive(Problem(Space.sized([3, 3]), 0.5, 0.1, 1.0))
    state = xy.start()
    first = int(state.planned.sum())
    assert state.uncertainty is not None
    assert state.uncertainty < 0.1 / (5 * 6 + 1)
    flat = np.zeros(first)
    step = xy.ask(state, np.random.default_rng(0))
    assert isinstance(step, Batch)
    second = int(xy.tell(state, step, flat).planned.sum())
    assert second / first == pytest.approx(np.sqrt(10), rel=0.1)  # rho / n falls as 1 / n^2 while all arms are in play


def test_one_run_at_a_time_needs_about_the_same_number_of_runs() -> None:
    world = world_with({0: (0.0, 1.5), 1: (0.0, 1.0)}, [2, 2])
    problem = Problem(world.space, 1.0, 0.1, 1.0)
    for name in ("lingape", "ucb"):
        single, batched = (
            np.mean([run_on_world(make_algorithm(name, problem, growth=g), world, seed).n_runs for seed in range(3)])
            for g in (0.0, 0.05)
        )
        assert batched < 1.2 * single


def test_a_wrong_bound_is_what_lingape_rests_on() -> None:
    problem = Problem(Space.sized([2, 2]), 0.5, 0.1, 1.0)
    assert LinGapE(problem, mean_bound=5.0).prior == pytest.approx(0.04)
    assert "mean_bound" in run_on_world(LinGapE(problem), world_with({0: (0.0, 2.0)}, [2, 2]), 0).guarantee


# unions of marginal sets


def test_more_boxes_cover_less_and_enough_of_them_are_exact() -> None:
    rng = np.random.default_rng(5)
    larger = 0
    for _ in range(40):
        gaps = [np.append(0.0, rng.exponential(1.0, size=m)) for m in (2, 3, 2)]
        gaps = [rng.permutation(gap) for gap in gaps]
        total = gaps[0][:, None, None] + gaps[1][None, :, None] + gaps[2][None, None, :]
        exact = total < 1.5
        box = np.ones_like(exact)
        for k, gap_k in enumerate(gaps):
            box &= (gap_k < 1.5).reshape([-1 if i == k else 1 for i in range(3)])
        sets = [cover(gaps, 1.5, n) for n in (1, 2, 3, None)]
        assert (sets[0] == box).all()
        assert (sets[3] == exact).all()
        assert all((one | exact == one).all() for one in sets)
        sizes = [int(one.sum()) for one in sets]
        assert sizes == sorted(sizes, reverse=True)
        larger += sizes[0] > sizes[3]
    assert larger > 10


def test_one_union_is_modl_and_the_exact_set_takes_no_more_runs() -> None:
    """The same numbers of runs while nothing is dropped: 2 sigma^2 2 sum_k |S_k| log(L / delta) / gamma^2."""
    problem = Problem(Space.sized([3, 3]), 0.5, 0.1, 1.0)
    modl, one = Modl(problem), MarginalUnions(problem, unions=1)
    lengths = [modl.runs_in_phase(modl.start()), int(one.start().planned.sum())]
    assert abs(lengths[0] - lengths[1]) <= 5  # so few runs cannot be balanced, and are measured here
    with pytest.raises(InvalidSettingError, match="unions"):
        MarginalUnions(problem, unions=0)


# methods that spend a budget


def test_one_at_a_time_compares_each_factor_around_what_is_best_so_far() -> None:
    world = world_with({0: (0.0, 9.0, 1.0), 1: (5.0, 0.0), 2: (0.0, 0.0, 7.0)}, [3, 2, 3], sd=0.1)
    rows = list[np.ndarray]()
    method = OneAtATime(Problem(world.space, None, 0.1, None), budget=24)
    verdict = run_on_world(method, world, 1, on_batch=lambda batch: rows.append(batch.codes))
    assert verdict.assignment.codes == (1, 0, 2)
    assert [len(batch) for batch in rows] in ([9, 6, 9], [9, 9, 6], [6, 9, 9])
    assert all(sum(len(set(batch[:, k])) > 1 for k in range(3)) == 1 for batch in rows)
    few = run_on_world(OneAtATime(method.problem, budget=2), world, 1)
    assert few.n_runs == 2


def test_a_fractional_factorial_sets_what_is_significant_and_leaves_the_rest() -> None:
    world = world_with({0: (0.0, 3.0, 0.0), 3: (0.0, 2.0)}, [3, 4, 3, 2])
    method = FractionalFactorial(Problem(world.space, None, 0.1, None), budget=72)
    kept = [run_on_world(method, world, seed).assignment.codes for seed in range(10)]
    assert all(codes[0] == 1 and codes[3] == 1 for codes in kept)
    assert sum(codes[1] == 0 and codes[2] == 0 for codes in kept) >= 7  # 5 % of tests find what is not there
    few = run_on_world(FractionalFactorial(method.problem, budget=4), world, 0)  # too few for any test
    assert few.n_runs == 4


def test_random_search_recommends_the_best_outcome_seen() -> None:
    seen: list[tuple[float, tuple[int, ...]]] = []

    def outcomes_of(batch: Batch) -> tuple[Batch, np.ndarray]:
        y = np.random.default_rng(len(seen)).normal(size=batch.n_runs)
        seen.extend(zip(y.tolist(), map(tuple, batch.codes.tolist()), strict=True))
        return batch, y

    method = RandomSettings(Problem(Space.sized([5, 5]), None, 0.1, None), budget=30)
    verdict = run_to_verdict(method, outcomes_of, np.random.default_rng(0))
    assert verdict.assignment.codes == max(seen)[1]


@pytest.mark.parametrize("noise_sd", [1.0, None])
def test_thompson_sampling_runs_what_it_finds_good(noise_sd: float | None) -> None:
    world = world_with({0: (0.0, 3.0, 0.0), 1: (0.0, 0.0, 3.0)}, [3, 3, 3])
    rows = list[np.ndarray]()
    method = Thompson(Problem(world.space, None, 0.1, noise_sd), budget=80)
    verdict = run_on_world(method, world, 4, on_batch=lambda batch: rows.append(batch.codes))
    assert verdict.assignment.codes[:2] == (1, 2)
    late = np.concatenate(rows)[40:]
    assert (late[:, 0] == 1).mean() > 0.8


def test_tpe_depends_on_its_runs_alone() -> None:
    """A study that is kept to save time suggests what a fresh one does."""
    world = world_with({0: (0.0, 3.0, 0.0)}, [3, 3])
    problem = Problem(world.space, None, 0.1, None)
    kept, rng, noise = Tpe(problem, budget=30), np.random.default_rng(0), np.random.default_rng(1)
    state = kept.start()
    for _ in range(25):
        step = kept.ask(state, rng)
        assert isinstance(step, Batch)
        state = kept.tell(state, step, world.sample(step.codes, noise).outcomes)
    for seed in range(5):
        one, other = (tpe.ask(state, np.random.default_rng(seed)) for tpe in (kept, Tpe(problem, budget=30)))
        assert isinstance(one, Batch)
        assert isinstance(other, Batch)
        assert (one.codes == other.codes).all()
