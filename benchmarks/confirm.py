"""Count what confirmation by fresh runs says: python benchmarks/confirm.py [studies] [part of a kind's name]

400 studies of each kind by default, 12 fresh runs at the setting (and at the baseline) each. Honest studies may be put
in doubt in 5 % of cases; a star marks more than that by more than chance (p < 0.001, binomial). Below are studies whose
prediction is false: how many are put in doubt, and by how much a prediction has to be too good to be found out in 8 of
10 cases, as the confirmation itself says.
"""

import os
import sys
import time

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from harness.confirmed import FALSE, HONEST, Kind, confirmed
from levers.core.model.confirmation import IN_DOUBT, SHARE, Confirmation


def counted(kind: Kind, seeds: range) -> list[list[Confirmation]]:
    with threadpool_limits(1):
        return [confirmed(kind, seed)[1] for seed in seeds]


def all_of(kind: Kind, n: int, workers: int) -> list[list[Confirmation]]:
    pieces = [range(begin, min(begin + 20, n)) for begin in range(0, n, 20)]
    return [one for part in Parallel(n_jobs=workers)(delayed(counted)(kind, p) for p in pieces) for one in part]


def line(kind: Kind, n: int, workers: int, honest: bool) -> int:
    began = time.perf_counter()
    found = all_of(kind, n, workers)
    doubted = sum(any(one.answer == IN_DOUBT for one in many) for many in found)
    too_many = honest and bool(binom.sf(doubted - 1, n, SHARE) < 0.001)
    answered = [many[-1] for many in found if many[-1].notices is not None]
    notices = float(np.mean([one.notices for one in answered])) if answered else float("nan")
    seconds = time.perf_counter() - began
    print(
        f"{kind.name:58} {doubted / n:8.1%} {len(answered) / n:9.0%} {notices:8.2f} {seconds:5.0f} {'*' * too_many}",
        flush=True,
    )
    return doubted


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    workers = int(os.environ.get("WORKERS", os.cpu_count() or 1))
    for title, kinds in (("honest", HONEST), ("prediction false at the setting", FALSE)):
        print(f"\n{title:58} {'in doubt':>8} {'compared':>9} {'notices':>8} {'s':>5}")
        chosen = [kind for kind in kinds if wanted in kind.name]
        doubted = sum(line(kind, n, workers, kinds is HONEST) for kind in chosen)
        if kinds is HONEST and chosen:
            print(f"{'all honest studies':58} {doubted / (n * len(chosen)):8.1%}")


if __name__ == "__main__":
    main()
