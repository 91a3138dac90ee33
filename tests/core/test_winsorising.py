"""Outcomes far out are drawn in, and nothing else is."""

import numpy as np
import pytest

from levers.core.model.interaction_fit import InteractionFit, KernelSpectra, Runs
from levers.core.model.winsorising import USUAL, winsorised

SIZES = (2, 3, 2, 2, 3)


def additive(seed: int, n: int = 80, noise: float = 1.0) -> Runs:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(m, size=n) for m in SIZES], axis=1).astype(np.int16)
    return Runs.none(len(SIZES)).add(codes, codes @ [1.0, 2.0, 0.0, -1.0, 0.5] + noise * rng.normal(size=n), 0)


def changed(runs: Runs, noise_sd: float | None = None) -> list[int]:
    found, _ = winsorised(runs, SIZES, noise_sd)
    assert np.array_equal(found.codes, runs.codes)
    return np.flatnonzero(found.outcomes != runs.outcomes).tolist()


def test_normal_outcomes_are_hardly_ever_drawn_in() -> None:
    """0.3 % of normal numbers are beyond 3; the median that they are compared with makes it a little more."""
    n_drawn = sum(len(changed(additive(seed))) for seed in range(25))
    assert n_drawn <= 0.015 * 25 * 80


@pytest.mark.parametrize("noise_sd", [None, 1.0])
@pytest.mark.parametrize("at", [0, 41])
def test_a_typing_error_is_drawn_in_to_the_edge_of_the_usual(at: int, noise_sd: float | None) -> None:
    runs = additive(3)
    clean = runs.outcomes.copy()
    runs.outcomes[at] = 10 * clean[at] + 60
    found, _ = winsorised(runs, SIZES, noise_sd)
    others = np.delete(np.arange(80), at)
    assert np.array_equal(found.outcomes[others], clean[others])
    assert abs(found.outcomes[at] - clean[at]) < 2 * USUAL


def test_a_corner_of_levels_that_work_together_is_no_outlier() -> None:
    """Half of the runs are near the best setting, as in a study that has found it, and far above what adds up."""
    rng = np.random.default_rng(5)
    codes = rng.integers(2, size=(80, 5)).astype(np.int16)
    codes[40:, :2] = 1
    y = 3.0 * codes[:, 0] * codes[:, 1] + 0.5 * codes[:, 2] + 0.1 * rng.normal(size=80)
    found, weights = winsorised(Runs.none(5).add(codes, y, 0), (2,) * 5, None)
    assert weights.probability > 0.95
    assert np.abs(found.outcomes - y).max() < 0.3  # not by what the corner adds


@pytest.mark.parametrize(("factor", "shift"), [(1000.0, 0.0), (1.0, 1e4), (-1.0, 3.0)])
def test_units_do_not_matter(factor: float, shift: float) -> None:
    runs = additive(7)
    runs.outcomes[11] += 25
    other = Runs(runs.codes, factor * runs.outcomes + shift, runs.constants)
    assert changed(runs) == changed(other) == [11]


def test_outcomes_without_noise_or_without_difference_stay_about_as_they_are() -> None:
    runs = additive(1, noise=0.0)
    found, _ = winsorised(runs, SIZES, None)
    assert np.abs(found.outcomes - runs.outcomes).max() < 0.03 * np.ptp(runs.outcomes)
    runs.outcomes[:] = 2.0
    assert changed(runs) == []


def test_days_are_no_outliers() -> None:
    runs = additive(2)
    day = np.repeat(np.arange(10), 8)
    assert changed(Runs(runs.codes, runs.outcomes + 50 * day, day)) == changed(Runs(runs.codes, runs.outcomes, day))


def test_what_others_expect_is_what_the_fit_expects() -> None:
    runs = additive(9)
    runs = Runs(runs.codes, runs.outcomes, np.repeat(np.arange(8), 10))
    spectra = KernelSpectra(runs, SIZES)
    weights = spectra.weights(runs.outcomes, None, 0.0)
    away, sd = spectra.left_out(runs.outcomes, weights)
    expected, scaled = InteractionFit(SIZES, runs, weights).left_out
    assert runs.outcomes - away == pytest.approx(expected, abs=1e-6)
    assert away / sd == pytest.approx(scaled, abs=1e-6)
    alone = Runs(runs.codes, runs.outcomes, np.arange(80))  # a constant for each run: nobody expects anything
    assert np.isinf(KernelSpectra(alone, SIZES).left_out(runs.outcomes, weights)[1]).all()


@pytest.mark.parametrize("seed", range(4))
def test_outcomes_without_noise_are_not_drawn_in(seed: int) -> None:
    """All are closer to what the fit expects than it allows for, some a little less close than the others."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(m, size=20) for m in (3, 2, 3)]).astype(np.int16)
    y = codes @ [1.0, 0.5, -1.0]
    found, _ = winsorised(Runs.none(3).add(codes, y, 0), (3, 2, 3), None, 0.144)
    assert np.array_equal(found.outcomes, y)
