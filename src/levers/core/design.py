"""A design and what was measured of it."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from levers.core.arrays import is_orthogonal
from levers.core.moments import pair_counts
from levers.core.space import Codes


@dataclass(frozen=True, eq=False)
class Design:
    """Runs over factors of the given sizes, with what was measured of them.

    `inflation` is the largest factor by which any combination of contrasts is less precise than in an ideal design of
    as many runs; 1 is perfect. `mean_inflation` is its average over directions, `imbalance` the largest difference
    between a pair count and its ideal, over the ideal.

    >>> from levers.core.construction import make_design
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
    def digest(self) -> str:
        """A short fingerprint of the rows: a design made again from its seed must have the same one."""
        return f"{zlib.crc32(np.ascontiguousarray(self.rows, dtype='<i2').tobytes()):08x}"

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
        found = []
        for part in self._parts:
            values, vectors = np.linalg.eigh(self._information(part))
            found.append((part, values, vectors))
        return found

    @cached_property
    def _parts(self) -> list[NDArray[np.int64]]:
        """Factors that have to be looked at together: one by one if the design is orthogonal."""
        every = np.arange(len(self.sizes))
        return list(every[:, None]) if self.orthogonal else [every]

    def _information(self, part: NDArray[np.int64]) -> NDArray[np.float64]:
        """sqrt(m_k m_l)/n Q_k^T (N_kl - n_k n_l^T / n) Q_l for the factors of one part."""
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        at = np.concatenate([np.arange(starts[k], starts[k + 1]) for k in part])
        single = self.counts.diagonal()[at].astype(np.float64)
        centred = self.counts[np.ix_(at, at)] - np.outer(single, single) / self.n_runs
        # factor by factor: the basis of all of them is mostly zeros
        places = _places([self.sizes[k] for k in part])
        half = np.empty((sum(m - 1 for m in (self.sizes[k] for k in part)), len(at)))
        for levels, contrasts, basis in places:
            half[contrasts] = basis.T @ centred[levels]
        information = np.empty((len(half), len(half)))
        for levels, contrasts, basis in places:
            information[:, contrasts] = half[:, levels] @ basis
        return information / self.n_runs

    @cached_property
    def inflation(self) -> float:
        """1 / least eigenvalue of the information matrix; infinite when a contrast is not determined."""
        if "spectrum" in self.__dict__:
            least = min(float(values.min(initial=1.0)) for _, values, _ in self.spectrum)
        else:  # without vectors, which take most of the time
            least = min(float(np.linalg.eigvalsh(self._information(part)).min(initial=1.0)) for part in self._parts)
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

    @cached_property
    def coupling(self) -> float:
        """p such that errors T, made alike inside factors by added noise, satisfy T <= p diag(T): 1 if independent.

        T has `single_inflation` on its diagonal and the inverse information between factors (docs/theory, section 6).
        """
        if self.orthogonal or not math.isfinite(self.inflation):
            return 1.0 if self.orthogonal else math.inf
        [(_, values, vectors)] = self.spectrum
        between = (vectors / values) @ vectors.T
        begin = 0
        for m in self.sizes:
            between[begin : begin + m - 1, begin : begin + m - 1] = 0.0
            begin += m - 1
        return 1.0 + float(np.linalg.eigvalsh(between)[-1]) / self.single_inflation

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


@lru_cache(maxsize=256)
def contrast_basis(m: int) -> NDArray[np.float64]:
    """An orthonormal basis of the contrasts of m levels, as columns (Helmert).

    >>> contrast_basis(2).round(3).tolist()
    [[0.707], [-0.707]]
    """
    basis = np.zeros((m, m - 1))
    for j in range(1, m):
        basis[:j, j - 1] = 1.0
        basis[j, j - 1] = -j
    basis /= np.sqrt((basis**2).sum(axis=0))
    basis.flags.writeable = False
    return basis


def _places(sizes: Sequence[int]) -> list[tuple[slice, slice, NDArray[np.float64]]]:
    """For each factor: where its levels are, where its contrasts are, and its basis scaled by sqrt(m_k)."""
    found = []
    level = contrast = 0
    for m in sizes:
        found.append((slice(level, level + m), slice(contrast, contrast + m - 1), math.sqrt(m) * contrast_basis(m)))
        level, contrast = level + m, contrast + m - 1
    return found
