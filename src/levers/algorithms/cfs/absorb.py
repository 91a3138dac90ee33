"""Runs that CFS did not ask for, or asked for on a decision that has since been corrected, as evidence."""

from dataclasses import replace
from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import Batch, BlockRecord
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.cfs.state import SCREENING, SELECTION, CfsState
from levers.core.model.fit import Fit
from levers.core.model.moments import Moments
from levers.core.space import Codes


def absorb(cfs: Cfs, state: CfsState, codes: Codes, outcomes: ArrayLike, stage: str) -> CfsState:
    """Add runs as evidence between two blocks, and decide again.

    The radii hold for any rows that were chosen before their outcomes were seen: the pooled differences stay a
    martingale (docs/theory, section 5). Contrasts that these rows do not determine get no evidence. The runs say
    nothing about the size of the noise here, and never enter a selection, which needs fresh runs.

    >>> from levers.algorithms.base import Problem
    >>> from levers.core.space import Space
    >>> cfs = Cfs(Problem(Space.sized([2, 2]), 0.5, 0.1, 1.0))
    >>> state = absorb(cfs, cfs.start(), np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), [0.0, 1.0, 5.0, 6.0], "past data")
    >>> float(state.evidence.estimates[0, 1, 0].round(6)), state.blocks[0].stage
    (5.0, 'past data')
    """
    rows = np.asarray(codes, dtype=np.int16)
    y = cfs.accept(Batch(rows, stage), outcomes)
    fit = Fit(Moments.empty(cfs.space.n_levels).add(rows, y))
    differences = np.zeros_like(state.evidence.weighted)
    variances = np.full_like(differences, np.inf)
    for k, m in enumerate(cfs.space.n_levels):
        effects = np.nan_to_num(fit.level_effects(k))
        differences[k, :m, :m] = effects[:, None] - effects[None, :]
        variances[k, :m, :m] = fit.variances(k)
    digest = sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()[:16]
    state = replace(
        state,
        evidence=state.evidence.add(differences, variances),
        n_runs=state.n_runs + len(y),
        blocks=(*state.blocks, BlockRecord(stage, len(y), 0, "as run", 0.0, digest)),
    )
    selected = state.finished and state.stage == SELECTION
    if state.rho is None or selected:
        return state
    return cfs.decide(*cfs.screen(replace(state, stage=SCREENING, finished=False, certified=None)))
