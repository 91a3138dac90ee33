"""Nearly orthogonal rows, found by swapping entries inside columns, for as long as a search is quick."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.core.designs.mixes import mix_to_start_from, mixed_rows
from levers.core.designs.random import balanced_rows
from levers.core.model.level_index import Places, all_levels, offsets
from levers.core.space import Codes

_AT_ONCE = 6  # rows moved before their company is counted again


def evened(rows: Codes, sizes: Sequence[int]) -> Codes:
    """The rows with every factor's levels used equally often, up to one, and factors nearly as orthogonal as before.

    Rows move from levels with too many to levels with too few, those first whose other levels are rarest where they go.
    All sums are of whole numbers, exact in single precision, so that a design does not depend on the processor.

    >>> uneven = np.array([[0, 0], [0, 1], [0, 2], [0, 0], [1, 1], [1, 2]], dtype=np.int16)
    >>> np.bincount(evened(uneven, [2, 3])[:, 0]).tolist()
    [3, 3]
    """
    even = rows.copy()
    n, n_factors = rows.shape
    starts = offsets(sizes)
    weight = np.repeat(np.asarray(sizes, dtype=np.float32), sizes)
    used = np.zeros((n, int(starts[-1])), dtype=np.float32)
    for k in sorted(range(n_factors), key=lambda k: -sizes[k]):
        wanted = _even_counts(np.bincount(even[:, k], minlength=sizes[k]))
        used[:] = 0.0
        np.put_along_axis(used, even + starts[:-1], 1.0, axis=1)
        used[:, starts[k] : starts[k + 1]] = 0.0
        _move(even[:, k], wanted, used, used * weight)
    return even


def roughly_evened(rows: NDArray[np.integer], sizes: Sequence[int], rng: np.random.Generator) -> Codes:
    """The same quickly, whatever it does to the factors' orthogonality: any rows of a level with too many may move.

    >>> even = roughly_evened(np.array([[0, 0], [1, 0], [0, 1], [0, 1]]), [2, 2], np.random.default_rng(0))
    >>> np.bincount(even[:, 0]).tolist(), even[:, 1].tolist()
    ([2, 2], [0, 0, 1, 1])
    """
    n, n_factors = rows.shape
    starts, rivals = offsets(sizes), np.repeat(sizes, sizes)
    # each column is gone through in another order, by steps of its own: else the same rows would move everywhere
    steps = np.flatnonzero(np.gcd(np.arange(n), n) == 1)
    step, first = steps[rng.integers(len(steps), size=(n_factors, 1))], rng.integers(n, size=(n_factors, 1))
    order = (step * np.arange(n) + first) % n
    places = (rows + starts[:-1]).ravel().take(order * n_factors + np.arange(n_factors)[:, None])
    seen = np.zeros((len(rivals), n), dtype=np.int32)
    at = places * n + np.arange(n)
    seen.ravel()[at] = 1
    np.cumsum(seen, axis=1, out=seen)
    wanted = n // rivals + (np.arange(len(rivals)) - np.repeat(starts[:-1], sizes) < n % rivals)
    spare = seen.ravel().take(at) > wanted[places]
    places[spare] = np.repeat(np.arange(len(rivals)), np.maximum(wanted - seen[:, -1], 0))
    even = np.empty((n, n_factors), dtype=np.int16)
    even[order, np.arange(n_factors)[:, None]] = places - starts[:-1, None]
    return even


def _even_counts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The counts that are equal up to one; the larger ones stay the larger ones."""
    wanted = np.full(len(counts), counts.sum() // len(counts))
    wanted[np.argsort(-counts, kind="stable")[: counts.sum() % len(counts)]] += 1
    return wanted


def _move(column: Codes, wanted: NDArray[np.int64], used: NDArray[np.float32], weighted: NDArray[np.float32]) -> None:
    """Bring one column to the wanted counts, in place. `company[i, a]`: how much row i is like the rows at level a."""
    level = np.eye(len(wanted), dtype=np.float32)
    company = used @ (weighted.T @ level[column])
    itself = float(weighted[0].sum())
    while True:
        counts = np.bincount(column, minlength=len(wanted))
        over, under = np.maximum(counts - wanted, 0), np.flatnonzero(counts < wanted)
        if not len(under):
            return
        rows = np.flatnonzero(over[column])
        gain = company[rows][:, under] - (company[rows, column[rows]] - itself)[:, None]
        lack, moved = wanted - counts, []
        for place in np.argsort(gain.min(axis=1), kind="stable")[:_AT_ONCE]:
            row, there = rows[place], under[int(gain[place].argmin())]
            if over[column[row]] > 0 and lack[there] > 0:
                over[column[row]] -= 1
                lack[there] -= 1
                moved.append((row, int(column[row]), there))
        alike = used @ weighted[[row for row, _, _ in moved]].T
        for i, (row, here, there) in enumerate(moved):
            column[row] = there
            company[:, here] -= alike[:, i]
            company[:, there] += alike[:, i]


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


MOST_SEARCHED = 2200
"""Runs of the longest design that is searched; longer ones are put together from arrays."""
Effort = Literal["quick", "usual", "thorough"]
"""How long to search: what is short and hardly comes up again, what must be good, what many studies share."""
ROUNDS: dict[Effort, int] = {"quick": 7, "usual": 16, "thorough": 30}
"""Rounds of swaps, at most."""
SETTLED: dict[Effort, float] = {"quick": 0.005, "usual": 0.0003, "thorough": 0.0}
"""A round that lowers the mean squared eigenvalue by less is the last."""


def nearly_orthogonal(sizes: tuple[int, ...], n_runs: int, rng: np.random.Generator, effort: Effort = "usual") -> Codes:
    """Rows whose factors are nearly orthogonal, levels being equally often up to one; searched, then renamed at random.

    >>> rows = nearly_orthogonal((3, 4, 2), 20, np.random.default_rng(0))
    >>> rows.shape, np.bincount(rows[:, 1]).tolist()
    ((20, 3), [5, 5, 5, 5])
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(owner + rng.random(len(owner)), kind="stable")  # each factor's levels in random order
    names = (order - offsets(sizes)[owner]).astype(np.int16)
    by_size = np.argsort(sizes, kind="stable")  # factors of as many levels are alike, so that more is remembered
    found = _found(tuple(sorted(sizes)), n_runs, effort)
    return names.take(found[:, np.argsort(by_size)] + offsets(sizes)[:-1])


@lru_cache(maxsize=64)
def _found(sizes: tuple[int, ...], n_runs: int, effort: Effort) -> Codes:
    """Nearly orthogonal rows, always the same. Remembered, because a search is costly and sizes come up again."""
    rng = np.random.default_rng(0)
    start = _of_arrays(sizes, n_runs, rng)
    if start is None:
        start = _random(sizes, n_runs, rng)
    return swap_improved(start, sizes, ROUNDS[effort], SETTLED[effort])


def _of_arrays(sizes: tuple[int, ...], n_runs: int, rng: np.random.Generator) -> Codes | None:
    """Rows to begin with: orthogonal arrays, without some rows or with random ones, evened out; None if none fit."""
    mix = mix_to_start_from(sizes, n_runs)
    if mix is None:
        return None
    rows = rng.permutation(mixed_rows(sizes, mix, rng))[:n_runs]
    if len(rows) < n_runs:
        rows = np.concatenate([rows, balanced_rows(all_levels(sizes), n_runs - len(rows), rng)])
    return roughly_evened(rows, sizes, rng)


def _random(sizes: tuple[int, ...], n_runs: int, rng: np.random.Generator) -> Codes:
    """Rows to begin with: whole copies of the full factorial as long as they fit, then columns in random orders."""
    n_cells = math.prod(sizes)
    copies, rest = divmod(n_runs, n_cells) if n_cells <= n_runs else (0, n_runs)
    columns = balanced_rows(all_levels(sizes), rest, rng)
    if not copies:
        return columns
    cells = np.stack(np.unravel_index(np.tile(np.arange(n_cells), copies), sizes), axis=1)
    return np.concatenate([cells.astype(np.int16), columns])
