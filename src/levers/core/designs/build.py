"""A design for a number of runs, or for a precision: exact arrays where they fit, searched rows where they do not.

docs/decisions/0009 says which design is used where, and what each costs.
"""

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from levers.core.designs import arrays
from levers.core.designs.arrays import ArraySize, exact_array, smallest_array
from levers.core.designs.design import Design
from levers.core.designs.mixes import Mix, mixed_design, mixes
from levers.core.designs.random import balanced_rows
from levers.core.designs.search import MOST_SEARCHED, Effort, evened, nearly_orthogonal
from levers.core.model.level_index import all_levels
from levers.core.model.moments import pair_counts
from levers.core.space import Codes

MANY_LEVELS = 300
"""Levels of all factors together beyond which a search takes long, so that only short designs are searched."""
MOST_WITH_MANY = 400
"""Runs of the longest design that is searched with so many levels."""
MOST_MIXED_LEVELS = 1000
"""Levels of all factors together up to which arrays, and mixes of them, are tried first; beyond, they are very long."""
MOST_UNEVEN = 0.03
"""A level that is rarer by more than this share is evened out, where only precision inside factors counts."""
MOST_BEYOND = 0.015
"""The share of runs by which whole copies of a factorial or an array may be longer: about what a search would lose."""
WHOLE_COPIES = 5
"""From this many copies of an array on, a design is rounded up to whole copies."""
NEARLY_WHOLE = 0.75
"""A rest of more than this share of an array is rounded up to a whole copy."""
LONG_REST = 2.5
"""A rest too long to be searched is rounded up to a whole copy of an array that is no longer than this many times."""
LEAST_OF_BUDGET = 0.8
"""The share of a budget that a mix of arrays must be worth; the rest is filled up with searched rows."""
BASE_RUNS = 3.0
"""Runs per parameter of the base that long blocks of a pooled study copy."""
ROUNDING = 1e-9
"""What is exactly enough may be measured as too little by this share."""
LENGTHENED = 1.006
"""A design that was not enough is made longer than what it lacked by this factor, so that a second try is enough."""


def make_design(sizes: tuple[int, ...], n_runs: int, seed: int, even: bool = False, effort: Effort = "usual") -> Design:
    """A design of at least `n_runs` runs, the best that is found quickly; levels and runs are shuffled by the seed.

    Copies of the full factorial or of an exact array where they fit, else nearly orthogonal rows; for very many levels
    or runs copies of a collapsed array. With `even`, levels are used equally often even where that costs an array its
    orthogonality. `effort` is how long a search may take.
    """
    rng = np.random.default_rng(seed)
    if factorial_fits(sizes, n_runs):
        n_cells = math.prod(sizes)
        order = rng.permutation(np.tile(np.arange(n_cells), -(-n_runs // n_cells)))  # whole copies
        rows = np.stack(np.unravel_index(order, sizes), axis=1).astype(np.int16)
        rows.flags.writeable = False
        return Design(rows, sizes, "full factorial")
    size = exact_array(sizes) or smallest_array(max(sizes), len(sizes))
    copies, rest = _copies_and_rest(size, sizes, n_runs, even)
    return assembled(sizes, size, copies, rest, rng, even, effort)


@lru_cache(maxsize=4)  # only a few, because the largest designs have hundreds of MB
def largest_design(sizes: tuple[int, ...], most_runs: int, seed: int, effort: Effort = "usual") -> Design:
    """A design of at most `most_runs` runs, for a fixed budget. `effort` is how long a search may take.

    >>> largest_design((3, 3, 3), 26, seed=0).n_runs
    26
    """
    rng = np.random.default_rng(seed)
    size = exact_array(sizes)
    if size is None and _is_mixed(sizes, most_runs):
        for mix in mixes(sizes, LEAST_OF_BUDGET * most_runs, float(most_runs))[:1]:
            rest = most_runs - mix.n_runs
            more = rest_rows(sizes, rest, rng, effort) if rest else None
            return mixed_design(sizes, mix, seed, more)
    design = make_design(sizes, most_runs, seed, effort=effort)
    if design.n_runs <= most_runs:
        return design
    size = size or smallest_array(max(sizes), len(sizes))
    short = size is None or most_runs <= most_searched(sizes)
    copies, rest = (0, most_runs) if size is None or short else divmod(most_runs, size.n_runs)
    return assembled(sizes, size, copies, rest, rng, effort=effort)


@lru_cache(maxsize=4)
def extending_design(
    sizes: tuple[int, ...], n_runs: int, seed: int, origin: tuple[int, ...], factors: tuple[int, ...]
) -> Design:
    """A block of exactly so many runs that is to be fitted together with earlier ones: copies of one short base.

    The base is searched once for the study's factors with all their levels, of sizes `origin`, and serves all later
    blocks: of the open `factors`, the rows of levels no longer in play are divided among the others. Levels are renamed
    at random in every copy, so what one leaves unbalanced the others do not repeat. Pooled, factors lose hardly more
    than in one long search, which would take much longer. Full factorials and exact arrays are used where they fit.

    >>> extending_design((3, 2), 31, seed=0, origin=(3, 4, 2), factors=(0, 2)).n_runs
    31
    """
    rng = np.random.default_rng(seed)
    exact = _exact_rows(sizes, n_runs, rng)
    if exact is None and n_runs < BASE_RUNS * (sum(origin) - len(origin)) and sum(sizes) <= MANY_LEVELS:
        rows = nearly_orthogonal(sizes, n_runs, rng, "quick")  # part of a base would be no better than random
        return Design(rows, sizes, "nearly orthogonal")
    base = _base_rows(origin, rng)[:, factors] if exact is None else exact
    levels = sizes if exact is not None else tuple(origin[k] for k in factors)
    copies = -(-n_runs // len(base))
    parts = [_renamed(base, levels, sizes, rng) for _ in range(copies)]
    parts[-1] = parts[-1][rng.permutation(len(base))[: n_runs - (copies - 1) * len(base)]]
    rows = rng.permutation(np.concatenate(parts))
    rows.flags.writeable = False
    return Design(rows, sizes, "nearly orthogonal")


def _exact_rows(sizes: tuple[int, ...], n_runs: int, rng: np.random.Generator) -> Codes | None:
    """A full factorial or an exact array that is no longer than a block."""
    n_cells = math.prod(sizes)
    if n_cells <= n_runs:
        return np.stack(np.unravel_index(np.arange(n_cells), sizes), axis=1).astype(np.int16)
    array = exact_array(sizes)
    if array is None or array.n_runs > n_runs:
        return None
    return arrays.collapsed_copies(array, arrays.collapsed_levels(array.order, sizes, 1, rng))


def _base_rows(sizes: tuple[int, ...], rng: np.random.Generator) -> Codes:
    """The rows that later blocks copy."""
    length = math.ceil(BASE_RUNS * (sum(sizes) - len(sizes)))
    if sum(sizes) > MANY_LEVELS:
        return balanced_rows(all_levels(sizes), length, rng)
    return nearly_orthogonal(sizes, length, rng, "usual")


def _renamed(base: Codes, levels: tuple[int, ...], sizes: tuple[int, ...], rng: np.random.Generator) -> Codes:
    """A copy of rows over so many levels with the levels renamed, and those beyond `sizes` divided among the others."""
    rows = np.empty_like(base)
    for k, (m, kept) in enumerate(zip(levels, sizes, strict=True)):
        column = rng.permutation(m).astype(np.int16)[base[:, k]]
        if kept < m:
            gone = np.flatnonzero(column >= kept)
            column[gone] = (rng.permutation(len(gone)) + rng.integers(kept)) % kept
        rows[:, k] = column
    return rows


@lru_cache(maxsize=4)
def certified_design(
    sizes: tuple[int, ...],
    runs_if_ideal: float,
    seed: int,
    single: bool = False,
    most_coupling: float = math.inf,
    effort: Effort = "usual",
) -> Design:
    """A design that is worth at least `runs_if_ideal` ideal runs: n / inflation >= that number, as measured.

    With `single` only precision inside factors counts: because only one factor can lose anything, or because what
    factors share is bounded by `most_coupling`. A few lengths are tried, each from what the last one was short of.

    >>> design = certified_design((3, 4, 2), 50.0, seed=1)
    >>> design.n_runs / design.inflation >= 50
    True
    """
    coupled = math.isfinite(most_coupling)  # else the coupling need not be measured
    least = runs_if_ideal * (1 - ROUNDING)
    wanted = max(_first_length(sizes, runs_if_ideal, single), sum(sizes) - len(sizes) + 2.0)
    tried_up_to = 0.0  # arrays of up to this length were tried
    while True:
        longest = math.inf if _is_mixed(sizes, wanted) else wanted
        for design in _array_designs(sizes, runs_if_ideal, seed, tried_up_to, longest):
            if design.n_runs / design.charge(single) >= least and (not coupled or design.coupling <= most_coupling):
                return design
        tried_up_to = longest
        design = make_design(sizes, math.ceil(wanted), seed, even=coupled, effort=effort)
        too_coupled = coupled and design.coupling > most_coupling
        if design.n_runs / design.charge(single) >= least and not too_coupled:
            return design
        wanted = _better_length(design, design.charge(single), runs_if_ideal, too_coupled)


def _array_designs(
    sizes: tuple[int, ...], runs_if_ideal: float, seed: int, above: float, most_runs: float
) -> Iterator[Design]:
    """Designs of whole arrays that may be worth so many runs, of more than `above` and up to `most_runs`, in order."""
    if above >= most_runs:
        return
    exact = exact_array(sizes)
    candidates: list[Mix] = []
    least = sum(sizes) - len(sizes) + 2.0  # a run more than parameters, to estimate the noise with
    if exact is not None:
        copies = math.ceil(max(runs_if_ideal * (1 - ROUNDING), least) / exact.n_runs)
        candidates.append(Mix(copies * exact.n_runs, copies * exact.n_runs, ((exact, copies),)))
    if len(sizes) > 1 and sum(sizes) <= MOST_MIXED_LEVELS:
        candidates += mixes(sizes, runs_if_ideal)
    for mix in sorted(candidates, key=lambda mix: mix.n_runs):
        if least <= mix.n_runs and above < mix.n_runs <= most_runs:
            yield mixed_design(sizes, mix, seed)
        if exact is not None and mix.parts[0][0] == exact and len(mix.parts) == 1:
            return  # an exact array is always enough


def _first_length(sizes: tuple[int, ...], runs_if_ideal: float, single: bool) -> float:
    """The length to try first: ideal runs, and about what searched or random designs of that length lose.

    Short designs of very many levels are random: with p parameters their least eigenvalue is about (1 - sqrt(p / n))^2,
    and a factor's own errors are n / (n - p) times the ideal ones.
    """
    n_parameters = sum(sizes) - len(sizes)
    if sum(sizes) > MOST_MIXED_LEVELS and runs_if_ideal < n_parameters:
        return runs_if_ideal + n_parameters + (0.0 if single else 2 * math.sqrt(runs_if_ideal * n_parameters))
    length = runs_if_ideal
    for _ in range(4 if len(sizes) > 1 else 0):
        share = n_parameters / max(length, 1.0)
        lost = max(0.75 * share**2, 0.1 * share) if single else 1.6 * share
        length = runs_if_ideal * (1 + min(lost, 1.0))
    return length


def _better_length(tried: Design, charge: float, runs_if_ideal: float, too_coupled: bool) -> float:
    """The length to try after a design that was not enough: what it was short of, and a little more."""
    n, excess = tried.n_runs, min(charge - 1.0, 1.0)
    far = too_coupled or excess == 1.0
    if far and sum(tried.sizes) > MOST_MIXED_LEVELS:  # a random design: n / charge is (sqrt(n) - lost)^2
        better = (math.sqrt(runs_if_ideal) + math.sqrt(n) - math.sqrt(n / charge)) ** 2
    else:  # what is lost falls about as 1 / n: solve n = runs_if_ideal (1 + excess n_tried / n)
        better = (runs_if_ideal + math.sqrt(runs_if_ideal**2 + 4 * runs_if_ideal * excess * n)) / 2
    return max(LENGTHENED * better, 1.02 * n if far else 0.0, n + 1.0)


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
        levels = arrays.collapsed_levels(size.order, sizes, copies, rng)
        parts.append(arrays.collapsed_copies(size, levels))
        counts += arrays.collapsed_counts(size, sizes, levels)
    if rest:
        parts.append(rest_rows(sizes, rest, rng, effort))
        counts += pair_counts(parts[-1], sizes)
    rows = np.concatenate(parts)[rng.permutation(sum(len(part) for part in parts))]
    rarity = 1 - counts.diagonal() * np.repeat(sizes, sizes) / len(rows)  # by what share each level is too rare
    if even and copies and float(rarity.max()) > MOST_UNEVEN:
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
    too_long = not searched and size.n_runs <= LONG_REST * rest and sum(sizes) <= MOST_MIXED_LEVELS
    nearly_whole = rest > NEARLY_WHOLE * size.n_runs and not (even and copies and searched)
    whole = rest and (copies >= WHOLE_COPIES or nearly_whole or too_long)
    return (copies + 1, 0) if whole else (copies, rest)


def most_searched(sizes: tuple[int, ...]) -> int:
    """Runs of the longest nearly orthogonal design of these sizes; beyond, rows are random where no array fits."""
    return MOST_SEARCHED if sum(sizes) <= MANY_LEVELS else MOST_WITH_MANY


def _is_mixed(sizes: tuple[int, ...], n_runs: float) -> bool:
    """Whether so long a design is put together from arrays."""
    long = n_runs > most_searched(sizes) and not factorial_fits(sizes, n_runs)
    return long and sum(sizes) <= MOST_MIXED_LEVELS
