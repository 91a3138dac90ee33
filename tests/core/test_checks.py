"""The checks of runs against statsmodels and scipy, and where there is nothing to check."""

import math

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.diagnostic import linear_reset
from statsmodels.stats.stattools import durbin_watson

from levers.core.model.checks import claims
from levers.core.model.checks.additivity import Additive
from levers.core.model.checks.battery import Claims, check_runs
from levers.core.model.checks.check import Check, Residual, Runs, basis_rows
from levers.core.model.checks.nonadditivity import nonadditivity
from levers.core.model.checks.order import drift, serial
from levers.core.model.checks.outliers import outliers
from levers.core.model.checks.quadratic import form_p_value, ratio_p_value
from levers.core.model.checks.shape import kurtosis_z, sample_shape, shape, skewness_z
from levers.core.model.checks.spread import noise, spread

Numbers = NDArray[np.float64]
Rows = NDArray[np.int16]


def make(sizes: tuple[int, ...], n: int, seed: int, blocks: int = 0) -> Runs:
    """Unbalanced runs with effects, in blocks that are shifted."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.choice(m, n, p=rng.dirichlet(np.full(m, 5.0))) for m in sizes], axis=1).astype(np.int16)
    y = 70 + codes @ rng.normal(size=len(sizes)) + rng.normal(size=n)
    if not blocks:
        return Runs(codes, y, sizes)
    which = np.arange(n) * blocks // n
    return Runs(codes, y + 3.0 * which, sizes, constants=which)


def columns_of(runs: Runs) -> Numbers:
    """The model's columns: a constant, levels, blocks."""
    codes = runs.codes if runs.constants is None else np.column_stack([runs.codes, runs.constants])
    parts = [codes[:, [k]] == np.unique(codes[:, k])[1:] for k in range(codes.shape[1])]
    return np.column_stack([np.ones(runs.n_runs), *parts]).astype(float)


def ols(runs: Runs, *more: Numbers) -> sm.regression.linear_model.RegressionResultsWrapper:
    return sm.OLS(runs.outcomes, np.column_stack([columns_of(runs), *more])).fit()


def left_of(runs: Runs) -> Residual:
    return Residual.of(runs.model())


def test_the_basis_is_that_of_the_fitted_space() -> None:
    for blocks in (0, 3):
        runs = make((3, 2, 4), 60, 1, blocks)
        left, oracle = left_of(runs), ols(runs)
        np.testing.assert_allclose(left.values, oracle.resid, atol=1e-9)
        np.testing.assert_allclose(left.leverages, oracle.get_influence().hat_matrix_diag, atol=1e-9)
        assert left.dof == oracle.df_resid
        np.testing.assert_allclose(left.basis.T @ left.basis, np.eye(left.basis.shape[1]), atol=1e-9)
    together = np.repeat(np.arange(3, dtype=np.int16), 10)[:, None].repeat(2, axis=1)  # two levers that move together
    model = Additive.of(together, np.arange(30.0), [3, 3])
    assert basis_rows(model, np.arange(30)).shape[1] == 3 == model.fit.rank


def test_the_stated_noise_is_held_against_all_residuals() -> None:
    runs = make((3, 2), 40, 2)
    check, oracle = noise(left_of(runs), 0.8), ols(runs)
    assert check is not None
    np.testing.assert_allclose(check.statistic, oracle.ssr / 0.64)
    np.testing.assert_allclose(check.p_value, stats.chi2.sf(oracle.ssr / 0.64, oracle.df_resid))
    assert check.size == pytest.approx(math.sqrt(oracle.mse_resid))


@pytest.mark.parametrize("blocks", [0, 2])
def test_one_outlier_is_the_largest_externally_studentised_residual(blocks: int) -> None:
    runs = make((3, 3, 2), 50, 3, blocks)
    runs.outcomes[17] += 4.5
    influence = ols(runs).get_influence()
    t = influence.resid_studentized_external
    worst = int(np.argmax(np.abs(t)))
    found = outliers(left_of(runs), runs.outcomes, np.arange(50), level=1.0)
    check = found.checks[0]
    assert worst == 17 == check.runs[0] == found.named[0]
    np.testing.assert_allclose(check.statistic, t[17] ** 2)
    p = 2 * stats.t.sf(abs(t[17]), influence.results.df_resid - 1)
    np.testing.assert_allclose(check.p_value, min(1.0, 2 * 50 * p))
    assert check.size == pytest.approx(influence.resid_press[17])


def test_leaving_out_runs_is_fitting_without_them() -> None:
    runs = make((3, 3, 2), 40, 4)
    left = left_of(runs).without(3).without(30)
    kept = np.setdiff1d(np.arange(40), [3, 30])
    oracle = left_of(runs.at(kept))
    np.testing.assert_allclose(left.values[kept], oracle.values, atol=1e-9)
    np.testing.assert_allclose(left.square, oracle.square)
    assert left.dof == oracle.dof
    shifts = ols(runs, np.eye(40)[:, [3, 30]]).params[-2:]
    np.testing.assert_allclose(left_of(runs).shifts([3, 30]), shifts)


def test_outliers_that_hide_each_other_are_named_and_nobody_else() -> None:
    n_named = 0
    for seed in range(40):
        runs = make((2, 2, 3), 30, seed)
        rng = np.random.default_rng(seed)
        off = sorted(rng.choice(30, 2, replace=False).tolist())
        runs.outcomes[off] *= 10
        found = outliers(left_of(runs), runs.outcomes, np.arange(30), level=0.001)
        n_named += sorted(found.named) == off
    assert n_named >= 38


def test_of_two_runs_of_one_setting_the_outlandish_one_is_named() -> None:
    codes = np.array([[0, 1], [0, 1], [1, 0], [1, 0], [0, 0], [0, 0], [1, 0]], dtype=np.int16)
    y = np.array([70.0, 7000.0, 71.0, 70.5, 69.0, 70.2, 70.7])
    for order in (slice(None), slice(None, None, -1)):
        runs = Runs(codes[order], y[order], (2, 2), noise_sd=1.0)
        found = outliers(left_of(runs), runs.outcomes, np.arange(7), 0.001, 1.0)
        assert [runs.outcomes[run] for run in found.named] == [7000.0]


def test_a_noise_stated_too_low_makes_no_outliers_and_no_other_doubts() -> None:
    kinds: list[str] = []
    for seed in range(60):
        runs = make((3, 2, 2), 60, seed)
        stated = Runs(runs.codes, runs.outcomes, runs.n_levels, noise_sd=0.4)
        kinds += [check.kind for check in check_runs(stated, 0.001) if check.p_value < 0.001]
    assert kinds.count("noise") >= 58
    assert len(kinds) - kinds.count("noise") <= 3


def test_an_outlier_is_said_and_nothing_that_it_imitates() -> None:
    for seed in range(30):
        runs = make((3, 2, 2), 60, seed)
        runs.outcomes[seed] *= 10
        stated = Runs(runs.codes, runs.outcomes, runs.n_levels, noise_sd=1.0)
        alarms = [check for check in check_runs(stated, 0.001) if check.p_value < 0.0005]
        assert [(check.kind, check.runs) for check in alarms] == [("outlier", (seed,))]


def test_spread_of_a_group_that_is_fitted_alone_is_an_f_test() -> None:
    """With nothing but the group's own mean fitted, M D is a projection and the Beta law is exact."""
    codes = np.repeat([0, 1], [12, 20])[:, None].astype(np.int16)
    y = np.random.default_rng(1).normal(size=32) * np.where(codes[:, 0] == 0, 3.0, 1.0)
    runs = Runs(codes, y, (2,))
    check = spread(runs, left_of(runs), None)
    assert check is not None
    assert (check.factor, check.level) == (0, 0)
    ratio = np.var(y[:12], ddof=1) / np.var(y[12:], ddof=1)
    np.testing.assert_allclose(check.p_value, 2 * stats.f.sf(ratio, 11, 19), rtol=1e-9)
    known = spread(runs, left_of(runs), 1.0)
    assert known is not None
    np.testing.assert_allclose(known.p_value, 2 * stats.chi2.sf(11 * np.var(y[:12], ddof=1), 11), rtol=1e-9)


def test_moments_of_ratios_and_forms_agree_with_simulation() -> None:
    runs = make((3, 4, 2), 36, 5, blocks=2)
    left = left_of(runs)
    off = np.eye(36) - left.basis @ left.basis.T
    z = np.random.default_rng(0).normal(size=(40_000, 36)) @ off
    squares = (z**2).sum(axis=1)
    group = np.diag((runs.codes[:, 1] == 2).astype(float))
    step = (np.eye(36, k=1) + np.eye(36, k=-1)) / 2
    for matrix, low in ((group, 0.0), (step, -1.0)):
        product = off @ matrix
        first, second = float(np.trace(product)), float(np.trace(product @ product))
        forms = np.einsum("ij,jk,ik->i", z, matrix, z)
        for share in (0.05, 0.01):
            at = float(np.quantile(forms / squares, 1 - share))
            assert ratio_p_value(at, first, second, left.dof, low, 1.0) == pytest.approx(share, rel=0.2)
        if low == 0:
            at = float(np.quantile(forms, 0.99))
            assert form_p_value(at, first, second) == pytest.approx(0.01, rel=0.2)


def test_neighbours_are_those_of_durbin_and_watson() -> None:
    runs = make((3, 2), 50, 6)
    left = left_of(runs)
    check = serial(runs, left)
    assert check is not None
    e = left.values
    expected = 1 - durbin_watson(e) / 2 - (e[0] ** 2 + e[-1] ** 2) / (2 * left.square)
    np.testing.assert_allclose(check.statistic, expected)


def test_p_values_of_neighbours_are_uniform() -> None:
    runs = make((3, 2, 4), 40, 7, blocks=2)
    rng, p = np.random.default_rng(8), []
    for _ in range(600):
        again = Runs(runs.codes, rng.normal(size=40), runs.n_levels, runs.constants)
        check = serial(again, left_of(again))
        assert check is not None
        p.append(check.p_value)
    assert stats.kstest(p, "uniform").pvalue > 0.001


def test_drift_is_the_nested_f_test_of_time() -> None:
    runs = make((3, 2), 60, 9, blocks=2)
    time = np.linspace(0, 1, 60)
    runs.outcomes[:] += 3 * time
    waves = np.column_stack([wave(math.pi * k * time) for k in (2, 4) for wave in (np.cos, np.sin)])
    small, line = ols(runs), ols(runs, time)
    f, p, _ = line.compare_f_test(small)
    check = drift(runs, left_of(runs), None)
    assert check is not None
    np.testing.assert_allclose([check.statistic, check.p_value], [f, 2 * p])
    assert check.size == pytest.approx(1 - line.mse_resid / small.mse_resid)
    runs.outcomes[:] += 2 * np.sin(2 * math.pi * time) - 3 * time
    f, p, _ = ols(runs, time, waves).compare_f_test(ols(runs))
    check, known = drift(runs, left_of(runs), None), drift(runs, left_of(runs), 1.5)
    assert check is not None
    assert known is not None
    np.testing.assert_allclose([check.statistic, check.p_value], [f, 2 * p])
    chi = (ols(runs).ssr - ols(runs, time, waves).ssr) / 1.5**2
    np.testing.assert_allclose(known.p_value, 2 * stats.chi2.sf(chi, 5), rtol=1e-6)


def test_days_are_the_nested_f_test_of_their_constants() -> None:
    runs = make((2, 2), 48, 10)
    days = np.arange(48) // 8
    runs.outcomes[:] += np.random.default_rng(1).normal(size=6)[days] * 3
    f, p, _ = ols(runs, np.eye(6)[days][:, 1:]).compare_f_test(ols(runs))
    with_days = Runs(runs.codes, runs.outcomes, runs.n_levels, days=days)
    check = drift(with_days, left_of(runs), None)
    assert check is not None
    np.testing.assert_allclose([check.statistic, check.p_value], [f, 3 * p])


def test_runs_without_a_place_in_time_do_not_drift() -> None:
    runs = make((2, 2), 40, 11)
    runs.outcomes[:20] += np.linspace(0, 20, 20)
    ordered = np.arange(40) >= 20
    partly = Runs(runs.codes, runs.outcomes, runs.n_levels, np.repeat([0, 1], 20), ordered=ordered)
    check = drift(partly, left_of(partly), None)
    assert check is not None
    assert check.p_value > 0.01
    nowhere = Runs(runs.codes, runs.outcomes, runs.n_levels, ordered=np.zeros(40, dtype=bool))
    assert serial(nowhere, left_of(runs)) is None


def test_the_shape_of_the_noise_agrees_with_scipy() -> None:
    for seed, n in ((1, 25), (2, 80), (3, 400)):
        values = np.random.default_rng(seed).gumbel(size=n)
        skewness, kurtosis = sample_shape(values)
        np.testing.assert_allclose([skewness, kurtosis - 3], [stats.skew(values), stats.kurtosis(values)])
        np.testing.assert_allclose(skewness_z(skewness, n), stats.skewtest(values).statistic)
        np.testing.assert_allclose(kurtosis_z(kurtosis, n), stats.kurtosistest(values).statistic)


def test_skewness_matters_where_levels_are_not_equally_often_and_the_noise_is_not_known() -> None:
    codes = np.tile(np.array([[0], [1]], dtype=np.int16), (60, 1))
    y = np.random.default_rng(2).exponential(size=120)
    runs = Runs(codes, y, (2,))
    known, unknown = (shape(runs, left_of(runs), 0.1, flag) for flag in (True, False))
    assert known is not None
    assert unknown is not None
    assert known.p_value < 1e-6
    assert not known.is_harmful
    assert known.size is not None
    assert unknown.size is not None
    assert unknown.size > known.size


def test_nonadditivity_is_the_reset_test() -> None:
    runs = make((3, 4, 2), 70, 12)
    runs.outcomes[:] = np.exp((runs.outcomes - 70) / 3)
    model = runs.model()
    check = nonadditivity(model, Residual.of(model), 3, None)
    oracle = linear_reset(ols(runs), power=2, test_type="fitted", use_f=True)
    assert check is not None
    np.testing.assert_allclose([check.statistic, check.p_value], [oracle.statistic, oracle.pvalue], rtol=1e-6)


def test_levers_are_tested_by_nested_fits() -> None:
    runs = make((3, 2, 4), 80, 13, blocks=2)
    found = claims.Estimated.of(runs.model(), range(3), None)
    assert found is not None
    codes = np.column_stack([runs.codes, np.asarray(runs.constants)])
    whole = ols(runs)
    for k in range(3):
        rest = [j for j in range(4) if j != k]
        parts = [codes[:, [j]] == np.unique(codes[:, j])[1:] for j in rest]
        small = sm.OLS(runs.outcomes, np.column_stack([np.ones(80), *parts]).astype(float)).fit()
        f, p, dof = whole.compare_f_test(small)
        assert len(found.members[k]) == dof
        np.testing.assert_allclose(found.squares(k) / dof / whole.mse_resid, f)
        np.testing.assert_allclose(found.p_values[k], p)


def test_more_levers_than_claimed_and_smaller_effects_than_claimed_are_seen() -> None:
    rng = np.random.default_rng(14)
    codes = rng.integers(0, 2, (200, 6)).astype(np.int16)
    y = codes @ np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]) + rng.normal(size=200)
    runs = Runs(codes, y, (2,) * 6, noise_sd=1.0)

    def of(claimed: Claims) -> list[Check]:
        found = check_runs(runs, 1e-4, claimed=claimed)
        return [check for check in found if check.kind in ("max_parents", "min_effect")]

    (more,) = of(Claims(max_parents=2))
    assert more.p_value < 1e-4
    assert more.size == 3
    assert of(Claims(max_parents=3))[0].p_value > 0.01
    assert of(Claims(max_parents=6)) == []
    (smaller,) = of(Claims(min_effect=2.0))
    assert smaller.p_value < 1e-4
    assert smaller.factor in (0, 1, 2)
    assert of(Claims(min_effect=0.8))[0].p_value > 0.01
    # levers that are tied count as one
    tied = Claims(max_parents=1, owners=(0, 0, 0, 1, 2, 3))
    assert of(tied)[0].p_value > 0.01


@pytest.mark.parametrize("stated", [None, 1.0])
def test_exact_fits_one_outcome_and_hardly_any_runs_raise_nothing(stated: float | None) -> None:
    rng = np.random.default_rng(15)
    codes = rng.integers(0, 2, (30, 3)).astype(np.int16)
    exact = codes @ np.array([1e6, 2.0, 3.0]) + 1e9
    claimed = Claims(max_parents=1, min_effect=5.0)
    for y in (exact, np.full(30, 7.0), np.where(codes[:, 0] == 1, 1.0, 0.0), rng.normal(size=30) * 1e-300):
        for n in (0, 1, 2, 3, 5, 30):
            runs = Runs(codes[:n], y[:n], (2, 2, 2), np.arange(n) % 2, np.arange(n) // 2, noise_sd=stated)
            for check in check_runs(runs, 0.001, claimed=claimed):
                assert 0 <= check.p_value <= 1
                assert check.kind in ("max_parents", "min_effect") or check.p_value > 0.001


def test_a_typo_among_outcomes_without_noise_is_named() -> None:
    codes = np.random.default_rng(16).integers(0, 3, (40, 3)).astype(np.int16)
    y = codes @ np.array([1.0, 2.0, 3.0])
    y[11] = 700.0
    checks = check_runs(Runs(codes, y, (3, 3, 3)), 0.001)
    assert [check.runs for check in checks if check.p_value < 0.001] == [(11,)]


def test_an_outlier_is_found_among_more_runs_than_are_looked_at() -> None:
    rng = np.random.default_rng(17)
    codes = rng.integers(0, 3, (50_000, 4)).astype(np.int16)
    y = codes @ rng.normal(size=4) + rng.normal(size=50_000)
    y[31_415] += 12.0
    checks = check_runs(Runs(codes, y, (3,) * 4, noise_sd=1.0), 0.001)
    assert [check.runs for check in checks if check.p_value < 0.001] == [(31_415,)]


@pytest.mark.parametrize("scale", [1e-99, 1e90])
def test_the_shape_of_noise_does_not_depend_on_the_unit(scale: float) -> None:
    values = np.random.default_rng(0).normal(size=50) ** 3
    assert np.allclose(sample_shape(scale * values), sample_shape(values))


def test_rounded_outcomes_are_not_called_far_out_because_the_others_fit_exactly() -> None:
    alarms = 0
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 2, dtype=np.int16)
    for seed in range(400):
        y = np.round(3 * np.random.default_rng(seed).normal(size=8))
        model = Additive.of(codes, y, [2, 2])
        alarms += bool(outliers(Residual.of(model), y, np.arange(8), level=1e-4).named)
    assert alarms <= 2
    y = np.round(3 * np.random.default_rng(0).normal(size=8)) + 70
    y[3] *= 100
    assert outliers(Residual.of(Additive.of(codes, y, [2, 2])), y, np.arange(8), level=1e-4).named == (3,)
