"""Runs to the verdict of peers, and the gap after n runs of baselines: python benchmarks/peers.py [worlds]

First table: methods that stop by themselves, on products of 3 levels, where all of them can be run. Second table:
methods that recommend a setting after n runs, on worlds of ten factors. Random worlds of the paper, noise sd 1 (known),
tolerance 0.5, failure probability 0.1, one study per method and world. A failure is a gap above the tolerance. The same
numbers, for other worlds: `levers compare --algorithms ...` and `levers compare --at ...`.
"""

import argparse
import time

from levers.experiments.compare import Comparison, curve, run_curves, run_tasks, summarise

STOPPING = ("cfs", "rage", "xy-adaptive", "lingape", "ucb", "successive-elimination", "modl")
KINDS = ((3, 1), (3, 3), (4, 1), (4, 4))
"""Factors and parents of the worlds of the first table."""
SPENDING = ("cfs", "thompson", "fractional-factorial", "one-at-a-time", "tpe", "random")
AT = (20, 40, 80, 160)


def runs_to_the_verdict(n_worlds: int, workers: int) -> None:
    print(f"runs to the verdict (standard error), {n_worlds} worlds of 3 levels each")
    print("  K   P  method                     runs        failures   mean gap  seconds a study")
    for n_factors, n_parents in KINDS:
        plan = Comparison(n_factors, n_parents, (3, 3), n_worlds=n_worlds, n_repeats=1, algorithms=STOPPING)
        for row in summarise(STOPPING, [r for batch in run_tasks(plan, workers) for r in batch]):
            print(
                f"{n_factors:3} {n_parents:3}  {row.algorithm:22} {row.runs_mean:8,.0f} ({row.runs_sem:5,.0f}) "
                f"{row.failures:3} of {row.n:<3} {row.gap_mean:11.3f} {row.seconds / row.n:12.2f}",
                flush=True,
            )


def gap_after_runs(n_worlds: int, workers: int) -> None:
    print(
        f"\nmean gap after n runs (standard error), and gaps above 0.5; {n_worlds} worlds, 10 factors of 3 to 6 levels"
    )
    print(f"{'5 parents':22}" + "".join(f"{f'n = {n}':>22}" for n in AT))
    plan = Comparison(10, 5, n_worlds=n_worlds, n_repeats=1, algorithms=SPENDING, at=AT)
    points = curve(plan, [r for batch in run_curves(plan, workers) for r in batch])
    for name in SPENDING:
        cells = [f"{p.gap_mean:.2f} ({p.gap_sem:.2f}) {p.failures:3} of {p.n}" for p in points if p.algorithm == name]
        print(f"{name:22}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs to the verdict of peers, and gaps after n runs of baselines.")
    parser.add_argument("worlds", nargs="?", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    began = time.perf_counter()
    runs_to_the_verdict(given.worlds, given.workers)
    gap_after_runs(given.worlds, given.workers)
    print(f"{time.perf_counter() - began:.0f} seconds")


if __name__ == "__main__":
    main()
