"""One algorithm on one simulated world."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import Algorithm, Batch, Verdict, run_to_verdict
from levers.algorithms.modl import Modl, ModlState
from levers.algorithms.restricted import Oracle, ParentsFirst, Subspace
from levers.core.model.moments import Moments
from levers.worlds.scm import World, can_draw_totals, draw_means


def run_on_world(
    algorithm: Algorithm,
    world: World,
    seed: int | np.random.SeedSequence,
    on_batch: Callable[[Batch], None] = lambda batch: None,
) -> Verdict:
    """Let an algorithm study a world. The world's noise and the algorithm's choices have streams of their own.

    >>> from levers.algorithms.base import Problem
    >>> from levers.worlds.named import collider_world
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


def answers_after(
    algorithm: Algorithm, world: World, seed: int | np.random.SeedSequence, at: Sequence[int]
) -> list[tuple[int, tuple[int, ...] | None]]:
    """What an algorithm would answer after each of these numbers of runs, and the runs it had made by then.

    A batch that goes beyond a number is not made for it. The answer is the verdict where there is one by then, else the
    leading levels of the state; None where nothing leads yet. The numbers are given in increasing order.

    >>> from levers.algorithms.base import Problem
    >>> from levers.worlds.named import collider_world
    >>> world = collider_world()
    >>> modl = Modl(Problem(world.space, 0.5, 0.1, 1.0))
    >>> answers_after(modl, world, 0, at=(1, 1_000_000))[0]
    (0, None)
    >>> answers_after(modl, world, 0, at=(1, 1_000_000))[1][1][0]  # the best level of the first factor
    2
    """
    world_rng, policy_rng = _streams(seed)
    state, n_runs, answers = algorithm.start(), 0, list[tuple[int, tuple[int, ...] | None]]()
    while len(answers) < len(at):
        step = algorithm.ask(state, policy_rng)
        if isinstance(step, Verdict):
            return [*answers, *[(n_runs, step.assignment.codes)] * (len(at) - len(answers))]
        while len(answers) < len(at) and n_runs + step.n_runs > at[len(answers)]:
            answers.append((n_runs, algorithm.progress(state).leaders or None))
        if len(answers) < len(at):
            runs = world.sample(step.codes, world_rng)
            state = algorithm.tell(state, step.observed(runs.codes), runs.outcomes)
            n_runs += step.n_runs
    return answers


def _streams(seed: int | np.random.SeedSequence) -> tuple[np.random.Generator, np.random.Generator]:
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    # A fixed spawn key, not root.spawn: the same SeedSequence may be used again and must give the same streams.
    world_rng, policy_rng = (
        np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, stream)))
        for stream in (0, 1)
    )
    return world_rng, policy_rng


def run_by_phases(algorithm: Algorithm, world: World, seed: int | np.random.SeedSequence) -> Verdict:
    """Like `run_on_world`, but MODL, the oracle and parents-first get sums in one draw: the same law, other numbers.

    A phase of millions of runs then costs as much as one of thousands. Other algorithms, noise that is not Gaussian,
    and runs in which factors are left to nature, are made row by row.

    >>> from levers.algorithms.base import Problem
    >>> from levers.worlds.named import collider_world
    >>> world = collider_world()
    >>> verdict = run_by_phases(Modl(Problem(world.space, 0.001, 0.1, 1.0)), world, seed=0)
    >>> verdict.assignment["X0"], verdict.n_runs > 1_000_000
    (2, True)
    """
    leaves_free = isinstance(algorithm, Oracle | ParentsFirst) and algorithm.others == "free"
    if leaves_free or not can_draw_totals(world.outcome):
        return run_on_world(algorithm, world, seed)
    world_rng, policy_rng = _streams(seed)
    match algorithm:
        case Modl():
            n_factors = algorithm.space.n_factors
            everywhere = Subspace(algorithm.space, tuple(range(n_factors)), (0,) * n_factors)
            return _ended(algorithm, _phases(algorithm, everywhere, world, world_rng, policy_rng))
        case Oracle():
            return _ended(algorithm, _phases(algorithm.modl, algorithm.inside, world, world_rng, policy_rng))
        case ParentsFirst():
            state = algorithm.start()
            while state.search is None:
                factor, row, n_runs = algorithm.next_test(state, policy_rng)
                means, _ = draw_means(world.outcome, row[None, :], n_runs, world_rng)
                state = algorithm.tell_test(state, factor, n_runs, n_runs * float(means[0]))
            inside, modl = algorithm.search(state)
            found = _phases(modl, inside, world, world_rng, policy_rng)
            return _ended(algorithm, replace(state, search=found))
    return run_on_world(algorithm, world, seed)


def _phases(
    modl: Modl, inside: Subspace, world: World, world_rng: np.random.Generator, policy_rng: np.random.Generator
) -> ModlState:
    """MODL to its end, on some factors of a world."""
    state = modl.start()
    while not state.finished:
        block, copies, rest = modl.phase(state, policy_rng)
        moments = Moments.empty(modl.space.n_levels)
        for batch, repeats in ((block, copies), (rest, 1)):
            means, within = draw_means(world.outcome, inside.widen(batch.codes), repeats, world_rng)
            moments = moments.add_repeated(batch.codes, repeats, means, within)
        state = modl.tell_phase(state, moments)
    return state


def _ended(algorithm: Algorithm, state: object) -> Verdict:
    step = algorithm.ask(state, np.random.default_rng(0))
    assert isinstance(step, Verdict)  # the state is finished, so no randomness is used
    return step
