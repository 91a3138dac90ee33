from itertools import product

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from levers.core.model.moments import Moments
from levers.core.model.spike_and_slab import _LEAST, _MOST, _NONE, _PRIOR_FACTORS, _STEP, spike_and_slab


def full_factorial(sizes: tuple[int, ...], copies: int) -> np.ndarray:
    return np.array(list(product(*map(range, sizes))) * copies, dtype=np.int16)


def test_one_factor_is_averaged_over_all_variances() -> None:
    """The weights of variances by the density of the outcomes' contrasts, and E[theta] of each, without shortcuts."""
    rng = np.random.default_rng(1)
    codes = full_factorial((4,), 5)
    y = 0.6 * codes[:, 0] + rng.normal(size=len(codes))
    found = spike_and_slab(Moments.empty([4]).add(codes, y), 1.0)
    x = np.eye(4)[codes[:, 0]]
    basis = np.linalg.svd(np.eye(len(y)) - 1 / len(y))[0][:, : len(y) - 1]  # off the constant
    ratios = np.array([0.0, *(_LEAST * _STEP**i for i in range(7))])
    assert ratios[-1] == pytest.approx(_MOST)
    prior = np.array([_NONE, *[(1 - _NONE) / 7] * 7])
    seen = basis.T @ y

    def averaged(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        likely, means = [], []
        for ratio in ratios:
            covariance = np.eye(len(seen)) + ratio * (basis.T @ x) @ (basis.T @ x).T
            likely.append(multivariate_normal(cov=covariance).logpdf(seen))
            means.append(ratio * (basis.T @ x).T @ np.linalg.solve(covariance, seen))
        posterior = weights * np.exp(np.array(likely) - max(likely))
        posterior /= posterior.sum()
        return posterior, posterior @ np.array(means)

    weights = prior
    for _ in range(200):
        posterior, mean = averaged(weights)
        weights = (_PRIOR_FACTORS * prior + posterior) / (_PRIOR_FACTORS + 1)
    assert found == pytest.approx(mean, abs=1e-3)


def test_large_effects_are_hardly_drawn_in_whatever_the_unit() -> None:
    codes = full_factorial((2, 3), 6)
    y = 1e4 * codes[:, 0] + np.random.default_rng(0).normal(size=len(codes))
    for unit in (1.0, 1e-6):
        found = spike_and_slab(Moments.empty([2, 3]).add(codes, unit * y), unit)
        assert found[1] - found[0] == pytest.approx(1e4 * unit, rel=1e-4)


def test_levels_that_were_never_run_have_no_effect() -> None:
    codes = np.array([[0, 0], [1, 1], [0, 1], [1, 0]] * 5, dtype=np.int16)
    found = spike_and_slab(Moments.empty([2, 3]).add(codes, codes[:, 0] * 2.0), 0.5)
    assert found[4] == 0.0
    assert 1.5 < found[1] - found[0] < 2.0


def test_the_best_of_many_levers_without_effect_is_expected_to_be_nothing_much() -> None:
    sums, estimates = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        codes = np.column_stack([rng.permutation(np.arange(48) % 4) for _ in range(8)]).astype(np.int16)
        moments = Moments.empty([4] * 8).add(codes, rng.normal(size=48))
        means = (moments.sums / moments.level_counts).reshape(8, 4)
        chosen = means.argmax(axis=1)
        estimates.append(means.max(axis=1).sum())
        sums.append(spike_and_slab(moments, 1.0).reshape(8, 4)[np.arange(8), chosen].sum())
    assert np.mean(estimates) > 2.0
    assert -0.05 < np.mean(sums) < 0.5
