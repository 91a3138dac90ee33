"""Rows of a round divided into days (or sheets, or plates), so that each is balanced as well as it can be.

A day has a constant of its own in the fit. What is equally often in every day loses nothing by that, and what happens
to a whole day does no harm. Long rounds without days are divided into parts the same way.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from levers.core.model.level_index import Numbers, offsets
from levers.core.space import Codes

LEAST_DAY = 4
"""Runs of the shortest day that has a constant of its own: in shorter ones it would cost most of what they say."""
MOST_AT_ONCE = 400
"""Rows that are divided together: a longer round is cut into parts of about so many first."""
MOST_PARTS = 64
"""Parts that a long round without days is divided into, at most."""
_SWEEPS = 6
"""How often all rows are gone through in search of a better day, at most."""
_STARTS = 3
"""Searches from different beginnings, of which the best counts; rounds of few rows can be divided badly by one."""
_FEW_ROWS = 64
"""Rows up to which there are several."""
_ROUNDING = 1e-9
"""A gain of less is rounding."""


def day_lengths(n_runs: int, size: int | None) -> tuple[int, ...]:
    """How long the parts of a round with a constant of their own are: days of `size` runs, the last may be longer.

    What is left over from whole days is a day, unless it is too short: then it belongs to the day before. Where all
    days are too short, the round has one constant.

    >>> day_lengths(24, 8), day_lengths(26, 8), day_lengths(21, 8), day_lengths(9, 3), day_lengths(5, None)
    ((8, 8, 8), (8, 8, 10), (8, 8, 5), (9,), (5,))
    """
    if size is None or size < LEAST_DAY or n_runs <= size:
        return (n_runs,) if n_runs else ()
    days, rest = divmod(n_runs, size)
    lengths = [size] * days
    if rest >= LEAST_DAY:
        lengths.append(rest)
    else:
        lengths[-1] += rest
    return tuple(lengths)


def part_lengths(n_runs: int, least: int) -> tuple[int, ...]:
    """Parts of a long round, of at least so many runs, as equal as can be; not very many of them.

    >>> part_lengths(100, 48), part_lengths(90, 48), part_lengths(0, 48)
    ((50, 50), (90,), ())
    """
    n_parts = max(min(n_runs // least, MOST_PARTS), 1)
    return tuple((n_runs + i) // n_parts for i in range(n_parts)) if n_runs else ()


def divided_rows(
    rows: Codes, sizes: Sequence[int], lengths: Sequence[int], rng: np.random.Generator, steady: bool = True
) -> NDArray[np.int64]:
    """The order of rows, day after day, in which levels are about equally often in every day; random inside a day.

    Least is   sum_d sum_a (c_da - n_d p_a)^2 / (n_d p_a),   c_da being how often day d of n_d runs has level a, and p_a
    the level's share of the round. Rows of different days are swapped as long as that gains. Of swaps that gain the
    same the first is made; unless `steady` rounding chooses among them, as it did in earlier versions, and an order may
    be another on another processor.

    >>> rows = np.array([[0, 0], [0, 0], [0, 1], [0, 1], [1, 0], [1, 0], [1, 1], [1, 1]], dtype=np.int16)
    >>> order = divided_rows(rows, (2, 2), (4, 4), np.random.default_rng(0))
    >>> rows[order].reshape(2, 4, 2).sum(axis=1).tolist()
    [[2, 2], [2, 2]]
    """
    ends = np.cumsum(lengths)
    order, first = np.empty(len(rows), dtype=np.int64), 0
    while first < len(lengths):  # long rounds part by part
        begin = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, begin + MOST_AT_ONCE, side="right")), first + 1)
        end = int(ends[last - 1])
        order[begin:end] = begin + _divided_part(rows[begin:end], sizes, lengths[first:last], rng, steady)
        first = last
    return order


def _divided_part(
    rows: Codes, sizes: Sequence[int], lengths: Sequence[int], rng: np.random.Generator, steady: bool
) -> NDArray[np.int64]:
    if len(lengths) == 1:
        return rng.permutation(len(rows))
    n, starts = len(rows), offsets(sizes)[:-1]
    places = rows + starts
    level = np.bincount(places.ravel(), minlength=sum(sizes))
    used = np.zeros((n, len(level)))
    np.put_along_axis(used, places, 1.0, axis=1)
    used, share = used[:, level > 0], level[level > 0] / n
    length = np.asarray(lengths, dtype=np.float64)
    days = np.repeat(np.arange(len(length)), lengths)
    starting = [rng.permutation(days) for _ in range(_STARTS if n <= _FEW_ROWS else 1)]
    alike = _ROUNDING if steady else 0.0
    costs = [_improve(start, used, share, length, rng, alike) for start in starting]
    day = starting[_first_least(np.array(costs), alike)]
    return np.lexsort((rng.random(n), day))


def _first_least(values: Numbers, alike: float) -> int:
    """Where the least value is: the first of those that are alike.

    >>> _first_least(np.array([2.0, 1.0 + 1e-12, 1.0]), _ROUNDING), _first_least(np.array([1.0 + 1e-12, 1.0]), 0.0)
    (1, 1)
    """
    return int((values <= values.min() + alike).argmax())


def _improve(
    day: NDArray[np.int64], used: Numbers, share: Numbers, length: Numbers, rng: np.random.Generator, alike: float
) -> float:
    """Swap rows of different days while that gains, in place; and what is left of the criterion.

    With z a row's indicators over sqrt(p), and E_d the sum of z over a day less what is expected, swapping row i of day
    a with row j of day b, x = z_j - z_i, changes the criterion by
    2 x.E_a / n_a - 2 x.E_b / n_b + (1/n_a + 1/n_b) x.x
    """
    scaled = used / np.sqrt(share)
    excess = np.stack([scaled[day == d].sum(axis=0) for d in range(len(length))]) - np.outer(length, np.sqrt(share))
    own = (scaled * scaled).sum(axis=1)
    apart = own[:, None] + own[None, :] - 2 * scaled @ scaled.T
    pull = scaled @ (excess / length[:, None]).T  # of each day on each row
    shorter, row = 1.0 / length, np.arange(len(day))
    for _ in range(_SWEEPS):
        gained = False
        for i in rng.permutation(len(day)).tolist():
            a = int(day[i])
            here = pull[:, a] - pull[row, day]
            change = 2 * (here - pull[i, a] + pull[i, day]) + (shorter[a] + shorter[day]) * apart[i]
            change[day == a] = 0.0
            j = _first_least(change, alike)
            if change[j] < -_ROUNDING:
                b = int(day[j])
                moved = scaled[j] - scaled[i]
                excess[a] += moved
                excess[b] -= moved
                pull[:, a] = scaled @ (excess[a] / length[a])
                pull[:, b] = scaled @ (excess[b] / length[b])
                day[i], day[j] = b, a
                gained = True
        if not gained:
            break
    return float((excess * excess / length[:, None]).sum())
