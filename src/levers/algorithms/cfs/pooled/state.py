"""Where a pooled study stands, and what follows from that alone."""

from dataclasses import dataclass, field
from functools import cached_property

from levers.algorithms.base import PAST, BlockRecord
from levers.algorithms.cfs.settings import POOLED_RULES
from levers.core.codec import serialisable
from levers.core.model.elimination import Elimination
from levers.core.model.fit import Fit
from levers.core.model.level_index import ActiveLevels
from levers.core.model.moments import Moments
from levers.core.model.pooled import OutcomeSteps, PooledSums


@serialisable("PooledState")
@dataclass(frozen=True, eq=False)
class PooledState:
    """Where a pooled study stands. `target` is the size of the round under way, and `block` the runs so far of its day
    under way, or of the whole round where days have no constants; `days` are all runs with those of its complete days.

    `noise_bound` holds at any time, and levels are dropped by it; `noise_sd` is what lengths and certificates take the
    noise for. With a known noise both are that. `stopped` says that somebody ended the study before its rules did, and
    `last` that it ends after the block under way. It is `charged` for looks from when what was seen may have decided
    how long it goes on, or what is asked for.
    """

    target: int
    active: ActiveLevels
    leaders: tuple[int, ...]
    pooled: PooledSums
    block: Moments
    steps: OutcomeSteps = field(default_factory=OutcomeSteps)
    seed: int | None = None
    digest: str | None = None
    rho: float | None = None
    parents: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()
    upper_loss: float | None = None
    noise_bound: float | None = None
    noise_sd: float | None = None
    eliminations: tuple[Elimination, ...] = ()
    blocks: tuple[BlockRecord, ...] = ()
    certified: float | None = None
    finished: bool = False
    rules: int = POOLED_RULES
    days: PooledSums | None = None
    stopped: bool = False
    last: bool = False
    charged: bool = False

    @property
    def n_runs(self) -> int:
        """Runs of all complete blocks, imported ones included."""
        return self.pooled.n_runs

    @property
    def n_done(self) -> int:
        """Runs so far of the round under way."""
        return self.block.n_runs + (0 if self.days is None else self.days.n_runs - self.pooled.n_runs)

    @property
    def n_past(self) -> int:
        """Runs that count, but were not asked for."""
        return sum(block.n_runs for block in self.blocks if block.stage == PAST)

    @cached_property
    def open_factors(self) -> tuple[int, ...]:
        """The factors that the current block varies."""
        closed = set(self.closed)
        return tuple(k for k, levels in enumerate(self.active) if len(levels) > 1 and k not in closed)

    @cached_property
    def open_sizes(self) -> tuple[int, ...]:
        """How many levels of them are in play."""
        return tuple(len(self.active[k]) for k in self.open_factors)

    @cached_property
    def fit(self) -> Fit:
        """The additive fit to all runs of complete blocks."""
        return Fit(self.pooled)
