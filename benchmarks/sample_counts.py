"""Mean runs on the paper's random worlds: python benchmarks/sample_counts.py (under a minute on 2 cores)

Tolerance 0.5, failure probability 0.1, 20 worlds x 5 repeats, seed 0. "target" is what the solver was asked to reach,
"any" what any method needs on these worlds to see that the factors without effect have none (limits.null_bound).
"""

import dataclasses
import os

from levers.experiments.compare import Comparison, Summary, run_tasks, summarise

TARGETS = {(10, 1): (1800, 190), (10, 5): (1250, 470), (10, 10): (650, None)}
TARGETS |= {(30, 1): (11_500, 380), (30, 10): (7200, 850), (30, 30): (1500, None)}


def measure(plan: Comparison) -> Summary:
    [row] = summarise(plan.algorithms, [r for batch in run_tasks(plan, os.cpu_count() or 1) for r in batch])
    return row


def main() -> None:
    print("  K   P  knows P      CFS   target      MODL  ratio necessary      any   failures")
    for (n_factors, n_parents), targets in TARGETS.items():
        for known, target in zip((False, True), targets, strict=True):
            if target is None:
                continue
            plan = Comparison(n_factors=n_factors, n_parents=n_parents, known_parents=known, algorithms=("cfs",))
            row, modl = measure(plan), measure(dataclasses.replace(plan, algorithms=("modl",), n_repeats=1))
            limit = sum(plan.null_bound(plan.world(w)) for w in range(plan.n_worlds)) / plan.n_worlds
            print(
                f"{n_factors:3} {n_parents:3} {known!s:>8} {row.runs_mean:8,.0f} {target:8,} {modl.runs_mean:9,.0f} "
                f"{modl.runs_mean / row.runs_mean:6.1f} {row.over_necessary:9.2f} {limit:8,.0f} "
                f"{row.failures:5} of {row.n}",
                flush=True,
            )
    print("\nwith and without min_effect=0.5, on worlds whose parents satisfy it")
    for n_parents in (1, 10):
        plain = Comparison(n_factors=30, n_parents=n_parents, min_effect=0.5, algorithms=("cfs",), n_repeats=2)
        without, told = measure(plain), measure(dataclasses.replace(plain, known_min_effect=True))
        ratio = without.runs_mean / told.runs_mean
        print(f" 30 {n_parents:3} {without.runs_mean:8,.0f} {told.runs_mean:8,.0f} {ratio:5.1f} times fewer")


if __name__ == "__main__":
    main()
