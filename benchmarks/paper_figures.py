"""Mean runs beside the released code's own figures: python benchmarks/paper_figures.py

First at the size of the reference (20 worlds x 5, seed 0), then on many worlds, with the distance in standard errors of
a 20-world mean: the reference figures are themselves means over 20 random worlds.
"""

import os

from levers.experiments.compare import Comparison, run_tasks, summarise

RELEASED = {"modl": {1: 14865, 3: 13410, 5: 11839, 10: 7271}, "oracle": {1: 579, 3: 1955, 5: 3571, 10: 7347}}
SUCCESSIVE = {1: 3.88e6, 2: 3.25e6, 3: 3.25e6}


def main() -> None:
    workers = os.cpu_count() or 1
    for n_worlds, n_repeats in ((20, 5), (200, 1)):
        print(f"\nK=10, {n_worlds} worlds x {n_repeats}")
        print(f"{'P':>3} {'algorithm':10} {'runs':>9} {'released':>9} {'ratio':>6} {'z':>6} {'failures':>9}")
        for n_parents in RELEASED["modl"]:
            plan = Comparison(
                n_parents=n_parents, n_worlds=n_worlds, n_repeats=n_repeats, algorithms=("modl", "oracle")
            )
            for row in summarise(plan.algorithms, [r for b in run_tasks(plan, workers) for r in b]):
                released = RELEASED[row.algorithm][n_parents]
                error_of_20 = row.runs_sem * (n_worlds / 20) ** 0.5
                z = (row.runs_mean - released) / (row.runs_sem**2 + error_of_20**2) ** 0.5
                print(
                    f"{n_parents:3} {row.algorithm:10} {row.runs_mean:9,.0f} {released:9,} "
                    f"{row.runs_mean / released:6.2f} {z:6.1f} {row.failures:5} of {row.n}"
                )
    print("\nK=4: successive elimination with real elimination against MODL")
    print(f"{'P':>3} {'SE runs':>10} {'MODL runs':>10} {'ratio':>6} {'as released (never eliminates)':>31}")
    for n_parents, never in SUCCESSIVE.items():
        plan = Comparison(n_factors=4, n_parents=n_parents, algorithms=("successive-elimination", "modl"), n_repeats=1)
        se, modl = summarise(plan.algorithms, [r for b in run_tasks(plan, workers) for r in b])
        ratio = se.runs_mean / modl.runs_mean
        print(f"{n_parents:3} {se.runs_mean:10,.0f} {modl.runs_mean:10,.0f} {ratio:6.1f} {never:31,.0f}")


if __name__ == "__main__":
    main()
