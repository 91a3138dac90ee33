"""The one loop: ask, run, tell, until there is a verdict."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import Algorithm, Batch, Verdict


def run_to_verdict(
    algorithm: Algorithm,
    outcomes_of: Callable[[Batch], tuple[Batch, ArrayLike]],
    rng: np.random.Generator,
) -> Verdict:
    """Drive an algorithm to its verdict.

    `outcomes_of` makes the runs; it returns the batch as it was run (what nature chose filled in) and the outcomes.

    >>> from levers.algorithms.base import Problem
    >>> from levers.algorithms.modl import Modl
    >>> from levers.core.space import Space
    >>> noise = np.random.default_rng(1)
    >>> def outcomes_of(batch):
    ...     return batch, 2.0 * batch.codes[:, 1] + noise.normal(size=batch.n_runs)
    >>> modl = Modl(Problem(Space.sized([2, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0))
    >>> run_to_verdict(modl, outcomes_of, np.random.default_rng(0)).assignment["X2"]
    3
    """
    state = algorithm.start()
    while isinstance(step := algorithm.ask(state, rng), Batch):
        batch, outcomes = outcomes_of(step)
        state = algorithm.tell(state, batch, outcomes)
    return step
