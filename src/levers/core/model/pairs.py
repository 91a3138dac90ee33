"""A number for each pair of levels of one factor, factor after factor: m^2 numbers for a factor of m levels.

Formulas over pairs take factors with about as many levels together, as arrays [factor, i, j] in which smaller ones
leave entries unused. A single large factor among many small ones so costs its own square, and not that of all.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from levers.core.model.level_index import Places

Pairs: TypeAlias = NDArray[np.float64]
"""A number for each pair of levels of each factor, in the order of `level_index.level_pairs`, on the last axis."""
_FEW_CELLS = 20_000
"""Entries up to which all factors are padded to the largest: so few cost less than one more operation on arrays."""


def n_pairs(sizes: Sequence[int]) -> int:
    """How many ordered pairs of levels factors of these sizes have, a level with itself included.

    >>> n_pairs((2, 3))
    13
    """
    return sum(m * m for m in sizes)


@lru_cache(maxsize=64)
def _first_pairs(sizes: tuple[int, ...]) -> Places:
    """Where each factor's pairs begin, and the number of all pairs at the end."""
    begins: Places = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(np.square(np.asarray(sizes, dtype=np.int64)), out=begins[1:])
    begins.flags.writeable = False
    return begins


def pair_places(sizes: tuple[int, ...], factor: int, level: int, other: int) -> int:
    """Where the pair of two levels of a factor is.

    >>> pair_places((2, 3), 1, 2, 0)
    10
    """
    return int(_first_pairs(sizes)[factor]) + level * sizes[factor] + other


def level_rows(values: Pairs, sizes: tuple[int, ...], levels: Sequence[int]) -> list[Pairs]:
    """The numbers of one level of each factor against all levels of that factor.

    >>> [row.tolist() for row in level_rows(np.arange(5.0), (2, 1), (1, 0))]
    [[2.0, 3.0], [4.0]]
    """
    begins = _first_pairs(sizes).tolist()
    firsts = (begin + level * m for begin, level, m in zip(begins, levels, sizes, strict=False))
    return [values[first : first + m] for first, m in zip(firsts, sizes, strict=True)]


class PairGroup(NamedTuple):
    """Factors that are padded to the same number of levels, `width`.

    `places[factor, i, j]` is where a pair is, and one past the end for an entry that is not used. It is None where the
    group is all factors and none is padded.
    """

    factors: Places
    width: int
    places: Places | None

    def padded(self, values: Pairs, fill: float) -> Pairs:
        """Numbers of pairs as an array [..., factor, i, j], unused entries being `fill`.

        >>> [group] = pair_groups((2, 1))
        >>> group.padded(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 0.0).tolist()
        [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 0.0], [0.0, 0.0]]]
        """
        if self.places is None:
            return values.reshape(*values.shape[:-1], len(self.factors), self.width, self.width)
        longer = np.empty((*values.shape[:-1], values.shape[-1] + 1))
        longer[..., :-1], longer[..., -1] = values, fill
        taken: Pairs = longer[..., self.places]
        return taken


@lru_cache(maxsize=16)
def pair_groups(sizes: tuple[int, ...]) -> tuple[PairGroup, ...]:
    """The factors in groups that lose little by padding: all together while they are few, else by powers of two.

    >>> [(group.factors.tolist(), group.width) for group in pair_groups((3, 4, 500))]
    [([0, 1], 4), ([2], 500)]
    """
    count = np.asarray(sizes, dtype=np.int64)
    most = int(count.max())
    if int(count.min()) == most:
        return (PairGroup(np.arange(len(sizes)), most, None),)
    if len(sizes) * most**2 <= _FEW_CELLS:
        return (_group(sizes, np.arange(len(sizes))),)
    octaves = np.ceil(np.log2(count)).astype(np.int64)
    return tuple(_group(sizes, np.flatnonzero(octaves == octave)) for octave in np.unique(octaves))


def _group(sizes: tuple[int, ...], factors: Places) -> PairGroup:
    begins, count = _first_pairs(sizes), np.asarray(sizes, dtype=np.int64)[factors]
    width = int(count.max())
    level = np.arange(width)
    has = level < count[:, None]
    places = begins[factors][:, None, None] + count[:, None, None] * level[:, None] + level
    places = np.where(has[:, :, None] & has[:, None, :], places, begins[-1])
    factors.flags.writeable = places.flags.writeable = False
    return PairGroup(factors, width, places)


def unpadded(values: NDArray[np.float64], sizes: tuple[int, ...]) -> Pairs:
    """The numbers of pairs from an array [factor, i, j] in which smaller factors leave entries unused.

    >>> unpadded(np.arange(8.0).reshape(2, 2, 2), (2, 1)).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    return np.concatenate([values[k, :m, :m].ravel() for k, m in enumerate(sizes)])
