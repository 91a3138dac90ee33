"""What the states of both kinds of study have: the levels in play, and what a standing changes about them."""

import math
from functools import cached_property
from typing import Any

import numpy as np

from levers.algorithms.base import PAST, BlockRecord
from levers.core.model.elimination import Elimination
from levers.core.model.evidence import Evidence, Standing
from levers.core.model.level_index import ActiveLevels


class Ledger:
    """The levels in play, the factors that cannot lose anything any more, and the blocks that were made."""

    active: ActiveLevels
    closed: tuple[int, ...]
    blocks: tuple[BlockRecord, ...]

    @property
    def n_past(self) -> int:
        """Runs that count, but were not asked for."""
        return sum(block.n_runs for block in self.blocks if block.stage == PAST)

    @cached_property
    def open_factors(self) -> tuple[int, ...]:
        """The factors of which more than one level is in play: those that the current block varies."""
        closed = set(self.closed)
        return tuple(k for k, levels in enumerate(self.active) if len(levels) > 1 and k not in closed)

    @cached_property
    def open_sizes(self) -> tuple[int, ...]:
        """How many levels of them are in play."""
        return tuple(len(self.active[k]) for k in self.open_factors)


def entries(
    now: Standing, evidence: Evidence, active: ActiveLevels, eliminations: tuple[Elimination, ...], n_runs: int
) -> dict[str, Any]:
    """What a standing after so many runs changes in a ledger with these levels in play: which of them stay, which are
    dropped, the parents, the closed factors, and what the leaders lose at most."""
    stay = tuple(tuple(level for level, stays in enumerate(row) if stays) for row in now.active.tolist())
    dropped = tuple(
        Elimination(k, level, n_runs, evidence.estimate(k, int(now.leaders[k]), level))
        for k, levels in enumerate(active)
        for level in levels
        if level not in stay[k]
    )
    return {
        "active": stay,
        "parents": tuple(np.flatnonzero(now.parents).tolist()),
        "closed": tuple(np.flatnonzero(~now.open).tolist()),
        "upper_loss": now.upper_loss if math.isfinite(now.upper_loss) else None,
        "eliminations": eliminations + dropped,
    }
