"""The tolerance that a budget certifies, against the two-stage rules: python benchmarks/certified.py [worlds]

The worlds and budgets of benchmarks/budgets.py, without forbidden pairs. `certify` spends the runs on the certificate,
`best` on the setting recommended (the default); both ratios are to the two-stage rules, which earlier versions used and
which refuse small budgets. Asked of `certify`: never above 1, and 0.85 or less under 5 runs a parameter.
"""

import sys

import numpy as np
from budgets import FAILURE_PROB, KINDS, NOISE_SD, Kind

from levers.algorithms.base import Problem
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.cfs.two_stage import TwoStage
from levers.errors import InvalidSettingError
from levers.experiments.runner import run_on_world


def certified(kind: Kind, n_runs: int, known: bool, index: int) -> tuple[float, float, float]:
    """The tolerances of the two-stage rules, of `certify` and of `best` in one world; infinite where there is none."""
    world = kind.world(index)
    problem = Problem(world.space, None, FAILURE_PROB, NOISE_SD if known else None)
    try:
        earlier = run_on_world(TwoStage(problem, budget=n_runs), world, index).within
    except InvalidSettingError:
        earlier = np.inf
    certify, best = (run_on_world(Cfs(problem, budget=n_runs, aim=aim), world, index) for aim in ("certify", "best"))
    return earlier, certify.within, best.within


def main() -> None:
    n_worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print("  K     n  noise    runs a parameter   two-stage   certify  ratio      best  ratio   (medians over worlds)")
    for kind in KINDS:
        for known in (True, False):
            for n_runs in kind.budgets:
                found = np.array([certified(kind, n_runs, known, i) for i in range(n_worlds)])
                earlier, certify, best = np.median(found, axis=0)
                per = n_runs / np.mean([sum(m - 1 for m in kind.world(i).space.n_levels) for i in range(n_worlds)])
                print(
                    f"{kind.n_factors:3} {n_runs:5}  {'known' if known else 'unknown':8} {per:16.1f} {earlier:11.2f} "
                    f"{certify:9.2f} {certify / earlier if np.isfinite(earlier) else np.nan:6.2f} {best:9.2f} "
                    f"{best / earlier if np.isfinite(earlier) else np.nan:6.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
