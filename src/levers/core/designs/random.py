"""The paper's designs: every level in play equally often, every factor in an order of its own."""

import math
from functools import lru_cache

import numpy as np

from levers.core.model.level_index import ActiveLevels
from levers.core.space import Codes

SHORTEST_BLOCK = 4096
"""Runs of a block that are always worth having, whatever the number of parameters."""
RUNS_PER_PARAMETER = 16
"""A block this many times longer than the model has parameters costs at most 1/15 of the precision of fresh rows."""


def balanced_rows(active: ActiveLevels, n_runs: int, rng: np.random.Generator) -> Codes:
    """Runs in which each factor's levels in play are used equally often, up to one, in independent random orders.

    The independent orders are what balances factors against each other, in expectation: equal counts alone do not (two
    identical columns have them, and their contrasts cannot be told apart; docs/decisions/0002).

    >>> rows = balanced_rows(((0, 1), (0, 2, 3)), 6, np.random.default_rng(0))
    >>> np.bincount(rows[:, 1]).tolist()
    [2, 0, 2, 2]
    """
    turn = np.arange(n_runs)
    columns = np.stack([np.asarray(levels, dtype=np.int16)[turn % len(levels)] for levels in active])
    return np.ascontiguousarray(rng.permuted(columns, axis=1, out=columns).T)


def block_length(active: ActiveLevels, longest: int) -> int:
    """The length of the blocks that a long design repeats: a multiple of every |S_k| if it can be.

    >>> block_length(((0, 1), (0, 1, 2)), 100), block_length(((0, 1, 2, 3),) * 100, 16_384)
    (96, 4800)
    """
    together = math.lcm(*(len(levels) for levels in active))
    n_parameters = sum(len(levels) - 1 for levels in active)
    longest = min(longest, max(SHORTEST_BLOCK, RUNS_PER_PARAMETER * n_parameters))
    return longest - longest % together if together <= longest else longest


@lru_cache(maxsize=4)
def repeated_block(active: ActiveLevels, n_runs: int, seed: int) -> Codes:
    """The block that a long design repeats, from its seed. Cached, because it is asked for many times in a row.

    A design of many thousand runs gains nothing from fresh rows, and its pair counts are then a multiple of one block's
    (docs/decisions/0005).
    """
    rows = balanced_rows(active, n_runs, np.random.default_rng(seed))
    rows.flags.writeable = False
    return rows
