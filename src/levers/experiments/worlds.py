"""One algorithm on one simulated world."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import Algorithm, Batch, Verdict
from levers.algorithms.loop import run_to_verdict
from levers.simulation.scm import World


def run_on_world(
    algorithm: Algorithm,
    world: World,
    seed: int | np.random.SeedSequence,
    on_batch: Callable[[Batch], None] = lambda batch: None,
) -> Verdict:
    """Let an algorithm study a world. The world's noise and the algorithm's choices have streams of their own.

    >>> from levers.algorithms.base import Problem
    >>> from levers.algorithms.modl import Modl
    >>> from levers.simulation.named import collider_world
    >>> world = collider_world()
    >>> run_on_world(Modl(Problem(world.space, 0.5, 0.1, 1.0)), world, seed=0).assignment["X0"]
    2
    """
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    # A fixed spawn key, not root.spawn: the same SeedSequence may be used again and must give the same streams.
    world_rng, policy_rng = (
        np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, stream)))
        for stream in (0, 1)
    )

    def outcomes_of(batch: Batch) -> tuple[Batch, ArrayLike]:
        runs = world.sample(batch.codes, world_rng)
        on_batch(batch)
        return batch.observed(runs.codes), runs.outcomes

    return run_to_verdict(algorithm, outcomes_of, policy_rng)
