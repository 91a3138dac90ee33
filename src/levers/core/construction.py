"""Designs for a number of runs: exact arrays where they fit, searched ones where they do not (docs/decisions/0009)."""

import math

import numpy as np
from numpy.typing import NDArray

from levers.core.arrays import (
    ArraySize,
    collapsed_copies,
    collapsed_counts,
    collapsed_levels,
    exact_array,
    rao_hamming,
    smallest_array,
)
from levers.core.balanced import balanced_rows
from levers.core.design import Design
from levers.core.evening import evened
from levers.core.layout import all_levels
from levers.core.moments import pair_counts
from levers.core.searching import MOST_SEARCHED, Effort, nearly_orthogonal
from levers.core.space import Codes

MANY_LEVELS = 300
"""Levels of all factors together from which on a round of a search takes long: few runs are searched for then."""
MOST_WITH_MANY = 400
"""Runs that are searched for then."""
MOST_MIXED_LEVELS = 1000
"""Levels of all factors together up to which arrays, and mixes of them, are tried first; beyond, they are very long."""
MOST_UNEVEN = 0.03
"""A rarer level than this is worth evening out, where only precision inside factors counts."""
MOST_BEYOND = 0.015
"""The share of runs by which whole copies of a factorial or an exact array may be longer: what searches lose, about."""
WHOLE_COPIES = 5
"""From this many copies of an array on, a design is rounded up to whole copies."""


def make_design(
    sizes: tuple[int, ...],
    n_runs: int,
    seed: int,
    even: bool = False,
    effort: Effort = "usual",
) -> Design:
    """A design of at least `n_runs` runs, as good as is cheap to find; levels and runs are shuffled by the seed.

    Copies of the full factorial or of an exact array where they fit, else nearly orthogonal rows; for very many levels
    or runs copies of a collapsed array. With `even`, levels are used equally often even where that costs an array its
    orthogonality. `effort` is for searches.
    """
    rng = np.random.default_rng(seed)
    if factorial_fits(sizes, n_runs):
        return _factorial(sizes, n_runs, rng)
    size = exact_array(sizes) or smallest_array(max(sizes), len(sizes))
    copies, rest = _copies_and_rest(size, sizes, n_runs, even)
    return assembled(sizes, size, copies, rest, rng, even, effort)


def assembled(
    sizes: tuple[int, ...],
    size: ArraySize | None,
    copies: int,
    rest: int,
    rng: np.random.Generator,
    even: bool = False,
    effort: Effort = "usual",
) -> Design:
    """Copies of an array and a rest of nearly orthogonal or random rows, in random order."""
    parts, counts = [], np.zeros((sum(sizes), sum(sizes)), dtype=np.int64)
    if size is not None and copies:
        levels = collapsed_levels(size.order, sizes, copies, rng)
        parts.append(collapsed_copies(rao_hamming(size.order, size.exponent, len(sizes)), levels))
        counts += collapsed_counts(size, sizes, levels)
    if rest:
        parts.append(rest_rows(sizes, rest, rng, effort))
        counts += pair_counts(parts[-1], sizes)
    rows = np.concatenate(parts)[rng.permutation(sum(len(part) for part in parts))]
    if even and copies and _unevenness(counts, sizes, len(rows)) > MOST_UNEVEN:
        rows, rest = evened(rows, sizes), rest or 1
        counts = pair_counts(rows, sizes)
    rows.flags.writeable = False
    searched = rest <= most_searched(sizes) or sum(sizes) <= MANY_LEVELS
    kind = "orthogonal array" if not rest else "nearly orthogonal" if searched else "random balanced"
    return Design(rows, sizes, kind, counts)


def rest_rows(sizes: tuple[int, ...], n_runs: int, rng: np.random.Generator, effort: Effort) -> Codes:
    """Rows that no array gives: searched, or copies of these with levels renamed; random where a search is slow."""
    if n_runs > most_searched(sizes) and sum(sizes) > MANY_LEVELS:
        return balanced_rows(all_levels(sizes), n_runs, rng)
    copies = -(-n_runs // most_searched(sizes))
    lengths = [(n_runs + i) // copies for i in range(copies)]
    return np.concatenate([nearly_orthogonal(sizes, n, rng, effort) for n in lengths])


def _unevenness(counts: NDArray[np.int64], sizes: tuple[int, ...], n_runs: int) -> float:
    """By how much the rarest level of any factor is rarer than it should be, as a share."""
    return float((1 - counts.diagonal() * np.repeat(sizes, sizes) / n_runs).max())


def factorial_fits(sizes: tuple[int, ...], n_runs: float) -> bool:
    """Whether whole copies of the full factorial have about so many runs.

    >>> factorial_fits((3, 4), 12), factorial_fits((3, 4), 18), factorial_fits((3, 4), 1000), factorial_fits((5,), 7)
    (True, False, True, True)
    """
    n_cells = math.prod(sizes)
    if n_cells > n_runs:  # also where it is too large for a floating point number
        return len(sizes) == 1
    beyond = math.ceil(n_runs / n_cells) * n_cells - n_runs
    return len(sizes) == 1 or beyond <= MOST_BEYOND * n_runs


def _factorial(sizes: tuple[int, ...], n_runs: int, rng: np.random.Generator) -> Design:
    """Whole copies of the full factorial."""
    n_cells = math.prod(sizes)
    order = rng.permutation(np.tile(np.arange(n_cells), -(-n_runs // n_cells)))
    rows = np.stack(np.unravel_index(order, sizes), axis=1).astype(np.int16)
    rows.flags.writeable = False
    return Design(rows, sizes, "full factorial")


def _copies_and_rest(size: ArraySize | None, sizes: tuple[int, ...], n_runs: int, even: bool) -> tuple[int, int]:
    """How many copies of an exact array to use, and how many runs to search for.

    An array that needs no collapsing is perfect. One that does leaves level counts uneven until there are very many
    copies, so it is used only where a search would take too long. What is to be evened out anyway need not be whole.
    """
    if size is None:
        return 0, n_runs
    copies, rest = divmod(n_runs, size.n_runs)
    perfect = set(sizes) == {size.order}
    if perfect and (rest == 0 or (copies + 1) * size.n_runs <= (1 + MOST_BEYOND) * n_runs):
        return copies + (rest > 0), 0
    if n_runs <= most_searched(sizes):
        return 0, n_runs
    searched = rest <= most_searched(sizes)
    too_long = not searched and size.n_runs <= 2.5 * rest and sum(sizes) <= MOST_MIXED_LEVELS
    nearly_whole = rest > 0.75 * size.n_runs and not (even and copies and searched)
    whole = rest and (copies >= WHOLE_COPIES or nearly_whole or too_long)
    return (copies + 1, 0) if whole else (copies, rest)


def most_searched(sizes: tuple[int, ...]) -> int:
    """Runs of the longest nearly orthogonal design of these sizes; beyond, rows are random where no array fits."""
    return MOST_SEARCHED if sum(sizes) <= MANY_LEVELS else MOST_WITH_MANY
