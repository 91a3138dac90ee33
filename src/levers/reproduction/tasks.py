"""Run one task: a pure function of its seed, the same on any machine and any number of workers."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from levers.algorithms.base import Algorithm, Problem, Verdict
from levers.algorithms.modl import BOUND_IN_TOLERANCES, Modl
from levers.algorithms.registry import make_algorithm
from levers.core.certificates.limits import necessary_runs
from levers.core.certificates.modl_bound import corrected_bound, level_gaps, phase_sum, theorem_bound
from levers.core.certificates.needle_bound import flat_world_bound, needle_bound
from levers.core.space import Space
from levers.experiments.compare import Comparison, judged
from levers.experiments.runner import run_by_phases, run_on_world
from levers.reproduction.results import Row
from levers.reproduction.sweeps import (
    EQUAL_GAP_LEVELS,
    GAUSSIAN,
    MANY_RUNS,
    NAIVE,
    NEEDLE_FAILURE_PROB,
    NEEDLE_HEIGHT,
    NEEDLE_TOLERANCE,
    SWEEPS,
    Contender,
    Point,
    Task,
)
from levers.worlds.named import even_table, needle_world
from levers.worlds.outcome import AdditiveOutcome, Noise
from levers.worlds.scm import World, true_parents

Bounds = tuple[float | None, float | None, float | None, int | None]
"""The last columns of a row: limit, bound, ceiling, expected."""


class _Entry(NamedTuple):
    """One contender, ready to run: `seed_key` and the number of a repeat make the seed of each run."""

    algorithm: Algorithm
    world: World
    run: Callable[[Algorithm, World, np.random.SeedSequence], Verdict]
    tolerance: float
    bounds: Bounds
    seed_key: tuple[int, ...]


def run_task(task: Task) -> list[Row]:
    """Every contender on one world of one point. One thread, so that numbers do not depend on the machine's cores."""
    point = SWEEPS[task.sweep].points[task.size][task.point]
    with threadpool_limits(1):
        runs_here = [one for one in point.contenders if task.noise == GAUSSIAN or one not in MANY_RUNS]
        return [row for contender in runs_here for row in _rows(task, point, contender)]


def _rows(task: Task, point: Point, contender: Contender) -> Iterator[Row]:
    """Every run of one contender."""
    n_repeats = contender.n_repeats(task.size, task.world)
    if point.most_repeats is not None:
        n_repeats = min(n_repeats, point.most_repeats)
    if n_repeats == 0:
        return
    entry = _ENTRIES.get(task.sweep, _random_entry)(task, point, contender)
    for repeat in range(n_repeats):
        seed = np.random.SeedSequence(task.seed, spawn_key=(*entry.seed_key, repeat))
        verdict = entry.run(entry.algorithm, entry.world, seed)
        where = (task.sweep, point.panel, point.x, contender.label, task.world, repeat)
        missed = None if verdict.parents is None else len(set(true_parents(entry.world)) - set(verdict.parents))
        yield Row(*where, *judged(verdict, entry.world, entry.tolerance), missed, *entry.bounds)


def _random_entry(task: Task, point: Point, contender: Contender) -> _Entry:
    """A contender on a random world of the paper."""
    comparison = point.comparison(contender, task.seed, task.noise)
    number = point.first_world + task.world
    world = comparison.world(number)
    algorithm = comparison.algorithm(contender.algorithm, world)
    bounds = modl_bounds(algorithm, world, comparison.necessary_runs(world))
    return _Entry(algorithm, world, run_by_phases, comparison.tolerance, bounds, (number,))


def modl_bounds(algorithm: Algorithm, world: World, limit: float) -> Bounds:
    """The theorem's bound, one that holds, and the sum over phases; only for MODL on an additive outcome.

    >>> world = equal_gaps_world((3, 3), 1.0, np.random.default_rng(0))
    >>> modl = Modl(Problem(world.space, 0.5, 0.1, 1.0), "proof")
    >>> [round(bound) for bound in modl_bounds(modl, world, 100.0)]
    [100, 723, 4011, 118]
    """
    outcome = world.outcome
    if not (isinstance(algorithm, Modl) and isinstance(outcome, AdditiveOutcome)) or outcome.interactions:
        return limit, None, None, None
    sizes, asked = world.space.n_levels, (algorithm.failure_prob, algorithm.noise_sd)
    gaps = level_gaps([outcome.effects.get(k, (0.0,) * m) for k, m in enumerate(sizes)])
    bound = algorithm.outcome_bound or BOUND_IN_TOLERANCES * algorithm.tolerance
    plan, known = algorithm.widths, algorithm.max_parents is not None
    # the schedule of the proof: the theorem as stated, with eps/K, whatever the schedule that is run
    stated = theorem_bound(gaps, algorithm.tolerance, *asked, bound, known_parents=known)
    expected = phase_sum(gaps, plan, *asked, algorithm.max_parents, "noiseless")
    return limit, stated, corrected_bound(gaps, plan, *asked, known), expected


def _equal_gaps_entry(task: Task, point: Point, contender: Contender) -> _Entry:
    """A contender on a world whose gaps are all alike."""
    seed_key = (round(1000 * point.x), task.world)
    rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=seed_key))
    world = equal_gaps_world(EQUAL_GAP_LEVELS, point.x, rng, task.noise)
    n_factors = len(EQUAL_GAP_LEVELS)
    asked = Comparison(n_factors, n_factors, schedule=contender.schedule, make_worlds=False)
    algorithm = asked.algorithm(contender.algorithm, world)
    limit = necessary_runs(EQUAL_GAP_LEVELS, asked.tolerance, asked.failure_prob, asked.noise_sd)
    return _Entry(algorithm, world, run_by_phases, asked.tolerance, modl_bounds(algorithm, world, limit), seed_key)


def equal_gaps_world(n_levels: tuple[int, ...], gap: float, rng: np.random.Generator, noise: str = GAUSSIAN) -> World:
    """A world without arrows between factors; in each, all levels but one drawn at random are `gap` behind it.

    >>> equal_gaps_world((2,), 1.5, np.random.default_rng(0)).outcome.effects
    {0: (0.0, 1.5)}
    """
    best = [int(rng.integers(m)) for m in n_levels]
    effects = {k: tuple(gap * (level == best[k]) for level in range(m)) for k, m in enumerate(n_levels)}
    return World(Space.sized(n_levels), [even_table(m) for m in n_levels], AdditiveOutcome(effects, Noise(1.0, noise)))


def _needle_entry(task: Task, point: Point, contender: Contender) -> _Entry:
    """A contender on a needle world."""
    n_factors = int(point.x)
    seed_key = (n_factors, task.world)
    rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=seed_key))
    world = needle_world((2,) * n_factors, n_factors, NEEDLE_HEIGHT, rng)
    problem = Problem(world.space, NEEDLE_TOLERANCE, NEEDLE_FAILURE_PROB, world.outcome.noise_sd)
    options = {"target": NEEDLE_HEIGHT} if contender == NAIVE else {}
    algorithm = make_algorithm(contender.algorithm, problem, **options)
    told = needle_bound(2**n_factors, NEEDLE_HEIGHT, NEEDLE_FAILURE_PROB, world.outcome.noise_sd)
    flat = flat_world_bound(2**n_factors, NEEDLE_TOLERANCE, NEEDLE_FAILURE_PROB, world.outcome.noise_sd)
    return _Entry(algorithm, world, run_on_world, NEEDLE_TOLERANCE, (told, flat, None, None), seed_key)


_ENTRIES: dict[str, Callable[[Task, Point, Contender], _Entry]] = {
    "hardness": _needle_entry,
    "gaps": _equal_gaps_entry,
}
"""Experiments whose worlds are not the paper's random ones."""
