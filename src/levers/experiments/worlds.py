"""One algorithm on one simulated world."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import Algorithm, Batch, Verdict
from levers.algorithms.loop import run_to_verdict
from levers.algorithms.modl import Modl
from levers.algorithms.oracle import Oracle
from levers.core.moments import Moments
from levers.simulation.scm import World
from levers.simulation.totals import can_draw_totals, draw_means


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
    world_rng, policy_rng = _streams(seed)

    def outcomes_of(batch: Batch) -> tuple[Batch, ArrayLike]:
        runs = world.sample(batch.codes, world_rng)
        on_batch(batch)
        return batch.observed(runs.codes), runs.outcomes

    return run_to_verdict(algorithm, outcomes_of, policy_rng)


def _streams(seed: int | np.random.SeedSequence) -> tuple[np.random.Generator, np.random.Generator]:
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    # A fixed spawn key, not root.spawn: the same SeedSequence may be used again and must give the same streams.
    world_rng, policy_rng = (
        np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, stream)))
        for stream in (0, 1)
    )
    return world_rng, policy_rng


def run_by_phases(algorithm: Algorithm, world: World, seed: int | np.random.SeedSequence) -> Verdict:
    """Like `run_on_world`, but MODL and the oracle get each phase's sums in one draw: the same law, other numbers.

    A phase of millions of runs then costs as much as one of thousands. Other algorithms, and noise that is not
    Gaussian, are run row by row.

    >>> from levers.algorithms.base import Problem
    >>> from levers.simulation.named import collider_world
    >>> world = collider_world()
    >>> verdict = run_by_phases(Modl(Problem(world.space, 0.001, 0.1, 1.0)), world, seed=0)
    >>> verdict.assignment["X0"], verdict.n_runs > 1_000_000
    (2, True)
    """
    if not can_draw_totals(world.outcome) or not isinstance(algorithm, Modl | Oracle):
        return run_on_world(algorithm, world, seed)
    world_rng, policy_rng = _streams(seed)
    modl = algorithm if isinstance(algorithm, Modl) else algorithm.modl
    state = modl.start()
    while not state.finished:
        block, copies, rest = modl.phase(state, policy_rng)
        moments = Moments.empty(modl.space.n_levels)
        for batch, repeats in ((block, copies), (rest, 1)):
            rows = batch.codes if isinstance(algorithm, Modl) else algorithm.inside.widen_batch(batch).codes
            means, within = draw_means(world.outcome, rows, repeats, world_rng)
            moments = moments.add_repeated(batch.codes, repeats, means, within)
        state = modl.tell_phase(state, moments)
    step = algorithm.ask(state, policy_rng)
    assert isinstance(step, Verdict)  # the state is finished
    return step
