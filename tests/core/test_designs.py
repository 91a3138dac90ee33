import math

import numpy as np
import pytest

from levers.core.designs.arrays import rao_hamming
from levers.core.designs.build import certified_design, largest_design, make_design
from levers.core.designs.design import Design, estimate_block, independent_effects
from levers.core.designs.mixes import mix_to_start_from, mixed_design, mixed_rows, mixes
from levers.core.designs.random import balanced_rows
from levers.core.designs.search import Effort, roughly_evened, searched_rows, swap_improved
from levers.core.model.fit import Fit
from levers.core.model.level_index import all_levels, contrast_basis
from levers.core.model.moments import LevelSums, Moments, pair_counts


def mean_inflation(design: Design) -> float:
    """The average over directions of 1 / eigenvalue; infinite when a contrast is not determined."""
    values = np.concatenate([blocks.values.ravel() for blocks in design.spectrum])
    return float(np.mean(1.0 / values)) if values.min() > 1e-9 else math.inf


def imbalance(design: Design) -> float:
    """max |n_ij m_k m_l / n - 1| over levels of different factors (of one factor: level counts)."""
    ideal = design.n_runs / np.repeat(design.sizes, design.sizes).astype(np.float64)
    owner = np.repeat(np.arange(len(design.sizes)), design.sizes)
    level = float(np.abs(design.counts.diagonal() / ideal - 1).max())
    pairs = np.abs(design.counts / (np.outer(ideal, ideal) / design.n_runs) - 1)[owner[:, None] != owner]
    return max(level, float(pairs.max(initial=0.0)))


def test_swaps_make_columns_more_orthogonal_and_keep_level_counts() -> None:
    sizes = (3, 4, 5, 6, 2, 3, 4, 5, 6, 2)
    start = balanced_rows(tuple(tuple(range(m)) for m in sizes), 60, np.random.default_rng(0))
    better = swap_improved(start, sizes, rounds=20)
    before, after = Design(start, sizes, ""), Design(better, sizes, "")
    assert mean_inflation(after) < 1.12 < 1.6 < mean_inflation(before)
    assert after.inflation < before.inflation / 2
    assert all((np.bincount(start[:, k]) == np.bincount(better[:, k])).all() for k in range(10))


def test_inflation_is_the_largest_loss_of_precision_of_any_contrast() -> None:
    """No combination of contrasts has more variance, over its variance in an ideal design, than `inflation`."""
    sizes = (3, 2, 4)
    design = make_design(sizes, 20, seed=3)
    x = np.hstack([np.eye(m)[design.rows[:, k]] for k, m in enumerate(sizes)])
    inverse = np.linalg.pinv(x.T @ x)
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(2000):
        parts = [rng.normal(size=m) for m in sizes]
        parts = [p - p.mean() for p in parts]
        direction = np.concatenate(parts)
        ideal = sum(float(p @ p) * m / 20 for p, m in zip(parts, sizes, strict=True))
        ratios.append(float(direction @ inverse @ direction) / ideal)
    assert max(ratios) <= design.inflation * (1 + 1e-9)
    assert max(ratios) > 0.8 * design.inflation
    assert np.mean(ratios) == pytest.approx(mean_inflation(design), rel=0.05)


@pytest.mark.parametrize(
    ("sizes", "n", "kind"),
    [
        ((3, 2), 12, "full factorial"),
        ((5,), 7, "full factorial"),
        ((3,) * 4, 27, "orthogonal array"),
        ((2,) * 20, 32, "orthogonal array"),
        ((3, 4, 5, 6) * 2, 50, "nearly orthogonal"),
        ((3, 4, 5, 6) * 2, 900, "nearly orthogonal"),
        ((3, 4, 5, 6) * 2, 2900, "orthogonal array"),
        ((40, 2, 3), 710, "full factorial"),
        ((40, 2, 3), 630, "nearly orthogonal"),
        ((40, 2, 3, 5, 7), 700, "nearly orthogonal"),
        ((60,) * 6, 700, "random balanced"),
    ],
)
def test_the_right_kind_of_design_is_chosen(sizes: tuple[int, ...], n: int, kind: str) -> None:
    design = make_design(sizes, n, seed=1)
    assert design.kind == kind
    assert n <= design.n_runs <= 1.35 * n + 3
    assert math.isfinite(design.inflation)
    assert all(set(design.rows[:, k]) == set(range(m)) for k, m in enumerate(sizes))
    assert (design.counts == pair_counts(design.rows, sizes)).all()
    assert (make_design(sizes, n, seed=1).rows == design.rows).all()


def test_perfect_designs_report_no_imbalance() -> None:
    assert imbalance(make_design((2,) * 7, 8, seed=0)) == 0.0
    assert make_design((2,) * 7, 8, seed=0).inflation == pytest.approx(1.0)
    skewed = Design(np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]], dtype=np.int16), (2, 2), "")
    assert imbalance(skewed) > 0.5
    assert not skewed.orthogonal
    stuck = Design(np.array([[0, 0], [1, 1]] * 4, dtype=np.int16), (2, 2), "")
    assert math.isinf(stuck.inflation)
    assert math.isinf(mean_inflation(stuck))


def test_certified_and_largest_designs_keep_their_word() -> None:
    for sizes in ((3, 4, 2), (6,), (3, 4, 5, 6, 3, 4)):
        for worth in (20.0, 77.0, 500.0):
            design = certified_design(sizes, worth, seed=2)
            assert design.n_runs >= worth * design.inflation
            assert design.n_runs < 1.4 * worth + 3 * sum(sizes)
        for most in (31, 100, 411):
            assert 0.95 * most - max(sizes) <= largest_design(sizes, most, seed=2).n_runs <= most


@pytest.mark.parametrize(
    ("sizes", "n_runs", "effort", "most"),
    [
        ((4, 5, 6) * 8, 160, "usual", 1.4),
        ((2, 3, 6) * 7, 150, "quick", 1.2),
        ((2, 3, 4) * 5, 700, "thorough", 1.003),
        ((4, 2, 3) * 5, 700, "quick", 1.005),
    ],
)
def test_searched_designs_are_even_and_nearly_orthogonal(
    sizes: tuple[int, ...], n_runs: int, effort: Effort, most: float
) -> None:
    design = make_design(sizes, n_runs, 1, effort=effort)
    assert design.n_runs == n_runs
    assert mean_inflation(design) < most
    assert max(np.ptp(np.bincount(design.rows[:, k])) for k in range(len(sizes))) <= 1


def test_a_search_starts_from_arrays_that_come_close() -> None:
    sizes = (2, 3, 4) * 4
    mix = mix_to_start_from(sizes, 700)
    assert mix is not None
    assert abs(mix.n_runs - 700) < 20
    start = roughly_evened(mixed_rows(sizes, mix, np.random.default_rng(0)), sizes, np.random.default_rng(0))
    chance = balanced_rows(all_levels(sizes), mix.n_runs, np.random.default_rng(0))
    assert Design(start, sizes, "").inflation < 1.15 < 1.25 < Design(chance, sizes, "").inflation
    assert mix_to_start_from((5, 6) * 20, 150) is None  # nothing with forty columns is as short as that
    assert mix_to_start_from((33, 2), 150) is None  # and no field has 33 symbols


def test_block_estimates_agree_with_least_squares() -> None:
    rng = np.random.default_rng(4)
    for sizes, n in (((3, 3, 3), 9), ((3, 4, 2), 21), ((2, 3), 6)):
        design = make_design(sizes, n, seed=5)
        y = rng.normal(size=design.n_runs) + design.rows @ np.arange(1.0, len(sizes) + 1)
        estimate = estimate_block(design, LevelSums.empty(sizes).add(design.rows, y))
        fit = Fit(Moments.empty(sizes).add(design.rows, y))
        for k, m in enumerate(sizes):
            for i in range(m):
                assert estimate.effects[k][i] - estimate.effects[k][0] == pytest.approx(
                    fit.level_effects(k)[i] - fit.level_effects(k)[0]
                )
        spreads = np.concatenate([fit.variances(k).ravel() for k in range(len(sizes))])
        np.testing.assert_allclose(estimate.spreads, spreads, atol=1e-12)
        assert estimate.residual_square == pytest.approx(fit.residual_square, abs=1e-9)
        assert estimate.residual_dof == fit.residual_dof


def skewed_design() -> tuple[Design, np.random.Generator]:
    """Three factors in 30 runs, the second mostly following the first; and the generator that made it."""
    sizes = (3, 2, 4)
    rng = np.random.default_rng(1)
    rows = np.stack([rng.integers(0, m, 30) for m in sizes], axis=1).astype(np.int16)
    rows[:, 1] = np.where(rng.random(30) < 0.6, rows[:, 0] % 2, rows[:, 1])
    return Design(rows, sizes, "skewed"), rng


def test_added_noise_makes_factors_independent_and_levels_alike() -> None:
    """After it, contrast errors have covariance inflation * m / n inside a factor and none across factors."""
    design, rng = skewed_design()
    sizes, rows = design.sizes, design.rows
    assert design.inflation > 1.5
    draws = []
    for _ in range(6000):
        sums = LevelSums.empty(sizes).add(rows, rng.normal(size=30))
        effects = independent_effects(design, estimate_block(design, sums).effects, 1.0, rng)
        draws.append(np.concatenate([contrast_basis(m).T @ e for m, e in zip(sizes, effects, strict=True)]))
    found = np.cov(np.array(draws).T)
    ideal = np.diag(np.concatenate([[m / 30 * design.inflation] * (m - 1) for m in sizes]))
    assert np.abs(found - ideal).max() < 0.07 * ideal.max()


def test_added_noise_does_not_depend_on_the_signs_of_eigenvectors() -> None:
    design, turned = skewed_design()[0], skewed_design()[0]
    turned.__dict__["spectrum"] = [part._replace(vectors=-part.vectors) for part in design.spectrum]
    flat = tuple(np.zeros(m) for m in design.sizes)
    one, other = (independent_effects(d, flat, 1.0, np.random.default_rng(3)) for d in (design, turned))
    assert np.abs(np.concatenate(one)).max() > 0.1
    np.testing.assert_allclose(np.concatenate(one), np.concatenate(other), atol=1e-12)


def test_level_sums_do_not_depend_on_the_pieces(rng: np.random.Generator) -> None:
    rows = rng.integers(0, 3, size=(50, 2))
    y = 1e6 + rng.normal(size=50)
    whole = LevelSums.empty((3, 3)).add(rows, y)
    pieces = LevelSums.empty((3, 3)).add(rows[:13], y[:13]).add(rows[13:13], y[13:13]).add(rows[13:], y[13:])
    np.testing.assert_allclose(pieces.sums, whole.sums, atol=1e-6)
    np.testing.assert_allclose([pieces.mean, pieces.square], [whole.mean, whole.square])
    assert (pieces.counts == whole.counts).all()


def test_when_one_factor_can_lose_only_its_own_errors_count() -> None:
    """Correlation between factors is left alone; inside every factor the levels are made alike."""
    design, rng = skewed_design()
    sizes, rows = design.sizes, design.rows
    assert 1.0 < design.single_inflation < design.inflation
    draws = []
    for _ in range(6000):
        sums = LevelSums.empty(sizes).add(rows, rng.normal(size=30))
        effects = independent_effects(design, estimate_block(design, sums).effects, 1.0, rng, single=True)
        draws.append(np.concatenate([contrast_basis(m).T @ e for m, e in zip(sizes, effects, strict=True)]))
    found = np.cov(np.array(draws).T)
    begin = 0
    for m in sizes:
        block = found[begin : begin + m - 1, begin : begin + m - 1]
        ideal = m / 30 * design.single_inflation * np.eye(m - 1)
        assert np.abs(block - ideal).max() < 0.08 * ideal.max()
        begin += m - 1
    many = sizes * 5
    assert certified_design(many, 100.0, 1, single=True).n_runs < 0.85 * certified_design(many, 100.0, 1).n_runs


def test_a_short_design_of_very_many_levels_is_no_array_of_twice_its_length() -> None:
    """An array for 210 factors of 5 levels has 3,125 runs; random rows do with far fewer where little is asked."""
    design = certified_design((5,) * 210, 60.0, seed=0)
    assert design.kind == "random balanced"
    assert 60 <= design.n_runs / design.inflation < 75
    assert design.n_runs < 1500


def test_a_design_is_made_again_from_its_seed_and_has_a_fingerprint() -> None:
    """Past the memory of designs made before: the search itself comes out the same, and a changed row shows."""
    sizes = (3, 4, 5, 6) * 2
    design = make_design(sizes, 50, seed=1)
    searched_rows.cache_clear()
    assert make_design(sizes, 50, seed=1).digest == design.digest
    assert make_design(sizes, 50, seed=2).digest != design.digest
    rows = design.rows.copy()
    rows[0, 0] = (rows[0, 0] + 1) % 3
    assert Design(rows, sizes, "").digest != design.digest


def test_mixes_of_arrays_are_worth_what_their_rarest_levels_say_and_shortest_first() -> None:
    sizes = (2, 3, 4, 5, 6) * 5
    found = mixes(sizes, 4000.0)
    assert [mix.n_runs for mix in found] == sorted(mix.n_runs for mix in found)
    for mix in found[:3]:
        design = mixed_design(sizes, mix, seed=1)
        assert (design.counts == pair_counts(design.rows, sizes)).all()
        rarest = min(m * np.bincount(design.rows[:, k]).min() for k, m in enumerate(sizes))
        assert rarest >= mix.worth >= 4000
        assert 0.9 * mix.worth < design.n_runs / design.inflation <= rarest
    assert certified_design(sizes, 4000.0, seed=1).n_runs <= 1.06 * 4000


def test_a_long_budget_is_spent_on_arrays_and_a_searched_rest() -> None:
    sizes = (2, 3, 4, 5, 6) * 5
    design = largest_design(sizes, 3333, seed=1)
    assert design.n_runs == 3333
    assert (design.counts == pair_counts(design.rows, sizes)).all()
    assert design.inflation < 1.12


def test_a_search_mends_all_columns_together(rng: np.random.Generator) -> None:
    for n, sizes, most in ((60, (2, 3, 4) * 4, 1.08), (500, (2, 3, 4, 5, 6) * 3, 1.01)):
        start = balanced_rows(all_levels(sizes), n, rng)
        better = swap_improved(start, sizes, rounds=16)
        assert (np.sort(better, axis=0) == np.sort(start, axis=0)).all()
        assert mean_inflation(Design(better, sizes, "")) < most < mean_inflation(Design(start, sizes, ""))


def test_rough_evening_moves_no_more_than_it_must_and_not_the_same_rows_everywhere(rng: np.random.Generator) -> None:
    whole = rao_hamming(8, 2, 9)
    assert (roughly_evened(whole, [8] * 9, rng) == whole).all()
    uneven = np.zeros((90, 12), dtype=np.int16)
    uneven[:60] = np.arange(60)[:, None] % 3
    even = roughly_evened(uneven, [3] * 12, rng)
    assert all(np.bincount(even[:, k]).tolist() == [30, 30, 30] for k in range(12))
    moved = even != uneven
    assert (moved.sum(axis=0) == 20).all()  # of fifty at the first level
    often = moved.sum(axis=1)[(uneven == 0).all(axis=1)]
    assert often.max() < 12
    assert np.count_nonzero(often) > 40
    for n in (1, 2, 3):
        assert roughly_evened(np.zeros((n, 2), dtype=np.int16), [2, 3], rng).shape == (n, 2)


@pytest.mark.parametrize(
    ("sizes", "worth", "most"),
    [
        ((7,) * 20, 600.0, 686),
        ((3,) * 60, 600.0, 729),
        ((5,) * 31, 1000.0, 1000),
        ((8,) * 20, 2000.0, 2048),
        ((3,) * 100, 3000.0, 3159),
        ((7,), 70.0, 70),
        ((3, 6, 6), 2000.0, 2052),
        ((2, 3, 4, 5, 6) * 4, 1500.0, 1650),
    ],
)
def test_exact_arrays_and_short_designs_are_not_rounded_up(sizes: tuple[int, ...], worth: float, most: int) -> None:
    design = certified_design(sizes, worth, seed=1)
    assert design.n_runs <= most
    assert design.n_runs / Design(design.rows, sizes, "").inflation >= worth * (1 - 1e-9)


def test_more_levels_than_a_float_can_count_are_no_trouble() -> None:
    assert certified_design((2,) * 1100, 1500.0, seed=1).n_runs == 2048
    assert largest_design((3,) * 100, 3159, seed=1).inflation == pytest.approx(1.0)


def test_a_factor_without_a_field_gets_searched_rows_and_copies_of_them() -> None:
    design = make_design((40, 5, 3, 50), 5000, seed=1)
    assert (design.n_runs, design.kind) == (5000, "nearly orthogonal")
    assert design.inflation < 1.2
