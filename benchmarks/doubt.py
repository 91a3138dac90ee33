"""Count failures that nobody is told of: python benchmarks/doubt.py [studies] [part of a kind's name] [first seed]

400 studies of every broken assumption by default, and five times as many honest ones in all. The shares and limits of
the checks were chosen on seeds from 0; seeds from 1,000,000, the default, had no part in that. A failure is a true loss
above the certified one; it is marked if the verdict comes with a doubt. "No claim" are studies whose true loss is above
what is certified without their claims, marked or not. A star marks more than 10 % of studies failed and unmarked, more
than 10 % above what needs no claim, fewer than 95 % of typos named, or more than 3 % false alarms.
"""

import os
import sys
import time
from collections import Counter

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from harness.doubtful import Kind, Outcome, broken_kinds, honest_kinds, outcome, unclaimed_kinds

FRESH = 1_000_000
MOST_UNMARKED, LEAST_NAMED, MOST_ALARMS = 0.10, 0.95, 0.03


def studies(name: str, seeds: range) -> list[Outcome]:
    """Kinds hold functions, which do not travel between processes: they are found again by name."""
    with threadpool_limits(1):
        kind = next(kind for kind in (*broken_kinds(), *unclaimed_kinds(), *honest_kinds()) if kind.name == name)
        return [outcome(kind, seed) for seed in seeds]


def counted(kind: Kind, n: int, workers: int, first: int) -> list[Outcome]:
    pieces = [range(first + begin, first + min(begin + 20, n)) for begin in range(0, n, 20)]
    return [
        one for part in Parallel(n_jobs=workers)(delayed(studies)(kind.name, piece) for piece in pieces) for one in part
    ]


def by_factors(found: list[Outcome]) -> float:
    """The largest share of unmarked failures among the studies of one number of levers."""
    sizes = {one.n_factors for one in found}
    groups = [[one for one in found if one.n_factors == size] for size in sizes]
    return max(sum(one.failed and not one.doubts for one in group) / len(group) for group in groups)


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    first = int(sys.argv[3]) if len(sys.argv) > 3 else FRESH
    workers = int(os.environ.get("WORKERS", os.cpu_count() or 1))
    heads = f"{'failed':>7} {'unmarked':>8} {'worst K':>8} {'marked':>7} {'named':>7} {'no claim':>8} {'s':>5}"
    print(f"{'broken':66} {'runs':>5} {heads}")
    for kind in (*broken_kinds(), *unclaimed_kinds()):
        if wanted not in kind.name:
            continue
        began = time.perf_counter()
        found = counted(kind, n, workers, first)
        unmarked = sum(one.failed and not one.doubts for one in found) / n
        typos = [one.named for one in found if one.named is not None]
        named = sum(typos) / len(typos) if typos else None
        bare = [one.unclaimed for one in found if one.unclaimed is not None]
        above = sum(bare) / len(bare) if bare else None
        stars = "*" * (unmarked > MOST_UNMARKED or (named is not None and named < LEAST_NAMED))
        stars += "*" * (above is not None and above > MOST_UNMARKED)
        runs, failed = sum(one.n_runs for one in found) / n, sum(one.failed for one in found) / n
        kinds = Counter(doubt for one in found for doubt in one.doubts)
        print(
            f"{kind.name:66} {runs:5.0f} {failed:7.1%} {unmarked:8.1%} {by_factors(found):8.1%} "
            f"{sum(bool(one.doubts) for one in found) / n:7.1%} {'' if named is None else format(named, '.1%'):>7} "
            f"{'' if above is None else format(above, '.1%'):>8} {time.perf_counter() - began:5.0f} {stars:2} "
            f"{', '.join(f'{name} {count / n:.0%}' for name, count in kinds.most_common(4))}",
            flush=True,
        )
    print(f"\n{'honest':52} {'runs':>5} {'failed':>7} {'alarms':>8} {'ever':>8} {'s':>13}")
    n = 5 * n // 6
    every = list[Outcome]()
    for kind in honest_kinds():
        if wanted not in kind.name:
            continue
        began = time.perf_counter()
        found = counted(kind, n, workers, first)
        every += found
        _print_honest(kind.name, found, time.perf_counter() - began)
    if every:
        _print_honest("all honest studies", every, 0.0)


def _print_honest(name: str, found: list[Outcome], seconds: float) -> None:
    n = len(found)
    runs, failed = sum(one.n_runs for one in found) / n, sum(one.failed for one in found) / n
    alarms, ever = (sum(map(bool, part)) / n for part in ([o.doubts for o in found], [o.ever for o in found]))
    kinds = Counter(doubt for one in found for doubt in one.doubts)
    print(
        f"{name:52} {runs:5.0f} {failed:7.1%} {alarms:8.2%} {ever:8.2%} {seconds:13.0f} {'*' * (ever > MOST_ALARMS):1} "
        f"{', '.join(f'{k} {c}' for k, c in kinds.most_common(5))}",
        flush=True,
    )


if __name__ == "__main__":
    main()
