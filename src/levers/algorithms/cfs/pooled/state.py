"""Where a pooled study stands, and what follows from that alone."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from levers.algorithms.base import BlockRecord
from levers.algorithms.cfs.ledger import Ledger
from levers.algorithms.cfs.settings import POOLED_RULES
from levers.core.codec import serialisable
from levers.core.model.elimination import Elimination
from levers.core.model.fit import Fit
from levers.core.model.interaction_fit import InteractionFit, InteractionWeights, Runs
from levers.core.model.level_index import ActiveLevels
from levers.core.model.moments import Moments
from levers.core.model.pooled import OutcomeSteps, PooledSums


@serialisable("Thinned")
@dataclass(frozen=True)
class Thinned:
    """A factor of which the last round leaves out levels far behind: of `n_levels` in play it varies those `kept`.

    `known` is what was known of the least precise difference between levels in play when that was decided, in runs
    (1 / variance), and `known_kept` of the least precise one between those kept. None are kept apart any more where a
    study went on for so long after that all of them vary again.
    """

    factor: int
    n_levels: int
    kept: tuple[int, ...]
    known: float
    known_kept: float


@serialisable("PooledState")
@dataclass(frozen=True, eq=False)
class PooledState(Ledger):
    """Where a pooled study stands. `target` is the size of the round under way, and `block` the runs so far of its day
    under way, or of the whole round where days have no constants; `days` are all runs with those of its complete days.

    `noise_bound` holds at any time, and levels are dropped by it; `noise_sd` is what lengths and certificates take the
    noise for. With a known noise both are that. `stopped` says that somebody ended the study before its rules did, and
    `last` that it ends after the block under way. It is `charged` for looks from when what was seen may have decided
    how long it goes on, or what is asked for. `thinned` are the factors whose levels far behind get no more runs; they
    stay in play. `runs` are all runs one by one, where levers are watched for working together, and `together` the
    weights of a fit in which they do, with how likely that is. `in_place` is the setting of the last round's last run,
    where levers are hard to change. `trusted` are the runs of complete rounds that the setting is chosen by,
    with outcomes drawn in that are far from what all others expect.
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
    thinned: tuple[Thinned, ...] = ()
    runs: Runs | None = None
    together: InteractionWeights | None = None
    in_place: tuple[int, ...] | None = None
    trusted: Runs | None = None

    @property
    def n_runs(self) -> int:
        """Runs of all complete blocks, imported ones included."""
        return self.pooled.n_runs

    @property
    def n_done(self) -> int:
        """Runs so far of the round under way."""
        return self.block.n_runs + (0 if self.days is None else self.days.n_runs - self.pooled.n_runs)

    @cached_property
    def varied(self) -> ActiveLevels:
        """The levels that the current round has: of factors that are settled the leader alone."""
        kept = {one.factor: one.kept for one in self.thinned if one.kept}
        return tuple(
            kept.get(k, levels) if k in self.open_factors else (self.leaders[k],)
            for k, levels in enumerate(self.active)
        )

    @cached_property
    def varied_sizes(self) -> tuple[int, ...]:
        """How many levels of open factors the current round has."""
        return tuple(len(self.varied[k]) for k in self.open_factors)

    @cached_property
    def fit(self) -> Fit:
        """The additive fit to all runs of complete blocks."""
        return Fit(self.pooled)

    @cached_property
    def interaction_fit(self) -> InteractionFit | None:
        """The fit in which levers work together; None where it is not looked for."""
        if self.runs is None or self.together is None:
            return None
        runs = self.runs if self.trusted is None else self.trusted
        return InteractionFit(self.pooled.n_levels, runs, self.together)

    @cached_property
    def trusted_sums(self) -> PooledSums:
        """The sums of the runs that the setting is chosen by."""
        if self.trusted is None:
            return self.pooled
        runs = self.trusted.at(np.argsort(self.trusted.constants, kind="stable"))
        lengths = np.unique(runs.constants, return_counts=True)[1].tolist()
        return PooledSums.empty(self.pooled.n_levels).add_blocks(runs.codes, runs.outcomes, lengths, self.pooled.steps)

    @property
    def n_drawn_in(self) -> int:
        """How many outcomes were drawn in."""
        if self.trusted is None or self.runs is None:
            return 0
        return int((self.trusted.outcomes != self.runs.outcomes[: len(self.trusted)]).sum())

    @property
    def prevailing(self) -> InteractionFit | None:
        """The same where it is hardly to be doubted that they do: the leaders are by it alone."""
        return self.interaction_fit if self.together is not None and self.together.prevail else None
