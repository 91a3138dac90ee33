import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from statsmodels.tools.sm_exceptions import SingularMatrixWarning

from levers.core.model.fit import Fit
from levers.core.model.moments import Moments, pair_counts
from levers.errors import InvalidOutcomeError, InvalidSettingError, InvalidSpaceError, OutcomeMismatchError


def one_hot(codes: NDArray[np.int64], sizes: list[int]) -> NDArray[np.float64]:
    return np.hstack([np.eye(m)[codes[:, k]] for k, m in enumerate(sizes)])


def contrast(fit: Fit, factor: int, i: int, j: int) -> float:
    effects = fit.level_effects(factor)
    return float(effects[i] - effects[j])


def random_runs(
    sizes: list[int], n: int, seed: int, constant: float = 0.0
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, m, n) for m in sizes], axis=1)
    return codes, constant + codes @ rng.normal(size=len(sizes)) + rng.normal(size=n)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=5), st.integers(1, 60), st.integers(0, 10_000), st.data())
def test_chunks_and_merges_give_the_same_moments(sizes: list[int], n: int, seed: int, data: st.DataObject) -> None:
    codes, y = random_runs(sizes, n, seed, constant=1000.0)
    whole = Moments.empty(sizes).add(codes, y)
    cut = data.draw(st.integers(0, n))
    in_chunks = Moments.empty(sizes).add(codes[:cut], y[:cut]).add(codes[cut:], y[cut:])
    merged = Moments.empty(sizes).add(codes[cut:], y[cut:]).merge(Moments.empty(sizes).add(codes[:cut], y[:cut]))
    x = one_hot(codes, sizes)
    np.testing.assert_array_equal(whole.counts, x.T @ x)
    np.testing.assert_allclose(whole.sums, x.T @ (y - y.mean()), atol=1e-8)
    for other in (in_chunks, merged):
        np.testing.assert_array_equal(other.counts, whole.counts)
        np.testing.assert_allclose(other.sums, whole.sums, atol=1e-8)
        np.testing.assert_allclose([other.mean, other.square], [whole.mean, whole.square], atol=1e-8)


def test_pair_counts_of_many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [3, 2, 4]
    codes, _ = random_runs(sizes, 1000, 5)
    whole = pair_counts(codes, sizes)
    monkeypatch.setattr("levers.core.model.moments._ONE_HOT_CELLS", 70)
    np.testing.assert_array_equal(pair_counts(codes, sizes), whole)
    np.testing.assert_array_equal(whole, one_hot(codes, sizes).T @ one_hot(codes, sizes))


def test_contrasts_variances_and_noise_agree_with_statsmodels() -> None:
    sizes = [3, 4, 2, 5]
    codes, y = random_runs(sizes, 120, 1, constant=1e6)
    fit = Fit(Moments.empty(sizes).add(codes, y))
    x = one_hot(codes, sizes)
    with pytest.warns(SingularMatrixWarning):  # one-hot columns always are; the contrasts are determined all the same
        oracle = sm.OLS(y, x).fit(method="pinv")
    assert fit.rank == sum(sizes) - len(sizes) + 1 == np.linalg.matrix_rank(x)
    assert fit.residual_dof == oracle.df_resid
    np.testing.assert_allclose(fit.residual_square, oracle.ssr, rtol=1e-6)
    for k, m in enumerate(sizes):
        for i in range(m):
            for j in range(m):
                direction = np.zeros(sum(sizes))
                direction[fit.moments.offsets[k] + i] += 1
                direction[fit.moments.offsets[k] + j] -= 1
                np.testing.assert_allclose(contrast(fit, k, i, j), direction @ oracle.params, atol=1e-5)
                variance = direction @ oracle.normalized_cov_params @ direction
                np.testing.assert_allclose(fit.variances(k)[i, j], variance, atol=1e-9)


def test_a_rank_deficient_design_agrees_with_the_pseudo_inverse() -> None:
    """Factors 0 and 1 are partly aliased: some contrasts are determined, others are not, and the fit knows which."""
    codes = np.array([[0, 0, 0], [1, 1, 1], [2, 1, 0], [0, 0, 1], [1, 1, 0], [2, 1, 1], [2, 1, 0]])
    sizes = [3, 2, 2]
    y = np.array([1.0, 2.0, 3.5, 0.5, 2.2, 3.0, 3.1])
    fit = Fit(Moments.empty(sizes).add(codes, y))
    x = one_hot(codes, sizes)
    inverse = np.linalg.pinv(x.T @ x)
    assert fit.rank == np.linalg.matrix_rank(x) == 4  # one short of d - K + 1 = 5
    assert np.isfinite(fit.variances(0)[1, 2])
    assert np.isinf(fit.variances(0)[0, 1])
    assert np.isinf(fit.variances(1)[0, 1])
    direction = np.array([0, 1, -1, 0, 0, 0, 0], dtype=float)
    np.testing.assert_allclose(fit.variances(0)[1, 2], direction @ inverse @ direction)
    np.testing.assert_allclose(contrast(fit, 0, 1, 2), direction @ inverse @ x.T @ y)


def test_equal_counts_alone_do_not_make_a_contrast_estimable() -> None:
    """The counterexample to the paper's Lemma 4.2: two identical columns are uniform in every marginal."""
    column = np.tile([0, 1], 50)
    fit = Fit(Moments.empty([2, 2]).add(np.stack([column, column], axis=1), np.arange(100.0)))
    assert (fit.moments.level_counts == 50).all()
    assert fit.rank == 2
    assert np.isinf(fit.variances(0)[1, 0])


def test_levels_never_used_are_unknown() -> None:
    fit = Fit(Moments.empty([3, 2]).add([[0, 0], [2, 1], [0, 1], [2, 0]], [0.0, 1.0, 2.0, 3.0]))
    assert np.isnan(contrast(fit, 0, 1, 0))
    assert np.isinf(fit.variances(0)[1, 0])
    assert fit.rank == 3


def test_a_large_constant_costs_no_digits() -> None:
    codes, y = random_runs([3, 3], 200, 7)
    small = Fit(Moments.empty([3, 3]).add(codes, y))
    large = Fit(Moments.empty([3, 3]).add(codes, y + 2.0**40))
    np.testing.assert_allclose(large.theta, small.theta, atol=1e-3)


def test_bad_runs_are_refused() -> None:
    empty = Moments.empty([2, 3])
    with pytest.raises(OutcomeMismatchError, match="1 runs but 2 outcomes"):
        empty.add([[0, 0]], [1.0, 2.0])
    with pytest.raises(InvalidOutcomeError, match="outcome 1 of 1 is inf"):
        empty.add([[0, 0]], [float("inf")])
    with pytest.raises(InvalidOutcomeError, match="must be numbers"):
        empty.add([[0, 0]], ["high"])
    with pytest.raises(InvalidSpaceError, match="a level that its factor does not have"):
        empty.add([[0, 3]], [1.0])
    with pytest.raises(InvalidSpaceError, match="left to nature"):
        empty.add([[0, -1]], [1.0])
    with pytest.raises(InvalidSpaceError, match="2 factors"):
        Moments.empty([2]).add([[0, 0]], [1.0])
    with pytest.raises(InvalidSpaceError, match="different spaces"):
        empty.merge(Moments.empty([2]))
    with pytest.raises(InvalidSettingError, match="no runs"):
        _ = Fit(empty).theta
