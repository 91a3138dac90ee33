"""The fit with interactions, against a Gaussian process written out in full."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from levers.core.codec import from_json, to_json
from levers.core.model.checks.check import Residual
from levers.core.model.interaction_fit import InteractionFit, InteractionWeights, Runs, interaction_weights

SIZES = (2, 3, 2, 4)
WEIGHTS = InteractionWeights(noise_variance=0.3, main=4.0, pairs=2.0, near=0.5, probability=0.9)
EVERY = np.array(list(product(*(range(m) for m in SIZES))), dtype=np.int16)


def covariance(one: NDArray[np.int16], other: NDArray[np.int16], weights: InteractionWeights = WEIGHTS) -> float:
    """By the words of the docstring, factor by factor."""
    alike = [float((m * (a == b) - 1) / (m - 1)) for m, a, b in zip(SIZES, one, other, strict=True)]
    n = len(SIZES)
    pairs = sum(alike[k] * alike[j] for k in range(n) for j in range(k)) / (n * (n - 1) / 2)
    near = 0.6 ** int((one != other).sum())
    return weights.noise_variance * (weights.main * sum(alike) / n + weights.pairs * pairs + weights.near * near)


@pytest.fixture
def runs() -> Runs:
    rng = np.random.default_rng(4)
    codes = rng.integers(0, SIZES, size=(40, len(SIZES))).astype(np.int16)
    outcomes = codes[:, 0] * codes[:, 1] + 0.5 * codes[:, 3] + 0.3 * rng.normal(size=40)
    return Runs.none(len(SIZES)).add(codes[:15], outcomes[:15], 0).add(codes[15:], outcomes[15:] + 7.0, 1)


def in_full(runs: Runs, settings: NDArray[np.int16]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and covariances of settings given runs, the constants having a very large variance."""
    large = 1e7
    between = np.array([[covariance(a, b) for b in runs.codes] for a in runs.codes])
    between += large * (runs.constants[:, None] == runs.constants[None, :]) + WEIGHTS.noise_variance * np.eye(len(runs))
    across = np.array([[covariance(a, b) for b in runs.codes] for a in settings])
    own = np.array([[covariance(a, b) for b in settings] for a in settings])
    solved = np.linalg.solve(between, across.T)
    return solved.T @ runs.outcomes, own - across @ solved


def test_differences_are_those_of_a_gaussian_process(runs: Runs) -> None:
    fit = InteractionFit(SIZES, runs, WEIGHTS)
    settings = EVERY[[3, 17, 40]]
    mean, spread = in_full(runs, settings)
    for i, j in ((0, 1), (1, 2), (2, 0)):
        found, variance = fit.difference(settings[i], settings[j])
        assert found == pytest.approx(mean[i] - mean[j], abs=1e-4)
        assert variance == pytest.approx(spread[i, i] + spread[j, j] - 2 * spread[i, j], abs=1e-4)
        assert found == pytest.approx(fit.values(fit.mean, settings[[i, j]]) @ [1.0, -1.0], abs=1e-6)


def test_what_happens_to_all_runs_of_a_constant_changes_nothing(runs: Runs) -> None:
    shifted = Runs(runs.codes, runs.outcomes - 50.0 * (runs.constants == 1), runs.constants)
    one, other = (InteractionFit(SIZES, some, interaction_weights(some, SIZES, None)) for some in (runs, shifted))
    assert one.weights.probability == pytest.approx(other.weights.probability, abs=1e-6)
    assert np.allclose(one.values(one.mean, EVERY), other.values(other.mean, EVERY), atol=1e-6)


def test_steps_are_what_changing_one_lever_adds(runs: Runs) -> None:
    fit = InteractionFit(SIZES, runs, WEIGHTS)
    setting = EVERY[29]
    here = fit.values(fit.mean, setting[None])[0]
    [steps] = fit.steps(fit.mean, setting[None])
    place = 0
    for k, m in enumerate(SIZES):
        for level in range(m):
            changed = setting.copy()
            changed[k] = level
            assert steps[place] == pytest.approx(fit.values(fit.mean, changed[None])[0] - here, abs=1e-9)
            place += 1


def test_the_best_setting_is_the_best_of_all(runs: Runs) -> None:
    fit = InteractionFit(SIZES, runs, WEIGHTS)
    rng = np.random.default_rng(0)
    for surface in (fit.mean, *(fit.draw(rng) for _ in range(20))):
        found = fit.best(surface, EVERY[::4])
        assert fit.values(surface, found[None])[0] == pytest.approx(fit.values(surface, EVERY).max())


def test_draws_have_the_mean_and_the_spread_of_what_is_not_known(runs: Runs) -> None:
    weights = InteractionWeights(0.3, 4.0, 2.0, 0.0, 0.9)  # what is neither main effect nor pair is not drawn
    fit = InteractionFit(SIZES, runs, weights)
    rng = np.random.default_rng(1)
    pair = EVERY[[5, 33]]
    drawn = np.array([fit.values(fit.draw(rng), pair) @ [1.0, -1.0] for _ in range(3000)])
    mean, variance = fit.difference(pair[0], pair[1])
    assert drawn.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / 3000))
    assert drawn.var() == pytest.approx(variance, rel=4 * np.sqrt(2 / 3000))


def test_runs_go_to_json_and_back(runs: Runs) -> None:
    again = from_json(to_json(runs), Runs)
    assert np.array_equal(again.codes, runs.codes)
    assert again.codes.dtype == np.int16
    assert np.array_equal(again.outcomes, runs.outcomes)
    assert np.array_equal(again.constants, runs.constants)


def test_each_run_is_compared_with_what_a_fit_without_it_expects(runs: Runs) -> None:
    fit = InteractionFit(SIZES, runs, WEIGHTS)
    expected, away = fit.left_out
    left = Residual.of_interactions(fit)
    scale = np.sqrt(WEIGHTS.noise_variance)
    assert np.sqrt(left.gains) / scale == pytest.approx(np.abs(away), rel=1e-6)
    for i in (0, 7, 15, 39):
        others = np.delete(np.arange(len(runs)), i)
        without = Runs(runs.codes[others], runs.outcomes[others], runs.constants[others])
        mean, _ = in_full(without, runs.codes[[i]])
        assert expected[i] == pytest.approx(constants_of(without)[runs.constants[i]] + mean[0], abs=1e-4)
        after, again = left.without(i), Residual.of_interactions(InteractionFit(SIZES, without, WEIGHTS))
        assert after.square == pytest.approx(again.square, rel=1e-6)
        assert after.dof == again.dof


def constants_of(runs: Runs) -> NDArray[np.float64]:
    """Generalised least squares, (B' Sigma^-1 B)^-1 B' Sigma^-1 y, with Sigma by the words of the docstring."""
    sigma = np.array([[covariance(a, b) for b in runs.codes] for a in runs.codes])
    columns = (runs.constants[:, None] == np.unique(runs.constants)[None, :]).astype(float)
    solved = np.linalg.solve(sigma + WEIGHTS.noise_variance * np.eye(len(runs)), columns)
    return np.linalg.solve(columns.T @ solved, solved.T @ runs.outcomes)
