import itertools
import math

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp, ndtr
from scipy.stats import norm

from harness.hard_worlds import worst_gap
from levers.core.certificates.certificate import (
    _EXPONENTS,
    _chernoff_exponents,
    certified_levels,
    chernoff_scale,
    scale_needed,
    subgaussian_scale,
)
from levers.core.certificates.limits import (
    binary_divergence,
    instance_bound,
    necessary_runs,
    null_bound,
    slippage_failures,
    worst_case_bound,
)
from levers.core.certificates.sums import dp_bound, proven_gain
from levers.core.certificates.tails import LAST, slippage_tail, tail_shape
from levers.errors import InvalidSettingError


def runs_needed(
    levels: tuple[int, ...], tolerance: float, failure_prob: float, noise_sd: float, certificate: str = "slippage"
) -> int:
    """The least number of runs whose certificate reaches the tolerance: n = ceil((u sigma / eps)^2)."""
    return math.ceil((scale_needed(tuple(sorted(levels)), failure_prob, certificate) * noise_sd / tolerance) ** 2)


def tolerance_reached(levels: tuple[int, ...], n_runs: int, failure_prob: float, noise_sd: float) -> float:
    """The smallest tolerance that n runs certify: the inverse of `runs_needed`, eps = u sigma / sqrt(n)."""
    return scale_needed(tuple(sorted(levels)), failure_prob) * noise_sd / math.sqrt(n_runs)


def rounded_down(levels: tuple[int, ...], scale: float, cells: int) -> float:
    """The programme with all gaps on the grid and h read too late: never above the true value."""
    value, gaps = np.zeros(cells + 1), np.arange(1, cells + 2)
    tails = {m: norm_max_tail(m - 1, gaps * scale / (cells * math.sqrt(m))) for m in set(levels)}
    for m in sorted(levels):
        tail = tails[m]
        padded = np.concatenate([value, np.ones(cells + 1)])
        value = value + np.maximum(
            [((padded[i + 1 : i + cells + 2] - value[i]) * tail).max() for i in range(cells + 1)], 0.0
        )
    return float(value[0])


def norm_max_tail(n_rivals: int, gaps: np.ndarray) -> np.ndarray:
    """P(max of q normals - one more >= t), by quadrature."""
    z = np.arange(-9.0, 9.0, 0.01)
    density = norm.pdf(z)
    return np.array([1.0 - float((ndtr(z + t) ** n_rivals * density).sum()) * 0.01 for t in gaps])


@pytest.mark.parametrize("n_rivals", [1, 2, 5, 29, 200])
def test_tails_are_read_from_above_and_closely(n_rivals: int, rng: np.random.Generator) -> None:
    gaps = np.sort(rng.uniform(0, 6, 200))
    excess = slippage_tail(n_rivals, gaps) - norm_max_tail(n_rivals, gaps)
    assert (excess > -1e-13).all()
    assert (excess < 3e-6).all()
    shape = tail_shape(n_rivals)
    falls = -np.diff(norm_max_tail(n_rivals, np.arange(0, 6, 0.02))) / 0.02
    assert falls.max() <= shape.slope < 1.02 * falls.max()
    assert (np.diff(falls[int(shape.bend / 0.02) + 1 :]) < 0).all()  # convex from the bend on


@pytest.mark.parametrize(
    ("levels", "scale"),
    [
        ((2,), 2.0),
        ((6,), 5.0),
        ((2, 2, 3), 4.5),
        ((5, 5), 9.0),
        ((2, 4, 6, 6), 10.0),
        ((3,) * 8, 9.0),
        ((2,) * 12, 6.0),
    ],
)
def test_few_cells_bound_the_programme_from_above_and_closely(levels: tuple[int, ...], scale: float) -> None:
    low = rounded_down(levels, scale, 1200)
    for cells in (int(2 * scale), int(4 * scale), int(6 * scale), 400):
        assert dp_bound(levels, scale, cells) >= low
    assert dp_bound(levels, scale) <= 1.04 * low
    with pytest.raises(ValueError, match="too few"):
        dp_bound(levels, scale, int(0.8 * scale))


def test_the_tail_of_one_rival_is_a_normal_tail_and_never_too_small() -> None:
    gaps = np.linspace(0, 8, 777)
    exact = norm.sf(gaps / math.sqrt(2))
    found = slippage_tail(1, gaps)
    assert (found >= exact).all()
    assert (found <= norm.sf((gaps - 0.006) / math.sqrt(2)) + 1e-11).all()


def test_the_tail_of_several_rivals_agrees_with_simulation(rng: np.random.Generator) -> None:
    drawn = rng.normal(size=(200_000, 5)).max(axis=1) - rng.normal(size=200_000)
    for gap in (0.0, 0.5, 1.2, 2.5):
        share = float((drawn >= gap).mean())
        assert float(slippage_tail(5, np.array([gap]))[0]) == pytest.approx(share, abs=5 * math.sqrt(0.25 / 200_000))


def log_tail(n_rivals: int, gaps: np.ndarray) -> np.ndarray:
    """log h_q(t) for gaps of any size: log of the mean of 1 - Phi(Z + t)^q, by quadrature of logarithms."""
    z = np.arange(-45.0, 12.0, 0.02)
    weight = norm.logpdf(z) + math.log(0.02)
    found = [logsumexp(np.log(-np.expm1(np.minimum(n_rivals * log_ndtr(z + t), -1e-300))) + weight) for t in gaps]
    return np.array(found)


@pytest.mark.parametrize("m", [2, 3, 8, 40])
def test_the_chernoff_bound_counts_gaps_beyond_the_table(m: int) -> None:
    """Against a table five times as long. Up to the rates at which the largest value leaves the table it is close."""
    gaps = np.arange(0.02, 5 * LAST, 0.02)
    tail = log_tail(m - 1, gaps)
    assert norm.sf(LAST / math.sqrt(2)) == pytest.approx(math.exp(log_tail(1, np.array([LAST]))[0]), rel=1e-9)
    rates = _EXPONENTS * math.sqrt(m)
    reached = 2 * rates < 4.9 * LAST  # beyond, the supremum leaves the long table too
    exact = np.array([np.logaddexp(0, a * gaps + np.log1p(-np.exp(-a * gaps)) + tail).max() for a in rates])
    excess = (_chernoff_exponents(m, False) - exact)[reached]
    assert rates[reached].max() > 1.2 * LAST / 2
    assert excess.min() > 0
    assert excess[rates[reached] < LAST / 2].max() < 0.03


@pytest.mark.parametrize("m", [3, 4])
def test_the_proven_chernoff_bound_counts_gaps_beyond_the_table(m: int) -> None:
    gaps = np.arange(0.1, 3 * LAST, 0.1)
    tails = [np.exp(log_tail(q, gaps)) for q in range(m - 1, 0, -1)]
    for i in range(0, len(_EXPONENTS), 4):
        rate = _EXPONENTS[i] * math.sqrt(m)
        if 2 * rate < 2.9 * LAST:
            gain = proven_gain(np.expm1(rate * gaps)[None, :], tails)[0]
            assert np.log1p(gain) < _chernoff_exponents(m, True)[i], rate


@pytest.mark.parametrize("m", [2, 12, 40, 1000])
def test_one_factor_fails_no_more_often_than_a_chernoff_bound_of_one_in_a_billion(m: int) -> None:
    """With all gaps just over the tolerance, a factor fails with probability h(u / sqrt m)."""
    for scale in (chernoff_scale((m,), 1e-9), scale_needed((m,), 1e-9)):
        assert math.exp(log_tail(m - 1, np.array([scale / math.sqrt(m)]))[0]) <= 1e-9


@pytest.mark.parametrize(("n_levels", "expected", "chernoff"), [(2, 223, 330), (4, 1114, 1476)])
def test_runs_of_ten_factors_are_the_known_ones(n_levels: int, expected: int, chernoff: int) -> None:
    levels = (n_levels,) * 10
    assert runs_needed(levels, 0.5, 0.1, 1.0) == pytest.approx(expected, rel=0.03)
    assert (chernoff_scale(levels, 0.1) / 0.5) ** 2 == pytest.approx(chernoff, rel=0.03)


def test_finer_grids_only_lower_the_bound() -> None:
    """Rounding goes to the safe side, so a coarse grid reports more failures, never fewer."""
    bounds = [dp_bound([3, 4, 2], 9.0, cells) for cells in (50, 100, 200, 400, 800)]
    assert bounds == sorted(bounds, reverse=True)
    proven = [dp_bound([3, 4, 2], 9.0, cells, proven=True) for cells in (50, 100, 200)]
    assert proven == sorted(proven, reverse=True)
    assert proven[1] > bounds[1]


def test_no_bound_is_below_the_exact_failure_probability() -> None:
    """On equal gaps the failure probability is known exactly; the bound is never below it, and close."""
    for k in (1, 2, 5, 12):
        for m in (2, 3, 6):
            for factor in (0.6, 1.0, 1.3):
                scale = factor * scale_needed((m,) * k, 0.1)
                exact = float(slippage_failures([m] * k, scale).max())
                assert dp_bound([m] * k, scale) >= exact * (1 - 1e-12)
                if factor == 1.0:
                    assert exact > 0.06


def test_no_bound_is_below_simulated_failures_for_unequal_gaps(rng: np.random.Generator) -> None:
    """Gaps of random sizes: no configuration fails more often than the certificate allows."""
    levels = (3, 4, 5)
    scale = scale_needed(levels, 0.1)
    for _ in range(30):
        gaps = [np.concatenate([[0.0], rng.exponential(size=m - 1) * rng.choice([0.2, 0.4, 0.8])]) for m in levels]
        lost = np.zeros(20_000)
        for m, behind in zip(levels, gaps, strict=True):
            means = -behind + rng.normal(size=(20_000, m)) * math.sqrt(m) / scale
            lost += behind[means.argmax(axis=1)]
        assert float((lost > 1.0).mean()) <= 0.1 + 3 * math.sqrt(0.09 / 20_000)


def test_certificates_are_ordered() -> None:
    levels = (3, 3, 4, 5)
    slippage, proven = (scale_needed(levels, 0.1, c) for c in ("slippage", "proven"))
    assert slippage < proven < chernoff_scale(levels, 0.1, proven=True) * 1.0001
    assert slippage < chernoff_scale(levels, 0.1)
    assert proven < subgaussian_scale(levels, 0.1)
    assert scale_needed((2, 2, 2), 0.1, "proven") == scale_needed((2, 2, 2), 0.1)
    assert scale_needed(levels, 0.01) > slippage
    assert scale_needed((*levels, 2), 0.1) > slippage
    assert scale_needed((), 0.1) == 0.0


def test_an_accepted_scale_was_checked() -> None:
    for levels in ((2,), (6, 6), (3, 4, 5, 6) * 3):
        scale = scale_needed(levels, 0.05)
        assert dp_bound(levels, scale) <= 0.05
        assert dp_bound(levels, 0.97 * scale) > 0.05


def test_runs_and_tolerance_are_inverse_and_scale_as_they_should() -> None:
    levels = (3, 4, 4)
    n = runs_needed(levels, 0.5, 0.1, 1.0)
    assert tolerance_reached(levels, n, 0.1, 1.0) == pytest.approx(0.5, rel=0.01)
    assert runs_needed(levels, 0.25, 0.1, 1.0) == pytest.approx(4 * n, rel=0.01)
    assert runs_needed(levels, 1.0, 0.1, 2.0) == n
    assert certified_levels([5, 2, 4], None) == (2, 4, 5)
    assert certified_levels([5, 2, 4], 9) == (2, 4, 5)


def test_very_many_factors_fall_back_to_the_cheap_bound() -> None:
    assert scale_needed((5,) * 1000, 0.1) == chernoff_scale((5,) * 1000, 0.1)


def test_the_subgaussian_scale_is_its_formula() -> None:
    """n = 4 sigma^2 sum M (sum log M + log 1/delta) / eps^2."""
    assert runs_needed((3, 4), 0.5, 0.1, 2.0, "subgaussian") == math.ceil(
        4 * 4 * 7 * (math.log(12) + math.log(10)) / 0.25
    )


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InvalidSettingError, match="slippage, proven, subgaussian"):
        scale_needed((2,), 0.1, "magic")
    with pytest.raises(InvalidSettingError, match="levels"):
        scale_needed((1,), 0.1)
    with pytest.raises(InvalidSettingError, match="failure_prob"):
        scale_needed((2,), 1.0)


def test_limits_stay_below_what_is_used() -> None:
    for levels in ((2,) * 10, (4,) * 10, (3, 5, 2)):
        used = runs_needed(levels, 0.5, 0.1, 1.0)
        assert worst_case_bound(levels, 0.5, 0.1, 1.0) < necessary_runs(levels, 0.5, 0.1, 1.0) <= used
        assert used < 1.2 * necessary_runs(levels, 0.5, 0.1, 1.0)


def test_the_instance_limit_of_two_levels_has_a_closed_form() -> None:
    """min_w 2 (1/w + 1/(1-w)) / (gap + eps)^2 = 8 / (gap + eps)^2."""
    found = instance_bound([[0.0, 2.0], [0.0, 0.1]], 0.5, 0.1, 1.0)
    assert found == pytest.approx(binary_divergence(0.1, 0.9) * 8 / 2.5**2, rel=1e-4)
    assert instance_bound([[0.0, 0.1]], 0.5, 0.1, 1.0) == 0.0
    assert instance_bound([[2.0, 0.0, 0.0]], 0.5, 0.1, 1.0) > found


@pytest.mark.parametrize("levels", [(2,), (5,), (3, 2), (4, 4, 3), (2, 3, 2, 6)])
@pytest.mark.parametrize("least", [0.0, 0.2])
def test_the_limit_without_effects_is_its_formula_over_all_raised_levels(levels: tuple[int, ...], least: float) -> None:
    """Over all sets of factors, all c, and all ways to raise one level in each; the answer is the first levels."""
    delta, eps, sd = 0.1, 0.5, 1.5
    found = 0.0
    for r in range(1, len(levels) + 1):
        for chosen in itertools.combinations(levels, r):
            raised = list(itertools.product(*(range(m) for m in chosen)))
            shift = np.array([sum((i == 0) - 1 / m for i, m in zip(at, chosen, strict=True)) for at in raised])
            hits = np.array([sum(i == 0 for i in at) for at in raised])
            for c in range(1, r + 1):
                q = float((hits >= r - c + 1).mean())
                per_run = float((shift**2).mean()) * max(eps / c, least) ** 2 / (2 * sd**2)
                if q < 1 - delta:
                    found = max(found, binary_divergence(q, 1 - delta) / per_run)
    assert null_bound(levels, eps, delta, sd, least) == pytest.approx(found, rel=1e-12)


def test_the_limit_without_effects_is_below_what_a_method_that_keeps_its_promise_takes() -> None:
    """One balanced design takes the same runs whatever the effects are, so it is subject to this limit too."""
    for levels in ((2,), (6,), (2, 3), (2,) * 10, (4,) * 10, (3, 4, 5, 6) * 5):
        for delta in (0.01, 0.1, 0.4):
            limit = null_bound(levels, 0.5, delta, 1.0)
            assert 0.1 * runs_needed(levels, 0.5, delta, 1.0) < limit < runs_needed(levels, 0.5, delta, 1.0)
    assert null_bound((3, 3), 0.5, 0.95, 1.0) == 0.0  # a method that may fail so often can guess
    assert null_bound((3,) * 6, 0.5, 0.1, 1.0, min_effect=0.4) < null_bound((3,) * 6, 0.5, 0.1, 1.0) / 2


def test_a_least_effect_lowers_the_limit_of_any_method() -> None:
    known, unknown = (worst_case_bound((4,) * 10, 0.5, 0.1, 1.0, e) for e in (1.0, 0.0))
    assert 0 < known < unknown
    assert worst_case_bound((4,) * 10, 0.5, 0.1, 1.0, 0.001) == unknown


def test_poisson_binomial_tails_and_the_worst_gap() -> None:
    single = float(slippage_tail(1, np.array([3.0 / math.sqrt(2)]))[0])
    found = slippage_failures([2, 2], 3.0)
    assert found[0] == pytest.approx(1 - (1 - single) ** 2)
    half = float(slippage_tail(1, np.array([1.5 / math.sqrt(2)]))[0])
    assert found[1] == pytest.approx(half**2)
    assert worst_gap([2, 2], 3.0) == 1.0 / (1 + int(found.argmax()))
