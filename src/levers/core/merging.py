"""Factors that are studied as one: because they influence each other, or because some combinations cannot be run.

Such factors become one factor whose levels are the combinations allowed. An additive model of two factors is a special
case of any model of the pair, so nothing is assumed that was not assumed before, every run of the merged space can be
made, and every theorem applies to it as it stands.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from levers.core.space import Assignment, Codes, Factor, Level, Space
from levers.errors import InvalidSpaceError, about

MAX_MERGED = 256
"""The most combinations that one merged factor may have."""

Forbidden = tuple[tuple[tuple[str, Level], ...], ...]
"""Combinations that cannot be run, each as (factor, level) parts."""
Groups = tuple[tuple[str, ...], ...]
"""Factors that are studied as one, by name."""


def merged_groups(space: Space, given: Iterable[Sequence[str]]) -> Groups:
    """Check groups of factors against the space: each names two or more.

    >>> merged_groups(Space.of({"heat": ["low", "high"], "speed": [1, 2]}), [["speed", "heat"]])
    (('speed', 'heat'),)
    """
    found = []
    for group in given:
        names = () if isinstance(group, str) or not isinstance(group, Sequence) else tuple(group)
        if len(names) < 2 or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise InvalidSpaceError(
                f"factors to be merged are two or more different names, not {group!r}", field="merged"
            )
        with about("merged"):
            for name in names:
                space.position(name)
        found.append(names)
    return tuple(found)


def forbidden_combinations(space: Space, given: Iterable[Mapping[str, Level]]) -> Forbidden:
    """Check combinations against the space: each names two or more factors and one level of each.

    >>> space = Space.of({"heat": ["low", "high"], "speed": [1, 2]})
    >>> forbidden_combinations(space, [{"heat": "high", "speed": 2}])
    ((('heat', 'high'), ('speed', 2)),)
    """
    found = []
    for combination in given:
        if not isinstance(combination, Mapping) or len(combination) < 2:
            raise InvalidSpaceError(
                f"a forbidden combination names two or more factors, not {combination!r}", field="forbidden"
            )
        with about("forbidden"):
            parts = [
                (factor := space.factors[space.position(name)], factor.code(level))
                for name, level in combination.items()
            ]
        found.append(tuple((factor.name, factor.levels[code]) for factor, code in parts))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Merging:
    """The space as people see it (`outer`) and as the algorithm sees it (`inner`), and the way between them.

    >>> space = Space.of({"heat": ["low", "high"], "speed": [1, 2], "shift": ["day", "night"]})
    >>> merging = Merging.of(space, ((("heat", "high"), ("speed", 2)),))
    >>> merging.inner.names, merging.inner.n_levels
    (('heat + speed', 'shift'), (3, 2))
    >>> merging.inner.factors[0].levels[2], dict(merging.assignment([2, 1]))
    ('high, 1', {'heat': 'high', 'speed': 1, 'shift': 'night'})
    """

    outer: Space
    inner: Space
    groups: tuple[tuple[int, ...], ...]
    tables: tuple[Codes, ...]

    @classmethod
    def of(cls, space: Space, forbidden: Forbidden, merged: Groups = ()) -> "Merging":
        """Merge what is to be merged and what forbidden combinations tie together; else both spaces are the same."""
        parts = [{k} for k in range(space.n_factors)]
        for names in (*([name for name, _ in combination] for combination in forbidden), *merged):
            tied = {space.position(name) for name in names}
            touched = [part for part in parts if part & tied]
            parts = [part for part in parts if not part & tied] + [set().union(*touched)]
        groups = tuple(sorted(tuple(sorted(part)) for part in parts))
        tables = tuple(_allowed(space, group, forbidden) for group in groups)
        if not forbidden and not merged:
            return cls(space, space, groups, tables)
        factors = [_merged(space, group, table) for group, table in zip(groups, tables, strict=True)]
        taken = set(space.names)
        named = [
            factor if len(group) == 1 else replace(factor, name=_free(factor.name, taken))
            for factor, group in zip(factors, groups, strict=True)
        ]
        return cls(space, Space(named), groups, tables)

    @property
    def is_merged(self) -> bool:
        """Whether any factors were merged."""
        return self.inner is not self.outer

    def expand(self, codes: ArrayLike) -> Codes:
        """Level positions of all factors, from rows of the inner space."""
        inner = np.asarray(codes, dtype=np.int16)
        if not self.is_merged:
            return inner
        outer = np.empty((len(inner), self.outer.n_factors), dtype=np.int16)
        for column, (group, table) in enumerate(zip(self.groups, self.tables, strict=True)):
            outer[:, group] = table[inner[:, column]]
        return outer

    def contract(self, codes: ArrayLike) -> Codes:
        """Rows of the inner space, from level positions of all factors; -1 where a combination is forbidden."""
        outer = np.asarray(codes, dtype=np.int16)
        if not self.is_merged:
            return outer
        inner = np.full((len(outer), self.inner.n_factors), -1, dtype=np.int16)
        for column, (group, table) in enumerate(zip(self.groups, self.tables, strict=True)):
            sizes = [self.outer.n_levels[k] for k in group]
            places = np.full(math.prod(sizes), -1, dtype=np.int16)
            places[np.ravel_multi_index(tuple(table.T), sizes)] = np.arange(len(table))
            inner[:, column] = places[np.ravel_multi_index(tuple(outer[:, group].T), sizes)]
        return inner

    def column_of(self, name: str) -> int:
        """The position of the inner factor that has a factor as one of its parts."""
        place = self.outer.position(name)
        return next(i for i, group in enumerate(self.groups) if place in group)

    def assignment(self, codes: ArrayLike) -> Assignment:
        """The assignment of all factors that an inner row stands for."""
        return self.outer.assignment(self.expand(np.asarray(codes, dtype=np.int16)[None, :])[0])


def _allowed(space: Space, group: Sequence[int], forbidden: Forbidden) -> Codes:
    """The combinations of a group's levels that can be run."""
    if len(group) == 1:
        return np.arange(space.n_levels[group[0]], dtype=np.int16)[:, None]
    names = [space.names[k] for k in group]
    n_cells = math.prod(space.n_levels[k] for k in group)
    if n_cells > 100 * MAX_MERGED:
        raise InvalidSpaceError(_too_many(names, n_cells), field="merged")
    ruled_out = [
        {space.position(name): space.factors[space.position(name)].code(level) for name, level in combination}
        for combination in forbidden
    ]
    cells = [
        cell
        for cell in product(*(range(space.n_levels[k]) for k in group))
        if not any(all(dict(zip(group, cell, strict=True)).get(k) == code for k, code in c.items()) for c in ruled_out)
    ]
    if len(cells) < 2:
        raise InvalidSpaceError(
            f"the forbidden combinations leave {len(cells)} settings of {', '.join(names)}", field="forbidden"
        )
    if len(cells) > MAX_MERGED:
        raise InvalidSpaceError(_too_many(names, len(cells)), field="merged")
    return np.array(cells, dtype=np.int16)


def _too_many(names: Sequence[str], n_cells: int) -> str:
    return (
        f"{', '.join(names)} would be studied as one factor of {n_cells} combinations, more than {MAX_MERGED}; "
        "merge or forbid fewer, or leave out levels"
    )


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += " (merged)"
    taken.add(name)
    return name


def _merged(space: Space, group: Sequence[int], table: Codes) -> Factor:
    factors = [space.factors[k] for k in group]
    if len(group) == 1:
        return factors[0]
    parts = [[str(f.levels[code]) for f, code in zip(factors, row, strict=True)] for row in table]
    levels = [", ".join(row) for row in parts]
    if len(set(levels)) < len(levels):  # where levels have commas of their own
        levels = [", ".join(repr(part) for part in row) for row in parts]
    return Factor(" + ".join(f.name for f in factors), levels)
