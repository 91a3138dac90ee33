"""How often a worse level looks best: the tail that every certificate is made of."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

STEP = 0.005
LAST = 9.0
_ROUNDING = 1e-12
_TABLE = np.arange(0.0, LAST + STEP / 2, STEP)


@lru_cache(maxsize=256)
def _tail_table(n_rivals: int) -> NDArray[np.float64]:
    """h_q on the grid 0, STEP, ..., LAST. The trapezoid rule is exact up to rounding, which is added."""
    width = 0.02
    z = np.arange(-9.5, 9.5 + width / 2, width)
    weight = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * width
    values = np.empty_like(_TABLE)
    for begin in range(0, len(_TABLE), 200):
        part = _TABLE[begin : begin + 200]
        values[begin : begin + 200] = 1.0 - (ndtr(z + part[:, None]) ** n_rivals) @ weight
    table = np.clip(values + _ROUNDING, 0.0, 1.0)
    table.flags.writeable = False
    return table


def slippage_tail(n_rivals: int, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """h_q(t) = P(max of q standard normals - one more >= t), rounded up   (docs/theory, section 2).

    The chance that one of q levels, each t standard errors worse than the best, has the best mean. Read from a table at
    the next lower grid point; h is decreasing, so the value is never too small.

    >>> slippage_tail(1, np.array([0.0])).round(4).tolist()
    [0.5]
    """
    table = _tail_table(n_rivals)
    return table[np.minimum((gaps / STEP).astype(np.int64), len(table) - 1)]


def tail_grid(n_rivals: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cells of the table: upper ends of the gaps, and h at their lower ends (so that products are upper bounds)."""
    return _TABLE[1:], _tail_table(n_rivals)[:-1]
