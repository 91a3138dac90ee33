"""Mean true loss of the setting recommended after n runs, ours and rivals': python benchmarks/budgets.py [worlds]

400 worlds of each kind by default, 100 with thirty levers.

Random worlds of three kinds, noise sd 1, known and not, with and without two forbidden pairs of levels, which are the
best levels of two parents each. A method's loss is the best mean outcome of all allowed settings less the mean outcome
of the setting that it recommends. The rivals' losses are read from benchmarks/budgets_rivals.json; --rivals computes
them again (about 15 minutes on two cores).

"ratio" is our mean loss by that of the best rival; after it come two standard errors, paired over worlds, of a ratio of
1.05. It is "ok" up to 1.05, or beyond by no more than these errors. "certified" is the mean tolerance of our verdicts.
A number of runs that the solver refuses has no loss and is not ok.
"""

import argparse
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.rivals import RIVALS, BudgetProblem, Measure
from levers.algorithms.base import Algorithm, Batch, Problem, Verdict, run_to_verdict
from levers.algorithms.registry import make_algorithm
from levers.core.merging import Forbidden, Merging
from levers.core.model.level_index import Numbers
from levers.core.space import Codes
from levers.errors import InvalidSettingError
from levers.experiments.compare import Comparison
from levers.studies.spec import StudySpec
from levers.worlds.outcome import AdditiveOutcome
from levers.worlds.scm import World

SEED, N_PAIRS, NOISE_SD, FAILURE_PROB = 0, 2, 1.0, 0.1
MOST_RATIO = 1.05
"""Ours may lose so many times what the best rival loses."""
CACHE = Path(__file__).with_name("budgets_rivals.json")
WORLD_STREAM, OWN_STREAM = 0, 1
"""Streams of randomness; the rivals have those that follow."""


@dataclass(frozen=True)
class Kind:
    """A kind of random world, the numbers of runs to try on it, and how many worlds to try."""

    n_factors: int
    n_parents: int
    levels: tuple[int, int]
    budgets: tuple[int, ...]
    n_worlds: int

    def world(self, index: int) -> World:
        """World number `index`."""
        plan = Comparison(self.n_factors, self.n_parents, self.levels, noise_sd=NOISE_SD, seed=SEED, make_worlds=False)
        return plan.world(index)

    def stream(self, index: int, *key: int) -> np.random.Generator:
        """Randomness for one purpose on one world."""
        return np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(self.n_factors, index, *key)))


KINDS = (
    Kind(10, 5, (3, 6), (20, 40, 80, 120, 250, 500), 400),
    Kind(7, 3, (2, 4), (16, 32, 64, 120), 400),
    Kind(30, 10, (3, 6), (100, 250, 400, 1000), 100),
)


class Case(NamedTuple):
    """A world with the combinations that are forbidden in it, and the best mean outcome of those that are not."""

    world: World
    forbidden: Forbidden
    merging: Merging
    best: float

    def loss(self, codes: Codes) -> float:
        """The true loss of a setting, which must be allowed."""
        if (self.merging.contract(codes[None, :]) < 0).any():
            raise ValueError("the setting recommended is forbidden")
        return self.best - float(self.world.outcome.mean(codes[None, :])[0])

    def measure(self, n_runs: int, rng: np.random.Generator) -> Measure:
        """Makes up to so many runs."""
        left = n_runs

        def measured(codes: Codes) -> Numbers:
            nonlocal left
            left -= len(codes)
            if left < 0:
                raise ValueError(f"more than {n_runs} runs were made")
            if (self.merging.contract(codes) < 0).any():
                raise ValueError("a forbidden setting was run")
            return self.world.outcome.sample(codes, rng)

        return measured


def case(kind: Kind, index: int, with_forbidden: bool) -> Case:
    world = kind.world(index)
    outcome = world.outcome
    assert isinstance(outcome, AdditiveOutcome)
    rng = kind.stream(index, WORLD_STREAM)
    pairs = list(combinations(outcome.parents, 2))
    if len(pairs) < N_PAIRS:
        pairs = list(combinations(range(kind.n_factors), 2))
    best, forbidden = outcome.best(), []
    for place in rng.choice(len(pairs), size=N_PAIRS, replace=False) if with_forbidden else ():
        factors = [(world.space.factors[k], best.get(k, 0)) for k in pairs[place]]
        forbidden.append(tuple((factor.name, factor.levels[code]) for factor, code in factors))
    merging = Merging.of(world.space, tuple(forbidden))
    effects = [outcome.effects.get(k, (0.0,) * m) for k, m in enumerate(world.space.n_levels)]
    optimum = BudgetProblem(merging, NOISE_SD).best(np.concatenate(effects))
    return Case(world, tuple(forbidden), merging, float(outcome.mean(optimum[None, :])[0]))


# The rivals


def rival_losses(kind: Kind, with_forbidden: bool, index: int) -> dict[tuple[str, str, int], tuple[float, float]]:
    """The loss and the seconds of every rival on one world, by its name, what it knows of the noise, and the runs."""
    this, found = case(kind, index, with_forbidden), {}
    for number, rival in enumerate(RIVALS):
        budgets = [n for n in kind.budgets if rival.most_runs is None or n <= rival.most_runs]
        for noise in ("known", "unknown") if rival.uses_noise else ("any",):
            problem = BudgetProblem(this.merging, None if noise == "unknown" else NOISE_SD)
            for together in [budgets] if rival.anytime else [[n] for n in budgets]:
                key = (OWN_STREAM + 1 + number, int(noise == "unknown"), int(with_forbidden))
                rng = kind.stream(index, *key, 0 if rival.anytime else together[0])
                began = time.perf_counter()
                measure = this.measure(together[-1], rng.spawn(1)[0])
                settings = rival.recommend(problem, together, measure, rng)
                seconds = (time.perf_counter() - began) / len(together)
                for n_runs, codes in zip(together, settings, strict=True):
                    found[rival.name, noise, n_runs] = this.loss(codes), seconds
    return found


def compute_rivals(kinds: Sequence[Kind], workers: int) -> None:
    """Write the rivals' losses on these kinds of world; those on other kinds stay as they are."""
    known = json.loads(CACHE.read_text())["points"] if CACHE.exists() else []
    points = [point for point in known if point["factors"] not in [kind.n_factors for kind in kinds]]
    seconds = defaultdict[str, float](float)
    for kind in kinds:
        for with_forbidden in (False, True):
            losses = defaultdict[tuple[str, str, int], list[float]](list)
            tasks = ((kind, with_forbidden, index) for index in range(kind.n_worlds))
            for done, found in enumerate(in_parallel(rival_losses, tasks, workers), 1):
                for point, (loss, took) in found.items():
                    losses[point].append(round(loss, 4) + 0.0)
                    seconds[point[0]] += took
                if done % 10 == 0:
                    words = "two forbidden pairs" if with_forbidden else "none forbidden"
                    print(f"{kind.n_factors} factors, {words}: {done} of {kind.n_worlds} worlds", flush=True)
            for (rival, noise, n_runs), values in losses.items():
                mean, error = mean_and_error(np.array(values))
                where = {"factors": kind.n_factors, "runs": n_runs, "forbidden": with_forbidden, "noise": noise}
                what = {"rival": rival, "mean": round(mean, 4), "standard_error": round(error, 4), "losses": values}
                points.append(where | what)
    left_out = [f"{rival.name} beyond {rival.most_runs} runs" for rival in RIVALS if rival.most_runs is not None]
    head = json.dumps({"seed": SEED, "left_out": left_out})[:-1]
    lines = ",\n".join(json.dumps(point, separators=(",", ":")) for point in points)
    CACHE.write_text(f'{head}, "points": [\n{lines}\n]}}\n')
    print("seconds:", ", ".join(f"{name} {spent:.0f}" for name, spent in seconds.items()))


def cached_losses(kind: Kind, n_runs: int, known_noise: bool, with_forbidden: bool) -> dict[str, Numbers]:
    """The rivals' losses at a point, by their names, a world each."""
    noises = ("any", "known" if known_noise else "unknown")
    return {
        point["rival"]: np.array(point["losses"])
        for point in json.loads(CACHE.read_text())["points"]
        if (point["factors"], point["runs"], point["forbidden"]) == (kind.n_factors, n_runs, with_forbidden)
        and point["noise"] in noises
    }


# Ours


class Study(NamedTuple):
    """Our loss on one world, the tolerance certified, and the seconds it took: not a number where there is none."""

    loss: float
    certified: float
    seconds: float


def our_study(kind: Kind, n_runs: int, known_noise: bool, with_forbidden: bool, index: int) -> Study:
    this = case(kind, index, with_forbidden)
    rng = kind.stream(index, OWN_STREAM, int(known_noise), int(with_forbidden), n_runs)
    measure, noise_sd = this.measure(n_runs, rng.spawn(1)[0]), NOISE_SD if known_noise else None
    solver: Algorithm
    began = time.perf_counter()
    try:
        if with_forbidden:
            spec = StudySpec(
                this.world.space,
                failure_prob=FAILURE_PROB,
                noise_sd=noise_sd,
                options=(("budget", n_runs),),
                seed=index,
                forbidden=this.forbidden,
            )
            solver, expand = spec.solver, spec.expand
        else:
            problem = Problem(this.world.space, None, FAILURE_PROB, noise_sd)
            solver, expand = make_algorithm("cfs", problem, budget=n_runs), _as_they_are
        verdict = _ended(solver, expand, measure, rng)
    except InvalidSettingError:
        return Study(math.nan, math.nan, math.nan)
    seconds = time.perf_counter() - began
    [codes] = expand(np.array([verdict.assignment.codes], dtype=np.int16))
    certified: float | None = verdict.tolerance  # a verdict without a certificate may have none
    return Study(this.loss(codes), math.nan if certified is None else certified, seconds)


def _as_they_are(codes: Codes) -> Codes:
    return codes


def _ended(solver: Algorithm, expand: Callable[[Codes], Codes], measure: Measure, rng: np.random.Generator) -> Verdict:
    def outcomes_of(batch: Batch) -> tuple[Batch, Numbers]:
        return batch, measure(expand(batch.codes))

    return run_to_verdict(solver, outcomes_of, rng)


# The table


def in_parallel(function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], workers: int) -> Iterator[Any]:
    """The results in the order of the tasks, each on one thread."""
    from joblib import Parallel, delayed

    pool = Parallel(n_jobs=workers, return_as="generator")
    yield from pool(delayed(_on_one_thread)(function, task) for task in tasks)


def _on_one_thread(function: Callable[..., Any], task: tuple[Any, ...]) -> Any:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return function(*task)


def mean_and_error(values: Numbers) -> tuple[float, float]:
    """The mean and its standard error."""
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values)), error


def ratio_and_margin(ours: Numbers, best: Numbers) -> tuple[float, float]:
    """The ratio of two mean losses over the same worlds, and two standard errors of it where it is MOST_RATIO.

    These are the errors of the mean of ours - MOST_RATIO best, by the mean of best. A ratio that is larger than
    MOST_RATIO by more than the margin is therefore too large, even where the best loses almost nothing.
    """
    scale = max(float(best.mean()), 1e-12)  # a best rival that loses nothing leaves the comparison as it is
    return float(ours.mean()) / scale, 2 * mean_and_error(ours - MOST_RATIO * best)[1] / scale


def print_point(studies: Sequence[Study], rivals: dict[str, Numbers], where: str) -> bool:
    """One row of the table. Says whether ours is good enough."""
    losses, certified, seconds = (np.array(column) for column in zip(*studies, strict=True))
    kept = ~np.isnan(losses)
    means = {name: float(values[: len(kept)].mean()) for name, values in rivals.items()}
    cells = [f"{means[rival.name]:15.3f}" if rival.name in means else f"{'-':>15}" for rival in RIVALS]
    best = min(means, key=lambda name: means[name])
    row = f"{where} {{ours:>8}}{''.join(cells)}  {best:13} {{end}}"
    if not kept.any():
        print(row.format(ours="refused", end=""), flush=True)
        return False
    ratio, margin = ratio_and_margin(losses[kept], rivals[best][: len(kept)][kept])
    ok = bool(kept.all()) and ratio <= MOST_RATIO + margin
    tolerance = f"{certified[np.isfinite(certified)].mean():9.2f}" if np.isfinite(certified).any() else f"{'-':>9}"
    end = f"{ratio:6.3g} +- {margin:<5.2g} {'ok' if ok else '--':>3} {tolerance} {seconds[kept].mean():8.3f}"
    refused = "" if kept.all() else f"  {int((~kept).sum())} refused; ratio on the others"
    print(row.format(ours=f"{losses[kept].mean():.3f}", end=end + refused), flush=True)
    return ok


def compare(kinds: Sequence[Kind], workers: int, with_pairs: Sequence[bool]) -> None:
    print(f"mean true loss; left out: {', '.join(json.loads(CACHE.read_text())['left_out'])}")
    names = "".join(f"{rival.name:>15}" for rival in RIVALS)
    print(f"  K   P     n  noise   pairs     ours{names}  best rival     ratio          ok certified  seconds")
    points = [(k, n, noise, pairs) for k in kinds for pairs in with_pairs for noise in (True, False) for n in k.budgets]
    verdicts = []
    for kind, n_runs, known_noise, with_forbidden in points:
        tasks = ((kind, n_runs, known_noise, with_forbidden, index) for index in range(kind.n_worlds))
        studies = list(in_parallel(our_study, tasks, workers))
        where = (
            f"{kind.n_factors:3} {kind.n_parents:3} {n_runs:5}  {'known' if known_noise else 'unknown':7} "
            f"{N_PAIRS if with_forbidden else 0:5}"
        )
        rivals = cached_losses(kind, n_runs, known_noise, with_forbidden)
        verdicts.append(print_point(studies, rivals, where))
    print(f"ok at {sum(verdicts)} of {len(verdicts)} points")


def main() -> None:
    numbers = [kind.n_factors for kind in KINDS]
    parser = argparse.ArgumentParser(description="Mean true loss of the setting recommended after n runs.")
    parser.add_argument("worlds", nargs="?", type=int, help="of each kind")
    parser.add_argument("--rivals", action="store_true", help="compute the rivals' losses again")
    parser.add_argument("--factors", type=int, choices=numbers, help="only the worlds with so many factors")
    parser.add_argument("--pairs", type=int, choices=(0, N_PAIRS), help="only worlds with so many forbidden pairs")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    kinds = [
        replace(kind, n_worlds=given.worlds or kind.n_worlds)
        for kind in KINDS
        if given.factors in (None, kind.n_factors)
    ]
    if given.rivals:
        compute_rivals(kinds, given.workers)
    with_pairs = [some for some in (False, True) if given.pairs in (None, N_PAIRS * some)]
    compare(kinds, given.workers, with_pairs)


if __name__ == "__main__":
    main()
