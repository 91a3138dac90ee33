"""Designs for a number of runs: exact arrays where they fit, searched ones where they do not (docs/decisions/0009)."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.core.arrays import (
    ArraySize,
    collapsed_copies,
    collapsed_counts,
    collapsed_levels,
    rao_hamming,
    smallest_array,
)
from levers.core.balanced import all_levels, balanced_rows
from levers.core.design import Design
from levers.core.evening import evened
from levers.core.moments import pair_counts
from levers.core.near_orthogonal import merged_columns, swap_improved
from levers.core.space import Codes

MOST_SWAP_RUNS = 400
"""Swapping compares all pairs of runs; beyond this many, chance balance or an exact array does as well."""
QUICK_SEARCH = 60_000
"""Squared runs times factors up to which a search from scratch takes a few milliseconds."""
ROUNDS = 24
"""Rounds of swaps of a search from scratch."""
SETTLED = 0.002
SCRATCH_ROUNDS = 8
MOSTLY = 0.65
MORE_ROUNDS = 6
"""Rounds of swaps that improve a design which is nearly orthogonal to begin with."""
NEXT_LENGTH = 12
"""Designs of all factors are searched for lengths that are multiples of this, and remembered."""
MOST_UNEVEN = 0.03
"""A rarer level than this is worth evening out, where only precision inside factors counts."""
WHOLE_COPIES = 5
"""From this many copies of an array on, a design is rounded up to whole copies."""


class Origin(NamedTuple):
    """Where some factors come from: sizes and runs of the study's first design, and which of its columns these are.

    A design found for all of them is a good start for any part of them, so a study searches in earnest only once.
    """

    sizes: tuple[int, ...]
    columns: tuple[int, ...]
    n_runs: int


@lru_cache(maxsize=16)
def make_design(
    sizes: tuple[int, ...], n_runs: int, seed: int, origin: Origin | None = None, even: bool = False
) -> Design:
    """A design of at least `n_runs` runs, as good as is cheap to find; levels and runs are shuffled by the seed.

    Copies of the full factorial or of an exact array where they fit; copies and a nearly orthogonal rest where there
    are few; a nearly orthogonal design below one array; independent random columns where that is too long to search.
    With `even`, levels are used equally often even where that costs an array its orthogonality.
    """
    rng = np.random.default_rng(seed)
    if math.prod(sizes) <= max(n_runs, max(sizes)):
        return _factorial(sizes, n_runs, rng)
    size = smallest_array(max(sizes), len(sizes))
    copies, rest = _copies_and_rest(size, sizes, n_runs, even)
    return _assembled(sizes, size, copies, rest, origin, rng, even)


def _assembled(
    sizes: tuple[int, ...],
    size: ArraySize | None,
    copies: int,
    rest: int,
    origin: Origin | None,
    rng: np.random.Generator,
    even: bool = False,
) -> Design:
    """Copies of an array and a rest of nearly orthogonal or random rows, in random order."""
    parts, counts = [], np.zeros((sum(sizes), sum(sizes)), dtype=np.int64)
    if size is not None and copies:
        levels = collapsed_levels(size.order, sizes, copies, rng)
        parts.append(collapsed_copies(rao_hamming(size.order, size.exponent, len(sizes)), levels))
        counts += collapsed_counts(size, sizes, levels)
    if rest:
        parts.append(_nearly_orthogonal(sizes, rest, origin, rng))
        counts += pair_counts(parts[-1], sizes)
    rows = np.concatenate(parts)[rng.permutation(sum(len(part) for part in parts))]
    if even and copies and _unevenness(counts, sizes, len(rows)) > MOST_UNEVEN:
        rows, rest = evened(rows, sizes), rest or 1
        counts = pair_counts(rows, sizes)
    rows.flags.writeable = False
    kind = "orthogonal array" if not rest else "nearly orthogonal" if rest <= MOST_SWAP_RUNS else "random balanced"
    return Design(rows, sizes, kind, counts)


def _unevenness(counts: NDArray[np.int64], sizes: tuple[int, ...], n_runs: int) -> float:
    """By how much the rarest level of any factor is rarer than it should be, as a share."""
    return float((1 - counts.diagonal() * np.repeat(sizes, sizes) / n_runs).max())


def _factorial(sizes: tuple[int, ...], n_runs: int, rng: np.random.Generator) -> Design:
    """Copies of the full factorial, and a random part of one more; exactly balanced when n is a multiple."""
    n_cells = math.prod(sizes)
    whole = len(sizes) == 1 or n_runs >= WHOLE_COPIES * n_cells
    copies = -(-n_runs // n_cells) if whole else n_runs // n_cells
    cells = np.tile(np.arange(n_cells), max(copies, 1))
    extra = rng.permutation(n_cells)[: max(n_runs - len(cells), 0)]
    order = rng.permutation(np.concatenate([cells, extra]))
    rows = np.stack(np.unravel_index(order, sizes), axis=1).astype(np.int16)
    rows.flags.writeable = False
    return Design(rows, sizes, "full factorial")


def _copies_and_rest(size: ArraySize | None, sizes: tuple[int, ...], n_runs: int, even: bool) -> tuple[int, int]:
    """How many copies of an exact array to use, and how many runs to search for.

    An array that needs no collapsing is perfect. One that does leaves level counts uneven until there are several
    copies, so short designs are better searched. What is to be evened out anyway need not be whole copies.
    """
    if size is None:
        return 0, n_runs
    copies, rest = divmod(n_runs, size.n_runs)
    perfect = set(sizes) == {size.order}
    if perfect and (rest == 0 or copies >= 2 or rest > 0.75 * size.n_runs):
        return copies + (rest > 0), 0
    if n_runs <= MOST_SWAP_RUNS:
        return 0, n_runs
    too_long = rest > MOST_SWAP_RUNS and size.n_runs <= 2.5 * rest
    nearly_whole = rest > 0.75 * size.n_runs and not (even and copies and rest <= MOST_SWAP_RUNS)
    whole = rest and (copies >= WHOLE_COPIES or nearly_whole or too_long)
    return (copies + 1, 0) if whole else (copies, rest)


def _nearly_orthogonal(sizes: tuple[int, ...], n_runs: int, origin: Origin | None, rng: np.random.Generator) -> Codes:
    """A nearly orthogonal design: searched from scratch where that is quick, else improved from the study's first."""
    if n_runs > MOST_SWAP_RUNS:
        return balanced_rows(all_levels(sizes), n_runs, rng)
    if origin is None or origin.sizes == sizes or n_runs**2 * len(sizes) <= QUICK_SEARCH:
        found = _searched(sizes, n_runs)
        return np.stack([rng.permutation(m).astype(np.int16)[found[:, k]] for k, m in enumerate(sizes)], axis=1)
    if sum(sizes) - len(sizes) < MOSTLY * (sum(origin.sizes) - len(origin.sizes)):
        return swap_improved(balanced_rows(all_levels(sizes), n_runs, rng), sizes, SCRATCH_ROUNDS, SETTLED)
    whole = _searched(origin.sizes, -(-n_runs // NEXT_LENGTH) * NEXT_LENGTH)
    some = rng.permutation(whole)[:n_runs, list(origin.columns)]
    before = [origin.sizes[column] for column in origin.columns]
    return swap_improved(merged_columns(some, before, sizes, rng), sizes, MORE_ROUNDS)


@lru_cache(maxsize=64)
def _searched(sizes: tuple[int, ...], n_runs: int) -> Codes:
    """A nearly orthogonal design of these sizes, before shuffling. Remembered, because the search is costly."""
    start = balanced_rows(all_levels(sizes), n_runs, np.random.default_rng(0))
    return swap_improved(start, sizes, ROUNDS, SETTLED)


@lru_cache(maxsize=16)
def largest_design(sizes: tuple[int, ...], most_runs: int, seed: int, origin: Origin | None = None) -> Design:
    """A design of at most `most_runs` runs, for a fixed budget.

    >>> largest_design((3, 3, 3), 26, seed=0).n_runs
    26
    """
    design = make_design(sizes, most_runs, seed, origin)
    if design.n_runs <= most_runs:
        return design
    rng = np.random.default_rng(seed)
    size = smallest_array(max(sizes), len(sizes))
    copies, rest = (0, most_runs) if size is None or most_runs <= MOST_SWAP_RUNS else divmod(most_runs, size.n_runs)
    return _assembled(sizes, size, copies, rest, origin, rng)


@lru_cache(maxsize=16)
def certified_design(
    sizes: tuple[int, ...],
    runs_if_ideal: float,
    seed: int,
    origin: Origin | None = None,
    single: bool = False,
    most_coupling: float = math.inf,
) -> Design:
    """A design that is worth at least `runs_if_ideal` ideal runs: n / inflation >= that number, as measured.

    With `single` only precision inside factors counts: because only one factor can lose anything, or because what
    factors share is bounded by `most_coupling`. A few lengths are tried, each from what the last one was short of.

    >>> design = certified_design((3, 4, 2), 50.0, seed=1)
    >>> design.n_runs / design.inflation >= 50
    True
    """
    n_parameters = sum(m - 1 for m in sizes)
    margin = 0.0 if len(sizes) == 1 else min(0.7 * n_parameters, 0.04 * runs_if_ideal + 10)
    wanted = max(runs_if_ideal + margin, n_parameters + 2.0)
    while True:
        design = make_design(sizes, math.ceil(wanted), seed, origin, even=math.isfinite(most_coupling))
        if design.n_runs >= runs_if_ideal * design.charge(single):
            if most_coupling == math.inf or design.coupling <= most_coupling:
                return design
            wanted = 1.04 * design.n_runs + 1
            continue
        excess = min(design.charge(single) - 1.0, 1.0)
        # what is lost falls about as 1 / n: solve n = runs_if_ideal (1 + excess n_tried / n)
        better = (runs_if_ideal + math.sqrt(runs_if_ideal**2 + 4 * runs_if_ideal * excess * design.n_runs)) / 2
        wanted = max(better, design.n_runs + 1.0)
