"""How many runs are still to go."""

import math
from dataclasses import dataclass

from levers.algorithms.cfs import Cfs
from levers.algorithms.cfs_plan import cheap_scale
from levers.algorithms.cfs_state import SCREENING, CfsState


@dataclass(frozen=True, slots=True)
class Outlook:
    """Runs after the block under way: about so many, and at most so many (None when there is no telling)."""

    likely: int | None
    at_most: int | None


def outlook(cfs: Cfs, state: CfsState) -> Outlook:
    """Runs still to come after the current block, from what is known at its start.

    Likely: the cheapest plan of the lookahead, effects being as estimated. At most: screening up to its limit, then a
    selection among all that is in play now. With a noise that is not known yet there is no telling before the first
    block.

    >>> from levers.algorithms.base import Problem
    >>> from levers.core.space import Space
    >>> cfs = Cfs(Problem(Space.sized([3, 3, 3]), 0.5, 0.1, 1.0))
    >>> outlook(cfs, cfs.start()).at_most > 100
    True
    """
    if state.finished or state.stage != SCREENING:
        return Outlook(0, 0)
    if cfs.budget is not None:
        left = max(cfs.budget - state.n_runs - math.ceil(state.target), 0)
        return Outlook(left, left)
    if state.noise_sd is None:
        return Outlook(None, None)
    block = state.target
    selecting = (cheap_scale(state.at_stake(cfs.max_parents), cfs.shares.selection, cfs.bound) * state.noise_sd) ** 2
    selecting /= cfs.tolerance**2
    at_most = math.ceil(1.1 * selecting + max(cfs.most_screening(state.noise_sd) - state.n_runs - block, 0.0))
    if state.upper_loss is None:
        return Outlook(math.ceil(selecting), at_most)
    costs = cfs.prospect(state, math.ceil(block), None).screening_costs()
    likely = max(math.ceil(min([selecting, *costs]) - block), 0)
    return Outlook(likely, max(at_most, likely))
