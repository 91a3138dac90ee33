"""How many runs are still to go."""

import math
from dataclasses import dataclass

from levers.algorithms.cfs.settings import cheap_scale
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.cfs.state import LOOK, SELECTION, CfsState


@dataclass(frozen=True, slots=True)
class Outlook:
    """Runs after the block under way: about so many, and so many in the worst case (None when there is no telling)."""

    likely: int | None
    worst_case: int | None


_SLACK = 1.25  # the cheap scale may be low by a tenth, and whole copies of an array round up
_ROUNDED = 40.0  # runs by which rounding to an array may lengthen even a small design


def _designed(sizes: tuple[int, ...], runs_if_ideal: float) -> float:
    """About the most runs of a design that is worth so many ideal ones; it has a row more than parameters at least."""
    n_parameters = sum(m - 1 for m in sizes)
    return max(runs_if_ideal, n_parameters + 2.0) + min(n_parameters, 0.1 * runs_if_ideal + _ROUNDED)


def outlook(cfs: Cfs, state: CfsState) -> Outlook:
    """Runs still to come after the current block, from what is known at its start.

    Likely: the cheapest plan of the lookahead, effects being as estimated. Worst case: screening up to its limit, then
    a selection among all that is in play now, with what real designs take more than ideal ones. With a noise that is
    not known yet there is no telling before the first block.

    >>> from levers.algorithms.base import Problem
    >>> from levers.core.space import Space
    >>> cfs = Cfs(Problem(Space.sized([3, 3, 3]), 0.5, 0.1, 1.0))
    >>> outlook(cfs, cfs.start()).worst_case > 100
    True
    """
    if state.finished or state.stage == SELECTION:
        return Outlook(0, 0)
    if cfs.budget is not None:
        left = max(cfs.budget - (state.n_runs - state.n_past) - math.ceil(state.target), 0)
        return Outlook(left, left)
    if state.noise_sd is None:
        return Outlook(None, None)
    block = state.target
    risk, reach = cfs.selection_risk(state)
    unit = (state.noise_sd / cfs.tolerance) ** 2
    selecting = cheap_scale(state.at_stake(cfs.max_parents), risk, cfs.bound, reach) ** 2 * unit
    screening = max(cfs.most_screening(state.noise_sd) - state.n_runs - block, 0.0)
    worst_case = math.ceil(screening + _designed(state.open_sizes, _SLACK * selecting))
    if state.stage == LOOK:  # a look mostly leaves a factor or two
        one_left = cheap_scale((max(state.open_sizes),), risk, cfs.bound, reach) ** 2 * unit
        return Outlook(min(math.ceil(one_left), worst_case), worst_case)
    if state.upper_loss is None:
        return Outlook(math.ceil(selecting), worst_case)
    costs = cfs.prospect(state, cfs.standing(state), math.ceil(block), None).screening_costs()
    likely = max(math.ceil(min([selecting, *costs]) - block), 0)
    return Outlook(likely, max(worst_case, likely))
