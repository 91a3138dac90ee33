"""Nearly orthogonal rows for any number of factors and runs, as long as a search is quick."""

import math
from functools import lru_cache
from typing import Literal

import numpy as np

from levers.core.balanced import balanced_rows
from levers.core.evening import roughly_evened
from levers.core.layout import all_levels, offsets
from levers.core.mixing import mix_to_start_from, mixed_rows
from levers.core.near_orthogonal import swap_improved
from levers.core.space import Codes

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
