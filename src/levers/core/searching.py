"""Nearly orthogonal rows for any number of factors and runs, as long as a search is quick."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from levers.core.balanced import all_levels, balanced_rows
from levers.core.layout import offsets
from levers.core.mixing import mix_to_start_from, mixed_rows
from levers.core.near_orthogonal import evened_columns, merged_columns, swap_improved
from levers.core.space import Codes

MOST_SEARCHED = 2200
"""Runs of the longest design that is searched; longer ones are put together from arrays."""
ROUNDS, SCREENING_ROUNDS, MORE_ROUNDS = 16, 10, 5
"""Rounds of swaps from scratch, from scratch for a screening block, and from a good start."""
SETTLED, SCREENING_SETTLED = 0.0003, 0.005
"""A round that lowers the mean squared eigenvalue by less is the last."""
MOSTLY = 0.65
"""The share of the parameters that must be left for a design of all factors to be a good start."""
NEXT_LENGTH = 12
"""Designs of all factors are searched for multiples of this many runs (long ones: of five times), and remembered."""


class Origin(NamedTuple):
    """Where some factors come from: the sizes of all factors of the study, and which of them these are.

    A design found for all of them is a good start for most of them, and is found once for each length.
    """

    sizes: tuple[int, ...]
    columns: tuple[int, ...]


def nearly_orthogonal(
    sizes: tuple[int, ...], n_runs: int, origin: Origin | None, rng: np.random.Generator, screening: bool = False
) -> Codes:
    """Rows whose factors are nearly orthogonal, levels being equally often up to one; searched, then renamed at random.

    >>> rows = nearly_orthogonal((3, 4, 2), 20, None, np.random.default_rng(0))
    >>> rows.shape, np.bincount(rows[:, 1]).tolist()
    ((20, 3), [5, 5, 5, 5])
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(owner + rng.random(len(owner)), kind="stable")  # each factor's levels in random order
    names = (order - offsets(sizes)[owner]).astype(np.int16)
    return names.take(_found(sizes, n_runs, origin, screening) + offsets(sizes)[:-1])


@lru_cache(maxsize=64)
def _found(sizes: tuple[int, ...], n_runs: int, origin: Origin | None, screening: bool) -> Codes:
    """Nearly orthogonal rows, always the same. Remembered, because a search is costly and sizes come up again."""
    if origin is None or origin.sizes == sizes:
        return _searched(sizes, n_runs)
    rng = np.random.default_rng(0)
    start = _of_arrays(sizes, n_runs, rng)
    mostly = sum(sizes) - len(sizes) >= MOSTLY * (sum(origin.sizes) - len(origin.sizes))
    if start is None and mostly:
        step = NEXT_LENGTH if n_runs <= 20 * NEXT_LENGTH else 5 * NEXT_LENGTH
        whole = _searched(origin.sizes, -(-n_runs // step) * step)
        some = rng.permutation(whole)[:n_runs, list(origin.columns)]
        before = [origin.sizes[column] for column in origin.columns]
        return swap_improved(merged_columns(some, before, sizes, rng), sizes, MORE_ROUNDS)
    if start is None:
        start = _random(sizes, n_runs, rng)
    if screening:
        return swap_improved(start, sizes, SCREENING_ROUNDS, SCREENING_SETTLED)
    return swap_improved(start, sizes, ROUNDS, SETTLED)


@lru_cache(maxsize=64)
def _searched(sizes: tuple[int, ...], n_runs: int) -> Codes:
    """The same from scratch."""
    rng = np.random.default_rng(0)
    start = _of_arrays(sizes, n_runs, rng)
    return swap_improved(_random(sizes, n_runs, rng) if start is None else start, sizes, ROUNDS, SETTLED)


def _of_arrays(sizes: tuple[int, ...], n_runs: int, rng: np.random.Generator) -> Codes | None:
    """Rows to begin with: orthogonal arrays, without some rows or with random ones, evened out; None if none fit."""
    mix = mix_to_start_from(sizes, n_runs)
    if mix is None:
        return None
    rows = rng.permutation(mixed_rows(sizes, mix, rng))[:n_runs]
    if len(rows) < n_runs:
        rows = np.concatenate([rows, balanced_rows(all_levels(sizes), n_runs - len(rows), rng)])
    return evened_columns(rows, sizes, rng)


def _random(sizes: tuple[int, ...], n_runs: int, rng: np.random.Generator) -> Codes:
    """Rows to begin with: whole copies of the full factorial as long as they fit, then columns in random orders."""
    n_cells = math.prod(sizes)
    copies, rest = divmod(n_runs, n_cells) if n_cells <= n_runs else (0, n_runs)
    columns = balanced_rows(all_levels(sizes), rest, rng)
    if not copies:
        return columns
    cells = np.stack(np.unravel_index(np.tile(np.arange(n_cells), copies), sizes), axis=1)
    return np.concatenate([cells.astype(np.int16), columns])
