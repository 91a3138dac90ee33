"""Rows to run: every level in play equally often, every factor balanced against every other, and measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from levers.core.arrays import ArraySize, collapsed_copies, is_orthogonal, rao_hamming, smallest_array
from levers.core.moments import pair_counts
from levers.core.near_orthogonal import swap_improved
from levers.core.space import Codes

ActiveLevels: TypeAlias = tuple[tuple[int, ...], ...]
"""The surviving levels of each factor (S_1, ..., S_K)."""

SHORTEST_BLOCK = 4096
RUNS_PER_PARAMETER = 16
"""A block this many times longer than the model has parameters costs at most 1/15 of the precision of fresh rows."""
MOST_SWAP_RUNS = 400
"""Swapping compares all pairs of runs; beyond this many, chance balance or an exact array does as well."""
QUICK_SEARCH = 200_000
"""Squared runs times factors up to which a search from scratch takes a few milliseconds."""
WARM_ROUNDS = 6
"""Rounds of swaps per column that improve a design which is nearly orthogonal to begin with."""
WHOLE_COPIES = 5
"""From this many copies of an array on, a design is rounded up to whole copies."""


def all_levels(n_levels: Sequence[int]) -> ActiveLevels:
    """Every level of every factor.

    >>> all_levels([2, 3])
    ((0, 1), (0, 1, 2))
    """
    return tuple(tuple(range(m)) for m in n_levels)


def balanced_rows(active: ActiveLevels, n_runs: int, rng: np.random.Generator) -> Codes:
    """Runs in which each factor's levels in play are used equally often, up to one, in independent random orders.

    The independent orders are what balances factors against each other, in expectation: equal counts alone do not (two
    identical columns have them, and their contrasts cannot be told apart; docs/decisions/0002).

    >>> rows = balanced_rows(((0, 1), (0, 2, 3)), 6, np.random.default_rng(0))
    >>> np.bincount(rows[:, 1]).tolist()
    [2, 0, 2, 2]
    """
    turn = np.arange(n_runs)
    columns = np.stack([np.asarray(levels, dtype=np.int16)[turn % len(levels)] for levels in active])
    return np.ascontiguousarray(rng.permuted(columns, axis=1, out=columns).T)


def block_length(active: ActiveLevels, longest: int) -> int:
    """The length of the blocks that a long design repeats: a multiple of every |S_k| if it can be.

    >>> block_length(((0, 1), (0, 1, 2)), 100), block_length((tuple(range(11)), tuple(range(13))), 100)
    (96, 100)
    >>> block_length(tuple(tuple(range(4)) for _ in range(100)), 16_384)
    4800
    """
    together = math.lcm(*(len(levels) for levels in active))
    n_parameters = sum(len(levels) - 1 for levels in active)
    longest = min(longest, max(SHORTEST_BLOCK, RUNS_PER_PARAMETER * n_parameters))
    return longest - longest % together if together <= longest else longest


@lru_cache(maxsize=4)
def repeated_block(active: ActiveLevels, n_runs: int, seed: int) -> Codes:
    """The block that a long design repeats, from its seed. Remembered, because it is asked for many times in a row.

    A design of many thousand runs gains nothing from fresh rows, and its pair counts are then a multiple of one block's
    (docs/decisions/0005).
    """
    rows = balanced_rows(active, n_runs, np.random.default_rng(seed))
    rows.flags.writeable = False
    return rows


@dataclass(frozen=True, eq=False)
class Design:
    """Runs over factors of the given sizes, with what was measured of them.

    `inflation` is the largest factor by which any combination of contrasts is less precise than in an ideal design of
    as many runs; 1 is perfect. `mean_inflation` is its average over directions, `imbalance` the largest difference
    between a pair count and its ideal, over the ideal.

    >>> design = make_design((3, 3, 3), 9, seed=0)
    >>> design.kind, design.n_runs, design.orthogonal, round(design.inflation, 6), design.imbalance
    ('orthogonal array', 9, True, 1.0, 0.0)
    """

    rows: Codes
    sizes: tuple[int, ...]
    kind: str

    @property
    def n_runs(self) -> int:
        """How many runs."""
        return len(self.rows)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Pair counts of all levels."""
        return pair_counts(self.rows, self.sizes)

    @cached_property
    def orthogonal(self) -> bool:
        """Whether factors are exactly orthogonal to each other, counted pair by pair."""
        return is_orthogonal(self.counts, self.sizes, self.n_runs)

    @cached_property
    def spectrum(self) -> list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]]:
        """Eigenvalues and vectors of the information matrix (ideal: identity), one part per factor if orthogonal.

        Each part has the positions of its factors, the eigenvalues, and the eigenvectors in contrast coordinates.
        """
        every = np.arange(len(self.sizes))
        parts = list(every[:, None]) if self.orthogonal else [every]
        found = []
        for part in parts:
            values, vectors = np.linalg.eigh(self._information(part))
            found.append((part, values, vectors))
        return found

    def _information(self, part: NDArray[np.int64]) -> NDArray[np.float64]:
        """sqrt(m_k m_l)/n Q_k^T (N_kl - n_k n_l^T / n) Q_l for the factors of one part."""
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        at = np.concatenate([np.arange(starts[k], starts[k + 1]) for k in part])
        single = self.counts.diagonal()[at].astype(np.float64)
        centred = self.counts[np.ix_(at, at)] - np.outer(single, single) / self.n_runs
        basis = _stacked_basis([self.sizes[k] for k in part])
        information: NDArray[np.float64] = basis.T @ centred @ basis / self.n_runs
        return information

    @cached_property
    def inflation(self) -> float:
        """1 / least eigenvalue of the information matrix; infinite when a contrast is not determined."""
        least = min(float(values.min(initial=1.0)) for _, values, _ in self.spectrum)
        return 1.0 / least if least > 1e-9 else math.inf

    @cached_property
    def single_inflation(self) -> float:
        """The same for combinations of contrasts inside one factor: what counts when only one factor can lose."""
        if not math.isfinite(self.inflation):
            return math.inf
        return max(float(np.linalg.eigvalsh(block).max(initial=0.0)) for block in self.error_blocks)

    @cached_property
    def error_blocks(self) -> list[NDArray[np.float64]]:
        """Each factor's own part of the inverse information: the covariance of its errors, ideal being the identity."""
        blocks: dict[int, NDArray[np.float64]] = {}
        for part, values, vectors in self.spectrum:
            inverse = (vectors / values) @ vectors.T
            begin = 0
            for k in part.tolist():
                end = begin + self.sizes[k] - 1
                blocks[k] = inverse[begin:end, begin:end]
                begin = end
        return [blocks[k] for k in range(len(self.sizes))]

    def charge(self, single: bool) -> float:
        """The inflation that a certificate must pay: for all factors at once, or for any one alone."""
        return self.single_inflation if single else self.inflation

    @cached_property
    def mean_inflation(self) -> float:
        """The average over directions of 1 / eigenvalue."""
        values = np.concatenate([values for _, values, _ in self.spectrum])
        return float(np.mean(1.0 / values)) if values.min() > 1e-9 else math.inf

    @cached_property
    def imbalance(self) -> float:
        """max |n_ij m_k m_l / n - 1| over levels of different factors (of one factor: level counts)."""
        ideal = self.n_runs / np.repeat(self.sizes, self.sizes).astype(np.float64)
        expected = np.outer(ideal, ideal) / self.n_runs
        owner = np.repeat(np.arange(len(self.sizes)), self.sizes)
        apart = owner[:, None] != owner[None, :]
        level = float(np.abs(self.counts.diagonal() / ideal - 1).max())
        pairs = np.abs(self.counts / expected - 1)[apart]
        return max(level, float(pairs.max(initial=0.0)))


def contrast_basis(m: int) -> NDArray[np.float64]:
    """An orthonormal basis of the contrasts of m levels, as columns (Helmert).

    >>> contrast_basis(2).round(3).tolist()
    [[0.707], [-0.707]]
    """
    basis = np.zeros((m, m - 1))
    for j in range(1, m):
        basis[:j, j - 1] = 1.0
        basis[j, j - 1] = -j
    return np.asarray(basis / np.sqrt((basis**2).sum(axis=0)))


def _stacked_basis(sizes: Sequence[int]) -> NDArray[np.float64]:
    """Contrast bases of several factors side by side, each scaled by sqrt(m_k)."""
    full = np.zeros((sum(sizes), sum(m - 1 for m in sizes)))
    row = column = 0
    for m in sizes:
        full[row : row + m, column : column + m - 1] = math.sqrt(m) * contrast_basis(m)
        row, column = row + m, column + m - 1
    return full


class Origin(NamedTuple):
    """Where some factors come from: sizes and runs of the study's first design, and which of its columns these are.

    A design found for all of them is a good start for any part of them, so a study searches in earnest only once.
    """

    sizes: tuple[int, ...]
    columns: tuple[int, ...]
    n_runs: int


@lru_cache(maxsize=16)
def make_design(sizes: tuple[int, ...], n_runs: int, seed: int, origin: Origin | None = None) -> Design:
    """A design of at least `n_runs` runs, as good as is cheap to find; levels and runs are shuffled by the seed.

    Copies of the full factorial or of an exact array where they fit; copies and a nearly orthogonal rest where there
    are few; a nearly orthogonal design below one array; independent random columns where that is too long to search.
    """
    rng = np.random.default_rng(seed)
    if math.prod(sizes) <= max(n_runs, max(sizes)):
        return _factorial(sizes, n_runs, rng)
    size = smallest_array(max(sizes), len(sizes))
    copies, rest = _copies_and_rest(size, sizes, n_runs)
    return _assembled(sizes, size, copies, rest, origin, rng)


def _assembled(
    sizes: tuple[int, ...],
    size: ArraySize | None,
    copies: int,
    rest: int,
    origin: Origin | None,
    rng: np.random.Generator,
) -> Design:
    """Copies of an array and a rest of nearly orthogonal or random rows, in random order."""
    parts = []
    if size is not None and copies:
        array = rao_hamming(size.order, size.exponent, len(sizes))
        parts.append(collapsed_copies(array, size.order, sizes, copies, rng))
    if rest:
        parts.append(_nearly_orthogonal(sizes, rest, origin, rng))
    rows = np.concatenate(parts)[rng.permutation(sum(len(part) for part in parts))]
    rows.flags.writeable = False
    kind = "orthogonal array" if not rest else "nearly orthogonal" if rest <= MOST_SWAP_RUNS else "random balanced"
    return Design(rows, sizes, kind)


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


def _copies_and_rest(size: ArraySize | None, sizes: tuple[int, ...], n_runs: int) -> tuple[int, int]:
    """How many copies of an exact array to use, and how many runs to search for.

    An array that needs no collapsing is perfect. One that does leaves level counts uneven until there are several
    copies, so short designs are better searched.
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
    whole = rest and (copies >= WHOLE_COPIES or rest > 0.75 * size.n_runs or too_long)
    return (copies + 1, 0) if whole else (copies, rest)


def _nearly_orthogonal(sizes: tuple[int, ...], n_runs: int, origin: Origin | None, rng: np.random.Generator) -> Codes:
    """A nearly orthogonal design: searched from scratch where that is quick, else improved from the study's first."""
    if n_runs > MOST_SWAP_RUNS:
        return balanced_rows(all_levels(sizes), n_runs, rng)
    if origin is None or origin.sizes == sizes or n_runs**2 * len(sizes) <= QUICK_SEARCH:
        found = _searched(sizes, n_runs)
        return np.stack([rng.permutation(m).astype(np.int16)[found[:, k]] for k, m in enumerate(sizes)], axis=1)
    first = _searched(origin.sizes, min(MOST_SWAP_RUNS, origin.n_runs))
    copies = [rng.permutation(first) for _ in range(-(-n_runs // len(first)))]
    start = np.concatenate(copies)[:n_runs]
    columns = [
        _merged_levels(start[:, column], origin.sizes[column], m, rng)
        for column, m in zip(origin.columns, sizes, strict=True)
    ]
    return swap_improved(np.stack(columns, axis=1), sizes, rounds=WARM_ROUNDS)


def _merged_levels(column: Codes, m_from: int, m_to: int, rng: np.random.Generator) -> Codes:
    """A column with fewer levels: whole levels are merged, which keeps it orthogonal; then counts are evened out."""
    merged = (rng.permutation(m_from) % m_to)[column]
    wanted = np.bincount(np.arange(len(column)) % m_to, minlength=m_to)
    spare = np.concatenate([rng.permutation(np.flatnonzero(merged == level))[wanted[level] :] for level in range(m_to)])
    counts = np.bincount(merged, minlength=m_to)
    merged[rng.permutation(spare)] = np.repeat(np.arange(m_to), np.maximum(wanted - counts, 0))
    return merged.astype(np.int16)


@lru_cache(maxsize=64)
def _searched(sizes: tuple[int, ...], n_runs: int) -> Codes:
    """A nearly orthogonal design of these sizes, before shuffling. Remembered, because the search is costly."""
    return swap_improved(balanced_rows(all_levels(sizes), n_runs, np.random.default_rng(0)), sizes)


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
    sizes: tuple[int, ...], runs_if_ideal: float, seed: int, origin: Origin | None = None, single: bool = False
) -> Design:
    """A design that is worth at least `runs_if_ideal` ideal runs: n / inflation >= that number, as measured.

    With `single`, only one factor can lose anything, and only precision inside factors counts. A few lengths are tried,
    each from what the last one was short of.

    >>> design = certified_design((3, 4, 2), 50.0, seed=1)
    >>> design.n_runs / design.inflation >= 50
    True
    """
    n_parameters = sum(m - 1 for m in sizes)
    margin = 0.0 if len(sizes) == 1 else min(0.7 * n_parameters, 0.04 * runs_if_ideal + 10)
    wanted = max(runs_if_ideal + margin, n_parameters + 2.0)
    while True:
        design = make_design(sizes, math.ceil(wanted), seed, origin)
        if design.n_runs >= runs_if_ideal * design.charge(single):
            return design
        short = min(runs_if_ideal * design.charge(single), 1.5 * wanted) - design.n_runs
        wanted = design.n_runs + max(1, math.ceil(0.6 * short))
