"""Interval arithmetic for proofs by covering: arrays of intervals that surely contain the exact values.

Only +, -, *, / and the square root are taken from the machine. IEEE 754 rounds these correctly, so the next number
below and above what was computed enclose the exact result. Functions are summed from series of positive terms.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]
_N_TERMS = 60  # of the series; what is left out is bounded and added


@dataclass(frozen=True)
class Interval:
    """All numbers from `low` to `high`, for arrays of both.

    >>> third = Interval.of(1.0) / Interval.of(3.0)
    >>> bool(third.low < third.high), bool((third * Interval.of(3.0)).low <= 1.0 <= (third * Interval.of(3.0)).high)
    (True, True)
    """

    low: Numbers
    high: Numbers

    @classmethod
    def of(cls, exact: ArrayLike) -> "Interval":
        """Numbers that are meant exactly as the machine has them."""
        value = np.asarray(exact, dtype=np.float64)
        return cls(value, value)

    def __getitem__(self, at: int | slice | NDArray[np.int64]) -> "Interval":
        return Interval(self.low[at], self.high[at])

    def __add__(self, other: "Interval") -> "Interval":
        return _outward(self.low + other.low, self.high + other.high, (self.low >= 0) & (other.low >= 0))

    def __sub__(self, other: "Interval") -> "Interval":
        return _outward(self.low - other.high, self.high - other.low, self.low >= other.high)

    def __mul__(self, other: "Interval") -> "Interval":
        corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return _outward(np.minimum.reduce(corners), np.maximum.reduce(corners), (self.low >= 0) & (other.low >= 0))

    def __truediv__(self, other: "Interval") -> "Interval":
        if not (other.low > 0).all():
            raise ZeroDivisionError("only intervals above zero divide")
        corners = [a / b for a in (self.low, self.high) for b in (other.low, other.high)]
        return _outward(np.minimum.reduce(corners), np.maximum.reduce(corners), self.low >= 0)

    def sqrt(self) -> "Interval":
        """The square root, of numbers that are not negative."""
        return _outward(np.sqrt(self.low), np.sqrt(self.high), self.low >= 0)

    def exp(self) -> "Interval":
        """sum x^n / n!, for 0 <= x <= 10."""
        assert (self.low >= 0).all()
        assert (self.high <= 10).all()
        total = term = Interval.of(np.ones_like(self.low))
        for n in range(1, _N_TERMS):
            term = term * self / Interval.of(float(n))
            total = total + term
        return total + _left_out(term, self / Interval.of(float(_N_TERMS)))

    def normal_cdf(self) -> "Interval":
        """Phi(x) = 1/2 + phi(x) sum x^(2n+1) / (1 * 3 * ... * (2n+1)), for 0 <= x <= 4."""
        assert (self.low >= 0).all()
        assert (self.high <= 4).all()
        square = self * self
        total = term = self
        for n in range(1, _N_TERMS):
            term = term * square / Interval.of(2.0 * n + 1)
            total = total + term
        total = total + _left_out(term, square / Interval.of(2.0 * _N_TERMS + 1))
        return Interval.of(0.5) + total / ((Interval.of(2.0) * PI).sqrt() * (square / Interval.of(2.0)).exp())

    def cumulative(self) -> "Interval":
        """Sums of the first 0, 1, 2, ... of numbers that are not negative.

        In whatever order n such numbers are added, the relative error is below n u / (1 - n u), u = 2^-53.
        """
        assert (self.low >= 0).all()
        slack = len(self.low) * 2.0**-52
        low, high = (np.concatenate([[0.0], np.cumsum(x)]) for x in (self.low, self.high))
        return _outward(low * (1 - slack), high * (1 + slack), low >= 0)


def _outward(low: Numbers, high: Numbers, positive: NDArray[np.bool_]) -> Interval:
    """One number further on both sides, but not below zero where the exact value is known to be no less than that."""
    below = np.nextafter(low, -np.inf)
    return Interval(np.where(positive, np.maximum(below, 0.0), below), np.nextafter(high, np.inf))


def _left_out(term: Interval, ratio: Interval) -> Interval:
    """The sum of all terms after this one, each at most `ratio` times the one before it."""
    rest = term * ratio / (Interval.of(1.0) - ratio)
    return Interval(np.zeros_like(rest.high), rest.high)


PI = Interval(np.float64(np.pi), np.nextafter(np.pi, 4.0))  # type: ignore[arg-type]
"""The machine's pi is below pi, and the next number above it."""
