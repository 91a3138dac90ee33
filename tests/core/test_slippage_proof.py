"""Equal gaps are the worst case for three levels: the steps of docs/theory/slippage.md, and its last inequality.

The inequality is proven on a compact domain by covering it with boxes, in interval arithmetic. For more levels F <= 1
is checked on random gaps; `python benchmarks/slippage.py` does that at length.
"""

import math
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import ndtr

from harness.intervals import PI, Interval
from harness.slippage import equal_gap_tail, leads, random_gaps, slippage_ratio
from levers.core.certificates.tails import slippage_tail

CELL = 2.0**-9  # boxes are CELL wide in b and 2 CELL in k, so that b, b - k/2 and b - k have their ends on one grid
N_CELLS = 820  # of b: up to 1.6015625; from 1.6 on the inequality is proven by hand
N_SMALL = 26  # cells of k, up to 0.1015625, in which both sides are divided by k
FINE = 64  # parts of a cell for the integral A


def big_j(a: float, k: float) -> float:
    """J(a, k) = integral from a on of exp(-1.5 x^2) Phi(x + k)."""
    return float(quad(lambda x: math.exp(-1.5 * x * x) * ndtr(x + k), a, a + 12, epsabs=0, epsrel=1e-12)[0])


def three_terms(b: float, k: float) -> tuple[float, float, float]:
    """eta, j and d, by quadrature."""
    scale = math.exp(1.5 * b * b)
    eta = scale * math.sqrt(2 * math.pi / 3) * float(ndtr(-math.sqrt(3) * b))
    return eta, scale * big_j(b, 0), scale * (big_j(b - k / 2, 0) - big_j(b, 0))


def two_sides(b: float, k: float) -> tuple[float, float]:
    """The two sides of the last inequality, by quadrature."""
    eta, j, d = three_terms(b, k)
    second = eta * (ndtr(b) - ndtr(b - k)) + k * ndtr(b - k) / 3
    return min(eta * ndtr(b), second), 2 * d * j / (d + j)


@pytest.fixture(scope="module")
def points() -> list[tuple[float, float]]:
    """(a, k): small, usual and large."""
    rng = np.random.default_rng(3)
    return [(a, k) for a, k in zip(2.5 * rng.random(30) ** 2, 4 * rng.random(30) ** 2 + 0.01, strict=True)]


def test_the_ratio_of_three_levels_is_two_ratios_of_one_integral(points: list[tuple[float, float]]) -> None:
    for a, k in points:
        first, second = a * math.sqrt(6), a * math.sqrt(6) + k * math.sqrt(1.5)
        b = a + k / 2
        written = (big_j(a, k) / big_j(a, 0) + big_j(b, -k) / big_j(b, 0)) / 2
        assert slippage_ratio(np.array([[first, second]]))[0] == pytest.approx(written, rel=1e-10)


def test_the_ratio_falls_as_its_derivative_says(points: list[tuple[float, float]]) -> None:
    """2 J(b, 0) (2 F)' = exp(-1.5 b^2) [Phi(b) J(b, -k) / J(b, 0) - Phi(b - k)] - 2 D d / (d + j)."""
    for a, k in points:
        b, step = a + k / 2, 1e-4
        twice = [big_j(a, x) / big_j(a, 0) + big_j(a + x / 2, -x) / big_j(a + x / 2, 0) for x in (k - step, k + step)]
        overlap = 0.5 * math.exp(-3 * k * k / 8) * ndtr(-2 * b + k / 2)
        _, j, d = three_terms(b, k)
        bracket = ndtr(b) * big_j(b, -k) / big_j(b, 0) - ndtr(b - k)
        written = math.exp(-1.5 * b * b) * bracket - 2 * overlap * d / (d + j)
        found = 2 * big_j(b, 0) * (twice[1] - twice[0]) / (2 * step)
        assert found == pytest.approx(written, rel=1e-4, abs=1e-9)
        assert written < 0


def test_what_the_bracket_is_bounded_by(points: list[tuple[float, float]]) -> None:
    """Phi(b) J(b, -k) - Phi(b - k) J(b, 0) is at most D times the left side of the inequality."""
    for a, k in points:
        b = a + k / 2
        overlap = 0.5 * math.exp(-3 * k * k / 8) * ndtr(-2 * b + k / 2)
        bracket = ndtr(b) * big_j(b, -k) - ndtr(b - k) * big_j(b, 0)
        assert bracket <= overlap * two_sides(b, k)[0] * (1 + 1e-9)


@lru_cache(maxsize=1)
def tables() -> tuple[Interval, Interval, Interval, Interval, Interval]:
    """exp(1.5 x^2), Phi, eta, j and A(x), the integral of exp(-1.5 y^2) Phi(y) from 0 to x, at multiples of CELL."""
    fine = Interval.of(np.arange((N_CELLS + 4) * FINE + 1) * (CELL / FINE))
    growth, phi = (Interval.of(1.5) * fine * fine).exp(), fine.normal_cdf()
    # exp(-1.5 y^2) falls and Phi rises over a part
    least, most = phi[:-1] / growth[1:], phi[1:] / growth[:-1]
    area = (Interval(least.low, most.high) * Interval.of(CELL / FINE)).cumulative()[::FINE]
    growth, phi, x = growth[::FINE], phi[::FINE], fine[::FINE]
    upper = Interval.of(1.0) - (Interval.of(3.0).sqrt() * x).normal_cdf()
    eta = growth * (Interval.of(2.0) * PI / Interval.of(3.0)).sqrt() * upper
    whole = (Interval.of(2.0) * PI).sqrt() / (Interval.of(3.0) * Interval.of(3.0).sqrt())  # J(0, 0)
    return growth, phi, eta, growth * (whole - area), area


def cdf_at(phi: Interval, at: NDArray[np.int64]) -> Interval:
    """Phi at multiples of CELL of either sign."""
    there, mirrored = phi[np.abs(at)], Interval.of(1.0) - phi[np.abs(at)]
    return Interval(np.where(at >= 0, there.low, mirrored.low), np.where(at >= 0, there.high, mirrored.high))


def boxes_left(factor: float) -> tuple[int, int]:
    """How many boxes there are, and in how many `factor` times the left side is not shown to be below the right one."""
    growth, phi, eta, j, area = tables()
    times = Interval.of(factor)
    n_boxes = n_left = 0
    for i in range(N_CELLS):
        # 0.1 < k <= 2 b: b from cell i to i + 1, k from 2 cells x l to 2 cells x (l + 1)
        box = np.arange(N_SMALL, i + 2)
        b0, b1 = np.full(len(box), i), np.full(len(box), i + 1)
        d = growth[b0] * (area[b0] - area[np.maximum(i - box, 0)])
        d, least_j = Interval.of(d.low), Interval.of(j[b1].low)
        right = Interval.of(2.0) * d * least_j / (d + least_j)
        k1 = Interval.of(2 * CELL * (box + 1))
        first = eta[b0] * phi[b1]
        second = eta[b0] * (phi[b1] - cdf_at(phi, i - 2 * (box + 1)))
        second = second + k1 / Interval.of(3.0) * cdf_at(phi, i + 1 - 2 * box)
        left = times * Interval.of(np.minimum(first.high, second.high))
        n_boxes, n_left = n_boxes + len(box), n_left + int((~(left.high <= right.low)).sum())
    # 0 < k <= 0.1: one box for each cell of b, both sides over k
    b0 = np.arange(N_CELLS)
    b1, small = b0 + 1, Interval.of(2 * CELL * N_SMALL)
    nearest = Interval.of(CELL * np.maximum(b0 - 2 * N_SMALL, 0))
    density = Interval.of(1.0) / ((Interval.of(2.0) * PI).sqrt() * (nearest * nearest / Interval.of(2.0)).exp())
    most_d = small / Interval.of(2.0) * (Interval.of(1.5) * Interval.of(CELL * b1) * small).exp() * phi[b1]
    slope = eta[b0] * density + phi[b1] / Interval.of(3.0)
    left = times * slope * (Interval.of(1.0) + most_d / j[b1])
    right_low = np.maximum(0.5, cdf_at(phi, b0 - N_SMALL).low)
    return n_boxes + N_CELLS, n_left + int((~(left.high <= right_low)).sum())


def test_the_last_inequality_holds_in_every_box() -> None:
    n_boxes, n_left = boxes_left(1.0)
    assert (n_boxes, n_left) == (317_230, 0)


def test_the_cover_fails_where_the_inequality_does() -> None:
    """The sides come as close as 0.911 near b = 0, so with the left side 10 % larger boxes must be left over there."""
    left, right = two_sides(1e-3, 2e-3)
    assert 1.09 * left < right < 1.1 * left
    assert boxes_left(1.1)[1] > 0
    assert 100 < boxes_left(1.5)[1] < boxes_left(100.0)[1] == boxes_left(1.0)[0]


def test_the_tables_enclose_what_quadrature_gives_and_are_narrow() -> None:
    growth, phi, eta, j, area = tables()
    for at in (0, 1, 7, 400, 820):
        b = at * CELL
        exact_eta, exact_j, _ = three_terms(b, 0.1)
        for table, exact in (
            (growth, math.exp(1.5 * b * b)),
            (phi, float(ndtr(b))),
            (eta, exact_eta),
            (j, exact_j),
            (area, big_j(0, 0) - big_j(b, 0)),
        ):
            assert table.low[at] - 1e-12 <= exact <= table.high[at] + 1e-12
            assert table.high[at] - table.low[at] < 2e-3


def test_the_inequality_beyond_the_boxes(points: list[tuple[float, float]]) -> None:
    """b >= 1.6, by hand: d is at least Phi(b) eta, or else it is at least the second term and at most j."""
    assert 1 / (3 * 1.6 * math.sqrt(2 * math.pi)) < 1 / 12
    for a, k in [*points, (0.0, 3.2), (0.0, 8.0), (1.6, 1e-6), (2.0, 0.5)]:
        b = a + k / 2
        if b < 1.6:
            continue
        eta, j, d = three_terms(b, k)
        second = eta * (ndtr(b) - ndtr(b - k)) + k * ndtr(b - k) / 3
        assert d >= ndtr(b) * eta or second <= d <= j
        assert two_sides(b, k)[0] <= two_sides(b, k)[1]


def test_intervals_enclose_exact_values() -> None:
    x = np.array([0.0, 2.0**-30, 0.3, 1.0, 2.7, 3.9])
    exp, cdf, root = Interval.of(x).exp(), Interval.of(x).normal_cdf(), Interval.of(x).sqrt()
    with localcontext() as context:
        context.prec = 60
        for i, value in enumerate(x):
            exact = Decimal(value)
            term, total = exact, exact
            for n in range(1, 120):
                term = term * exact * exact / (2 * n + 1)
                total += term
            pi = Decimal("3.14159265358979323846264338327950288419716939937510")
            below = Decimal("0.5") + total / ((2 * pi).sqrt() * (exact * exact / 2).exp())
            for found, truth in ((exp, exact.exp()), (cdf, below), (root, exact.sqrt())):
                assert Decimal(found.low[i]) <= truth <= Decimal(found.high[i])
                assert found.high[i] - found.low[i] <= 1e-13 * max(1.0, float(truth))
        assert Decimal(float(PI.low)) < pi < Decimal(float(PI.high))
    product = Interval.of(np.array([-0.1])) * Interval(np.array([-3.0]), np.array([7.0]))
    assert product.low[0] < -0.7 < 0.3 < product.high[0]
    with pytest.raises(ZeroDivisionError):
        Interval.of(1.0) / Interval.of(np.array([0.0]))


def test_probabilities_to_lead_agree_with_simulation(rng: np.random.Generator) -> None:
    gaps = np.array([0.3, 0.8, 2.0])
    means = rng.normal(size=(400_000, 4)) - np.concatenate([[0.0], gaps])
    shares = np.bincount(means.argmax(axis=1), minlength=4)[1:] / 400_000
    assert leads(gaps[None, :])[0] == pytest.approx(shares, abs=5 * math.sqrt(0.2 / 400_000))
    assert equal_gap_tail(3, np.array([0.5, 4.0])) == pytest.approx(slippage_tail(3, np.array([0.5, 4.0])), abs=1e-5)


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6, 9])
def test_no_gaps_were_found_that_are_worse_than_equal_ones(m: int, rng: np.random.Generator) -> None:
    """F(t) <= 1 up to rounding: proven for two and three levels, and a check for more."""
    gaps = random_gaps(m - 1, 600, rng)
    found = slippage_ratio(gaps)
    assert found.max() <= 1 + 1e-12
    if m > 2:
        assert found[np.ptp(gaps, axis=1) > 0.5].max() < 1
        assert found.min() < 0.9


@pytest.mark.parametrize("m", [3, 4, 6])
@pytest.mark.parametrize("gap", [0.5, 2.0, 6.0])
def test_equal_gaps_are_a_local_maximum(m: int, gap: float) -> None:
    """To second order, in every direction that changes differences: F is 1 along equal gaps."""
    for sign in (-1, 1):
        moved = np.full((1, m - 1), gap)
        moved[0, 0] += sign * 0.02
        assert slippage_ratio(moved)[0] < 1 - 1e-9


def test_the_ratio_says_whether_a_growing_loss_has_equal_gaps_as_its_worst_case(rng: np.random.Generator) -> None:
    """E g(loss) = sum_i g(t_i) P_i is at most F times the supremum of g h, and reaches it for g = 1/h."""
    gaps = random_gaps(3, 200, rng)
    tails = equal_gap_tail(3, gaps.ravel()).reshape(gaps.shape)
    ratio = slippage_ratio(gaps)
    for growth in (np.expm1, np.sqrt, lambda t: np.asarray(t > 1.5, dtype=np.float64)):
        largest = (growth(gaps) * tails).max(axis=1)  # at most the supremum over all t
        assert ((growth(gaps) * leads(gaps)).sum(axis=1) <= ratio * largest * (1 + 1e-12) + 1e-300).all()
    assert (leads(gaps) / tails).sum(axis=1) == pytest.approx(ratio)
