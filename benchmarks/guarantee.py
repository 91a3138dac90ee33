"""Count broken promises: python benchmarks/guarantee.py [studies] [part of a scenario's name] [--minutes M] [--anew]

2000 studies of each scenario by default. All 300 take more than a day of one core, most of it for a dozen scenarios,
so counts are kept in benchmarks/guarantee_counts.csv and go on from there, for at most M minutes: always with the
scenario that is nearest to its end. Before a scenario goes on, ten of its studies are made again, five of those that
failed among them; if one ends otherwise, the code has changed what is counted, and it is counted anew, as all are with
--anew. A star marks more than was promised, two stars more by two standard errors of the count. At the end stands how
far each kind of study is, and the scenario of it that fails most often.
"""

import argparse
import csv
import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from harness.coverage import Counted, every_scenario, groups, selection_failures
from harness.hard_worlds import FAILURE_PROB
from levers.core.certificates.certificate import scale_needed
from levers.core.certificates.limits import slippage_failures
from levers.core.certificates.sums import dp_bound
from levers.core.designs.design import Design

KEPT = Path(__file__).with_name("guarantee_counts.csv")
PIECE = 25  # studies that a process makes before it answers
MADE_AGAIN = 5  # studies that failed, and as many that did not


@dataclass
class Count:
    """Studies 0, 1, ... of a scenario: how many were made, which failed, and the seconds of computing they took."""

    studies: int = 0
    failed: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """Failures among the studies made."""
        return len(self.failed) / max(self.studies, 1)

    def left(self, n: int) -> float:
        """About how many seconds of computing it takes to make n studies of it; none while nothing is known."""
        return self.seconds / max(self.studies, 1) * max(n - self.studies, 0)


def read_counts() -> dict[str, Count]:
    if not KEPT.exists():
        return {}
    with KEPT.open(newline="") as file:
        return {
            row["scenario"]: Count(int(row["studies"]), [int(s) for s in row["failed"].split()], float(row["seconds"]))
            for row in csv.DictReader(file)
        }


def write_counts(counts: dict[str, Count]) -> None:
    """Written beside the file and put in its place, so that a count is never lost."""
    beside = KEPT.with_suffix(".part")
    with beside.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["scenario", "studies", "seconds", "failed"])
        for name, count in counts.items():
            writer.writerow([name, count.studies, f"{count.seconds:.1f}", " ".join(map(str, sorted(count.failed)))])
    beside.replace(KEPT)


def failing(name: str, seeds: list[int]) -> tuple[list[int], float]:
    """Which of these studies of a scenario fail, and how long they took."""
    began = time.process_time()
    with threadpool_limits(1):
        scenario = every_scenario()[name]
        return [seed for seed in seeds if scenario.fails(seed)], time.process_time() - began


def still_so(name: str, count: Count) -> bool:
    """Whether a few of the studies kept end as they did."""
    fail = count.failed[:: max(1, len(count.failed) // MADE_AGAIN)][:MADE_AGAIN]
    passed = [seed for seed in range(count.studies) if seed not in set(count.failed)]
    again, _ = failing(name, [*fail, *passed[:: max(1, len(passed) // MADE_AGAIN)][:MADE_AGAIN]])
    return again == fail


def go_on(name: str, count: Count, until: int, workers: int) -> None:
    seeds = list(range(count.studies, until))
    pieces = [seeds[begin : begin + PIECE] for begin in range(0, len(seeds), PIECE)]
    for failed, seconds in Parallel(n_jobs=workers)(delayed(failing)(name, piece) for piece in pieces):
        count.failed += failed
        count.seconds += seconds
    count.studies = max(count.studies, until)


def line(scenario: Counted, count: Count) -> str:
    promised, n = scenario.failure_prob, count.studies
    stars = "*" * (count.share > promised) + "*" * (count.share > promised + 2 * error_of_share(promised, n))
    numbers = f"{n:7} {len(count.failed):9} {count.share:7.2%} {promised:9.2%} {count.seconds:8.0f}"
    return f"{scenario.name:58} {numbers} {stars}"


def error_of_share(share: float, n: int) -> float:
    """The standard error of a share that is counted over n studies."""
    return math.sqrt(share * (1 - share) / n)


def skewed_design(n_runs: int, sizes: tuple[int, ...], follow: float, seed: int) -> Design:
    """Each column copies the one before it with probability `follow`: far from orthogonal."""
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(0, m, n_runs) for m in sizes], axis=1).astype(np.int16)
    for k in range(1, len(sizes)):
        same = rng.random(n_runs) < follow
        rows[same, k] = rows[same, k - 1] % sizes[k]
    return Design(rows, sizes, "skewed")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("studies", type=int, nargs="?", default=2000)
    parser.add_argument("part", nargs="?", default="", help="of a scenario's name")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--anew", action="store_true")
    given = parser.parse_args()
    n, workers = given.studies, int(os.environ.get("WORKERS", os.cpu_count() or 1))
    deadline = time.monotonic() + 60 * given.minutes
    every = [one for name, one in every_scenario().items() if given.part in name]
    kept, checked = read_counts(), set[str]()
    unfinished = {one.name for one in every if given.anew or one.name not in kept or kept[one.name].studies < n}
    head = f"{'scenario':58} {'studies':>7} {'failures':>9} {'share':>7} {'promised':>9} {'seconds':>8}"
    print(head, flush=True)
    while time.monotonic() < deadline:
        left = [one for one in every if one.name in unfinished]
        if not left:
            break
        one = min(left, key=lambda item: kept.get(item.name, Count()).left(n))
        count = kept.get(one.name, Count())
        if one.name not in checked:
            checked.add(one.name)
            if given.anew or not still_so(one.name, count):
                count = Count()
        go_on(one.name, count, min(count.studies + PIECE * workers, n), workers)
        kept[one.name] = count
        write_counts(kept)
        if count.studies >= n:
            unfinished.remove(one.name)
            print(line(one, count), flush=True)
    found = [(one, kept[one.name]) for one in every if one.name in kept]
    print(f"\nall that is kept\n{head}")
    for one, count in found:
        print(line(one, count))
    done = sum(count.studies >= n for _, count in found)
    print(f"{done} of {len(every)} scenarios have {n} studies, {sum(count.studies for _, count in found):,} in all")
    for kind, group in groups().items():
        of_kind = [(one, kept[one.name]) for one in group if one.name in kept and given.part in one.name]
        if of_kind:
            complete = [(one, count) for one, count in of_kind if count.studies >= n] or of_kind
            worst, count = max(complete, key=lambda item: item[1].share / item[0].failure_prob)
            done = sum(count.studies >= n for _, count in of_kind)
            of_those = f"at most {count.share:.2%} ({worst.name}, {count.studies} studies)"
            print(f"{kind:18} {done:3} of {len(group):3} scenarios complete: {of_those}")
    over = [one.name for one, count in found if count.share > one.failure_prob]
    print(f"above what was promised: {', '.join(over) or 'none'}")
    most = max((count.share / one.failure_prob for one, count in found), default=0.0)
    for sizes, n_runs, follow in (((2, 2, 2, 2), 40, 0.6), ((3, 3, 3), 60, 0.5), ((4, 2, 5, 3), 50, 0.4)):
        design = skewed_design(n_runs, sizes, follow, 1)
        many = 10 * n  # the selection alone: quick, and close to what is promised
        failed = selection_failures(design, many, 0)
        most = max(most, failed / many / FAILURE_PROB)
        name = f"skewed design {sizes}, inflation {design.inflation:.1f}"
        print(f"{name:58} {failed:9} {failed / many:7.2%} {FAILURE_PROB:9.2%} of {many}", flush=True)
    print(f"largest share of failures, of what was promised: {most:.2f}")

    print("\nreported bound against the exact failure probability on equal-gap instances (K, m, n)")
    least = math.inf
    for k in (1, 2, 5, 10, 20):
        for m in (2, 3, 4, 6):
            for factor in (0.7, 1.0, 1.3):
                scale = factor * scale_needed((m,) * k, FAILURE_PROB)
                reported, exact = dp_bound([m] * k, scale), float(slippage_failures([m] * k, scale).max())
                least = min(least, reported / exact)
    print(f"least ratio of bound to exact probability over the grid: {least:.6f}")


if __name__ == "__main__":
    main()
