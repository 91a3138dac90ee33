"""What is chosen among, and what it is made of: the levels of a factor, or combinations of levels of tied factors.

Factors that forbidden combinations tie together are chosen together, among the combinations allowed. Their effects
still add up, so a combination is estimated from its parts: two factors of four levels have 6 parameters, where one
factor of 15 combinations would have 14.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from levers.core.model.evidence import Evidence
from levers.core.model.fit import Fit
from levers.core.model.level_index import Numbers, contrast_basis, level_pairs, offsets
from levers.core.space import Codes

Parts: TypeAlias = tuple[tuple[tuple[int, ...], ...], ...]
"""For each factor the level of every part in each of its combinations; () for a factor that is its own only part."""


@dataclass(frozen=True)
class Choices:
    """Factors with so many levels each, some of them made of parts.

    >>> tied = Choices((3, 2), (((0, 0), (0, 1), (1, 0)), ()))
    >>> tied.sizes, tied.rows(np.array([[2, 1]])).tolist()
    ((2, 2, 2), [[1, 0, 1]])
    """

    n_levels: tuple[int, ...]
    parts: Parts = ()

    @cached_property
    def is_tied(self) -> bool:
        """Whether any factor is made of parts."""
        return any(self.parts)

    @cached_property
    def tables(self) -> tuple[Codes, ...]:
        """For each factor the levels of its parts, a row for every level of its own."""
        given = self.parts or ((),) * len(self.n_levels)
        return tuple(
            np.array(table, dtype=np.int16) if table else np.arange(m, dtype=np.int16)[:, None]
            for m, table in zip(self.n_levels, given, strict=True)
        )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of levels of all parts, factor by factor."""
        return tuple(int(m) for table in self.tables for m in table.max(axis=0) + 1)

    @property
    def n_parameters(self) -> int:
        """Contrasts to estimate."""
        return sum(self.sizes) - len(self.sizes)

    def rows(self, codes: Codes) -> Codes:
        """Levels of all parts, from levels of the factors."""
        if not self.is_tied:
            return codes
        return np.concatenate([table[codes[:, k]] for k, table in enumerate(self.tables)], axis=1)

    @cached_property
    def places(self) -> tuple[NDArray[np.int64], ...]:
        """For each factor where its parts' levels are in the row of all levels, a row for every level of its own."""
        starts, first, found = offsets(self.sizes), 0, []
        for table in self.tables:
            found.append(table + starts[first : first + table.shape[1]])
            first += table.shape[1]
        return tuple(found)

    def n_open_parameters(self, factors: Sequence[int], active: Sequence[Sequence[int]]) -> int:
        """Contrasts between the levels in play of some factors."""
        if not self.is_tied:
            return sum(len(active[k]) - 1 for k in factors)
        used = (self.tables[k][list(active[k])] for k in factors)
        return sum(len(set(column.tolist())) - 1 for table in used for column in table.T)

    def values(self, theta: Numbers) -> list[Numbers]:
        """The estimate of every level of every factor: the sum over its parts."""
        return [theta[places].sum(axis=1) for places in self.places]

    def coupling(self, fit: Fit, factors: Sequence[int]) -> float:
        """The largest eigenvalue of the errors' covariance with each factor's own block made the identity.

        1 if the errors of these factors are independent. Infinite if the runs do not determine every contrast.
        """
        if not fit.determined or (fit.moments.level_counts == 0).any():
            return math.inf
        starts, blocks, first = offsets(self.sizes), [], 0
        owner = [k for k, table in enumerate(self.tables) for _ in range(table.shape[1])]
        ends, columns = [0], []
        for k in factors:
            for part in (i for i, o in enumerate(owner) if o == k):
                at = np.arange(starts[part], starts[part + 1])
                basis = np.zeros((starts[-1], len(at) - 1))
                basis[at] = contrast_basis(len(at))
                columns.append(basis)
                first += len(at) - 1
            ends.append(first)
        if first == 0:
            return 1.0
        basis = np.concatenate(columns, axis=1)
        covariance = basis.T @ fit.inverse @ basis
        for begin, end in pairwise(ends):
            values, vectors = np.linalg.eigh(covariance[begin:end, begin:end])
            blocks.append((vectors / np.sqrt(values)) @ vectors.T)
        whiten = np.zeros_like(covariance)
        for block, (begin, end) in zip(blocks, pairwise(ends), strict=True):
            whiten[begin:end, begin:end] = block
        return float(np.linalg.eigvalsh(whiten @ covariance @ whiten)[-1])

    def evidence(self, fit: Fit) -> Evidence:
        """Differences between the levels of each factor with their information, 1 over the variance in sigma^2.

        A difference that the runs do not determine has no information.
        """
        none, theta = Evidence.none(self.n_levels), np.nan_to_num(fit.theta)
        if not self.is_tied:
            these, those = level_pairs(self.n_levels)
            return none.add(theta[these] - theta[those], fit.pair_variances(these, those))
        values = self.values(theta)
        differences = np.concatenate([(own[:, None] - own[None, :]).ravel() for own in values])
        variances = np.concatenate([self.variances(fit, k).ravel() for k in range(len(self.n_levels))])
        return none.add(differences, variances)

    def variances(self, fit: Fit, factor: int) -> Numbers:
        """Variances over sigma^2 of the differences between the levels of a factor; infinite if not determined."""
        places = self.places[factor]
        if places.shape[1] == 1:
            these, those = np.meshgrid(places[:, 0], places[:, 0], indexing="ij")
            return fit.pair_variances(these.ravel(), those.ravel()).reshape(these.shape)
        m = len(places)
        if not fit.determined:
            return np.full((m, m), np.inf)
        inverse = fit.inverse
        covariance = sum(
            inverse[np.ix_(places[:, a], places[:, b])] for a in range(places.shape[1]) for b in range(places.shape[1])
        )
        own = np.diagonal(covariance)
        used = np.all(fit.moments.level_counts[places] > 0, axis=1)
        spread = np.maximum(own[:, None] + own[None, :] - 2 * covariance, 0.0)
        return np.where(used[:, None] & used[None, :], spread, np.inf)
