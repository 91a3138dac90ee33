"""How a factor or a hidden variable takes its level when nobody sets it: tables of probabilities, or a function."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from levers.core.space import Codes
from levers.errors import InvalidWorldError
from levers.worlds.potentials import Potential, check_size, configurations

MAX_CELLS = 20_000_000
"""The most cells of one conditional probability table (160 MB)."""


class Mechanism(Protocol):
    """The natural behaviour of one factor or hidden variable."""

    @property
    def parents(self) -> tuple[int, ...]:
        """Positions of the variables that it reads: factors first, then hidden ones, as in the world."""

    @property
    def reads_outcome(self) -> bool:
        """Whether it reads the outcome too."""

    def sample(self, rows: Codes, outcomes: NDArray[np.float64] | None, rng: np.random.Generator) -> Codes:
        """One level per row, given the rows' levels of its parents (and the outcomes, if it reads them)."""

    def probabilities(self, rows: Codes) -> NDArray[np.float64]:
        """The probability of each level in each row; only for factors that do not read the outcome."""


@dataclass(frozen=True, eq=False)
class Table:
    """A conditional probability table.

    `cells` has one row per configuration of the parents (the last parent varies fastest) and one column per level.
    When the factor is an effect of the outcome, the outcome is rounded, clipped to `bins` and read as the last parent.

    >>> coin = Table(np.array([[0.5, 0.5]]))
    >>> coin.sample(np.zeros((4, 1), dtype=np.int16), None, np.random.default_rng(0)).tolist()
    [1, 0, 0, 0]
    """

    cells: NDArray[np.float64]
    parents: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    bins: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        expected = table_rows(self.sizes, self.bins)
        if self.cells.ndim != 2 or self.cells.shape[0] != expected or len(self.sizes) != len(self.parents):
            raise InvalidWorldError(
                f"a table for parents of sizes {self.sizes} needs {expected} rows, got shape {self.cells.shape}"
            )
        if (self.cells < 0).any() or not np.allclose(self.cells.sum(axis=1), 1.0):
            raise InvalidWorldError("every row of a probability table must be non-negative and sum to 1")

    @property
    def n_levels(self) -> int:
        return int(self.cells.shape[1])

    @property
    def reads_outcome(self) -> bool:
        return self.bins is not None

    @cached_property
    def _cumulative(self) -> NDArray[np.float64]:
        return np.cumsum(self.cells, axis=1)[:, :-1]

    def _configuration(self, rows: Codes, outcomes: NDArray[np.float64] | None) -> NDArray[np.int64]:
        index = np.zeros(len(rows), dtype=np.int64)
        for parent, size in zip(self.parents, self.sizes, strict=True):
            index = index * size + rows[:, parent]
        if self.bins is not None:
            assert outcomes is not None  # the world samples the outcome before its effects
            low, high = self.bins
            index = index * (high - low + 1) + np.clip(np.rint(outcomes), low, high).astype(np.int64) - low
        return index

    def sample(self, rows: Codes, outcomes: NDArray[np.float64] | None, rng: np.random.Generator) -> Codes:
        """Draw a level per row by inverting the cumulative probabilities."""
        cumulative = self._cumulative[self._configuration(rows, outcomes)]
        drawn: Codes = (rng.random(len(rows))[:, None] >= cumulative).sum(axis=1, dtype=np.int16)
        return drawn

    def probabilities(self, rows: Codes) -> NDArray[np.float64]:
        return self.cells[self._configuration(rows, None)]


@dataclass(frozen=True, eq=False)
class RandomTable:
    """A random table, drawn from its seed when first needed: a world that is only ever set never pays for it.

    With parents p(j | config) is proportional to Beta(2, 5); without, Dirichlet(0.5)   (Section 5, released code).

    >>> RandomTable(4, seed=7).table.cells.shape
    (1, 4)
    """

    n_levels: int
    parents: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    bins: tuple[int, int] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        cells = table_rows(self.sizes, self.bins) * self.n_levels
        if cells > MAX_CELLS:
            n_parents = len(self.parents) + (self.bins is not None)
            raise InvalidWorldError(
                f"a factor with {n_parents} parents needs a table of {cells:,} cells, more than the {MAX_CELLS:,} held "
                "in memory; lower the degree or the levels, or cap the parents with max_in_degree"
            )

    @property
    def reads_outcome(self) -> bool:
        return self.bins is not None

    @cached_property
    def table(self) -> Table:
        """The table itself."""
        rng = np.random.default_rng(self.seed)
        n_rows = table_rows(self.sizes, self.bins)
        if self.parents or self.bins is not None:
            cells = rng.beta(2, 5, size=(n_rows, self.n_levels))
            cells /= cells.sum(axis=1, keepdims=True)
        else:
            cells = rng.dirichlet(np.full(self.n_levels, 0.5), size=n_rows)
        return Table(cells, self.parents, self.sizes, self.bins)

    def sample(self, rows: Codes, outcomes: NDArray[np.float64] | None, rng: np.random.Generator) -> Codes:
        return self.table.sample(rows, outcomes, rng)

    def probabilities(self, rows: Codes) -> NDArray[np.float64]:
        return self.table.probabilities(rows)


@dataclass(frozen=True, eq=False)
class Computed:
    """A factor that is a function of its parents and the outcome.

    >>> echo = Computed(3, lambda rows, y: np.clip(np.rint(y), 0, 2), reads_outcome=True)
    >>> echo.sample(np.zeros((2, 1), dtype=np.int16), np.array([0.2, 7.0]), np.random.default_rng(0)).tolist()
    [0, 2]
    """

    n_levels: int
    rule: Callable[[Codes, NDArray[np.float64]], NDArray[Any]] = field(repr=False)
    parents: tuple[int, ...] = ()
    reads_outcome: bool = False

    def sample(self, rows: Codes, outcomes: NDArray[np.float64] | None, rng: np.random.Generator) -> Codes:
        return np.asarray(self.rule(rows, np.zeros(len(rows)) if outcomes is None else outcomes), dtype=np.int16)

    def probabilities(self, rows: Codes) -> NDArray[np.float64]:
        """All weight on the rule's level."""
        levels = self.rule(rows, np.zeros(len(rows))).astype(np.int64)
        return np.eye(self.n_levels)[levels]


@dataclass(frozen=True, eq=False)
class Drawn:
    """A factor that is a function of its parents, the outcome and randomness: it can be sampled, and no more.

    >>> late = Drawn(3, lambda rows, y, rng: rng.integers(0, 3, len(rows)))
    >>> late.sample(np.zeros((4, 1), dtype=np.int16), None, np.random.default_rng(0)).tolist()
    [2, 1, 1, 0]
    """

    n_levels: int
    rule: Callable[[Codes, NDArray[np.float64], np.random.Generator], NDArray[Any]] = field(repr=False)
    parents: tuple[int, ...] = ()
    reads_outcome: bool = False

    def sample(self, rows: Codes, outcomes: NDArray[np.float64] | None, rng: np.random.Generator) -> Codes:
        known = np.zeros(len(rows)) if outcomes is None else outcomes
        return np.asarray(self.rule(rows, known, rng), dtype=np.int16)

    def probabilities(self, rows: Codes) -> NDArray[np.float64]:
        raise InvalidWorldError(
            "the level is drawn with randomness of its own, so no exact sum over it is possible; set it, let its "
            "function return probabilities, or sample: estimate_mean_under"
        )


@dataclass(frozen=True, eq=False)
class StateTable:
    """A table whose last parent is the outcome's state, which has one of a few values (as in a Bayesian network).

    >>> alarm = StateTable(Table(np.array([[1.0, 0.0], [0.1, 0.9]]), bins=(0, 1)), values=(-5.0, 20.0))
    >>> alarm.sample(np.zeros((2, 1), dtype=np.int16), np.array([-5.0, 20.0]), np.random.default_rng(0)).tolist()
    [0, 1]
    """

    table: Table
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.table.bins != (0, len(self.values) - 1) or len(set(self.values)) < len(self.values):
            raise InvalidWorldError(
                f"an effect of the outcome tells its states apart by their values, which must differ: {self.values}"
            )

    @property
    def n_levels(self) -> int:
        return self.table.n_levels

    @property
    def parents(self) -> tuple[int, ...]:
        return self.table.parents

    @property
    def reads_outcome(self) -> bool:
        return True

    def sample(self, rows: Codes, outcomes: NDArray[np.float64] | None, rng: np.random.Generator) -> Codes:
        assert outcomes is not None  # the world samples the outcome before its effects
        states = np.abs(outcomes[:, None] - np.asarray(self.values)).argmin(axis=1)
        return self.table.sample(rows, states.astype(np.float64), rng)

    def probabilities(self, rows: Codes) -> NDArray[np.float64]:
        return self.table.probabilities(rows)


def conditional(mechanism: Mechanism, position: int, sizes: Sequence[int], fixed: Mapping[int, int]) -> Potential:
    """p(level | parents) as a table over the parents that are not fixed and the variable's own position.

    >>> copy = Table(np.array([[0.9, 0.1], [0.2, 0.8]]), parents=(0,), sizes=(2,))
    >>> conditional(copy, 1, [2, 2], fixed={0: 1})
    Potential(scope=(1,), values=array([0.2, 0.8]))
    """
    if isinstance(mechanism, RandomTable):
        mechanism = mechanism.table
    if isinstance(mechanism, Table):
        cells = mechanism.cells.reshape(*mechanism.sizes, mechanism.n_levels)
        return Potential.of((*mechanism.parents, position), cells).at(fixed)
    free = [k for k in mechanism.parents if k not in fixed]
    check_size(math.prod(sizes[k] for k in free) * sizes[position])
    inside = configurations([sizes[k] for k in free])
    rows = np.zeros((len(inside), len(sizes)), dtype=np.int16)
    rows[:, free] = inside
    for k, level in fixed.items():
        rows[:, k] = level
    cells = mechanism.probabilities(rows).reshape(*(sizes[k] for k in free), sizes[position])
    return Potential.of((*free, position), cells)


def table_rows(sizes: Sequence[int], bins: tuple[int, int] | None) -> int:
    """How many configurations the parents have, an exact integer however large."""
    return math.prod(sizes) * (1 if bins is None else bins[1] - bins[0] + 1)
