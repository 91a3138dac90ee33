"""A planned look: its tails are never below what is simulated, its designs are even, its envelope is kept."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from harness.looks import price_ratios, random_effects, total_loss
from levers.core.certificates.certificate import scale_needed
from levers.core.certificates.look import (
    look_risk,
    null_spread,
    plan_look,
    plan_subgaussian_look,
    wrongly_dismissed,
)
from levers.core.certificates.sums import dp_bound
from levers.core.designs.arrays import ArraySize, collapsed_copies, collapsed_levels
from levers.core.designs.build import certified_design, make_design
from levers.core.designs.design import Design
from levers.core.designs.search import evened

N = 200_000


def dismissed_at(effects: np.ndarray, spread: float, rng: np.random.Generator, n: int = N) -> np.ndarray:
    """Of n looks at one factor: what was lost where it was dismissed, and -1 elsewhere. Standard errors are 1."""
    means = effects + rng.normal(size=(n, len(effects)))
    ordered = np.sort(means, axis=1)
    lost = effects.max() - effects[means.argmax(axis=1)]
    return np.where(ordered[:, -2] - ordered[:, 0] < spread, lost, -1.0)


@pytest.mark.parametrize("m", [3, 4, 6, 9])
def test_the_spread_of_equal_levels_is_exceeded_as_often_as_said(m: int, rng: np.random.Generator) -> None:
    left = 0.05
    kept = int((dismissed_at(np.zeros(m), null_spread(m, left), rng) < 0).sum())
    assert binom.cdf(kept, N, left) > 1e-4
    assert binom.sf(kept, N, left) > 1e-4


@pytest.mark.parametrize("m", [3, 4, 5, 6, 12])
@pytest.mark.parametrize("margin", [1.5, 3.0])
def test_wrong_dismissals_are_never_more_frequent_than_counted(m: int, margin: float, rng: np.random.Generator) -> None:
    spread = 3.0
    effect = spread + margin
    tied, proven = wrongly_dismissed(m, margin), wrongly_dismissed(m, margin, tied=False)
    assert (proven >= tied - 2e-7).all()
    for trial in range(24):  # the best, the worst, and others at gaps of every kind between them
        gaps = rng.choice([rng.uniform(0, effect, m - 2), np.full(m - 2, rng.uniform(0, 4)), 3 * rng.beta(1, 3, m - 2)])
        if trial % 3 == 0:
            gaps[1:] = effect / 2  # one rival alone is the worst case for small gaps
        effects = -np.concatenate([[0.0], gaps, [effect]])
        lost = dismissed_at(effects, spread, rng, 40_000)
        for gap in (0.5, 1.0, 1.5, 2.0, 3.0):
            found = int(((lost >= gap) & (lost < effect)).sum())
            assert binom.sf(found - 1, 40_000, tied[int(gap / 0.05)]) > 1e-5, (gaps, gap)


def test_one_rival_at_a_gap_of_one_is_dismissed_wrongly_nearly_as_often_as_counted(rng: np.random.Generator) -> None:
    lost = dismissed_at(np.array([0.0, -1.0, -5.0]), 3.0, rng)
    share = ((lost > 0) & (lost < 5)).mean()
    assert 0.85 * wrongly_dismissed(3, 2.0)[20] < share


def test_a_longer_look_is_safer_and_a_looser_one_is_not() -> None:
    factors = [(3, True)] * 4 + [(5, True)] * 4
    risks = [look_risk(factors, n, 0.6, 0.5, 0.05, 0.04) for n in (300, 500, 900, 4000)]
    assert risks == sorted(risks, reverse=True)
    assert risks[-1] < 0.041
    assert look_risk(factors, 500, 0.6, 0.5, 0.001, 0.04) > look_risk(factors, 500, 0.6, 0.5, 0.05, 0.04)
    assert look_risk(factors, 500, 0.6, 0.5, 0.05, 0.04, max_parents=2) < risks[1]
    assert look_risk(factors, 500, 0.6, 0.5, 0.05, 0.04, proven=True) > risks[1]
    assert look_risk(factors, 500, 0.6, 0.5, 0.05, 0.04, coupling=1.3) > risks[1]
    assert look_risk([(5, True)], 20, 0.6, 0.5, 0.05, 0.04) == 1.0  # the effect is smaller than the spread


def test_a_planned_look_keeps_to_its_risk() -> None:
    factors = tuple([(3, True)] * 6 + [(4, False)] * 2 + [(6, True)] * 4)
    look = plan_look(factors, 0.5, 0.5, 0.09)
    left = min(0.1, 1.5 / 10)
    risk = look_risk(factors, look.n_runs, 0.5, 0.5, left, look.selection, coupling=look.coupling)
    assert 0.08 < risk <= 0.09
    assert [m for m, _ in look.spread] == [3, 6]
    shorter = plan_look(factors, 0.5, 0.5, 0.09, max_parents=2)
    assert shorter.n_runs < look.n_runs < plan_look(factors, 0.5, 0.5, 0.09, proven=True).n_runs


def test_factors_of_two_levels_are_settled_by_any_look() -> None:
    look = plan_look(((2, True),) * 8, 0.5, 0.5, 0.09)
    assert look.dismisses(np.array([5.0, 0.0]), 0.1)


@pytest.mark.parametrize("gap", [0.05, 0.1, 0.15, 0.25, 0.5])
@pytest.mark.parametrize("rivals", [1, 2, 4])
def test_the_expected_envelope_is_below_its_bound(gap: float, rivals: int, rng: np.random.Generator) -> None:
    """The worst effects that a look can meet: all factors parents at the edge, with some rivals close to the best."""
    look = plan_look(((6, True),) * 12, 0.5, 0.5, 0.09)
    effects = -np.array([0.0] + [gap] * rivals + [0.3] * (4 - rivals) + [0.5])
    lost = total_loss(look, effects, 12, rng, 40_000) / 0.5
    envelope = np.minimum(look.selection ** (1 - lost / look.reach), 1.0)
    assert envelope.mean() + 4 * envelope.std() / 200 < 0.09


@pytest.mark.parametrize(("n_factors", "m", "min_effect"), [(1, 4, 1.0), (4, 6, 1.0), (12, 3, 0.3), (30, 4, 0.3)])
def test_the_price_of_a_factor_is_not_exceeded_by_unequal_gaps(
    n_factors: int, m: int, min_effect: float, rng: np.random.Generator
) -> None:
    """E g(loss) <= sup_t g(t) T(t) for the envelope g in use, on effects of every kind."""
    look = plan_look(((m, True),) * n_factors, min_effect, 0.5, 0.09)
    error = math.sqrt(m / look.n_runs)
    for _ in range(12):
        effects = random_effects(m, min_effect, error, rng)
        ratio, sem, _ = price_ratios(look, effects, min_effect, 0.5, rng, 40_000)
        assert ratio - 3 * sem <= 1, effects


def test_one_gap_is_the_worst_for_the_envelope_in_use_and_not_for_every_growing_loss(rng: np.random.Generator) -> None:
    """Thirty factors of three levels, a rival near the best: the price is nearly reached, and exceeded by another g."""
    look = plan_look(((3, True),) * 30, 0.3, 0.5, 0.09)
    error = math.sqrt(3 / look.n_runs)
    effects = -np.array([0.0, 2.2 * error, 0.3])
    ratio, sem, worst_growth = price_ratios(look, effects, 0.3, 0.5, rng, 1_000_000)
    assert 0.85 < ratio < 1
    assert sem < 0.015
    assert worst_growth > 1.1


def test_the_bound_is_not_far_above_what_the_worst_effects_reach(rng: np.random.Generator) -> None:
    look = plan_look(((6, True),) * 12, 0.5, 0.5, 0.09)
    reached = []
    for gap in (0.1, 0.15, 0.2):
        effects = -np.array([0.0] + [gap] * 2 + [0.3] * 2 + [0.5])
        lost = total_loss(look, effects, 12, rng, 40_000) / 0.5
        reached.append(float(np.minimum(look.selection ** (1 - lost / look.reach), 1.0).mean()))
    assert max(reached) > 0.055  # of 0.09, of which 0.045 is the selection's


@pytest.mark.parametrize("levels", [(2,), (3, 3), (2, 4, 5), (3,) * 8])
def test_a_selection_under_the_envelope_fails_no_more_often_than_it_allows(levels: tuple[int, ...]) -> None:
    prob, reach = 0.045, 0.7
    plain, scale = scale_needed(levels, prob), scale_needed(levels, prob, "slippage", reach)
    assert plain <= scale * 1.001 < 1.6 * plain
    for lost in np.linspace(0, 0.69, 12):  # with a share already lost, the rest of the tolerance is left
        assert dp_bound(levels, scale * (1 - lost)) <= prob ** (1 - lost / reach) * 1.001


def test_the_chernoff_bound_keeps_the_envelope_too() -> None:
    levels = (5,) * 400  # too much for the dynamic programme
    scale = scale_needed(levels, 0.045, "slippage", 0.7)
    assert scale >= scale_needed(levels, 0.045)
    for lost in (0.1, 0.4, 0.6):
        assert dp_bound(levels[:40], scale / math.sqrt(10) * (1 - lost)) <= 0.045 ** (1 - lost / 0.7)


def uneven(sizes: tuple[int, ...], n_copies: int) -> np.ndarray:
    return collapsed_copies(ArraySize(7, 2, 49), collapsed_levels(7, sizes, n_copies, np.random.default_rng(0)))


def test_evening_out_makes_counts_equal_and_hardly_couples_factors() -> None:
    sizes = (3, 4, 5, 6, 6, 5)
    rows = uneven(sizes, 3)
    even = evened(rows, sizes)
    assert all(np.ptp(np.bincount(even[:, k])) <= 1 for k in range(6))
    before, after = Design(rows, sizes, ""), Design(even, sizes, "")
    assert after.single_inflation < 1.07 < 1.1 < before.single_inflation
    assert after.coupling < 1.25
    moved = np.random.default_rng(1)
    careless = rows.copy()
    for k in range(6):
        at = np.flatnonzero(even[:, k] != rows[:, k])
        careless[moved.permutation(len(rows))[: len(at)], k] = even[at, k]
    assert after.coupling < Design(careless, sizes, "").coupling


def test_the_coupling_is_what_the_inequality_needs() -> None:
    """T <= p diag(T), T being the errors' covariance once each factor's own part is made c I."""
    sizes = (3, 4, 5, 2)
    design = make_design(sizes, 31, seed=2)
    total = design.spectrum[0].inverse[0]
    begin = 0
    for m in sizes:
        total[begin : begin + m - 1, begin : begin + m - 1] = design.single_inflation * np.eye(m - 1)
        begin += m - 1
    assert np.linalg.eigvalsh(design.coupling * design.single_inflation * np.eye(begin) - total)[0] > -1e-9
    assert design.coupling > 1.01
    assert make_design((3, 3, 3), 9, seed=0).coupling == 1.0


def test_coupled_factors_fail_together_no_more_often_than_the_power_allows(rng: np.random.Generator) -> None:
    """E prod f_k <= prod E[f_k^p]^(1/p) for Gaussian blocks with T <= p diag(T), on functions like those of a look."""
    n_blocks, rho = 6, 0.15
    covariance = (1 - rho) * np.eye(n_blocks) + rho
    p = 1 + rho * (n_blocks - 1)
    x = rng.multivariate_normal(np.zeros(n_blocks), covariance, size=400_000)
    for threshold, height in ((1.0, 3.0), (2.0, 10.0), (-0.5, 1.2)):
        together = np.where(x > threshold, height, 1.0).prod(axis=1)
        alone = (1 + (x[:, 0] > threshold).mean() * (height**p - 1)) ** (n_blocks / p)
        assert together.mean() - 4 * together.std() / 632 <= alone
        assert together.mean() > (1 + (x[:, 0] > threshold).mean() * (height - 1)) ** n_blocks  # coupling does matter


def test_a_design_for_a_look_is_worth_what_it_must_be() -> None:
    sizes = (3, 4, 5, 6) * 4
    design = certified_design(sizes, 350.0, seed=1, single=True, most_coupling=1.3)
    assert design.n_runs / design.single_inflation >= 350
    assert design.coupling <= 1.3
    assert design.n_runs < 1.1 * 350


def test_a_look_at_sub_gaussian_noise_loses_nothing() -> None:
    look = plan_subgaussian_look(((3, True), (3, False), (5, True)), 0.5, 0.1)
    assert (look.reach, look.selection) == (0.0, 0.05)
    assert look.n_runs > plan_look(((3, True), (3, False), (5, True)), 0.5, 0.5, 0.1).n_runs
    for m, spread in look.spread:
        margin = 0.5 / math.sqrt(m / look.n_runs) - spread
        assert 2 * math.exp(-(margin**2) / 4) <= 0.025 + 1e-9  # one pair each, a difference has twice the variance
    assert sum((2, 2, 4)) * math.exp(-(look.apart**2) / 4) <= 0.025 + 1e-9


def test_a_look_is_not_planned_where_it_would_need_a_design_that_may_not_exist() -> None:
    assert plan_look(((2, True), (3, True)) * 5, 1.0, 0.5, 1e-7).n_runs == math.inf  # enough only if exactly orthogonal


def test_so_many_factors_that_the_risk_overflows_are_only_a_risk_of_one() -> None:
    assert look_risk([(2, True)] * 5000, 20.0, 1.0, 1.0, 0.001, 0.04, coupling=2.0) == 1.0
    assert math.isfinite(plan_look(((2, True),) * 300, 1.0, 1.0, 0.05).n_runs)
