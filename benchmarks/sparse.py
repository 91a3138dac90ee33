"""Few parents among very many factors: python benchmarks/sparse.py [studies] [part of a scenario's name]

Runs, broken promises (at most 10 % are promised) and factors found by mistake, over 200 studies of each scenario by
default: about 12 minutes on one core. Tolerance 0.5, failure probability 0.1, noise sd 1.
"""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness.sparse import Effects, equal_gaps, just_over, random_effects, study_sparse


@dataclass(frozen=True)
class Scenario:
    """Worlds by a generator, and how they are studied."""

    name: str
    n_levels: tuple[int, ...]
    max_parents: int
    effects: Callable[[tuple[int, ...], np.random.Generator], Effects]
    known: bool = True
    most_studies: int = 10_000
    target: int | None = None


def randomly(n_parents: int) -> Callable[[tuple[int, ...], np.random.Generator], Effects]:
    return lambda n_levels, rng: random_effects(n_levels, n_parents, rng)


def slipping(n_parents: int, gap: float) -> Callable[[tuple[int, ...], np.random.Generator], Effects]:
    return lambda n_levels, rng: equal_gaps(n_levels, n_parents, gap, rng)


def both(n_strong: int, strong: float, n_weak: int, weak: float) -> Callable[..., Effects]:
    def make(n_levels: tuple[int, ...], rng: np.random.Generator) -> Effects:
        return equal_gaps(n_levels, n_weak, weak, rng) | equal_gaps(n_levels, n_strong, strong, rng)

    return make


def scenarios() -> list[Scenario]:
    five, two, mixed = (5,) * 1000, (2,) * 1000, (2, 3, 4, 5, 6) * 80
    gaps = [
        Scenario(f"1000 of 5, 10 parents, gap {just_over(j):.3g}", five, 10, slipping(10, just_over(j)), target=3000)
        for j in (1, 2, 3, 4, 5)
    ]
    return [
        Scenario("1000 of 5, 10 parents, random", five, 10, randomly(10), target=800),
        *gaps,
        Scenario("1000 of 5, 10 parents, gap 0.35", five, 10, slipping(10, 0.35), target=3000),
        Scenario("1000 of 2, 5 parents, random", two, 5, randomly(5), target=500),
        *(Scenario(f"1000 of 2, 5 parents, gap {just_over(j):.3g}", two, 5, slipping(5, just_over(j))) for j in (1, 2)),
        Scenario("random, noise estimated", five, 10, randomly(10), known=False),
        *(
            Scenario(f"gap {just_over(j):.3g}, noise estimated", five, 10, slipping(10, just_over(j)), known=False)
            for j in (2, 3)
        ),
        Scenario("3 parents, 10 allowed, random", five, 10, randomly(3)),
        Scenario("3 parents, 10 allowed, gap 0.25", five, 10, slipping(3, just_over(2))),
        Scenario("none of 10 allowed", five, 10, randomly(0)),
        Scenario("8 weak (0.25), 2 strong (20)", five, 10, both(2, 20.0, 8, just_over(2))),
        Scenario("5 weak (0.17), 5 strong (1.5)", five, 10, both(5, 1.5, 5, just_over(3))),
        Scenario("9 strong (5), 1 weak (0.5)", five, 10, both(9, 5.0, 1, just_over(1))),
        Scenario("400 of 2 to 6, 8 parents, random", mixed, 8, randomly(8)),
        Scenario("400 of 2 to 6, 8 parents, gap 0.25", mixed, 8, slipping(8, just_over(2))),
        Scenario("1000 of 5, 1 parent, random", five, 1, randomly(1)),
        Scenario("1000 of 5, 1 parent, gap 0.5", five, 1, slipping(1, just_over(1))),
        Scenario("1000 of 2, 1 parent, gap 0.5", two, 1, slipping(1, just_over(1))),
        Scenario("10000 of 3, 10 parents, random", (3,) * 10_000, 10, randomly(10), most_studies=10),
        Scenario("10000 of 3, 10 parents, gap 0.25", (3,) * 10_000, 10, slipping(10, just_over(2)), most_studies=10),
    ]


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    print(
        f"{'scenario':36} {'studies':>7} {'mean runs':>9} {'target':>6} {'most':>6} {'failures':>8} "
        f"{'mistaken':>8} {'found':>5} {'s/study':>7} {'slowest':>7} {'MB':>5}"
    )
    for scenario in scenarios():
        if wanted not in scenario.name:
            continue
        results, seconds = [], []
        for seed in range(min(n, scenario.most_studies)):
            effects = scenario.effects(scenario.n_levels, np.random.default_rng([seed, 3]))
            began = time.perf_counter()
            results.append(study_sparse(scenario.n_levels, effects, scenario.max_parents, seed, known=scenario.known))
            seconds.append(time.perf_counter() - began)
        runs = [result.n_runs for result in results]
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{scenario.name:36} {len(runs):7} {np.mean(runs):9.0f} {scenario.target or '':>6} {max(runs):6} "
            f"{sum(r.failed for r in results):8} {sum(r.n_false > 0 for r in results):8} "
            f"{np.mean([r.n_found for r in results]):5.1f} {np.mean(seconds):7.2f} {max(seconds):7.2f} "
            f"{megabytes:5.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
