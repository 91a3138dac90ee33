"""Rows that keep to the combinations that can be run, as near to a balanced design as that allows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.core.space import Codes

_TRIES = 40
"""Rows that a row with a forbidden combination tries to exchange a level with."""


class Combinations(NamedTuple):
    """The combinations of some columns that can be run: a row of levels for each, and the number that it goes by."""

    columns: tuple[int, ...]
    table: Codes
    numbers: NDArray[np.int64]


def allowed_rows(rows: Codes, groups: Sequence[Combinations], rng: np.random.Generator) -> Codes:
    """For each row the number of its combination in every group, after the forbidden ones were exchanged away.

    Two rows exchange a level where that makes both of them allowed, so that levels stay as often as they were. A row
    that finds no partner takes an allowed combination that has most of its levels.

    >>> rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int16)
    >>> pair = Combinations((0, 1), np.array([[0, 0], [0, 1], [1, 0]], dtype=np.int16), np.array([0, 1, 2]))
    >>> sorted(allowed_rows(rows, [pair], np.random.default_rng(0))[:, 0].tolist())
    [1, 1, 2, 2]
    """
    found = np.empty((len(rows), len(groups)), dtype=np.int16)
    for g, (columns, table, numbers) in enumerate(groups):
        part = rows[:, columns].copy()
        sizes = tuple(int(m) for m in np.maximum(part.max(axis=0), table.max(axis=0)) + 1)
        place = np.full(sizes, -1, dtype=np.int64)
        place[tuple(table.T)] = np.arange(len(table))
        for row in np.flatnonzero(place[tuple(part.T)] < 0):
            _exchange(part, int(row), place, table, rng)
        found[:, g] = numbers[place[tuple(part.T)]]
    return found


def _exchange(part: Codes, row: int, place: NDArray[np.int64], table: Codes, rng: np.random.Generator) -> None:
    """Make one row allowed, in place."""
    for other in rng.permutation(len(part))[:_TRIES]:
        for column in rng.permutation(part.shape[1]):
            mine, theirs = part[row].copy(), part[other].copy()
            mine[column], theirs[column] = theirs[column], mine[column]
            if place[tuple(mine)] >= 0 and (place[tuple(theirs)] >= 0 or place[tuple(part[other])] < 0):
                part[row], part[other] = mine, theirs
                return
    same = (table == part[row]).sum(axis=1)
    part[row] = table[rng.choice(np.flatnonzero(same == same.max()))]
