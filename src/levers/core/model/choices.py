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
from levers.core.model.swaps import n_swaps
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

    @property
    def n_rivals(self) -> int:
        """Levels that are not chosen, whichever are."""
        return sum(m - 1 for m in self.n_levels)

    @property
    def n_pairs(self) -> int:
        """Ordered pairs of levels of one factor."""
        return sum(m * (m - 1) for m in self.n_levels)

    def rows(self, codes: Codes) -> Codes:
        """Levels of all parts, from levels of the factors."""
        if not self.is_tied:
            return codes
        return np.concatenate([table[codes[:, k]] for k, table in enumerate(self.tables)], axis=1)

    def codes(self, rows: Codes) -> Codes:
        """Levels of the factors, from allowed levels of all parts.

        >>> tied = Choices((3, 2), (((0, 0), (0, 1), (1, 0)), ()))
        >>> tied.codes(np.array([[1, 0, 1], [0, 1, 0]])).tolist()
        [[2, 1], [1, 0]]
        """
        found: Codes = np.empty((len(rows), len(self.n_levels)), dtype=np.int16)
        for k, table in enumerate(self.tables):
            own = rows[:, list(self.parts_of(k))]
            found[:, k] = own[:, 0] if table.shape[1] == 1 else (own[:, None] == table[None]).all(axis=2).argmax(axis=1)
        return found

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

    @cached_property
    def determined(self) -> "Choices":
        """The same, but parts of which what is allowed cannot tell the effects apart are no parts: their combinations
        are levels of one factor, whatever these do.

        >>> Choices((2, 3), (((0, 0), (1, 1)), ((0, 0), (0, 1), (1, 0)))).determined.parts
        ((), ((0, 0), (0, 1), (1, 0)))
        """
        return Choices(self.n_levels, tuple(parts if _tells_apart(parts) else () for parts in self.parts))

    @cached_property
    def allowed_levels(self) -> tuple[NDArray[np.int64], ...]:
        """For each part the levels of it that any combination has."""
        return tuple(np.unique(column).astype(np.int64) for table in self.tables for column in table.T)

    @property
    def sizes_allowed(self) -> tuple[int, ...]:
        """How many levels each part has that can be set, in order of size, parts with only one left out.

        >>> Choices((2, 4), (((0, 0), (0, 1)), ())).sizes_allowed
        (2, 4)
        """
        return tuple(sorted(len(levels) for levels in self.allowed_levels if len(levels) > 1))

    def coupling_of_parts(self, fit: Fit, factors: Sequence[int]) -> float:
        """The coupling of the parts of some factors with all others of them, in the levels that can be set at all."""
        parts = [part for k in factors for part in self.parts_of(k)]
        return Choices(self.sizes).coupling(fit, parts, self.allowed_levels)

    def coupling(self, fit: Fit, factors: Sequence[int], levels: Sequence[NDArray[np.int64]] | None = None) -> float:
        """The largest eigenvalue of the errors' covariance with each factor's own block made the identity.

        1 if the errors of these factors are independent. Infinite if the runs do not determine every contrast, or every
        one of some `levels` of every part, if only these can be set.
        """
        starts, blocks, first = offsets(self.sizes), [], 0
        counted = [np.arange(m) for m in self.sizes] if levels is None else levels
        used = [fit.moments.level_counts[starts[part] + own] > 0 for part, own in enumerate(counted)]
        if not fit.determined or not all(some.all() for some in used):
            return math.inf
        owner = [k for k, table in enumerate(self.tables) for _ in range(table.shape[1])]
        ends, columns = [0], []
        for k in factors:
            for part in (i for i, o in enumerate(owner) if o == k):
                at = starts[part] + counted[part]
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

    def parts_of(self, factor: int) -> range:
        """Which of all parts a factor is made of."""
        first = sum(table.shape[1] for table in self.tables[:factor])
        return range(first, first + self.tables[factor].shape[1])

    def least_known(
        self, fit: Fit, factor: int, levels: Sequence[int], best: int | None = None
    ) -> list[tuple[int, float]]:
        """For each part of a factor how many levels of it some of the factor's levels have, and the least information
        on a difference between two of them, or between that of the `best` and another one."""
        starts, found = offsets(self.sizes), []
        for column, part in enumerate(self.parts_of(factor)):
            table = self.tables[factor][:, column]
            used = np.unique(table[list(levels)]).astype(np.int64)
            these, those = (grid.ravel() for grid in np.meshgrid(used, used, indexing="ij"))
            pairs = these < those if best is None else (these == table[best]) & (those != table[best])
            if pairs.any():
                variances = fit.pair_variances(these[pairs] + starts[part], those[pairs] + starts[part])
                found.append((len(used), float(1 / variances.max())))
        return found

    def n_swaps(self, factor: int, levels: Sequence[int]) -> int | None:
        """How many of some levels of a factor can be mistaken for its best one by swapping levels of several parts
        (core/model/swaps.py); None where these levels are too many."""
        return n_swaps(self.parts[factor], tuple(sorted(levels)))

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


def _tells_apart(parts: tuple[tuple[int, ...], ...]) -> bool:
    """Whether effects of parts that add up can be told from these combinations, but for a constant of each part."""
    if not parts:
        return True
    table = np.array(parts, dtype=np.int64)
    columns = [table[:, [k]] == np.unique(table[:, k]) for k in range(table.shape[1])]
    indicators = np.concatenate(columns, axis=1).astype(np.float64)
    return bool(np.linalg.matrix_rank(indicators) == indicators.shape[1] - table.shape[1] + 1)
