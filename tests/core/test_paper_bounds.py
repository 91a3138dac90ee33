"""The paper's theorems as formulas: what MODL runs against its bound, and a search for a needle against its own."""

import math

import numpy as np
import pytest

from levers.algorithms.base import Problem
from levers.algorithms.modl import Modl
from levers.core.certificates.modl_bound import (
    SURVIVALS,
    corrected_bound,
    level_gaps,
    phase_sum,
    smallest_gap,
    theorem_bound,
)
from levers.core.certificates.needle_bound import flat_world_bound, needle_bound
from levers.core.certificates.sample_size import SCHEDULES, make_schedule
from levers.errors import InvalidSettingError
from levers.experiments.runner import run_by_phases
from levers.worlds.outcome import AdditiveOutcome
from levers.worlds.random import random_world
from levers.worlds.scm import World

ASKED = (0.5, 0.1, 1.0)
BOUND = 5.0
N_FACTORS = 6


def gaps_of(world: World) -> tuple[tuple[float, ...], ...]:
    assert isinstance(world.outcome, AdditiveOutcome)
    sizes, effects = world.space.n_levels, world.outcome.effects
    return level_gaps([effects.get(k, (0.0,) * m) for k, m in enumerate(sizes)])


def worlds(n_parents: int, n: int = 8) -> list[World]:
    return [random_world(N_FACTORS, n_parents, np.random.default_rng([7, n_parents, i])) for i in range(n)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n_parents", [1, 3, 6])
@pytest.mark.parametrize("known", [False, True])
def test_real_runs_lie_near_the_sum_and_below_what_is_certain(schedule: str, n_parents: int, known: bool) -> None:
    plan = make_schedule(schedule, N_FACTORS, ASKED[0], BOUND)
    ratios = []
    for i, world in enumerate(worlds(n_parents)):
        enough = n_parents if known else None
        modl = Modl(Problem(world.space, *ASKED), schedule, enough, BOUND)
        real = run_by_phases(modl, world, i).n_runs
        sums = {rule: phase_sum(gaps_of(world), plan, *ASKED[1:], enough, rule) for rule in SURVIVALS}
        assert sums["proof"] <= sums["noiseless"] <= sums["certain"]
        assert real <= sums["certain"] <= corrected_bound(gaps_of(world), plan, *ASKED[1:], known)
        ratios.append(real / sums["noiseless"])
    # a gap near a width may go either way, and told the parents that is a phase of four times the runs
    assert math.exp(np.mean(np.log(ratios))) == pytest.approx(1.0, rel=0.3 if known else 0.12)


@pytest.mark.parametrize(("n_parents", "known"), [(1, False), (3, False), (1, True)])
def test_the_schedule_of_the_proof_exceeds_the_theorem_about_four_times(n_parents: int, known: bool) -> None:
    """The last width is eps/2K where the theorem has eps/K; with known parents also a phase more than it counts."""
    plan = make_schedule("proof", 10, ASKED[0], BOUND)
    over = []
    for i in range(20):
        gaps = gaps_of(random_world(10, n_parents, np.random.default_rng([8, i]), max_in_degree=2))
        bound = theorem_bound(gaps, *ASKED, BOUND, known_parents=known, log_base=math.e)
        over.append(phase_sum(gaps, plan, *ASKED[1:], n_parents if known else None, "noiseless") / bound)
    assert 3.5 < max(over) < 4.6
    if not known:
        assert min(over) > 3.5


def test_the_bound_falls_as_gaps_grow_and_knowing_the_parents_helps() -> None:
    gaps = [(0.0, 0.3, 0.9), (0.0, 0.0)]
    bound = theorem_bound(gaps, *ASKED, BOUND)
    assert theorem_bound([(0.0, 0.6, 0.9), (0.0, 0.0)], *ASKED, BOUND) < bound
    assert theorem_bound(gaps, *ASKED, BOUND, known_parents=True) < bound
    assert theorem_bound(gaps, *ASKED, BOUND, log_base=math.e) < bound
    assert theorem_bound(gaps, *ASKED, BOUND, schedule="released-code") < bound
    assert smallest_gap(gaps) == 0.3
    # by hand: r = 1/4, log2(20) phases, levels at 1/4 (thrice), 0.3 and 0.9
    by_hand = 16 / 3 * math.log(math.log2(20) / 0.1) * (3 * 16 + 1 / 0.09 + 1 / 0.81)
    assert bound == pytest.approx(by_hand)


def test_wrong_gaps_are_refused() -> None:
    for gaps in ([], [(0.0, -1.0)]):
        with pytest.raises(InvalidSettingError, match="gaps are numbers from 0 up"):
            theorem_bound(gaps, *ASKED, BOUND)
    with pytest.raises(InvalidSettingError, match="schedule"):
        theorem_bound([(0.0, 1.0)], *ASKED, BOUND, schedule="none")
    with pytest.raises(InvalidSettingError, match="no parents"):
        theorem_bound([(0.0, 0.0)], *ASKED, BOUND, known_parents=True)


def test_needle_bounds_grow_as_the_theorem_says() -> None:
    for n, eps, delta in ((64, 0.5, 0.1), (1000, 0.2, 0.01)):
        one = flat_world_bound(n, eps, delta, 1.0)
        assert flat_world_bound(2 * n, eps, delta, 1.0) / one == pytest.approx(2, rel=0.05)
        assert flat_world_bound(n, eps / 2, delta, 1.0) / one == pytest.approx(4)
        assert flat_world_bound(n, eps, delta, 2.0) / one == pytest.approx(4)
        assert flat_world_bound(n, eps, delta**2, 1.0) / one == pytest.approx(2, rel=0.1)
        assert needle_bound(2 * n, eps, delta, 1.0) / needle_bound(n, eps, delta, 1.0) == pytest.approx(2, rel=0.1)
    assert needle_bound(1, 1.0, 0.1, 1.0) == 0.0


def test_a_good_search_for_a_needle_stays_above_the_bound() -> None:
    """Rounds of a few runs at each setting, until one is far ahead: told the height, and wrong in few of 300 cases."""
    rng, n_settings, height = np.random.default_rng(5), 32, 1.0
    runs, wrong = [], 0
    for _ in range(300):
        sums, n = np.zeros(n_settings), 0
        while True:
            n += 1
            sums += rng.normal(0.0, 1.0, n_settings)
            sums[0] += height
            # the posterior of each place of the needle, all equally likely at first
            weights = np.exp(height * (sums - sums.max()))
            if weights.max() / weights.sum() >= 0.9:
                break
        runs.append(n * n_settings)
        wrong += int(sums.argmax() != 0)
    assert wrong / 300 <= 0.13  # it keeps the promise, up to chance
    bound = needle_bound(n_settings, height, 0.1, 1.0)
    assert bound < np.mean(runs) < 40 * bound
