"""Where a study of very many factors stands, the rows of its blocks, and the fit of the parents found so far.

Rows are not part of the state: a block's seed makes them again. The last few blocks are remembered, up to a number of
cells, so that memory stays bounded however many factors and runs there are.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from levers.algorithms.cfs.settings import SPARSE_RULES
from levers.core.codec import serialisable
from levers.core.designs.random import balanced_rows
from levers.core.model.elimination import Elimination
from levers.core.model.level_index import ActiveLevels, Numbers
from levers.core.model.moments import residual_square
from levers.core.space import Codes

Rows: TypeAlias = NDArray[np.integer[Any]]
"""Rows of a block as small integers: a column for each factor that it varies."""
_CACHED_CELLS = 60_000_000
"""Cells of blocks that are remembered, a byte each: 60 MB."""
_CELLS_AT_ONCE = 2_000_000  # cells that are compared with a level at once: 16 MB as numbers


@serialisable("SparseBlock")
@dataclass(frozen=True, eq=False)
class SparseBlock:
    """A block of runs, enough to make its rows again.

    The factors `found` vary over these `levels`; all others over all their levels, unless they are `closed`: then they
    stay where they are. `rows` is None but for rows that the seed would not give: those of another version.
    """

    seed: int
    n_runs: int
    found: tuple[int, ...]
    levels: ActiveLevels
    closed: bool
    rows: Rows | None = field(default=None, repr=False)

    def varied(self, n_levels: tuple[int, ...]) -> tuple[int, ...]:
        """The factors that have a column."""
        return self.found if self.closed else tuple(range(len(n_levels)))

    def column(self, n_levels: tuple[int, ...], factor: int) -> Rows:
        """The levels of one factor."""
        place = self.found.index(factor) if self.closed else factor
        return block_rows(self, n_levels)[:, place]


class _Remembered:
    """Rows of blocks by what makes them, the least recently used forgotten first."""

    def __init__(self) -> None:
        self.rows: OrderedDict[Any, Rows] = OrderedDict()
        self.cells = 0

    def get(self, key: Any) -> Rows | None:
        if key in self.rows:
            self.rows.move_to_end(key)
        return self.rows.get(key)

    def put(self, key: Any, rows: Rows) -> None:
        if rows.size > _CACHED_CELLS:
            return
        self.rows[key] = rows
        self.cells += rows.size
        while self.cells > _CACHED_CELLS:
            self.cells -= self.rows.popitem(last=False)[1].size


_REMEMBERED = _Remembered()


def block_rows(block: SparseBlock, n_levels: tuple[int, ...]) -> Rows:
    """The rows of a block, a column for each factor that it varies: independent random balanced columns."""
    if block.rows is not None:
        return block.rows
    key = (block.seed, block.n_runs, block.found, block.levels, block.closed, n_levels)
    rows = _REMEMBERED.get(key)
    if rows is None:
        if block.closed:
            active = block.levels
        else:
            levels = [tuple(range(m)) for m in n_levels]
            for k, in_play in zip(block.found, block.levels, strict=True):
                levels[k] = in_play
            active = tuple(levels)
        small = np.int8 if max(n_levels) <= np.iinfo(np.int8).max else np.int16
        rows = balanced_rows(active, block.n_runs, np.random.default_rng(block.seed)).astype(small)
        rows.flags.writeable = False
        _REMEMBERED.put(key, rows)
    return rows


def block_codes(block: SparseBlock, n_levels: tuple[int, ...], leaders: Sequence[int], begin: int, end: int) -> Codes:
    """A block's rows from one to another as level positions of all factors; closed factors stay at their leaders."""
    rows = block_rows(block, n_levels)[begin:end]
    if block.closed:
        codes = np.tile(np.asarray(leaders, dtype=np.int16), (len(rows), 1))
        codes[:, block.found] = rows
    else:
        codes = rows.astype(np.int16)
    codes.flags.writeable = False
    return codes


@serialisable("SparseState")
@dataclass(frozen=True, eq=False)
class SparseState:
    """Where a study stands.

    `found` are the parents found, in the order they were, and `active` their levels in play. `blocks` and `outcomes`
    are those of complete blocks; `partial` and `under_way` belong to the block under way, of `target` runs. `noise_sd`
    is the noise as given, or the least bound on it so far; `spread` bounds the standard deviation of what the parents
    found leave unexplained, and `rest` that of what was left unexplained in these very runs. `at_stake` has, for each
    factor that may lose something, how many levels it has in play and the standard error of their means. `stopped`,
    `last` and `charged` are as in a pooled study.
    """

    target: int
    leaders: tuple[int, ...]
    found: tuple[int, ...] = ()
    active: ActiveLevels = ()
    blocks: tuple[SparseBlock, ...] = ()
    outcomes: Numbers = field(default_factory=lambda: np.zeros(0))
    partial: Numbers = field(default_factory=lambda: np.zeros(0))
    under_way: SparseBlock | None = None
    digests: tuple[str, ...] = ()
    inflations: tuple[float, ...] = ()
    noise_sd: float | None = None
    spread: float | None = None
    rest: float | None = None
    at_stake: tuple[tuple[int, float], ...] = ()
    to_go: float | None = None
    eliminations: tuple[Elimination, ...] = ()
    finished: bool = False
    rules: int = SPARSE_RULES
    stopped: bool = False
    last: bool = False
    charged: bool = False

    @property
    def n_runs(self) -> int:
        """Runs of complete blocks."""
        return len(self.outcomes)


@dataclass(frozen=True, eq=False)
class ParentFit:
    """Least squares of the outcomes on a constant for each block and the levels of the factors found.

    >>> block = SparseBlock(7, 12, (0, 1), ((0, 1), (0, 1, 2)), closed=False)
    >>> rows = block_rows(block, (2, 3))
    >>> fit = ParentFit((2, 3), (block,), 2.0 * rows[:, 0] - rows[:, 1], (0, 1))
    >>> fit.effects(1).round(6).tolist(), fit.n_parameters
    ([0.0, -1.0, -2.0], 4)
    """

    n_levels: tuple[int, ...]
    blocks: tuple[SparseBlock, ...]
    outcomes: Numbers
    found: tuple[int, ...]

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(block.n_runs for block in self.blocks[:-1])])

    def _centred(self, values: Numbers) -> Numbers:
        """Columns less their means in each block."""
        lengths = np.array([block.n_runs for block in self.blocks])
        shape = (-1,) + (1,) * (values.ndim - 1)
        means = np.add.reduceat(values, self._starts, axis=0) / lengths.reshape(shape)
        centred: Numbers = values - np.repeat(means, lengths, axis=0)
        return centred

    @cached_property
    def _places(self) -> dict[int, slice]:
        """The columns of each factor: one for each level but the first."""
        ends = np.cumsum([0, *(self.n_levels[k] - 1 for k in self.found)]).tolist()
        return {k: slice(ends[i], ends[i + 1]) for i, k in enumerate(self.found)}

    @cached_property
    def _columns(self) -> Numbers:
        columns = np.zeros((len(self.outcomes), sum(self.n_levels[k] - 1 for k in self.found)))
        for k, place in self._places.items():
            levels = np.concatenate([block.column(self.n_levels, k) for block in self.blocks])
            columns[:, place] = levels[:, None] == np.arange(1, self.n_levels[k])
        return self._centred(columns)

    @cached_property
    def _inverse(self) -> Numbers:
        gram = self._columns.T @ self._columns
        try:
            root = np.linalg.inv(np.linalg.cholesky(gram))
        except np.linalg.LinAlgError:  # columns that move together: as far as they can be told apart
            return np.asarray(np.linalg.pinv(gram, hermitian=True), dtype=np.float64)
        return np.asarray(root.T @ root, dtype=np.float64)

    @cached_property
    def _target(self) -> Numbers:
        return self._centred(self.outcomes - self.outcomes.mean())

    @cached_property
    def _theta(self) -> Numbers:
        return self._inverse @ (self._columns.T @ self._target)

    @cached_property
    def residuals(self) -> Numbers:
        """What is left of each outcome; zero on average in every block."""
        return self._centred(self._target - self._columns @ self._theta)

    @property
    def n_parameters(self) -> int:
        """Constants of blocks and levels."""
        return len(self.blocks) + sum(self.n_levels[k] - 1 for k in self.found)

    @cached_property
    def residual_square(self) -> float:
        """The sum of squared residuals, never less than rounding allows."""
        total, left = float(self._target @ self._target), float(self.residuals @ self.residuals)
        return residual_square(total, total - left, self.n_parameters)

    @property
    def inflation(self) -> float:
        """How many times more runs this takes than an ideal design, on average over random columns."""
        n = len(self.outcomes)
        return n / max(n - self.n_parameters, 1)

    def effects(self, factor: int) -> Numbers:
        """Estimated effects of a factor's levels, the first one being zero."""
        return np.concatenate([[0.0], self._theta[self._places[factor]]])

    def variances(self, factor: int) -> Numbers:
        """Variances over sigma^2 of the differences of a factor's levels."""
        m, place = self.n_levels[factor], self._places[factor]
        covariance = np.zeros((m, m))
        covariance[1:, 1:] = self._inverse[place, place]
        own = covariance.diagonal()
        return np.maximum(own[:, None] + own[None, :] - 2 * covariance, 0.0)

    @cached_property
    def split_residuals(self) -> tuple[Numbers, ...]:
        """The residuals of each block."""
        return tuple(np.split(self.residuals, self._starts[1:]))

    def level_sums(self) -> Numbers:
        """Sums of residuals over the runs with each level [factor, level], for factors that every block varies."""
        sums = np.zeros((len(self.n_levels), max(self.n_levels)))
        for block, e in zip(self.blocks, self.split_residuals, strict=True):
            rows = block_rows(block, self.n_levels)
            step = max(1, _CELLS_AT_ONCE // rows.shape[1])
            for begin in range(0, len(rows), step):
                part, left = rows[begin : begin + step], e[begin : begin + step]
                for level in range(sums.shape[1]):
                    sums[:, level] += left @ (part == level)
        return sums


def level_counts(n_runs: int, n_levels: int) -> tuple[int, ...]:
    """How often a balanced column uses each level.

    >>> level_counts(8, 3)
    (3, 3, 2)
    """
    return tuple(n_runs // n_levels + (level < n_runs % n_levels) for level in range(n_levels))


def is_balanced(rows: Rows, block: SparseBlock, n_levels: tuple[int, ...]) -> bool:
    """Whether rows could be those of the block: each column has its levels as often as a balanced one."""
    varied = block.varied(n_levels)
    in_play = dict(zip(block.found, block.levels, strict=True))
    for column, k in zip(np.sort(rows, axis=0).T, varied, strict=True):
        levels = in_play.get(k, tuple(range(n_levels[k])))
        if not np.array_equal(column, np.repeat(levels, level_counts(len(rows), len(levels)))):
            return False
    return True
