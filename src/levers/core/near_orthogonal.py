"""Small designs whose factors are nearly orthogonal, found by swapping entries inside columns."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.core.layout import Places, offsets
from levers.core.space import Codes

Whole = NDArray[np.float32]
"""Whole numbers below 2^24: single precision is exact, in whatever order sums are taken."""
_TRIED_SHARE = 5  # runs for each one that is tried in a round
_LEAST_TRIED, _MOST_TRIED = 10, 25
_FEW_RUNS = 150


def swap_improved(rows: Codes, sizes: Sequence[int], rounds: int, settled: float = 0.0) -> Codes:
    """Swap entries inside columns until factors are about as orthogonal as they can be; level counts stay.

    The criterion is sum_{kl} m_k m_l ||N_kl||^2, the squared pair counts: least when all pairs of levels are equally
    often. It is ||S||^2 for S_ab = sum_k m_k 1{x_k(a) = x_k(b)}, how much two runs are alike. A round makes the best
    swaps of all columns together, and only the better half of them next time when that was too much. The search ends
    early when a round lowers the information matrix's mean squared eigenvalue (ideal: 1) by less than `settled`.

    >>> rng = np.random.default_rng(0)
    >>> start = np.stack([rng.permutation(np.arange(36) % 3) for _ in range(8)], axis=1).astype(np.int16)
    >>> better = swap_improved(start, [3] * 8, rounds=10)
    >>> bool((np.sort(better, axis=0) == np.sort(start, axis=0)).all())
    True
    """
    starts = offsets(sizes)[:-1]
    lasting = _Lasting.of(rows.T + starts[:, None], sizes)
    best, share = _Columns.of(rows.T + starts[:, None], lasting), 1.0
    enough = settled * len(rows) ** 2 * (sum(sizes) - len(sizes))
    for _ in range(rounds):
        places = _swapped(best, lasting, share)
        if places is None:
            break
        trial = _Columns.of(places, lasting)
        gained = best.cost - trial.cost
        if gained > 0:
            best = trial
        else:
            share /= 2
        if 0 < gained < enough:
            break
    found: Codes = (best.places - starts[:, None]).T.astype(np.int16)
    found.flags.writeable = False  # it may be remembered
    return found


class _Lasting(NamedTuple):
    """What swaps do not change: each level's weight m_k, its weight times its runs, and for each factor its own weight,
    the others' in all and which factors have as many levels.
    """

    weight: Whole
    crowd: Whole
    own_weight: Whole
    others: Whole
    neighbours: list["_Neighbours"]

    @classmethod
    def of(cls, places: Places, sizes: Sequence[int]) -> "_Lasting":
        """What follows from any places."""
        own = np.asarray(sizes, dtype=np.float32)
        weight = np.repeat(own, sizes)
        crowd = weight * np.bincount(places.ravel(), minlength=len(weight)).astype(np.float32)
        return cls(weight, crowd, own, own.sum() - own, _neighbours(sizes))


class _Columns(NamedTuple):
    """A design by columns: each run's place, how alike runs are, and how alike a run is to all runs of a level.

    `own` is the latter for each run's own levels; `cost` is the criterion. With many runs, how alike two of them are
    matters little for a swap, and is left out (None).
    """

    places: Places
    alike: Whole | None
    company: Whole
    own: Whole
    cost: float

    @classmethod
    def of(cls, places: Places, lasting: _Lasting) -> "_Columns":
        """What follows from the places."""
        n, weight = places.shape[1], lasting.weight
        used = np.zeros((len(weight), n), dtype=np.float32)
        at = places * n + np.arange(n)
        used.ravel()[at] = 1.0
        weighted = used * weight[:, None]
        if n <= max(_FEW_RUNS, len(weight)):
            alike = used.T @ weighted
            company = used @ alike
        else:
            alike = None
            company = (used @ used.T) @ weighted
        own = company.ravel().take(at)
        cost = own.sum(axis=1, dtype=np.float64) @ lasting.own_weight
        return cls(places, alike, company, own, float(cost))


class _Neighbours(NamedTuple):
    """Factors beside each other with as many levels each: which they are, where their levels are, and how many each."""

    factors: slice
    places: slice
    n_levels: int


def _neighbours(sizes: Sequence[int]) -> list[_Neighbours]:
    """All factors as neighbours: the fewer groups, the more are done at once, so factors are best sorted by size."""
    found, factor, place = [], 0, 0
    for m, group in groupby(sizes):
        count = len(list(group))
        found.append(_Neighbours(slice(factor, factor + count), slice(place, place + count * m), m))
        factor, place = factor + count, place + count * m
    return found


def _swapped(columns: _Columns, lasting: _Lasting, share: float) -> Places | None:
    """The places after the best swaps in every column, or a share of these; None if none gains.

    With C like S but without the column itself and T[a, j] the sum of C_ab over the runs b at level j, swapping a and b
    changes half the criterion by T[a, x_b] + T[b, x_a] - T[a, x_a] - T[b, x_b] + C_aa + C_bb - 2 C_ab. Only the runs
    with most to gain are tried, with each other. Ties are broken by position, not by the processor.
    """
    places = columns.places
    n_factors, n = places.shape
    # T[a, x_a] - C_aa; the company also counts the column itself, where levels are the same
    stay = columns.own - lasting.crowd.take(places) - lasting.others[:, None]
    gain = -stay
    for group in lasting.neighbours:
        gain[group.factors] += columns.company[group.places].reshape(-1, group.n_levels, n).min(axis=1)
    n_tried = min(n, max(_LEAST_TRIED, min(n // _TRIED_SHARE, _MOST_TRIED)))
    keys = gain.astype(np.int64) * n + np.arange(n)
    last = np.partition(keys, n_tried - 1, axis=1)[:, n_tried - 1, None]
    column = np.arange(n_factors)[:, None]
    at = np.flatnonzero(keys <= last).reshape(n_factors, n_tried)
    tried = at - n * column
    half = columns.company.ravel().take((places.ravel().take(at) * n)[:, :, None] + tried[:, None, :])
    half -= stay.ravel().take(at)[:, None, :]
    if columns.alike is None:
        half -= n_factors  # so alike are two runs on average
    else:
        half -= columns.alike.ravel().take((tried * n)[:, :, None] + tried[:, None, :])
    change = half + half.swapaxes(1, 2)  # for two runs of one level never below 0, as the company is not corrected
    # a swap is made if it is the best for both of its runs; more at a time would undo each other
    partner = change.argmin(axis=2)
    itself = np.arange(n_tried)
    k, i = np.divmod(np.flatnonzero((partner[column, partner] == itself) & (itself < partner)), n_tried)
    j = partner[k, i]
    gains = change[k, i, j]
    made = np.flatnonzero(gains < 0)
    if not len(made):
        return None
    if share < 1:
        made = made[np.argsort(gains[made], kind="stable")[: math.ceil(share * len(made))]]
    k, a, b = k[made], tried[k[made], i[made]], tried[k[made], j[made]]
    swapped = places.copy()
    swapped[k, a], swapped[k, b] = places[k, b], places[k, a]
    return swapped
