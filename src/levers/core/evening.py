"""Equal level counts for a design that is orthogonal but uneven."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from levers.core.layout import offsets
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
