"""What a planned look makes of its outcomes."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from levers.algorithms.cfs_state import CfsState
from levers.core.elimination import Elimination
from levers.core.look import Look


def look_factors(state: CfsState, n_levels: tuple[int, ...]) -> tuple[tuple[int, bool], ...]:
    """The factors that a look varies: how many levels are in play, and whether those are all."""
    return tuple((len(state.active[k]), len(state.active[k]) == n_levels[k]) for k in state.open_factors)


def after_look(
    state: CfsState,
    look: Look,
    factors: tuple[int, ...],
    levels: tuple[tuple[int, ...], ...],
    effects: tuple[NDArray[np.float64], ...],
    root_n: float,
    n_levels: tuple[int, ...],
) -> CfsState:
    """The state with the look's dismissals and drops, on top of what screening has dropped.

    `factors` and `levels` are what the look varied, `effects` its estimates, with independent errors of standard error
    sqrt(m) / `root_n`. A dismissed factor is closed at its leader.
    """
    active, leaders, closed = list(state.active), list(state.leaders), set(state.closed)
    dropped: list[Elimination] = []
    for k, varied, values in zip(factors, levels, effects, strict=True):
        error = math.sqrt(len(varied)) / root_n
        best = int(np.argmax(values))
        whole = len(varied) == n_levels[k]
        if whole and varied[best] in active[k] and look.dismisses(values, error):
            leaders[k] = varied[best]
            closed.add(k)
            continue
        mean = dict(zip(varied, values.tolist(), strict=True))
        first = max(mean[level] for level in active[k])  # of those in play: what is left must hold what beat the rest
        behind = {level: first - mean[level] for level in active[k]}
        kept = tuple(level for level in active[k] if behind[level] < look.apart * error)
        dropped += [Elimination(k, level, state.n_runs, behind[level]) for level in active[k] if level not in kept]
        active[k] = kept
    return replace(
        state,
        active=tuple(active),
        leaders=tuple(leaders),
        closed=tuple(sorted(closed)),
        eliminations=state.eliminations + tuple(dropped),
    )
