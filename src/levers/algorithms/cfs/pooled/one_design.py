"""What one design of all levers certifies, before any outcome."""

from dataclasses import replace

import numpy as np

from levers.algorithms.cfs.pooled.blocks import tied_block
from levers.algorithms.cfs.pooled.certificate import PooledCertificate
from levers.algorithms.cfs.pooled.state import PooledState
from levers.core.certificates.certificate import stakes_tolerance
from levers.core.certificates.sums import is_finite
from levers.core.designs.build import largest_design
from levers.core.model.moments import Moments


def certified_by_design(
    certificate: PooledCertificate, start: PooledState, risk: float, n_runs: int, noise_sd: float
) -> float | None:
    """The tolerance that one design of so many runs certifies; None if it does not determine every difference.

    `start` is the state of a study before its first run.

    >>> from levers import Problem, Space
    >>> from levers.algorithms.cfs.pooled.solver import Pooled
    >>> solver = Pooled(Problem(Space.sized([3, 4, 2]), None, 0.1, 1.0), budget=24)
    >>> found = [certified_by_design(solver.certificate, solver.start(), 0.1, n_runs, 1.0) for n_runs in (24, 48, 4)]
    >>> 0.8 < found[1] < found[0] < 1.5, found[2]
    (True, None)
    """
    choices = certificate.choices
    if choices.is_tied:
        rows = choices.rows(tied_block(choices, start, n_runs, 0, exchanges=True).rows)
    else:
        rows = largest_design(choices.n_levels, n_runs, 0).rows
    pooled = start.pooled.add(Moments.empty(choices.sizes).add(rows, np.zeros(len(rows))), None)
    state = replace(start, pooled=pooled, noise_sd=noise_sd)
    stakes = certificate.stakes(state, choices.evidence(state.fit))
    return stakes_tolerance(stakes, risk) if is_finite(stakes) else None
