"""Compare algorithms on the same random worlds."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levers.algorithms.base import Algorithm, Problem, Verdict
from levers.algorithms.registry import check_known, make_algorithm, option_names
from levers.core.certificates.certificate import certified_levels
from levers.core.certificates.limits import necessary_runs, null_bound
from levers.core.certificates.sample_size import SCHEDULES
from levers.core.validation import check_choice, check_count
from levers.errors import InvalidSettingError
from levers.experiments.runner import run_on_world
from levers.worlds.random import random_world
from levers.worlds.scm import World, best_assignment, gap, true_parents

DEFAULT_ALGORITHMS = ("cfs", "modl", "parents-first", "oracle")


@dataclass(frozen=True)
class Comparison:
    """What to compare: algorithms, the kind of world, how many worlds and repeats, and the seed of it all.

    All worlds and algorithms are made once, so that errors come first, unless `make_worlds` is off. `told_parents` is a
    bound on the number of parents that algorithms are told; it may differ from the truth, `n_parents`.

    >>> Comparison(n_factors=4, n_parents=2, n_worlds=2, n_repeats=1).tasks()
    [(0, 0), (1, 0)]
    """

    n_factors: int = 10
    n_parents: int = 3
    levels: tuple[int, int] = (3, 6)
    tolerance: float = 0.5
    failure_prob: float = 0.1
    noise_sd: float = 1.0
    outcome_bound: float = 5.0
    n_worlds: int = 20
    n_repeats: int = 5
    algorithms: tuple[str, ...] = DEFAULT_ALGORITHMS
    known_parents: bool = False
    known_min_effect: bool = False
    schedule: str = SCHEDULES[0]
    degree: float = 3.0
    interaction: float = 0.0
    min_effect: float = 0.0
    max_in_degree: int | None = 6
    noise: str = "gaussian"
    interactions: tuple[int, ...] = ()
    magnitude: float = 0.0
    child_prob: float = 0.5
    table_beta: tuple[float, float] = (2.0, 5.0)
    root_dirichlet: float = 0.5
    told_parents: int | None = None
    seed: int = 0
    make_worlds: bool = True

    def __post_init__(self) -> None:
        check_count("worlds", self.n_worlds)
        check_count("repeats", self.n_repeats)
        check_count("seed", self.seed, 0)
        check_choice("schedule", self.schedule, SCHEDULES)
        if self.told_parents is not None:
            check_count("told_parents", self.told_parents, 1, self.n_factors)
        if self.known_min_effect and not self.min_effect:
            raise InvalidSettingError("known_min_effect needs a min_effect above 0")
        if not self.algorithms:
            raise InvalidSettingError("name at least one algorithm to compare")
        for name in self.algorithms:
            check_known(name)
        if len(set(self.algorithms)) < len(self.algorithms):
            raise InvalidSettingError("an algorithm is named twice")
        for index in range(self.n_worlds if self.make_worlds else 0):  # errors come before the first run
            world = self.world(index)
            for name in self.algorithms:
                self.algorithm(name, world)

    def world(self, index: int) -> World:
        """World number `index`: depends on the seed and the number only."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(index,)))
        return random_world(
            self.n_factors,
            self.n_parents,
            rng,
            levels=self.levels,
            degree=self.degree,
            outcome_bound=self.outcome_bound,
            noise_sd=self.noise_sd,
            interaction=self.interaction,
            min_effect=self.min_effect,
            max_in_degree=self.max_in_degree,
            noise=self.noise,
            interactions=self.interactions,
            magnitude=self.magnitude,
            child_prob=self.child_prob,
            table_beta=self.table_beta,
            root_dirichlet=self.root_dirichlet,
        )

    @property
    def max_parents(self) -> int | None:
        """The bound on the number of parents that algorithms are told, if any."""
        return self.told_parents or (self.n_parents if self.known_parents else None)

    def algorithm(self, name: str, world: World) -> Algorithm:
        """The named algorithm, told what it may know of the world."""
        offered: dict[str, Any] = {
            "schedule": self.schedule,
            "outcome_bound": self.outcome_bound,
            "max_parents": self.max_parents,
            "min_effect": self.min_effect if self.known_min_effect else None,
            "parents": true_parents(world),
            "target": float(world.outcome.mean(np.array([best_assignment(world).codes], dtype=np.int16))[0]),
        }
        options = {key: value for key, value in offered.items() if key in option_names(name)}
        problem = Problem(world.space, self.tolerance, self.failure_prob, world.outcome.noise_sd)
        return make_algorithm(name, problem, **options)

    def necessary_runs(self, world: World) -> int:
        """The fewest runs with which the balanced fixed-size rule could keep the promise, knowing what it may know."""
        levels = certified_levels(world.space.n_levels, self.max_parents)
        return necessary_runs(levels, self.tolerance, self.failure_prob, world.outcome.noise_sd)

    def null_bound(self, world: World) -> float:
        """Mean runs that any method needs on this world to see that factors without effect have none.

        It is 0 where the number of parents is told: a method that has found that many is done with the others.
        """
        unknown = [] if self.max_parents is not None else set(range(self.n_factors)) - set(world.outcome.parents)
        sizes = [world.space.n_levels[k] for k in unknown]
        least = self.min_effect if self.known_min_effect else 0.0
        return null_bound(sizes, self.tolerance, self.failure_prob, world.outcome.noise_sd, least)

    def tasks(self) -> list[tuple[int, int]]:
        """All pairs of world and repeat."""
        return [(world, repeat) for world in range(self.n_worlds) for repeat in range(self.n_repeats)]


@dataclass(frozen=True)
class RunRecord:
    """One algorithm on one world, once."""

    algorithm: str
    world: int
    repeat: int
    n_runs: int
    gap: float
    failed: bool
    parents_exact: bool | None
    over_necessary: float
    seconds: float


@dataclass(frozen=True)
class Summary:
    """One algorithm over all worlds and repeats. The standard error takes worlds as the independent units."""

    algorithm: str
    runs_mean: float
    runs_sem: float
    gap_mean: float
    gap_max: float
    failures: int
    n: int
    parents_exact: float | None
    over_necessary: float
    seconds: float


def run_task(comparison: Comparison, world_index: int, repeat: int) -> list[RunRecord]:
    """Every algorithm once on one world. One thread each, so that the numbers do not depend on the machine's cores."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        world = comparison.world(world_index)
        return [_run_one(comparison, name, world, world_index, repeat) for name in comparison.algorithms]


def run_tasks(comparison: Comparison, workers: int = 1) -> Iterator[list[RunRecord]]:
    """Every task's records as they come in, in the order of the tasks whatever the number of workers."""
    check_count("workers", workers)
    tasks = comparison.tasks()
    if workers == 1:
        yield from (run_task(comparison, *task) for task in tasks)
        return
    from joblib import Parallel, delayed

    pool = Parallel(n_jobs=workers, return_as="generator", batch_size="auto")
    yield from pool(delayed(run_task)(comparison, *task) for task in tasks)


def summarise(algorithms: Sequence[str], records: Iterable[RunRecord]) -> list[Summary]:
    """One row per algorithm.

    >>> plan = Comparison(n_factors=3, n_parents=1, n_worlds=2, n_repeats=2, algorithms=("modl",))
    >>> [summary] = summarise(plan.algorithms, [r for batch in run_tasks(plan) for r in batch])
    >>> summary.n, summary.failures
    (4, 0)
    """
    kept = list(records)
    return [_summary(name, [r for r in kept if r.algorithm == name]) for name in algorithms]


def _run_one(comparison: Comparison, name: str, world: World, index: int, repeat: int) -> RunRecord:
    algorithm = comparison.algorithm(name, world)
    began = time.perf_counter()
    verdict = run_on_world(algorithm, world, np.random.SeedSequence(comparison.seed, spawn_key=(index, repeat)))
    seconds = time.perf_counter() - began
    over_necessary = verdict.n_runs / comparison.necessary_runs(world)
    return RunRecord(name, index, repeat, *judged(verdict, world, comparison.tolerance), over_necessary, seconds)


def judged(verdict: Verdict, world: World, tolerance: float) -> tuple[int, float, bool, bool | None]:
    """A verdict against the truth: its runs, its gap, whether that is a failure, and whether the parents are exact."""
    loss = gap(world, verdict.assignment.codes)
    exact = None if verdict.parents is None else set(verdict.parents) == set(true_parents(world))
    return verdict.n_runs, loss, loss > tolerance, exact


def _summary(name: str, records: Sequence[RunRecord]) -> Summary:
    runs = np.array([r.n_runs for r in records], dtype=np.float64)
    gaps = np.array([r.gap for r in records])
    worlds = np.array([r.world for r in records])
    by_world = np.array([runs[worlds == w].mean() for w in np.unique(worlds)])
    exact = [r.parents_exact for r in records if r.parents_exact is not None]
    return Summary(
        algorithm=name,
        runs_mean=float(runs.mean()),
        runs_sem=float(by_world.std(ddof=1) / np.sqrt(len(by_world))) if len(by_world) > 1 else 0.0,
        gap_mean=float(gaps.mean()),
        gap_max=float(gaps.max()),
        failures=sum(r.failed for r in records),
        n=len(records),
        parents_exact=float(np.mean(exact)) if exact else None,
        over_necessary=float(np.mean([r.over_necessary for r in records])),
        seconds=sum(r.seconds for r in records),
    )
