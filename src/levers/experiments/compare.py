"""Compare algorithms on the same worlds: runs to the verdict, or the gap after fixed numbers of runs."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from levers.algorithms.base import Algorithm, Problem, Verdict
from levers.algorithms.registry import check_known, make_algorithm, option_names
from levers.core.certificates.certificate import certified_levels
from levers.core.certificates.limits import necessary_runs, null_bound
from levers.core.certificates.sample_size import SCHEDULES
from levers.core.validation import check_choice, check_count
from levers.errors import InvalidSettingError
from levers.experiments.runner import answers_after, run_on_world
from levers.worlds.random import random_world
from levers.worlds.scm import World, best_mean, gap, true_parents

DEFAULT_ALGORITHMS = ("cfs", "modl", "parents-first", "oracle")
OF_RANDOM_WORLDS = (
    "n_factors",
    "n_parents",
    "levels",
    "noise_sd",
    "noise",
    "outcome_bound",
    "n_worlds",
    "known_min_effect",
    "degree",
    "interaction",
    "interactions",
    "magnitude",
    "min_effect",
    "max_in_degree",
    "child_prob",
    "table_beta",
    "root_dirichlet",
)
"""Settings that say how random worlds are made. A world from a file says these itself."""
T = TypeVar("T")


@dataclass(frozen=True)
class Comparison:
    """What to compare: algorithms, the kind of world, how many worlds and repeats, and the seed of it all.

    All worlds and algorithms are made once, so that errors come first, unless `make_worlds` is off. `told_parents` is
    the number of parents that algorithms are told, which may be wrong; `known_parents` tells the true one. With `at`,
    the gap after these numbers of runs is compared (`run_curves`), otherwise runs to the verdict (`run_tasks`).
    `world_file` is one world from a file instead of random ones, `outcome` the node of it that is the outcome; what
    says how random worlds are made (`OF_RANDOM_WORLDS`) then stays as it is, with `n_worlds` 1.

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
    seed: int = 0
    make_worlds: bool = True
    noise: str = "gaussian"
    told_parents: int | None = None
    child_prob: float = 0.5
    table_beta: tuple[float, float] = (2.0, 5.0)
    root_dirichlet: float = 0.5
    interactions: tuple[int, ...] = ()
    magnitude: float = 0.0
    at: tuple[int, ...] = ()
    world_file: str | None = None
    outcome: str | None = None

    def __post_init__(self) -> None:
        check_count("worlds", self.n_worlds)
        check_count("repeats", self.n_repeats)
        check_count("seed", self.seed, 0)
        check_choice("schedule", self.schedule, SCHEDULES)
        for n_runs in self.at:
            check_count("at", n_runs)
        if tuple(sorted(set(self.at))) != self.at:
            raise InvalidSettingError(f"give each number of runs once, in increasing order, not {list(self.at)}")
        if self.told_parents is not None:
            check_count("told_parents", self.told_parents)
            if self.known_parents:
                raise InvalidSettingError("algorithms are told the true number of parents, or told_parents, not both")
        if self.outcome is not None and self.world_file is None:
            raise InvalidSettingError("outcome names a node of a world from a file; give the file too")
        if self.world_file is not None:
            if self.n_worlds != 1:
                raise InvalidSettingError("a world from a file is one world; n_worlds must be 1", field="n_worlds")
            usual = {one.name: one.default for one in fields(self)} | {"n_worlds": 1}
            for name in OF_RANDOM_WORLDS:
                if getattr(self, name) != usual[name]:
                    raise InvalidSettingError(
                        f"{name} is of random worlds; the file says what its world is", field=name
                    )
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
                for budget in self.at or (None,):
                    self.algorithm(name, world, budget)

    def world(self, index: int) -> World:
        """World number `index`: depends on the seed and the number only."""
        if self.world_file is not None:
            return _world_of(self.world_file, self.outcome)
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

    def told(self, world: World) -> int | None:
        """How many factors matter at most, as algorithms are told."""
        told = len(true_parents(world)) if self.known_parents else self.told_parents
        return None if told is None else min(told, world.space.n_factors)

    def algorithm(self, name: str, world: World, budget: int | None = None) -> Algorithm:
        """The named algorithm, told what it may know of the world.

        With a budget one that has such an option spends it, without a tolerance.
        """
        known, bound = option_names(name), None if self.world_file is not None else self.outcome_bound
        offered: dict[str, Callable[[], Any]] = {
            "schedule": lambda: self.schedule,
            "outcome_bound": lambda: bound,
            "mean_bound": lambda: None if bound is None else bound * len(true_parents(world)),
            "max_parents": lambda: self.told(world),
            "min_effect": lambda: self.min_effect if self.known_min_effect else None,
            "parents": lambda: true_parents(world),
            "target": lambda: best_mean(world),
        }
        options = {key: value() for key, value in offered.items() if key in known}
        spends = budget is not None and "budget" in known
        if spends:
            options["budget"] = budget
        tolerance = None if spends else self.tolerance
        problem = Problem(world.space, tolerance, self.failure_prob, world.noise_sd)
        return make_algorithm(name, problem, **options)

    def necessary_runs(self, world: World) -> int:
        """The fewest runs with which the balanced fixed-size rule could keep the promise, knowing what it may know."""
        levels = certified_levels(world.space.n_levels, self.told(world))
        return necessary_runs(levels, self.tolerance, self.failure_prob, world.noise_sd)

    def null_bound(self, world: World) -> float:
        """Mean runs that any method needs on this world to see that factors without effect have none.

        It is 0 where the number of parents is told: a method that has found that many is done with the others.
        """
        n_factors = world.space.n_factors
        unknown = (
            []
            if self.told(world) is not None
            else set(range(n_factors)) - {world.space.position(name) for name in true_parents(world)}
        )
        sizes = [world.space.n_levels[k] for k in unknown]
        least = self.min_effect if self.known_min_effect else 0.0
        return null_bound(sizes, self.tolerance, self.failure_prob, world.noise_sd, least)

    def _repr_html_(self) -> str:
        from levers.extensions import html_of

        return html_of(self)

    def tasks(self) -> list[tuple[int, int]]:
        """All pairs of world and repeat."""
        return [(world, repeat) for world in range(self.n_worlds) for repeat in range(self.n_repeats)]

    def swept(self, **changes: Any) -> "Comparison":
        """The same with some settings changed: one point of a sweep.

        >>> Comparison(n_factors=4, n_parents=1, n_worlds=1).swept(n_parents=2).n_parents
        2
        """
        unknown = sorted(changes.keys() - {f.name for f in fields(self)})
        if unknown:
            raise InvalidSettingError(f"a comparison has no setting {unknown[0]!r}")
        return replace(self, **changes)


@lru_cache(maxsize=4)
def _world_of(path: str, outcome: str | None) -> World:
    from levers.worlds.files import load_world  # brings packages that random worlds do not need

    return load_world(path, outcome)


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
    """One algorithm over all worlds and repeats. The standard error takes worlds as the independent units.

    Of a single world, as one from a file is, its repeats are the units.
    """

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


@dataclass(frozen=True)
class CurveRecord:
    """What one algorithm would answer on one world after some runs: the runs it made, and its gap (None: no answer)."""

    algorithm: str
    world: int
    repeat: int
    at: int
    n_runs: int
    gap: float | None


@dataclass(frozen=True)
class CurvePoint:
    """One algorithm after a number of runs, over all worlds and repeats in which it had an answer by then.

    A failure is a gap above the tolerance.
    """

    algorithm: str
    at: int
    runs_mean: float
    gap_mean: float | None
    gap_sem: float | None
    gap_max: float | None
    failures: int
    answers: int
    n: int


def run_task(comparison: Comparison, world_index: int, repeat: int) -> list[RunRecord]:
    """Every algorithm once on one world. One thread each, so that the numbers do not depend on the machine's cores."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        world = comparison.world(world_index)
        return [_run_one(comparison, name, world, world_index, repeat) for name in comparison.algorithms]


def run_curve_task(comparison: Comparison, world_index: int, repeat: int) -> list[CurveRecord]:
    """What every algorithm answers on one world after each of the numbers of runs.

    One with a budget is run anew for each, because the budget decides how it spends its runs.
    """
    from threadpoolctl import threadpool_limits

    seed = np.random.SeedSequence(comparison.seed, spawn_key=(world_index, repeat))
    records = []
    answers: list[tuple[int, tuple[int, ...] | None]]
    with threadpool_limits(1):
        world = comparison.world(world_index)
        for name in comparison.algorithms:
            if "budget" in option_names(name):
                verdicts = [run_on_world(comparison.algorithm(name, world, n), world, seed) for n in comparison.at]
                answers = [(verdict.n_runs, verdict.assignment.codes) for verdict in verdicts]
            else:
                answers = answers_after(comparison.algorithm(name, world), world, seed, comparison.at)
            for n, (made, codes) in zip(comparison.at, answers, strict=True):
                loss = None if codes is None else gap(world, codes)
                records.append(CurveRecord(name, world_index, repeat, n, made, loss))
    return records


def run_tasks(comparison: Comparison, workers: int = 1) -> Iterator[list[RunRecord]]:
    """Every task's records as they come in, in the order of the tasks whatever the number of workers."""
    return _in_order(run_task, comparison, workers)


def run_curves(comparison: Comparison, workers: int = 1) -> Iterator[list[CurveRecord]]:
    """The same for the gap after each of the numbers of runs in `comparison.at`."""
    if not comparison.at:
        raise InvalidSettingError("say after which numbers of runs, as in at=(20, 40, 80)")
    return _in_order(run_curve_task, comparison, workers)


def _in_order(
    function: Callable[[Comparison, int, int], list[T]], comparison: Comparison, workers: int
) -> Iterator[list[T]]:
    check_count("workers", workers)
    tasks = comparison.tasks()
    if workers == 1:
        yield from (function(comparison, *task) for task in tasks)
        return
    from joblib import Parallel, delayed

    pool = Parallel(n_jobs=workers, return_as="generator", batch_size="auto")
    yield from pool(delayed(function)(comparison, *task) for task in tasks)


def summarise(algorithms: Sequence[str], records: Iterable[RunRecord]) -> list[Summary]:
    """One row per algorithm.

    >>> plan = Comparison(n_factors=3, n_parents=1, n_worlds=2, n_repeats=2, algorithms=("modl",))
    >>> [summary] = summarise(plan.algorithms, [r for batch in run_tasks(plan) for r in batch])
    >>> summary.n, summary.failures
    (4, 0)
    """
    kept = list(records)
    return [_summary(name, [r for r in kept if r.algorithm == name]) for name in algorithms]


def curve(comparison: Comparison, records: Iterable[CurveRecord]) -> list[CurvePoint]:
    """One row per algorithm and number of runs.

    >>> plan = Comparison(n_factors=3, n_parents=1, n_worlds=2, n_repeats=1, algorithms=("random",), at=(5, 50))
    >>> points = curve(plan, [r for batch in run_curves(plan) for r in batch])
    >>> [(point.at, point.runs_mean, point.answers) for point in points]
    [(5, 5.0, 2), (50, 50.0, 2)]
    """
    kept = list(records)
    points = []
    for name in comparison.algorithms:
        for n_runs in comparison.at:
            these = [r for r in kept if (r.algorithm, r.at) == (name, n_runs)]
            answered = [r for r in these if r.gap is not None]
            gaps = np.array([r.gap for r in answered], dtype=np.float64)
            points.append(
                CurvePoint(
                    algorithm=name,
                    at=n_runs,
                    runs_mean=float(np.mean([r.n_runs for r in these])),
                    gap_mean=float(gaps.mean()) if answered else None,
                    gap_sem=_error_by_world(gaps, [r.world for r in answered]) if answered else None,
                    gap_max=float(gaps.max()) if answered else None,
                    failures=int((gaps > comparison.tolerance).sum()),
                    answers=len(answered),
                    n=len(these),
                )
            )
    return points


def _error_by_world(values: Sequence[float] | NDArray[np.float64], worlds: Sequence[int]) -> float:
    """The standard error of the mean, with worlds as the independent units; of a single world its repeats are."""
    numbers, where = np.asarray(values, dtype=np.float64), np.asarray(worlds)
    by_world = np.array([numbers[where == w].mean() for w in np.unique(where)])
    by_world = numbers if len(by_world) == 1 else by_world
    return float(by_world.std(ddof=1) / np.sqrt(len(by_world))) if len(by_world) > 1 else 0.0


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
    exact = [r.parents_exact for r in records if r.parents_exact is not None]
    return Summary(
        algorithm=name,
        runs_mean=float(runs.mean()),
        runs_sem=_error_by_world(runs, [r.world for r in records]),
        gap_mean=float(gaps.mean()),
        gap_max=float(gaps.max()),
        failures=sum(r.failed for r in records),
        n=len(records),
        parents_exact=float(np.mean(exact)) if exact else None,
        over_necessary=float(np.mean([r.over_necessary for r in records])),
        seconds=sum(r.seconds for r in records),
    )
