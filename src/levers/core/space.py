"""What can be set: factors, their levels, and one choice of level for each."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.core.codec import serialisable
from levers.core.validation import half_character
from levers.errors import InvalidSpaceError, NoSuchLevelError, raise_together

Level: TypeAlias = str | int | float | bool
Codes: TypeAlias = NDArray[np.int16]
"""Rows of level positions, one column per factor: what the formulas work on."""

FREE = -1
"""The code of a factor that a run leaves to nature."""
MAX_LEVELS = int(np.iinfo(np.int16).max)
"""The most levels of one factor: codes are 16-bit integers."""
MAX_LISTED = 12
"""The most names or levels that an error message lists."""


@serialisable("Factor")
@dataclass(frozen=True, slots=True)
class Factor:
    """One lever and the settings it can take.

    >>> Factor("speed", ["slow", "fast"]).n_levels
    2
    >>> Factor("speed", ["slow"])
    Traceback (most recent call last):
    levers.errors.InvalidSpaceError: factor 'speed' has 1 level; a lever needs at least two, so add one or leave it out
    """

    name: str
    levels: tuple[Level, ...]

    def __init__(self, name: str, levels: Sequence[Level]) -> None:
        object.__setattr__(self, "name", name)
        given = (levels,) if isinstance(levels, str) else tuple(levels)
        plain = tuple(level.item() if isinstance(level, np.generic) else level for level in given)
        object.__setattr__(self, "levels", plain)
        raise_together(InvalidSpaceError, _factor_problems(self))

    @property
    def n_levels(self) -> int:
        """How many levels (M_k)."""
        return len(self.levels)

    def code(self, level: Level) -> int:
        """The position of a level.

        >>> Factor("speed", ["slow", "fast"]).code("fast")
        1
        """
        for position, known in enumerate(self.levels):
            if _same(known, level):
                return position
        raise InvalidSpaceError(
            f"{level!r} is not a level of factor {self.name!r}; its levels are {_listed(self.levels)}"
        )


@serialisable("Space")
@dataclass(frozen=True, slots=True)
class Space:
    """All the levers of a system.

    >>> space = Space([Factor("speed", ["slow", "fast"]), Factor("dose", [1, 2, 3])])
    >>> space.n_factors, space.n_levels, space.n_assignments
    (2, (2, 3), 6)
    """

    factors: tuple[Factor, ...]
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The factors' names, in order."""
    n_factors: int = field(init=False, repr=False, compare=False)
    """How many factors (K)."""
    n_levels: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The number of levels of each factor (M_1, ..., M_K)."""
    _positions: dict[str, int] = field(init=False, repr=False, compare=False)

    def _repr_html_(self) -> str:
        from levers.extensions import html_of

        return html_of(self)

    def __init__(self, factors: Sequence[Factor]) -> None:
        object.__setattr__(self, "factors", tuple(factors))
        if not self.factors:
            raise InvalidSpaceError("the space has no factor; give at least one, with two or more levels")
        wrong = [f for f in self.factors if not isinstance(f, Factor)]
        if wrong:
            raise InvalidSpaceError(f"a space is made of Factor values, not {wrong[0]!r}; see Space.of for a mapping")
        self.derive_fields()
        doubled = sorted(name for name, count in Counter(self.names).items() if count > 1)
        problems = [f"two factors are named {name!r}; give each its own name" for name in doubled]
        raise_together(InvalidSpaceError, problems)

    def derive_fields(self) -> None:
        """Set the fields that follow from the factors. They are read in every formula, so they are computed once."""
        names = tuple(factor.name for factor in self.factors)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "n_factors", len(names))
        object.__setattr__(self, "n_levels", tuple(len(factor.levels) for factor in self.factors))
        object.__setattr__(self, "_positions", {name: k for k, name in enumerate(names)})

    @classmethod
    def of(cls, levels_by_name: "Mapping[str, Sequence[Level]] | Space") -> "Space":
        """Build a space from a mapping of names to levels; a space is returned as it is.

        >>> Space.of({"speed": ["slow", "fast"], "dose": [1, 2, 3]}).names
        ('speed', 'dose')
        >>> Space.of({"speed": ["slow", "slow"], "dose": []})
        Traceback (most recent call last):
        levers.errors.InvalidSpaceError: 2 problems: factor 'speed' lists level 'slow' twice; remove one; factor \
'dose' has no levels; give it at least two
        """
        if isinstance(levels_by_name, Space):
            return levels_by_name
        factors, problems = [], []
        for name, levels in levels_by_name.items():
            try:
                factors.append(Factor(name, levels))
            except InvalidSpaceError as error:
                problems.append(str(error))
        raise_together(InvalidSpaceError, problems)
        return cls(factors)

    @classmethod
    def sized(cls, n_levels: Sequence[int]) -> "Space":
        """A space with factors X1, X2, ... and levels 1, 2, ..., as in the paper.

        >>> Space.sized([2, 3]).factors[1].levels
        (1, 2, 3)
        """
        return cls([Factor(f"X{k + 1}", tuple(range(1, m + 1))) for k, m in enumerate(n_levels)])

    @property
    def n_assignments(self) -> int:
        """The size of the full factorial, an exact integer however large."""
        return math.prod(self.n_levels)

    def position(self, name: str) -> int:
        """The position of a factor by its name."""
        try:
            return self._positions[name]
        except KeyError:
            raise InvalidSpaceError(f"there is no factor {name!r}; the factors are {_listed(self.names)}") from None

    def subspace(self, positions: Sequence[int]) -> "Space":
        """The space of some of the factors, in the order given."""
        return Space([self.factors[k] for k in positions])

    def assignment(self, codes: ArrayLike) -> "Assignment":
        """The assignment with these level positions."""
        return Assignment(self, tuple(int(code) for code in np.asarray(codes).tolist()))

    def assignments(self, rows: ArrayLike) -> "list[Assignment]":
        """The assignments with these level positions, one a row."""
        return [Assignment(self, tuple(codes)) for codes in np.asarray(rows).tolist()]

    def encode(self, values: Mapping[str, Level]) -> "Assignment":
        """The assignment that a mapping of factor names to levels describes.

        >>> Space.of({"speed": ["slow", "fast"], "dose": [1, 2]}).encode({"dose": 2, "speed": "slow"}).codes
        (0, 1)
        """
        problems = [f"there is no factor {name!r}" for name in values if name not in self._positions]
        problems += [f"factor {name!r} is not set" for name in self.names if name not in values]
        raise_together(InvalidSpaceError, problems)
        return Assignment(self, tuple(factor.code(values[factor.name]) for factor in self.factors))


@serialisable("Assignment")
@dataclass(frozen=True, slots=True, eq=False)
class Assignment(Mapping[str, Level]):
    """What a run sets: a level for every factor, or for some while the others are left to nature (FREE).

    It is a mapping from the names of the factors that are set to their levels: the paper's do(X = x).

    >>> space = Space.of({"speed": ["slow", "fast"], "dose": [1, 2, 3]})
    >>> best = space.assignment([1, 0])
    >>> best["speed"], dict(best)
    ('fast', {'speed': 'fast', 'dose': 1})
    >>> watched = space.assignment([FREE, 2])
    >>> dict(watched), watched.free
    ({'dose': 3}, ('speed',))
    >>> best, watched
    (Assignment({'speed': 'fast', 'dose': 1}), Assignment({'dose': 3}, free=('speed',)))
    """

    space: Space = field(repr=False)
    codes: tuple[int, ...]

    def __post_init__(self) -> None:
        n_levels = self.space.n_levels
        if len(self.codes) != len(n_levels):
            raise InvalidSpaceError(f"an assignment needs {len(n_levels)} levels, got {len(self.codes)}")
        problems = [
            f"factor {name!r} has levels 0 to {m - 1}, not {code}"
            for name, m, code in zip(self.space.names, n_levels, self.codes, strict=True)
            if not FREE <= code < m
        ]
        if problems:  # an assignment is made for every run, and hardly ever wrong
            raise_together(InvalidSpaceError, problems)

    @property
    def free(self) -> tuple[str, ...]:
        """The factors that are left to nature."""
        return tuple(name for name, code in zip(self.space.names, self.codes, strict=True) if code == FREE)

    def __getitem__(self, name: str) -> Level:
        k = self.space._positions.get(name)
        if k is None:
            raise NoSuchLevelError(f"there is no factor {name!r}; the factors are {_listed(self.space.names)}")
        if self.codes[k] == FREE:
            raise NoSuchLevelError(f"{name!r} is left to nature, so it has no level here; see Assignment.free")
        return self.space.factors[k].levels[self.codes[k]]

    def __contains__(self, name: object) -> bool:
        k = self.space._positions.get(name) if isinstance(name, str) else None
        return k is not None and self.codes[k] != FREE

    def __iter__(self) -> Iterator[str]:
        return (name for name, code in zip(self.space.names, self.codes, strict=True) if code != FREE)

    def __len__(self) -> int:
        return len(self.codes) - self.codes.count(FREE)

    def __eq__(self, other: object) -> bool:
        """Assignments are equal if they set the same levels in the same space; other mappings, if their items are.

        An assignment has no hash in common with an ordinary mapping, because those have none.
        """
        if isinstance(other, Assignment):
            return self.codes == other.codes and self.space == other.space
        return dict(self) == dict(other) if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.space.names, self.codes))

    def __str__(self) -> str:
        return str(dict(self))

    def __repr__(self) -> str:
        return f"Assignment({self}{f', free={self.free}' if self.free else ''})"


def with_taken(codes: ArrayLike, levels: ArrayLike) -> Codes:
    """Codes of runs as they were made: where one was FREE it becomes FREE - 1 - i, which says that nature took level i.

    >>> with_taken([[0, FREE]], [[0, 2]]).tolist()
    [[0, -4]]
    """
    asked, seen = np.asarray(codes, dtype=np.int16), np.asarray(levels, dtype=np.int16)
    made: Codes = np.where((asked == FREE) & (seen >= 0), FREE - 1 - seen, asked).astype(np.int16)
    return made


def levels_had(codes: ArrayLike) -> Codes:
    """The levels that runs had, set or taken by nature; FREE where it is not known what nature took.

    >>> levels_had([[0, -4], [1, FREE]]).tolist()
    [[0, 2], [1, -1]]
    """
    made = np.asarray(codes, dtype=np.int16)
    had: Codes = np.where(made < FREE, FREE - 1 - made, made).astype(np.int16)
    return had


def _factor_problems(factor: Factor) -> list[str]:
    problems = []
    if not isinstance(factor.name, str) or not factor.name.strip():
        problems.append(f"a factor's name must be a text that is not blank, not {factor.name!r}")
    elif half_character(factor.name):
        problems.append(f"a factor's name has half a character, {half_character(factor.name)}; remove it")
    if not factor.levels:
        return [*problems, f"factor {factor.name!r} has no levels; give it at least two"]
    for level in factor.levels:
        if not isinstance(level, str | int | float):
            problems.append(f"factor {factor.name!r} has level {level!r}; levels are texts, numbers or booleans")
        elif isinstance(level, str) and not level.strip():
            problems.append(f"factor {factor.name!r} has an empty level; give it a name or remove it")
        elif isinstance(level, str) and half_character(level):
            problems.append(f"factor {factor.name!r} has level {level!r}, which has half a character; remove that")
        elif isinstance(level, float) and not math.isfinite(level):
            problems.append(f"factor {factor.name!r} has level {level!r}; levels must be finite")
    if len(factor.levels) > MAX_LEVELS:
        problems.append(f"factor {factor.name!r} has {len(factor.levels)} levels; at most {MAX_LEVELS} are possible")
    if not problems:
        seen: set[tuple[bool, Level]] = set()
        for level in factor.levels:
            if (key := (isinstance(level, bool), level)) in seen:  # True is not 1
                problems.append(f"factor {factor.name!r} lists level {level!r} twice; remove one")
            seen.add(key)
    if len(factor.levels) == 1:
        problems.append(f"factor {factor.name!r} has 1 level; a lever needs at least two, so add one or leave it out")
    return problems


def _same(a: Level, b: Level) -> bool:
    """Equal and of one kind: True is not 1, and '1' is not 1."""
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def _listed(values: Sequence[object]) -> str:
    shown = ", ".join(repr(value) for value in values[:MAX_LISTED])
    return shown if len(values) <= MAX_LISTED else f"{shown} and {len(values) - MAX_LISTED} more"
