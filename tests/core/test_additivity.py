"""The checks of additivity against statsmodels, and where there is nothing to check."""

import math
from itertools import combinations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, chi2
from statsmodels.stats.multitest import multipletests

from levers.core.model.checks.additivity import LEAST_DOF, MOST_RUNS, Additive, confirmation, even_sample, lack_of_fit
from levers.core.model.checks.interactions import MOST_PARAMETERS, cell_means, holm, pair_screen

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]


def runs(sizes: list[int], n: int, seed: int) -> tuple[Rows, Numbers]:
    """Unbalanced runs in which some levels and many cells are rare or missing, with an interaction now and then."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.choice(m, n, p=rng.dirichlet(np.full(m, 0.7))) for m in sizes], axis=1)
    return codes, 1e4 + codes @ rng.normal(size=len(sizes)) + codes[:, 0] * codes[:, 1] + rng.normal(size=n)


def one_hot(codes: Rows) -> Numbers:
    return np.column_stack([codes[:, [k]] == np.unique(codes[:, k]) for k in range(codes.shape[1])]).astype(float)


def ols(y: Numbers, columns: Numbers) -> sm.regression.linear_model.RegressionResultsWrapper:
    """Least squares on an orthonormal basis of the columns, so that nothing is singular."""
    basis, sizes, _ = np.linalg.svd(np.column_stack([np.ones(len(y)), columns]), full_matrices=False)
    return sm.OLS(y, basis[:, sizes > 1e-9 * sizes[0]]).fit()


def joint(codes: Rows, *factors: int) -> Numbers:
    """Indicators of the combinations of some factors' levels."""
    cells = np.unique(codes[:, factors], axis=0, return_inverse=True)[1].ravel()
    return one_hot(cells[:, None])


@pytest.mark.parametrize("sizes", [[2, 2], [3, 4, 2], [3, 3, 3, 2, 4], [5, 2, 6]])
@pytest.mark.parametrize("n", [40, 90, 400])
def test_pairs_agree_with_nested_least_squares(sizes: list[int], n: int) -> None:
    n_missing = n_tested = 0
    for seed in range(6):
        codes, y = runs(sizes, n, seed)
        small = ols(y, one_hot(codes))
        model = Additive.of(codes, y, sizes)
        assert model.dof == small.df_resid
        found = {(c.first, c.second): c for c in pair_screen(model).checks}
        known = {(c.first, c.second): c for c in pair_screen(model, noise_sd=1.3).checks}
        for k, m in combinations(range(len(sizes)), 2):
            large = ols(y, np.column_stack([one_hot(codes), joint(codes, k, m)]))
            dof = int(small.df_resid - large.df_resid)
            n_missing += dof < (sizes[k] - 1) * (sizes[m] - 1)
            if dof == 0:
                assert (k, m) not in found
                assert (k, m) not in known
                continue
            chi = (small.ssr - large.ssr) / 1.3**2
            np.testing.assert_allclose(known[k, m].statistic, chi, rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(known[k, m].p_value, chi2.sf(chi, dof), rtol=1e-6, atol=1e-12)
            if large.df_resid < LEAST_DOF:
                assert (k, m) not in found
                continue
            f, p, _ = large.compare_f_test(small)
            check = found[k, m]
            assert check.dof == known[k, m].dof == dof
            np.testing.assert_allclose([check.statistic, check.p_value], [f, p], rtol=1e-8, atol=1e-8)
            n_tested += 1
    assert n_tested > 0
    assert n == 400 or n_missing > 0  # else no missing cell was tested


def test_lack_of_fit_agrees_with_nested_least_squares() -> None:
    codes, y = runs([3, 2, 3], 120, 4)
    small, large = ols(y, one_hot(codes)), ols(y, joint(codes, 0, 1, 2))
    f, p, dof = large.compare_f_test(small)
    found, known = lack_of_fit(Additive.of(codes, y, [3, 2, 3])), lack_of_fit(Additive.of(codes, y, [3, 2, 3]), 2.0)
    assert found is not None
    assert known is not None
    np.testing.assert_allclose([found.dof, found.statistic, found.p_value], [dof, f, p], rtol=1e-8)
    assert found.pure_dof == large.df_resid
    np.testing.assert_allclose(known.statistic, (small.ssr - large.ssr) / 4, rtol=1e-8)
    np.testing.assert_allclose(known.p_value, chi2.sf(known.statistic, dof), rtol=1e-6)


def test_leverages_and_holm_agree_with_statsmodels() -> None:
    codes, y = runs([3, 2, 4], 60, 2)
    oracle = ols(y, one_hot(codes)).get_influence().hat_matrix_diag
    model = Additive.of(codes, y, [3, 2, 4])
    np.testing.assert_allclose(model.leverages(), oracle, atol=1e-9)
    assert math.isclose(model.leverages().sum(), model.fit.rank)
    p = sorted(np.random.default_rng(1).beta(0.3, 2.0, 30).tolist())
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(2, 4), min_size=2, max_size=4), st.integers(30, 120), st.integers(0, 10_000))
def test_order_unit_and_names_of_levels_do_not_matter(sizes: list[int], n: int, seed: int) -> None:
    codes, y = runs(sizes, n, seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    renamed = np.stack([rng.permutation(m)[codes[:, k]] for k, m in enumerate(sizes)], axis=1)
    plain = pair_screen(Additive.of(codes, y, sizes))
    other = pair_screen(Additive.of(renamed[order], -7 * y[order] + 3, sizes))
    assert (plain.n_blind, plain.reason) == (other.n_blind, other.reason)
    by_pair = {(c.first, c.second): c for c in other.checks}
    for check in plain.checks:
        same = by_pair[check.first, check.second]
        assert same.dof == check.dof
        np.testing.assert_allclose(same.p_value, check.p_value, rtol=1e-5, atol=1e-9)
        assert 0 <= check.p_value <= check.adjusted <= 1


def test_levels_out_of_play_and_columns_that_move_together_lower_the_degrees_of_freedom() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (80, 4))
    codes[:, 1] = codes[:, 1] % 2  # its third level was dropped at once
    codes[:, 2] = 1  # only one level is left
    codes[:, 3] = codes[:, 0]  # never moved alone
    screen = pair_screen(Additive.of(codes, rng.normal(size=80), [3, 3, 3, 3]))
    assert [(c.first, c.second, c.dof) for c in sorted(screen.checks, key=lambda c: c.second)] == [(0, 1, 2), (1, 3, 2)]
    assert (screen.n_pairs, screen.n_blind, screen.n_left_out) == (6, 4, 0)


def test_where_there_is_nothing_to_test_the_reason_is_given() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (40, 3))
    same = Additive.of(rows, np.full(40, 0.1), [2] * 3)
    assert "fits every run exactly" in str(pair_screen(same).reason)
    assert lack_of_fit(same) is None
    assert {c.p_value for c in pair_screen(same, noise_sd=1.0).checks} == {1.0}
    additive = Additive.of(rows, rows @ [0.1, 0.7, 1e5], [2] * 3)
    assert "fits every run exactly" in str(pair_screen(additive).reason)
    one = Additive.of([[0, 1, 0]], [2.0], [2] * 3)
    assert one.residuals.tolist() == [0.0]
    for noise_sd in (None, 1.0):
        screen = pair_screen(one, noise_sd=noise_sd)
        assert (screen.checks, screen.n_blind) == ((), 3)
        assert screen.reason is not None
        assert lack_of_fit(one, noise_sd) is None


def test_an_interaction_without_noise_is_certain() -> None:
    rows = np.random.default_rng(0).integers(0, 3, (60, 3))
    model = Additive.of(rows, 5.0 * (rows[:, 0] == rows[:, 2]), [3] * 3)
    worst = pair_screen(model).checks[0]
    assert (worst.first, worst.second, worst.statistic, worst.p_value) == (0, 2, math.inf, 0.0)
    cells = cell_means(model, 0, 2)
    assert cells.counts.sum() == 60
    assert (cells.means.argmax(axis=1) == [0, 1, 2]).all()
    for a in range(3):
        at = (rows[:, 0] == a) & (rows[:, 2] == 1)
        np.testing.assert_allclose(cells.means[a, 1], model.residuals[at].mean())


def test_too_many_pairs_are_cut_to_those_of_the_largest_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 2, (300, 12))
    strong = [2, 5, 7, 11]
    model = Additive.of(rows, 2.0 * rows[:, strong].sum(axis=1) + rng.normal(size=300), [2] * 12)
    monkeypatch.setattr("levers.core.model.checks.interactions.MOST_PAIRS", 6)
    screen = pair_screen(model)
    assert sorted((c.first, c.second) for c in screen.checks) == list(combinations(strong, 2))
    assert screen.n_left_out == 60
    many = [2] * (MOST_PARAMETERS + 2)
    refused = pair_screen(Additive.of(rng.integers(0, 2, (20, len(many))), rng.normal(size=20), many))
    assert "1,002 free effects" in str(refused.reason)
    assert refused.n_left_out == refused.n_pairs


def test_long_studies_are_sampled_evenly_and_in_time() -> None:
    """30 factors of 4 levels, 20,000 of 50,000 runs: about half a second, the bound allows for a busy machine."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 4, (50_000, 30)).astype(np.int16)
    y = rows @ rng.normal(size=30) + 0.1 * rows[:, 3] * rows[:, 8] + rng.normal(size=50_000)
    model = Additive.of(rows, y, [4] * 30)
    screen = pair_screen(model)
    assert 0.9 * MOST_RUNS < len(model.codes) <= MOST_RUNS
    assert (len(screen.checks), screen.n_left_out) == (435, 0)
    assert (screen.checks[0].first, screen.checks[0].second) == (3, 8)
    at = even_sample(50_000, 20_000)
    assert (np.diff(at) > 0).all()
    assert (np.bincount(at // 5000) > 1900).all()  # nothing is left out for long
    assert (np.bincount(at % 9) > 2000).all()  # and no period of a design is favoured


def test_confirmation_runs_have_a_standard_normal_z() -> None:
    rng, rows = np.random.default_rng(8), np.array([[a, b, c] for a in range(3) for b in range(3) for c in range(2)])
    at, effects, n_far, n_repeats = np.array([2, 1, 0]), np.array([0.5, -1.0, 2.0]), 0, 2000
    leverage = float(Additive.of(rows, rows @ effects, [3, 3, 2]).leverages()[(rows == at).all(axis=1)][0])
    for _ in range(n_repeats):
        model = Additive.of(rows, rows @ effects + 0.7 * rng.normal(size=18), [3, 3, 2])
        predicted = float(model.fitted[(rows == at).all(axis=1)][0])
        mean = float(at @ effects + 0.7 * rng.normal(size=4).mean())
        n_far += abs(confirmation(mean, predicted, 0.7, 4, leverage)) > 1.96
    assert binom.ppf(0.0005, n_repeats, 0.05) <= n_far <= binom.ppf(0.9995, n_repeats, 0.05)
