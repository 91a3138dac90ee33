"""Checks of arrays that users pass in, made before anything is stored."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.core.space import Codes, Space
from levers.errors import TrialError
from levers.studies.accepting import MAX_OUTCOME
from levers.studies.events import Numbers, Values


def whole_numbers(trials: ArrayLike) -> Numbers:
    """Trial numbers as an array; anything but whole numbers is refused.

    >>> whole_numbers([0, 2]).tolist()
    [0, 2]
    """
    given: NDArray[np.generic] = np.atleast_1d(np.asarray(trials))
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise TrialError(f"trials are given by their whole numbers, not as {given.dtype.name}")
    return given.astype(np.int64)


def past_runs(space: Space, codes: ArrayLike, values: ArrayLike) -> tuple[Codes, Values]:
    """Level positions and outcomes of runs that are to be imported.

    >>> past_runs(Space.sized([2, 3]), [[0, 2]], [1.5])[0].tolist()
    [[0, 2]]
    """
    rows, y = np.asarray(codes), np.asarray(values, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != space.n_factors or not np.issubdtype(rows.dtype, np.integer):
        raise TrialError(f"runs are rows of {space.n_factors} level positions, not an array of shape {rows.shape}")
    if rows.size and ((rows < 0).any() or (rows >= np.asarray(space.n_levels)).any()):
        raise TrialError("a run has a level that its factor does not have")
    if y.shape != (len(rows),) or not len(y):
        raise TrialError(
            f"{len(rows)} runs and {y.size} outcomes came; give one outcome for each run, and at least one"
        )
    bad = np.flatnonzero(~(np.abs(y) <= MAX_OUTCOME))
    if bad.size:
        raise TrialError(f"outcome {bad[0] + 1} of {len(y)} is {y[bad[0]]}; every outcome must be a finite number")
    return rows.astype(np.int16), y
