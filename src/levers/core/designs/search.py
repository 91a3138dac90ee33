"""Nearly orthogonal rows, found by swapping entries inside columns (docs/decisions/0009).

Two runs are similar by S_ab = sum_k m_k 1{x_k(a) = x_k(b)}: the weighted number of factors with the same level.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from levers.core.designs.mixes import mix_to_start_from, mixed_rows
from levers.core.designs.random import balanced_rows
from levers.core.model.level_index import Places, all_levels, offsets
from levers.core.space import Codes

Effort = Literal["quick", "usual", "thorough"]
"""How long to search: for short designs that hardly come up again, for good ones, for those that many studies share."""
Whole: TypeAlias = NDArray[np.float32]
"""Whole numbers below 2^24, for which single precision is exact in whatever order sums are taken."""
MOST_SEARCHED = 2200
"""Runs of the longest design that is searched; longer ones are put together from arrays."""
ROUNDS: dict[Effort, int] = {"quick": 7, "usual": 16, "thorough": 30}
"""Rounds of swaps, at most."""
SETTLED: dict[Effort, float] = {"quick": 0.005, "usual": 0.0003, "thorough": 0.0}
"""A round that lowers the mean squared eigenvalue by less is the last."""
_TRIED_SHARE = 5  # one run in so many is tried in a round, for each column
_LEAST_TRIED, _MOST_TRIED = 10, 25  # the fewest and the most runs that are tried
_FEW_RUNS = 150  # with no more runs than this, or than levels, the similarity of every two runs is worked out
_MOVED_AT_ONCE = 6  # rows that are moved to another level before similarities are updated


class _EqualFactors(NamedTuple):
    """Neighbouring factors with the same number of levels: their positions, those of their levels, and that number."""

    factors: slice
    places: slice
    n_levels: int


class _Weights(NamedTuple):
    """What swaps do not change.

    `level` has each level's weight m_k, `level_total` that times the level's runs, `factor` each factor's weight,
    `others` that of all other factors together.
    """

    level: Whole
    level_total: Whole
    factor: Whole
    others: Whole
    equal_factors: list[_EqualFactors]

    @classmethod
    def of(cls, places: Places, sizes: Sequence[int]) -> "_Weights":
        """The weights of a design, from the positions of its levels."""
        factor = np.asarray(sizes, dtype=np.float32)
        level = np.repeat(factor, sizes)
        level_total = level * np.bincount(places.ravel(), minlength=len(level)).astype(np.float32)
        equal_factors, first, place = [], 0, 0
        for m, group in groupby(sizes):  # the fewer groups, the faster, so factors are best sorted by size
            count = len(list(group))
            equal_factors.append(_EqualFactors(slice(first, first + count), slice(place, place + count * m), m))
            first, place = first + count, place + count * m
        return cls(level, level_total, factor, factor.sum() - factor, equal_factors)


class _Candidate(NamedTuple):
    """A design in a search, by columns: each run's level in each factor, as a position among all levels.

    `similarity` is S between runs, `level_similarity` the sum of S between a run and all runs of a level, `own` that
    sum for each run's own levels, `cost` the criterion. With many runs the similarity of two of them matters little for
    a swap, and is left out (None).
    """

    places: Places
    similarity: Whole | None
    level_similarity: Whole
    own: Whole
    cost: float

    @classmethod
    def of(cls, places: Places, weights: _Weights, earlier: Whole | None = None) -> "_Candidate":
        """Measure a design, together with runs that are there already if their pair counts are given."""
        n, weight = places.shape[1], weights.level
        used = np.zeros((len(weight), n), dtype=np.float32)
        at = places * n + np.arange(n)
        used.ravel()[at] = 1.0
        weighted = used * weight[:, None]
        if n <= max(_FEW_RUNS, len(weight)):
            similarity = used.T @ weighted
            level_similarity = used @ similarity
        else:
            similarity = None
            level_similarity = (used @ used.T) @ weighted
        own = level_similarity.ravel().take(at)
        cost = own.sum(axis=1, dtype=np.float64) @ weights.factor
        if earlier is not None:
            with_earlier = earlier @ weighted
            cost += 2 * with_earlier.ravel().take(at).sum(axis=1, dtype=np.float64) @ weights.factor
            level_similarity = level_similarity + with_earlier
            own = level_similarity.ravel().take(at)
        return cls(places, similarity, level_similarity, own, float(cost))


def nearly_orthogonal(sizes: tuple[int, ...], n_runs: int, rng: np.random.Generator, effort: Effort = "usual") -> Codes:
    """Rows whose factors are nearly orthogonal, levels equally often up to one; searched, then levels are renamed.

    >>> rows = nearly_orthogonal((3, 4, 2), 20, np.random.default_rng(0))
    >>> rows.shape, np.bincount(rows[:, 1]).tolist()
    ((20, 3), [5, 5, 5, 5])
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(owner + rng.random(len(owner)), kind="stable")  # each factor's levels in random order
    names = (order - offsets(sizes)[owner]).astype(np.int16)
    by_size = np.argsort(sizes, kind="stable")  # searched in order of size, so that the cache serves any order
    rows = searched_rows(tuple(sorted(sizes)), n_runs, effort)
    return names.take(rows[:, np.argsort(by_size)] + offsets(sizes)[:-1])


@lru_cache(maxsize=512)
def searched_rows(sizes: tuple[int, ...], n_runs: int, effort: Effort) -> Codes:
    """Nearly orthogonal rows, the same for every seed. Cached, because a search is costly and sizes come up again."""
    rng = np.random.default_rng(0)
    start = _start_from_arrays(sizes, n_runs, rng)
    if start is None:
        start = _start_at_random(sizes, n_runs, rng)
    return swap_improved(start, sizes, ROUNDS[effort], SETTLED[effort])


def _start_from_arrays(sizes: tuple[int, ...], n_runs: int, rng: np.random.Generator) -> Codes | None:
    """Rows to begin with: orthogonal arrays, some rows left out or random ones added, evened out; None if none fit."""
    mix = mix_to_start_from(sizes, n_runs)
    if mix is None:
        return None
    rows = rng.permutation(mixed_rows(sizes, mix, rng))[:n_runs]
    if len(rows) < n_runs:
        rows = np.concatenate([rows, balanced_rows(all_levels(sizes), n_runs - len(rows), rng)])
    return roughly_evened(rows, sizes, rng)


def _start_at_random(sizes: tuple[int, ...], n_runs: int, rng: np.random.Generator) -> Codes:
    """Rows to begin with: whole copies of the full factorial as long as they fit, then columns in random orders."""
    n_cells = math.prod(sizes)
    copies, rest = divmod(n_runs, n_cells) if n_cells <= n_runs else (0, n_runs)
    columns = balanced_rows(all_levels(sizes), rest, rng)
    if not copies:
        return columns
    cells = np.stack(np.unravel_index(np.tile(np.arange(n_cells), copies), sizes), axis=1)
    return np.concatenate([cells.astype(np.int16), columns])


def swap_improved(
    rows: Codes, sizes: Sequence[int], rounds: int, settled: float = 0.0, earlier: Whole | None = None
) -> Codes:
    """Swap entries inside columns until factors are about as orthogonal as they can be; level counts stay.

    The criterion is sum_{kl} m_k m_l ||N_kl||^2, the squared pair counts: least when all pairs of levels are equally
    often. It is ||S||^2, S being the similarity of runs. A round makes the best swaps of all columns together; when
    that was too much, the next one makes only the better half. The search ends early when a round lowers the
    information matrix's mean squared eigenvalue (ideal: 1) by less than `settled`. `earlier` are pair counts of runs
    that are there already, between different factors only and in whole numbers: the new ones make up for them.

    >>> rng = np.random.default_rng(0)
    >>> start = np.stack([rng.permutation(np.arange(36) % 3) for _ in range(8)], axis=1).astype(np.int16)
    >>> better = swap_improved(start, [3] * 8, rounds=10)
    >>> bool((np.sort(better, axis=0) == np.sort(start, axis=0)).all())
    True
    """
    starts = offsets(sizes)[:-1]
    weights = _Weights.of(rows.T + starts[:, None], sizes)
    best, share = _Candidate.of(rows.T + starts[:, None], weights, earlier), 1.0
    enough = settled * len(rows) ** 2 * (sum(sizes) - len(sizes))
    for _ in range(rounds):
        places = _swapped(best, weights, share)
        if places is None:
            break
        trial = _Candidate.of(places, weights, earlier)
        gained = best.cost - trial.cost
        if gained > 0:
            best = trial
        else:
            share /= 2
        if 0 < gained < enough:
            break
    improved: Codes = (best.places - starts[:, None]).T.astype(np.int16)
    improved.flags.writeable = False  # it may be cached
    return improved


def _swapped(candidate: _Candidate, weights: _Weights, share: float) -> Places | None:
    """The places after the best swaps in every column, or a share of these; None if none gains.

    With C like S but without the column itself and T[a, j] the sum of C_ab over the runs b at level j, swapping a and b
    changes half the criterion by T[a, x_b] + T[b, x_a] - T[a, x_a] - T[b, x_b] + C_aa + C_bb - 2 C_ab. Only the runs
    with most to gain are tried, with each other. Ties are broken by position, not by the processor.
    """
    places = candidate.places
    n_factors, n = places.shape
    # T[a, x_a] - C_aa; the similarities also count the column itself, where levels are the same
    stay = candidate.own - weights.level_total.take(places) - weights.others[:, None]
    gain = -stay
    for group in weights.equal_factors:
        gain[group.factors] += candidate.level_similarity[group.places].reshape(-1, group.n_levels, n).min(axis=1)
    n_tried = min(n, max(_LEAST_TRIED, min(n // _TRIED_SHARE, _MOST_TRIED)))
    keys = gain.astype(np.int64) * n + np.arange(n)
    last = np.partition(keys, n_tried - 1, axis=1)[:, n_tried - 1, None]
    column = np.arange(n_factors)[:, None]
    at = np.flatnonzero(keys <= last).reshape(n_factors, n_tried)
    tried = at - n * column
    half = candidate.level_similarity.ravel().take((places.ravel().take(at) * n)[:, :, None] + tried[:, None, :])
    half -= stay.ravel().take(at)[:, None, :]
    if candidate.similarity is None:
        half -= n_factors  # the average similarity of two runs
    else:
        half -= candidate.similarity.ravel().take((tried * n)[:, :, None] + tried[:, None, :])
    change = half + half.swapaxes(1, 2)  # never below 0 for two runs of one level
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


def evened(rows: Codes, sizes: Sequence[int]) -> Codes:
    """The rows with every factor's levels used equally often, up to one, and factors nearly as orthogonal as before.

    Rows move from levels with too many to levels with too few, first those that are least similar to the rows there.
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
        counts = np.bincount(even[:, k], minlength=sizes[k])
        wanted = np.full(sizes[k], n // sizes[k])
        wanted[np.argsort(-counts, kind="stable")[: n % sizes[k]]] += 1  # the larger counts stay the larger ones
        used[:] = 0.0
        np.put_along_axis(used, even + starts[:-1], 1.0, axis=1)
        used[:, starts[k] : starts[k + 1]] = 0.0
        _move(even[:, k], wanted, used, used * weight)
    return even


def roughly_evened(rows: NDArray[np.integer], sizes: Sequence[int], rng: np.random.Generator) -> Codes:
    """The same quickly, without regard to orthogonality: any rows of a level with too many may move.

    >>> even = roughly_evened(np.array([[0, 0], [1, 0], [0, 1], [0, 1]]), [2, 2], np.random.default_rng(0))
    >>> np.bincount(even[:, 0]).tolist(), even[:, 1].tolist()
    ([2, 2], [0, 0, 1, 1])
    """
    n, n_factors = rows.shape
    starts, n_rivals = offsets(sizes), np.repeat(sizes, sizes)
    # each column is gone through in another order, by steps of its own: else the same rows would move in all columns
    steps = np.flatnonzero(np.gcd(np.arange(n), n) == 1)
    step, first = steps[rng.integers(len(steps), size=(n_factors, 1))], rng.integers(n, size=(n_factors, 1))
    order = (step * np.arange(n) + first) % n
    places = (rows + starts[:-1]).ravel().take(order * n_factors + np.arange(n_factors)[:, None])
    so_far = np.zeros((len(n_rivals), n), dtype=np.int32)
    at = places * n + np.arange(n)
    so_far.ravel()[at] = 1
    np.cumsum(so_far, axis=1, out=so_far)
    wanted = n // n_rivals + (np.arange(len(n_rivals)) - np.repeat(starts[:-1], sizes) < n % n_rivals)
    spare = so_far.ravel().take(at) > wanted[places]
    places[spare] = np.repeat(np.arange(len(n_rivals)), np.maximum(wanted - so_far[:, -1], 0))
    even = np.empty((n, n_factors), dtype=np.int16)
    even[order, np.arange(n_factors)[:, None]] = places - starts[:-1, None]
    return even


def _move(column: Codes, wanted: NDArray[np.int64], used: NDArray[np.float32], weighted: NDArray[np.float32]) -> None:
    """Bring one column to the wanted counts, in place. `similarity[i, a]` is that of row i with the rows at level a."""
    level = np.eye(len(wanted), dtype=np.float32)
    similarity = used @ (weighted.T @ level[column])
    with_itself = float(weighted[0].sum())
    while True:
        counts = np.bincount(column, minlength=len(wanted))
        over, under = np.maximum(counts - wanted, 0), np.flatnonzero(counts < wanted)
        if not len(under):
            return
        rows = np.flatnonzero(over[column])
        gain = similarity[rows][:, under] - (similarity[rows, column[rows]] - with_itself)[:, None]
        lack, moved = wanted - counts, []
        for place in np.argsort(gain.min(axis=1), kind="stable")[:_MOVED_AT_ONCE]:
            row, there = rows[place], under[int(gain[place].argmin())]
            if over[column[row]] > 0 and lack[there] > 0:
                over[column[row]] -= 1
                lack[there] -= 1
                moved.append((row, int(column[row]), there))
        moved_similarity = used @ weighted[[row for row, _, _ in moved]].T
        for i, (row, here, there) in enumerate(moved):
            column[row] = there
            similarity[:, here] -= moved_similarity[:, i]
            similarity[:, there] += moved_similarity[:, i]
