"""Ordinary intervals and tests are those that statsmodels gives."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.anova import anova_lm

from levers.core.model.fit import Fit
from levers.core.model.moments import Moments
from levers.core.model.ordinary import Noise, factor_test
from levers.core.model.pooled import PooledSums

SIZES = (3, 4, 2)


def runs(rng: np.random.Generator, n: int = 40, n_blocks: int = 3) -> pd.DataFrame:
    """Rows that are far from balanced, in blocks that differ."""
    codes = np.column_stack([rng.choice(m, size=n, p=rng.dirichlet(np.full(m, 3.0))) for m in SIZES])
    codes[: max(SIZES)] = [[j % m for m in SIZES] for j in range(max(SIZES))]
    block = np.arange(n) % n_blocks
    y = 70 + 0.5 * codes[:, 0] - 0.3 * codes[:, 1] ** 2 + 2.0 * block + rng.normal(size=n)
    return pd.DataFrame({"a": codes[:, 0], "b": codes[:, 1], "c": codes[:, 2], "block": block, "y": y})


def pooled(frame: pd.DataFrame) -> Fit:
    sums = PooledSums.empty(SIZES)
    for _, part in frame.groupby("block"):
        sums = sums.add(Moments.empty(SIZES).add(part[["a", "b", "c"]].to_numpy(), part["y"].to_numpy()))
    return Fit(sums)


@pytest.mark.parametrize("seed", range(10))
def test_tests_and_intervals_of_a_fit_with_block_constants(seed: int) -> None:
    frame = runs(np.random.default_rng(seed))
    fit, model = pooled(frame), smf.ols("y ~ C(a) + C(b) + C(c) + C(block)", frame).fit()
    noise = Noise.of(fit, None)
    assert noise is not None
    assert noise.sd == pytest.approx(np.sqrt(model.mse_resid))
    assert noise.dof == model.df_resid
    ends = np.cumsum([0, *SIZES])
    for kind in (2, 3):  # they agree, because the model has no interactions
        table = anova_lm(model, typ=kind)
        for k, name in enumerate("abc"):
            found = factor_test(fit, np.arange(ends[k], ends[k + 1]), noise)
            assert found is not None
            assert found.dof == table.loc[f"C({name})", "df"]
            assert found.statistic == pytest.approx(table.loc[f"C({name})", "F"], rel=1e-8)
            assert found.p_value == pytest.approx(table.loc[f"C({name})", "PR(>F)"], rel=1e-6)
    intervals = model.conf_int(0.05)
    for k, name in enumerate("abc"):
        effects, variances = fit.level_effects(k), fit.variances(k)
        for j in range(1, SIZES[k]):
            middle, half = effects[j] - effects[0], noise.half_width(variances[j, 0])
            wanted = intervals.loc[f"C({name})[T.{j}]"].to_list()
            assert [middle - half, middle + half] == pytest.approx(wanted, rel=1e-8)


def test_several_factors_together_against_an_f_test_of_nested_models() -> None:
    frame = runs(np.random.default_rng(20))
    fit = pooled(frame)
    noise = Noise.of(fit, None)
    assert noise is not None
    found = factor_test(fit, np.arange(SIZES[0] + SIZES[1]), noise)
    large = smf.ols("y ~ C(a) + C(b) + C(c) + C(block)", frame).fit()
    wanted = large.compare_f_test(smf.ols("y ~ C(c) + C(block)", frame).fit())
    assert found is not None
    assert (found.statistic, found.p_value, found.dof) == pytest.approx(wanted)


def test_a_stated_noise_gives_z_and_chi_squared() -> None:
    frame = runs(np.random.default_rng(21), n_blocks=1)
    fit, noise = pooled(frame), Noise(1.5, None)
    assert noise.half_width(0.5) == pytest.approx(stats.norm.ppf(0.975) * 1.5 * np.sqrt(0.5))
    assert noise.scheffe_half_width(0.5, 4) == pytest.approx(np.sqrt(stats.chi2.ppf(0.95, 4) * 0.5) * 1.5)
    large, small = (smf.ols(f"y ~ {terms}", frame).fit().ssr for terms in ("C(a) + C(b) + C(c)", "C(b) + C(c)"))
    found = factor_test(fit, np.arange(3), noise)
    assert found is not None
    assert found.p_value == pytest.approx(stats.chi2.sf((small - large) / 1.5**2, 2), rel=1e-8)
    estimated = Noise(1.5, 7)
    assert estimated.half_width(0.5) == pytest.approx(stats.t.ppf(0.975, 7) * 1.5 * np.sqrt(0.5))
    assert estimated.scheffe_half_width(0.5, 4) == pytest.approx(np.sqrt(4 * stats.f.ppf(0.95, 4, 7) * 0.5) * 1.5)


def test_what_the_runs_do_not_tell_is_not_said() -> None:
    rows = [[0, 0], [1, 1], [0, 0], [1, 1]]  # the two factors move together
    fit = Fit(Moments.empty([2, 2]).add(rows, [0.0, 1.0, 0.1, 1.2]))
    noise = Noise.of(fit, None)
    assert noise is not None
    assert factor_test(fit, np.array([0, 1]), noise) is None
    one_level = Fit(Moments.empty([2]).add([[0], [0], [0]], [0.0, 1.0, 2.0]))
    assert factor_test(one_level, np.array([0, 1]), Noise(1.0, None)) is None
    same = Fit(Moments.empty([2]).add([[0], [1], [0], [1]], [3.0, 3.0, 3.0, 3.0]))
    assert Noise.of(same, None) is None, "where every outcome is the same nothing tells the noise"
    assert Noise.of(Fit(Moments.empty([2]).add([[0], [1]], [0.0, 1.0])), None) is None


def test_ordinary_intervals_hold_as_often_as_they_say() -> None:
    rng, missed, n_studies = np.random.default_rng(5), 0, 600
    for _ in range(n_studies):
        codes = np.array([[i % 3, (i // 3) % 2] for i in range(12)])
        fit = Fit(Moments.empty([3, 2]).add(codes, codes[:, 0] + rng.normal(size=12)))
        noise = Noise.of(fit, None)
        assert noise is not None
        effects = fit.level_effects(0)
        missed += abs(effects[2] - effects[0] - 2.0) > noise.half_width(fit.variances(0)[2, 0])
    assert stats.binom.ppf(0.001, n_studies, 0.05) <= missed <= stats.binom.ppf(0.999, n_studies, 0.05)
