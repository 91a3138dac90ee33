"""Whether studies end when they say that they will: python benchmarks/to_go.py [studies]

For each kind of world and study: looks at which it said how many runs it takes in the worst case, at how many of them
it took more in the end, and what it said before its first run, likely and in the worst case, over what it took (the
medians; the least for the worst case). "edge": all levels but the best of each lever lose just so much that the study
cannot drop them. "some": half of the levers have effects of sd 1.
"""

import sys

import numpy as np

from levers.algorithms.base import Batch, Problem
from levers.algorithms.cfs.solver import Cfs
from levers.core.model.level_index import Numbers
from levers.core.space import Space

TOLERANCE, NOISE_SD = 0.5, 1.0
SIZES = ((3, 4, 2), (4, 4, 4), (2,) * 10, (4,) * 10)
KINDS = ("null", "edge", "some")


def effects_of(kind: str, sizes: tuple[int, ...], rng: np.random.Generator) -> list[Numbers]:
    """What each level of each lever adds."""
    if kind == "edge":
        return [np.r_[0.0, np.full(m - 1, -1.2 * TOLERANCE / len(sizes))] for m in sizes]
    matter = [kind == "some" and rng.random() < 0.5 for _ in sizes]
    return [rng.normal(size=m) * own for m, own in zip(sizes, matter, strict=True)]


def studied(kind: str, sizes: tuple[int, ...], known: bool, seed: int) -> tuple[int, list[tuple[int, int]]]:
    """The runs of a study, and what it said at each look: runs in all, likely and in the worst case."""
    rng = np.random.default_rng(seed)
    effects = effects_of(kind, sizes, rng)
    solver = Cfs(Problem(Space.sized(list(sizes)), TOLERANCE, 0.1, NOISE_SD if known else None))
    state, said, n_runs = solver.start(), list[tuple[int, int]](), 0
    while isinstance(batch := solver.ask(state, rng), Batch):
        ahead, n_runs = solver.outlook(state, 0), n_runs + batch.n_runs
        if ahead.likely is not None and ahead.worst_case is not None:
            said.append((n_runs + ahead.likely, n_runs + ahead.worst_case))
        mean = sum(own[column] for own, column in zip(effects, batch.codes.T, strict=True))
        state = solver.tell(state, batch, mean + rng.normal(0.0, NOISE_SD, batch.n_runs))
    return batch.n_runs, said


def main() -> None:
    n_studies = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    print(f"{'levels':18} {'noise':8} {'kind':5} {'looks':>6} {'over':>5} {'likely':>7} {'worst':>6} {'least':>6}")
    for sizes in SIZES:
        for known in (True, False):
            for kind in KINDS:
                found = [studied(kind, sizes, known, seed) for seed in range(n_studies)]
                over = sum(n > worst for n, said in found for _, worst in said)
                first = np.array([np.array(said[0]) / n for n, said in found])
                middle, least = np.median(first, axis=0), first[:, 1].min()
                levels = f"{len(sizes)} of {min(sizes)}" + (f" to {max(sizes)}" if len(set(sizes)) > 1 else "")
                print(
                    f"{levels:18} {'known' if known else 'unknown':8} {kind:5} {sum(len(s) for _, s in found):6} "
                    f"{over:5} {middle[0]:7.2f} {middle[1]:6.2f} {least:6.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
