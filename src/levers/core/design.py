"""Rows to run: every level in play equally often, every factor balanced against every other, and measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from levers.core.arrays import collapsed_copies, is_orthogonal, rao_hamming, smallest_array
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


@lru_cache(maxsize=16)
def make_design(sizes: tuple[int, ...], n_runs: int, seed: int) -> Design:
    """A design of at least `n_runs` runs, as good as is cheap to find; levels and runs are shuffled by the seed.

    Whole copies of an exact array where they fit; copies and a nearly orthogonal rest where there are few; a nearly
    orthogonal design below one array; independent random columns where that is too long to search.
    """
    rng = np.random.default_rng(seed)
    size = smallest_array(max(sizes), len(sizes))
    copies = 0 if size is None else n_runs // size.n_runs
    rest = n_runs if size is None else n_runs - copies * size.n_runs
    if size is not None and rest and _another_copy(size.n_runs, copies, rest):
        copies, rest = copies + 1, 0
    parts = []
    if size is not None and copies:
        array = rao_hamming(size.order, size.exponent, len(sizes))
        parts.append(collapsed_copies(array, size.order, sizes, copies, rng))
    if rest:
        parts.append(_shuffled(_searched(sizes, rest), sizes, rng))
    rows = np.concatenate(parts)[rng.permutation(sum(len(part) for part in parts))]
    rows.flags.writeable = False
    kind = "orthogonal array" if not rest else "nearly orthogonal" if rest <= MOST_SWAP_RUNS else "random balanced"
    return Design(rows, sizes, kind)


def _another_copy(array_runs: int, copies: int, rest: int) -> bool:
    """Whether one more copy of the array is better than a searched rest: nearly one anyway, or too long to search."""
    too_long = rest > MOST_SWAP_RUNS and array_runs <= 2.5 * rest
    return copies >= WHOLE_COPIES or rest > 0.75 * array_runs or too_long


@lru_cache(maxsize=64)
def _searched(sizes: tuple[int, ...], n_runs: int) -> Codes:
    """A nearly orthogonal design of these sizes, before shuffling. Remembered, because the search is costly."""
    start = balanced_rows(all_levels(sizes), n_runs, np.random.default_rng(0))
    return swap_improved(start, sizes) if n_runs <= MOST_SWAP_RUNS else start


def _shuffled(rows: Codes, sizes: tuple[int, ...], rng: np.random.Generator) -> Codes:
    """The same design with the levels of every factor renamed at random."""
    return np.stack([rng.permutation(m).astype(np.int16)[rows[:, k]] for k, m in enumerate(sizes)], axis=1)


@lru_cache(maxsize=16)
def largest_design(sizes: tuple[int, ...], most_runs: int, seed: int) -> Design:
    """A design of at most `most_runs` runs, for a fixed budget.

    >>> largest_design((3, 3, 3), 26, seed=0).n_runs
    26
    """
    wanted = most_runs
    while (design := make_design(sizes, wanted, seed)).n_runs > most_runs:
        wanted -= max(1, (design.n_runs - most_runs) // 2)
    return design


@lru_cache(maxsize=16)
def certified_design(sizes: tuple[int, ...], runs_if_ideal: float, seed: int) -> Design:
    """A design that is worth at least `runs_if_ideal` ideal runs: n / inflation >= that number, as measured.

    >>> design = certified_design((3, 4, 2), 50.0, seed=1)
    >>> design.n_runs / design.inflation >= 50
    True
    """
    wanted = max(math.ceil(runs_if_ideal), sum(m - 1 for m in sizes) + 2)
    while True:
        design = make_design(sizes, wanted, seed)
        if design.n_runs >= runs_if_ideal * design.inflation:
            return design
        grown = runs_if_ideal * design.inflation if math.isfinite(design.inflation) else 2.0 * wanted
        wanted = max(math.ceil(min(grown, 1.25 * wanted)), design.n_runs + 1)
