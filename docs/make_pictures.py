"""Make the pictures of the README: python docs/make_pictures.py (about half a minute; needs the figures extra)."""

import os
from pathlib import Path

from matplotlib.figure import Figure

from levers.experiments.compare import Comparison, run_tasks, summarise

PARENTS = (1, 3, 5, 8, 10)
LINES = {  # label: (algorithm, knows the number of parents, colour, marker)
    "parents-first": ("parents-first", False, "#999999", "s"),
    "the paper's method (MODL)": ("modl", False, "#D55E00", "o"),
    "levers (CFS)": ("cfs", False, "#0072B2", "D"),
    "levers, number of parents known": ("cfs", True, "#56B4E9", "v"),
}
IMAGES = Path(__file__).parent / "images"


def mean_runs(algorithm: str, known: bool, n_parents: int) -> tuple[float, float]:
    plan = Comparison(n_parents=n_parents, known_parents=known, algorithms=(algorithm,), n_repeats=2)
    [row] = summarise(plan.algorithms, [r for batch in run_tasks(plan, os.cpu_count() or 1) for r in batch])
    return row.runs_mean, row.runs_sem


def mean_null_bound(n_parents: int) -> float:
    plan = Comparison(n_parents=n_parents, algorithms=("cfs",))
    return sum(plan.null_bound(plan.world(w)) for w in range(plan.n_worlds)) / plan.n_worlds


def main() -> None:
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for label, (algorithm, known, colour, marker) in LINES.items():
        found = [mean_runs(algorithm, known, p) for p in PARENTS]
        axes.errorbar(
            PARENTS,
            [m for m, _ in found],
            yerr=[s for _, s in found],
            label=label,
            color=colour,
            marker=marker,
            capsize=2,
        )
    plan = Comparison(algorithms=("cfs",))
    limit = sum(plan.necessary_runs(plan.world(w)) for w in range(plan.n_worlds)) / plan.n_worlds
    axes.axhline(limit, color="#000000", linestyle=":", linewidth=1)
    label = "limit of any fixed balanced design"
    axes.annotate(label, (10, limit), xytext=(0, 3), textcoords="offset points", fontsize=8, ha="right")
    fewer = PARENTS[:-1]  # where all factors matter, there is nothing that this limit could rest on
    axes.plot(fewer, [mean_null_bound(p) for p in fewer], color="#000000", linestyle="--", linewidth=1)
    label = "limit of any method that does not know the number of parents"
    axes.annotate(label, (5, mean_null_bound(5)), xytext=(6, 2), textcoords="offset points", fontsize=8)
    axes.set_yscale("log")
    axes.set_xticks(PARENTS)
    axes.set_xlabel("factors that matter, of 10 (3 to 6 levels each)")
    axes.set_ylabel("mean runs to a certified answer")
    axes.set_title("Within 0.5 of the best with probability 90 %, noise sd 1, 20 random worlds", fontsize=10)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(0.02, 0.62))
    axes.grid(True, which="major", alpha=0.3)
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / "runs.png", dpi=150)


if __name__ == "__main__":
    main()
