"""Small designs whose factors are nearly orthogonal, found by swapping entries inside columns."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.core.layout import Places, offsets
from levers.core.space import Codes

Whole = NDArray[np.float32]
"""Whole numbers below 2^24: single precision is exact, in whatever order sums are taken."""
_FIRST_SHARE = 16  # runs for each swap that a column may make in the first round
_TRIED_SHARE = 7  # runs for each one that is tried in a round
_LEAST_TRIED = 10


def swap_improved(rows: Codes, sizes: Sequence[int], rounds: int, settled: float = 0.0) -> Codes:
    """Swap entries inside columns until factors are about as orthogonal as they can be; level counts stay.

    The criterion is sum_{kl} m_k m_l ||N_kl||^2, the squared pair counts: least when all pairs of levels are equally
    often. It is ||S||^2 for S_ab = sum_k m_k 1{x_k(a) = x_k(b)}, how much two runs are alike. A round makes the best
    swaps of all columns together, and half as many next time when that was too much. The search ends early when a round
    lowers the information matrix's mean squared eigenvalue (ideal: 1) by less than `settled`.

    >>> rng = np.random.default_rng(0)
    >>> start = np.stack([rng.permutation(np.arange(36) % 3) for _ in range(8)], axis=1).astype(np.int16)
    >>> better = swap_improved(start, [3] * 8, rounds=10)
    >>> bool((np.sort(better, axis=0) == np.sort(start, axis=0)).all())
    True
    """
    n, weight = len(rows), np.repeat(np.asarray(sizes, dtype=np.float32), sizes)
    starts = offsets(sizes)[:-1]
    places: Places = rows.T + starts[:, None]
    enough = settled * n**2 * (len(weight) - len(sizes))
    best, least, most = _Columns.of(places, weight), np.inf, max(1, n // _FIRST_SHARE)
    trial = best
    for _ in range(rounds + 1):
        gained, least = least - trial.cost, min(trial.cost, least)
        if gained > 0:
            best = trial
        elif most == 1:
            break
        if 0 < gained < enough:
            break
        if gained <= 0:
            most //= 2
        places = _swapped(best, starts, most)
        if places is best.places:
            break
        trial = _Columns.of(places, weight)
    return (best.places - starts[:, None]).T.astype(np.int16)


class _Columns(NamedTuple):
    """A design by columns: each run's place, how alike runs are, and how alike a run is to all runs of a level."""

    places: Places
    weight: Whole
    alike: Whole
    company: Whole

    @classmethod
    def of(cls, places: Places, weight: Whole) -> "_Columns":
        """What follows from the places."""
        n = places.shape[1]
        used = np.zeros((len(weight), n), dtype=np.float32)
        used.ravel()[places * n + np.arange(n)] = 1.0
        alike = used.T @ (used * weight[:, None])
        return cls(places, weight, alike, used @ alike)

    def at(self, places: Places, runs: Places) -> Whole:
        """The company of runs at places."""
        found: Whole = self.company.ravel().take(places * len(self.alike) + runs)
        return found

    @property
    def own(self) -> Whole:
        """The company of each run at its own level."""
        return self.at(self.places, np.arange(len(self.alike)))

    @property
    def cost(self) -> float:
        """The criterion."""
        return float((self.own * self.weight[self.places]).sum(dtype=np.float64))


def _swapped(columns: _Columns, starts: Places, most: int) -> Places:
    """The places after the best swaps in every column, at most so many in each; the same object if none gains.

    With C like S but without the column itself and T[a, j] the sum of C_ab over the runs b at level j, swapping a and b
    changes half the criterion by T[a, x_b] + T[b, x_a] - T[a, x_a] - T[b, x_b] + C_aa + C_bb - 2 C_ab. Only the runs
    with most to gain are tried, with each other. Ties are broken by position, not by the processor.
    """
    places, weight = columns.places, columns.weight
    n = places.shape[1]
    counts = np.bincount(places.ravel(), minlength=len(weight)).astype(np.float32)
    # T[a, x_a] - C_aa; the company also counts the column itself, where levels are the same
    stay = columns.own - (weight * counts)[places] - (columns.alike[0, 0] - weight[starts])[:, None]
    gain = np.minimum.reduceat(columns.company, starts, axis=0) - stay
    n_tried = min(n, max(_LEAST_TRIED, n // _TRIED_SHARE))
    keys = gain.astype(np.int64) * n + np.arange(n)
    tried = np.sort(np.argpartition(keys, n_tried - 1, axis=1)[:, :n_tried], axis=1)
    level = np.take_along_axis(places, tried, axis=1)
    half = columns.at(level[:, :, None], tried[:, None, :])
    half -= np.take_along_axis(stay, tried, axis=1)[:, None, :]
    half -= columns.alike.ravel().take((tried * n)[:, :, None] + tried[:, None, :])
    change = half + half.swapaxes(1, 2)  # for two runs of one level never below 0, as the company is not corrected
    k, i, j = _compatible(change, most)
    if not len(k):
        return places
    swapped, a, b = places.copy(), tried[k, i], tried[k, j]
    swapped[k, a], swapped[k, b] = places[k, b], places[k, a]
    return swapped


def _compatible(change: Whole, most: int) -> tuple[Places, Places, Places]:
    """Swaps that gain and touch no run twice, at most so many in a column: the columns, and the two runs of each."""
    n_factors, n_tried, _ = change.shape
    partner = change.argmin(axis=2)
    gain = np.take_along_axis(change, partner[:, :, None], axis=2)[:, :, 0]
    order = np.argsort(gain, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(n_tried), order.shape), axis=1)
    # a swap is made if it is the best that touches either of its runs; more at a time would undo each other
    touched = rank.copy()
    np.minimum.at(touched.ravel(), (np.arange(n_factors)[:, None] * n_tried + partner).ravel(), rank.ravel())
    made = (touched == rank) & (np.take_along_axis(touched, partner, axis=1) == rank) & (gain < 0)
    made = np.take_along_axis(made, order, axis=1)
    k, at = np.nonzero(made & (np.cumsum(made, axis=1) <= most))
    at = order[k, at]
    return k, at, partner[k, at]


def merged_columns(rows: Codes, before: Sequence[int], sizes: Sequence[int], rng: np.random.Generator) -> Codes:
    """Columns with fewer levels: whole levels are merged at random, which keeps columns orthogonal; then evened out.

    >>> rows = np.array([[0, 0], [1, 1], [2, 0], [3, 1], [0, 2], [2, 2]], dtype=np.int16)
    >>> merged = merged_columns(rows, [4, 3], [2, 3], np.random.default_rng(0))
    >>> np.bincount(merged[:, 0]).tolist(), np.bincount(merged[:, 1]).tolist()
    ([3, 3], [2, 2, 2])
    """
    n, n_factors = rows.shape
    starts, d = offsets(sizes)[:-1], sum(sizes)
    level_of = np.concatenate([rng.permutation(m) % fewer for m, fewer in zip(before, sizes, strict=True)])
    places = level_of[rows + offsets(before)[:-1]].T + starts[:, None]
    # each level's runs in random order; what is beyond the wanted number goes where too few are
    shuffled = rng.permuted(np.tile(np.arange(n), (n_factors, 1)), axis=1)
    order = np.argsort(places * n + shuffled, axis=1)
    ordered = np.take_along_axis(places, order, axis=1).ravel()
    counts = np.bincount(ordered, minlength=d)
    level = np.arange(d) - np.repeat(starts, sizes)
    wanted = n // np.repeat(sizes, sizes) + (level < n % np.repeat(sizes, sizes))
    spare = np.flatnonzero(np.arange(n * n_factors) - (np.cumsum(counts) - counts)[ordered] >= wanted[ordered])
    spare = rng.permutation(spare)
    ordered[spare[np.argsort(spare // n, kind="stable")]] = np.repeat(np.arange(d), np.maximum(wanted - counts, 0))
    np.put_along_axis(places, order, ordered.reshape(places.shape), axis=1)
    merged: Codes = (places - starts[:, None]).T.astype(np.int16)
    return merged
