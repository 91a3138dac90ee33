"""Factors that are studied as one: because they influence each other, or because some combinations cannot be run.

Such factors become one factor whose levels are the combinations allowed. An additive model of two factors is a special
case of any model of the pair, so nothing is assumed that was not assumed before, every run of the merged space can be
made, and every theorem applies to it as it stands.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from levers.core.space import Assignment, Codes, Factor, Level, Space
from levers.core.validation import check_count
from levers.errors import InvalidSettingError, InvalidSpaceError, about

MAX_MERGED = 256
"""The most combinations that one merged factor may have."""
MAX_CELLS = 100 * MAX_MERGED
"""The most combinations of a group that are listed at all, before the forbidden ones are taken out."""

Forbidden = tuple[tuple[tuple[str, Level], ...], ...]
"""Combinations that cannot be run, each as (factor, level) parts."""
Groups = tuple[tuple[str, ...], ...]
"""Factors that are studied as one, by name."""


def merged_groups(space: Space, given: Iterable[Sequence[str]]) -> Groups:
    """Check groups of factors against the space: each names two or more.

    >>> merged_groups(Space.of({"heat": ["low", "high"], "speed": [1, 2]}), [["speed", "heat"]])
    (('speed', 'heat'),)
    """
    groups = []
    for group in given:
        names = () if isinstance(group, str) or not isinstance(group, Sequence) else tuple(group)
        if len(names) < 2 or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise InvalidSpaceError(
                f"factors to be merged are two or more different names, not {group!r}", field="merged"
            )
        with about("merged"):
            for name in names:
                space.position(name)
        groups.append(names)
    return tuple(groups)


def check_max_parents(max_parents: int, n_levers: int, n_chosen: int) -> None:
    """Refuse a claim about more levers than are chosen one by one: `n_levers` of which some are tied are `n_chosen`.

    >>> check_max_parents(2, 4, 2)
    >>> check_max_parents(2, 4, 1)
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: at most 2 levers cannot be said to matter: levers that are merged, or tied by \
forbidden combinations, count as one, so these 4 levers count as 1; leave max_parents out
    """
    check_count("max_parents", max_parents, 1, n_levers)
    if max_parents > n_chosen:
        then = f"give at most {n_chosen}, or leave max_parents out" if n_chosen > 1 else "leave max_parents out"
        raise InvalidSettingError(
            f"at most {max_parents} levers cannot be said to matter: levers that are merged, or tied by forbidden "
            f"combinations, count as one, so these {n_levers} levers count as {n_chosen}; {then}",
            field="max_parents",
        )


def forbidden_combinations(space: Space, given: Iterable[Mapping[str, Level]]) -> Forbidden:
    """Check combinations against the space: each names two or more factors and one level of each.

    >>> space = Space.of({"heat": ["low", "high"], "speed": [1, 2]})
    >>> forbidden_combinations(space, [{"heat": "high", "speed": 2}])
    ((('heat', 'high'), ('speed', 2)),)
    """
    combinations = []
    for combination in given:
        if not isinstance(combination, Mapping) or len(combination) < 2:
            raise InvalidSpaceError(
                f"a forbidden combination names two or more factors, not {combination!r}", field="forbidden"
            )
        parts = []
        with about("forbidden"):
            for name, level in combination.items():
                factor = space.factors[space.position(name)]
                parts.append((name, factor.levels[factor.code(level)]))  # the factor's own level: 1, not 1.0
        combinations.append(tuple(parts))
    return tuple(combinations)


def connected(items: Iterable[int], ties: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    """Items in groups: those that a tie names are in one group, and so are those that further ties connect to them.

    >>> connected(range(5), [(0, 2), (2, 4)])
    ((0, 2, 4), (1,), (3,))
    """
    groups = [{item} for item in items]
    for tie in ties:
        tied = set(tie)
        touched = [group for group in groups if group & tied]
        groups = [group for group in groups if not group & tied] + [set().union(*touched)]
    return tuple(sorted(tuple(sorted(group)) for group in groups))


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
        ties = [*([name for name, _ in combination] for combination in forbidden), *merged]
        groups = connected(range(space.n_factors), [[space.position(name) for name in names] for names in ties])
        tables = tuple(_allowed_combinations(space, group, forbidden) for group in groups)
        if not forbidden and not merged:
            return cls(space, space, groups, tables)
        taken, factors = set(space.names), []
        for group, table in zip(groups, tables, strict=True):
            factors.append(space.factors[group[0]] if len(group) == 1 else _merged_factor(space, group, table, taken))
        return cls(space, Space(factors), groups, tables)

    @property
    def is_merged(self) -> bool:
        """Whether any factors were merged."""
        return self.inner is not self.outer

    def parts(self, merged: Groups) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each inner factor that only forbidden combinations tie together, its levels' parts; () for all others.

        The effects of such factors still add up. Factors that were merged on purpose may do anything to each other.

        >>> space = Space.of({"heat": ["low", "high"], "speed": [1, 2], "shift": ["day", "night"]})
        >>> Merging.of(space, ((("heat", "high"), ("speed", 2)),)).parts(())
        (((0, 0), (0, 1), (1, 0)), ())
        """
        on_purpose = {self.outer.position(name) for names in merged for name in names}
        return tuple(
            tuple(map(tuple, table.tolist())) if len(group) > 1 and not on_purpose & set(group) else ()
            for group, table in zip(self.groups, self.tables, strict=True)
        )

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
        """The position of the inner factor that a factor is, or is part of."""
        position = self.outer.position(name)
        return next(i for i, group in enumerate(self.groups) if position in group)

    def assignment(self, codes: ArrayLike) -> Assignment:
        """The assignment of all factors that an inner row stands for."""
        return self.outer.assignment(self.expand(np.asarray(codes, dtype=np.int16)[None, :])[0])


def _allowed_combinations(space: Space, group: Sequence[int], forbidden: Forbidden) -> Codes:
    """The combinations of a group's levels that can be run, one per row."""
    if len(group) == 1:
        return np.arange(space.n_levels[group[0]], dtype=np.int16)[:, None]
    names, sizes = [space.names[k] for k in group], [space.n_levels[k] for k in group]
    n_cells = math.prod(sizes)
    if n_cells > MAX_CELLS:
        raise _too_many(names, n_cells)
    ruled_out = [  # as (position in the group, code); a combination names factors of one group only
        [(names.index(name), space.factors[space.position(name)].code(level)) for name, level in combination]
        for combination in forbidden
        if combination[0][0] in names
    ]
    cells = [
        cell
        for cell in product(*(range(m) for m in sizes))
        if not any(all(cell[i] == code for i, code in combination) for combination in ruled_out)
    ]
    if len(cells) < 2:
        raise InvalidSpaceError(
            f"the forbidden combinations leave {len(cells)} settings of {', '.join(names)}", field="forbidden"
        )
    if len(cells) > MAX_MERGED:
        raise _too_many(names, len(cells))
    return np.array(cells, dtype=np.int16)


def _too_many(names: Sequence[str], n_cells: int) -> InvalidSpaceError:
    return InvalidSpaceError(
        f"{', '.join(names)} would be studied as one factor of {n_cells} combinations, more than {MAX_MERGED}; "
        "merge or forbid fewer, or leave out levels",
        field="merged",
    )


def _merged_factor(space: Space, group: Sequence[int], table: Codes, taken: set[str]) -> Factor:
    """The factor that stands for a group, with a level for each row of the table and a name that is not taken yet."""
    factors = [space.factors[k] for k in group]
    parts = [[str(f.levels[code]) for f, code in zip(factors, row, strict=True)] for row in table]
    levels = [", ".join(row) for row in parts]
    if len(set(levels)) < len(levels):  # levels with commas of their own may read the same when they are joined
        levels = [", ".join(repr(part) for part in row) for row in parts]
    name = " + ".join(f.name for f in factors)
    while name in taken:
        name += " (merged)"
    taken.add(name)
    return Factor(name, levels)
