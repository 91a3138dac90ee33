"""Rows of a round in an order in which levers that are hard to change are changed seldom.

Which rows a block has stays as it was, and so does the fit: only the order of runs inside blocks is another.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.core.space import Codes
from levers.errors import InvalidSettingError

HardLevers: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]
"""Levers that are hard to change, the hardest first: the column of a row that has the lever, and the lever's level for
each code of that column. Of a column that stands for several levers, codes that differ may have the same level."""
_NONE = -1
"""No level: nothing is known to be in place."""


def check_hard(hard: HardLevers, n_levels: Sequence[int]) -> None:
    """Refuse levers that are hard to change and not columns of rows with so many levels.

    >>> check_hard(((1, (0, 1, 2)),), (2, 3))
    >>> check_hard(((1, (0, 1)),), (2, 3))
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: hard_to_change has columns, each with the lever's level for all of its codes
    """
    for column, levels in hard:
        if not 0 <= column < len(n_levels) or len(levels) != n_levels[column]:
            raise InvalidSettingError(
                "hard_to_change has columns, each with the lever's level for all of its codes",
                field="hard_to_change",
            )


def hard_levels(rows: ArrayLike, hard: HardLevers) -> Codes:
    """The levels of the levers that are hard to change in each row, the hardest in the first column.

    >>> hard_levels([[3, 0], [2, 1]], ((1, (0, 1)), (0, (0, 0, 1, 1)))).tolist()
    [[0, 1], [1, 1]]
    """
    codes = np.asarray(rows, dtype=np.int16)
    columns = [np.asarray(levels, dtype=np.int16)[codes[:, column]] for column, levels in hard]
    return np.stack(columns, axis=1)


def few_changes(
    levels: Codes, lengths: Sequence[int], rng: np.random.Generator, in_place: Sequence[int] | None = None
) -> NDArray[np.int64]:
    """The order of rows in which, inside each block, those with the same level of the hardest lever stand together;
    among these, those with the same level of the next; and so on. Otherwise rows keep their order.

    `levels` has a column for each such lever, the hardest first. A block begins with the level that is in place, from
    the block before or at first from `in_place`, if it has it; the others come in random order, so that what changes
    inside a day does not always meet the same level. The hardest lever then changes as often as a block has other
    levels than the one in place: no order of the block's rows does with less.

    >>> levels = np.array([[0], [1], [0], [1], [1], [0], [1], [0]])
    >>> order = few_changes(levels, (4, 4), np.random.default_rng(0))
    >>> order.tolist(), levels[order, 0].tolist()
    ([0, 2, 1, 3, 4, 6, 5, 7], [0, 0, 1, 1, 1, 1, 0, 0])
    """
    now = [_NONE] * levels.shape[1] if in_place is None else list(in_place)
    order, begin = [np.zeros(0, dtype=np.int64)], 0
    for length in lengths:
        order += _together(np.arange(begin, begin + length), levels, now, rng)
        begin += length
    return np.concatenate(order)


def _together(
    at: NDArray[np.int64], levels: Codes, in_place: list[int], rng: np.random.Generator, lever: int = 0
) -> list[NDArray[np.int64]]:
    """Some rows in stretches of one level, from this lever on to the last; `in_place` becomes what the last row has."""
    if lever == levels.shape[1]:
        return [at]
    own = levels[at, lever]
    found = list[NDArray[np.int64]]()
    for level in sorted(rng.permutation(np.unique(own)).tolist(), key=lambda level: level != in_place[lever]):
        found += _together(at[own == level], levels, in_place, rng, lever + 1)
        in_place[lever] = level
    return found


def n_changes(levels: Codes) -> tuple[int, ...]:
    """How often each lever is changed from one row to the next.

    >>> n_changes(np.array([[0, 0], [0, 1], [1, 0], [1, 0]]))
    (1, 2)
    """
    return tuple((levels[1:] != levels[:-1]).sum(axis=0).tolist())
