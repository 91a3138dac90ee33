import math

import numpy as np
import pytest
from scipy import stats

from levers.core.model.expectation import ALARM, FAR, MOST_RUNS, Expectation, Limits

SIZES = [3, 2, 4]


def runs(seed: int, n: int = 36, sizes: list[int] = SIZES, effect: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Balanced runs with effects of a size and a noise of 1, around 70."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.permutation(np.arange(n) % m) for m in sizes]).astype(np.int16)
    total = sum(rng.normal(0, effect, m)[codes[:, k]] for k, m in enumerate(sizes))
    return codes, 70 + total + rng.normal(size=n)


def one_hot(codes: np.ndarray, sizes: list[int] = SIZES) -> np.ndarray:
    columns = [np.ones(len(codes))]
    columns += [codes[:, k] == level for k, m in enumerate(sizes) for level in range(1, m)]
    return np.column_stack(columns).astype(np.float64)


def together(codes: np.ndarray, y: np.ndarray, sizes: list[int], noise_sd: float | None, begin: int) -> Limits:
    """What is to be expected of the runs from one on, by all others."""
    found = Expectation.of(codes, y, sizes, noise_sd)
    return found.limits(codes[begin:], len(y), outcomes=y[begin:], first=begin)


@pytest.mark.parametrize("noise_sd", [None, 1.0, 0.2])
def test_a_run_of_the_fit_is_judged_by_the_fit_without_it(noise_sd: float | None) -> None:
    codes, y = runs(3)
    found = together(codes, y, SIZES, noise_sd, 0)
    assert found.by_fit.all()
    x = one_hot(codes)
    for i in range(len(y)):
        others = np.delete(np.arange(len(y)), i)
        beta, square, rank, _ = np.linalg.lstsq(x[others], y[others])
        dof = len(others) - rank
        wide = math.sqrt(1 + x[i] @ np.linalg.inv(x[others].T @ x[others]) @ x[i])
        half = stats.t.ppf(1 - ALARM / (2 * len(y)), dof) * math.sqrt(square[0] / dof)
        if noise_sd is not None:
            half = max(half, stats.norm.ppf(1 - ALARM / (2 * len(y))) * noise_sd)
        assert found.centre[i] == pytest.approx(x[i] @ beta)
        assert found.half[i] == pytest.approx(half * wide)


def test_a_further_run_is_predicted() -> None:
    codes, y = runs(4)
    seen = Expectation.of(codes[:30], y[:30], SIZES)
    assert seen.agreeing.all()
    far = seen.limits(codes[30:], 36, outcomes=np.full(6, 1e6))
    x = one_hot(codes)
    beta, square, rank, _ = np.linalg.lstsq(x[:30], y[:30])
    inverse = np.linalg.inv(x[:30].T @ x[:30])
    wide = np.sqrt(1 + np.einsum("ij,jk,ik->i", x[30:], inverse, x[30:]))
    quantile = stats.t.ppf(1 - ALARM / 72, 30 - rank)
    assert np.allclose(far.centre, x[30:] @ beta)
    assert np.allclose(far.half, quantile * math.sqrt(square[0] / (30 - rank)) * wide)


@pytest.mark.parametrize("constant", [0.0, -70.0])
def test_before_an_outcome_is_known_a_further_run_is_predicted_as_after(constant: float) -> None:
    """Also near 0, where limits without the uncertainty of the fit called honest outcomes surprises."""
    codes, y = runs(4)
    seen = Expectation.of(codes[:30], y[:30] + constant, SIZES, 1.0)
    before, after = seen.limits(codes[30:], 36), seen.limits(codes[30:], 36, outcomes=np.full(6, 1e6))
    assert np.allclose(before.centre, after.centre)
    assert np.allclose(before.half, after.half)


def test_before_there_is_a_fit_the_spread_of_the_others_tells() -> None:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 4, (8, 10)).astype(np.int16)  # 31 parameters
    y = np.array([71.0, 69.5, 70.2, 72.4, 70.9, 69.0, 71.6, 705.0])
    found = together(codes, y, [4] * 10, None, 0)
    assert not found.by_fit.any()
    middle = np.median(y)
    spread = np.sort(np.abs(y - middle))[5] / stats.norm.ppf(0.875)
    assert np.allclose(found.centre, middle)
    assert np.allclose(found.half, FAR * (1 + 12 / 8) * spread)
    assert (np.abs(y - found.centre) > found.half).tolist() == [False] * 7 + [True]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_nothing_is_said_by_too_few_others(n: int) -> None:
    codes, y = runs(6)
    y[n - 1] = 1e9
    assert np.isinf(together(codes[:n], y[:n], SIZES, None, 0).half).all()


def test_nothing_is_said_where_all_outcomes_are_the_same() -> None:
    codes, _ = runs(7)
    y = np.zeros(36)
    y[20] = 1.0
    assert np.isinf(Expectation.of(codes[:20], y[:20], SIZES).limits(codes[20:], 36).half).all()


def test_a_poor_level_is_no_surprise_once_it_is_known() -> None:
    """A quarter of the runs, at one level, gives next to nothing: these runs explain each other."""
    codes, y = runs(8, n=48)
    y[codes[:, 2] == 3] -= 70
    found = together(codes, y, SIZES, None, 24)
    assert not (np.abs(y[24:] - found.centre) > found.half).any()


def test_an_import_may_differ_by_a_constant() -> None:
    codes, y = runs(9, n=72)
    source = np.repeat([0, 1], 36)
    y[source == 1] += 500
    y[40] *= 10
    found = Expectation.of(codes, y, SIZES, None, source).limits(codes[36:], 72, 1, y[36:], 36)
    assert np.flatnonzero(np.abs(y[36:] - found.centre) > found.half).tolist() == [4]


@pytest.mark.parametrize("effect", [1.0, 30.0])
@pytest.mark.parametrize("noise_sd", [None, 1.0])
def test_several_wrong_outcomes_do_not_hide_each_other(noise_sd: float | None, effect: float) -> None:
    """Three of a sheet of 12, after 36 runs, are off by 60, be that more or less than levels make of a difference."""
    n_missed = 0
    for seed in range(60):
        codes, y = runs(seed, n=48, effect=effect)
        rng = np.random.default_rng(seed)
        wrong = 36 + rng.choice(12, 3, replace=False)
        y[wrong] += 60 * rng.choice([-1.0, 1.0], 3)
        found = together(codes, y, SIZES, noise_sd, 36)
        flagged = set(36 + np.flatnonzero(np.abs(y[36:] - found.centre) > found.half))
        n_missed += not flagged >= set(wrong.tolist())
    assert n_missed <= 1


KINDS = [([2], 16), ([4, 4, 4], 32), ([3] * 7, 48), ([4] * 10, 72)]


@pytest.mark.parametrize("noise_sd", [None, 1.0])
def test_honest_outcomes_are_hardly_ever_a_surprise(noise_sd: float | None) -> None:
    """At most one study in a hundred has an outcome that is asked about, told in sheets of 8."""
    n_asked, n_studies = 0, 0
    for sizes, n in KINDS:
        for seed in range(50):
            codes, y = runs(1000 + seed, n, sizes, effect=0.5 + seed % 4)
            looks = (together(codes[: k + 8], y[: k + 8], sizes, noise_sd, k) for k in range(0, n, 8))
            asked = [np.abs(y[8 * i : 8 * i + 8] - look.centre) > look.half for i, look in enumerate(looks)]
            n_asked += any(one.any() for one in asked)
            n_studies += 1
    assert n_asked <= stats.binom.ppf(0.999, n_studies, 0.01)


def test_a_lost_decimal_point_is_found_from_the_sixth_run_on() -> None:
    """Outcomes around 70 with a standard deviation of 1 to 5, one of them ten times too large."""
    n_missed, n = 0, 0
    for sizes, n_runs in KINDS:
        for seed in range(60):
            codes, y = runs(2000 + seed, n_runs, sizes, effect=seed % 4)
            k = 5 + seed % (n_runs - 5)
            wrong = y[: k + 1].copy()
            wrong[k] *= 10
            found = together(codes[: k + 1], wrong, sizes, None, k)
            n_missed += bool(abs(wrong[k] - found.centre[0]) <= found.half[0])
            n += 1
    assert n_missed <= stats.binom.ppf(0.999, n, 0.01)


def test_of_very_many_runs_a_sample_is_fitted() -> None:
    codes, y = runs(11, n=12 * MOST_RUNS)
    y[::1000] *= 10
    found = together(codes, y, SIZES, None, 0)
    assert np.flatnonzero(np.abs(y - found.centre) > found.half).tolist() == list(range(0, len(y), 1000))
