"""How often a worse level looks best: the tail that every certificate is made of."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

STEP, LAST = 0.005, 9.0
"""The table of each tail has gaps from 0 to LAST standard errors, STEP apart."""
CURVATURE = 0.2420
"""No tail's second derivative is larger than this: the largest slope of the standard normal density, rounded up."""
_GAPS = np.arange(0.0, LAST + STEP / 2, STEP)  # the gaps of the table
_ROWS_AT_ONCE = 200  # gaps that are integrated at once
_ROUNDING = 1e-12  # more than the rounding error of an integral; it is added


class Shape(NamedTuple):
    """What is known of the shape of h_q: from `bend` on it is convex; nowhere is it steeper than `slope`."""

    bend: float
    slope: float


def slippage_tail(n_rivals: int, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """h_q(t) = P(max of q standard normals - one more >= t), rounded up   (docs/theory, section 2).

    The chance that one of q levels, each t standard errors worse than the best, has the best mean. Between the points
    of a table a line is drawn, which is never too low where h is convex, and lifted a little where it is not.

    >>> slippage_tail(1, np.array([0.0])).round(4).tolist()
    [0.5]
    """
    table = _tail_table(n_rivals)
    place = np.minimum(gaps / STEP, len(table) - 1.0)
    at = np.minimum(place.astype(np.int64), len(table) - 2)
    line: NDArray[np.float64] = table[at] + (place - at) * (table[at + 1] - table[at])
    line[gaps <= tail_shape(n_rivals).bend] += CURVATURE * STEP**2 / 8
    return line


def tail_grid(n_rivals: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cells of the table: upper ends of the gaps, and h at their lower ends (so that products are upper bounds)."""
    return _GAPS[1:], _tail_table(n_rivals)[:-1]


def log_growth_beyond(n_rivals: int, rate: float) -> float:
    """log of a bound of sup over t > LAST of exp(a t) h_q(t), at the rate a   (docs/theory, section 3).

    h_q(t) <= q Phibar(t / sqrt 2). For a <= LAST / 2 the product with exp(a t) falls beyond LAST, and is bounded by
    its value there; for other rates Phibar(x) <= phi(x) / x bounds it by q exp(a^2) / (LAST sqrt pi).

    >>> round(log_growth_beyond(1, LAST / 2) - log_growth_beyond(1, LAST / 2 + 1e-9), 2)
    -0.02
    """
    if rate <= LAST / 2:
        return math.log(n_rivals) + rate * LAST + float(log_ndtr(-LAST / math.sqrt(2)))
    return math.log(n_rivals) + rate * rate - math.log(LAST * math.sqrt(math.pi))


def log_total_growth_beyond(n_rivals: int, rate: float) -> float:
    """log of a bound of the integral of h_q over t > LAST against the growth of exp(a t)   (docs/theory, section 3).

    The integral of exp(a t)' q Phibar(t / sqrt 2) from LAST on is, by parts, less than q exp(a^2) Phibar((LAST - 2 a) /
    sqrt 2).

    >>> log_total_growth_beyond(1, 1.0) < -13
    True
    """
    return math.log(n_rivals) + rate * rate + float(log_ndtr((2 * rate - LAST) / math.sqrt(2)))


@lru_cache(maxsize=256)
def tail_shape(n_rivals: int) -> Shape:
    """The shape of h_q. Its density is log-concave, so it has one mode, where the differences of the table are largest.

    >>> tail_shape(1).bend <= 0.01, round(tail_shape(1).slope, 3)
    (True, 0.283)
    """
    falls = -np.diff(_tail_table(n_rivals))
    at = int(falls.argmax())
    return Shape((at + 2) * STEP, float(falls[at]) / STEP + CURVATURE * STEP)


@lru_cache(maxsize=256)
def _tail_table(n_rivals: int) -> NDArray[np.float64]:
    """h_q on the grid 0, STEP, ..., LAST. The trapezoid rule is exact up to rounding, which is added."""
    width = 0.05
    z = np.arange(-9.5, 9.5 + width / 2, width)
    weight = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * width
    values = np.empty_like(_GAPS)
    for begin in range(0, len(_GAPS), _ROWS_AT_ONCE):
        part = _GAPS[begin : begin + _ROWS_AT_ONCE]
        values[begin : begin + _ROWS_AT_ONCE] = 1.0 - (ndtr(z + part[:, None]) ** n_rivals) @ weight
    table = np.clip(values + _ROUNDING, 0.0, 1.0)
    table.flags.writeable = False
    return table
