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
