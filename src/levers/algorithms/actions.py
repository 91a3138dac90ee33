"""Whole assignments as numbered actions, for the methods that treat each as an arm of its own."""

import numpy as np
from numpy.typing import NDArray

from levers.core.space import Codes, Space
from levers.errors import TooManyActionsError

MAX_ACTIONS = 100_000
"""The most assignments that are held as separate actions."""


def check_actions(space: Space, max_actions: int, method: str) -> int:
    """The number of assignments, or an error that says what to do when there are too many."""
    if space.n_assignments > max_actions:
        raise TooManyActionsError(
            f"{method} keeps a record for each of the {space.n_assignments:,} assignments and holds at most "
            f"{max_actions:,}; use modl, which works on levels, or fewer factors, or raise max_actions"
        )
    return space.n_assignments


def action_codes(space: Space, actions: NDArray[np.int64]) -> Codes:
    """The level positions of numbered assignments.

    >>> action_codes(Space.sized([2, 3]), np.array([0, 1, 5])).tolist()
    [[0, 0], [0, 1], [1, 2]]
    """
    return np.stack(np.unravel_index(actions, space.n_levels), axis=1).astype(np.int16)
