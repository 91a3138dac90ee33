"""What thinning before the last round saves, and whether equal gaps are its worst case: python benchmarks/thinning.py

One factor of m levels whose level means have a standard error of 1 at the end, if every run is divided equally. After a
share f of the runs, levels more than `settings.THIN_BEHIND` standard errors behind the leader get no more runs, two
levels at least stay, and those that stay share the rest. Each part has a constant of its own. H(t) is how often the
leader of all runs is not the best level, which is t ahead of every other.

The first table has the share of the runs with which thinning errs as seldom as without: the largest s with
H(t) = h_{m-1}(t / sqrt s) over all gaps t whose H is 3e-4 or more. `core/certificates/thinning.py` uses no smaller.
The second has the largest sum over rivals of P(rival i leads) / h_{m-1}(t_i / sqrt s), with s as it is used, at random
unequal gaps: at most 1 where equal gaps are the worst case   (docs/theory/slippage.md).
"""

import sys

import numpy as np

from levers.algorithms.cfs.settings import THIN_BEHIND
from levers.core.certificates.tails import slippage_tail
from levers.core.certificates.thinning import LEAST_COVERED, TAIL_COVERED, share_of_runs
from levers.core.model.level_index import Numbers

GAPS = np.arange(1.0, 6.01, 0.25)
SIZES = (3, 4, 5, 6, 8, 10)
DONE = tuple(np.round(np.arange(LEAST_COVERED, 0.96, 0.05), 2).tolist())


def leaders(gaps: Numbers, done: float, first: Numbers, second: Numbers) -> Numbers:
    """The leader of all runs in each of many studies, from standard normal errors of both parts."""
    m = len(gaps)
    early = first / np.sqrt(done) - gaps
    second_best = np.partition(early, -2, axis=1)[:, -2:-1]
    kept = (early > early.max(axis=1, keepdims=True) - THIN_BEHIND / np.sqrt(done)) | (early >= second_best)
    n_kept = kept.sum(axis=1, keepdims=True)
    added = (1 - done) * m / n_kept
    late = second / np.sqrt(added) - gaps
    middle, later_middle = ((kept * part).sum(axis=1, keepdims=True) / n_kept for part in (early, late))
    pooled = middle + (done * (early - middle) + added * (late - later_middle)) / (done + added)
    found: Numbers = np.where(kept, pooled, early).argmax(axis=1)
    return found


def least_share(m: int, done: float, n_studies: int) -> float:
    """The share of the runs with which thinning errs as seldom."""
    rng = np.random.default_rng([m, round(100 * done)])
    first, second = rng.normal(size=(2, n_studies, m))
    fine = np.arange(0.0, 9.0, 0.001)
    tail, largest = slippage_tail(m - 1, fine), 0.0
    for gap in GAPS:
        gaps = np.full(m, gap)
        gaps[0] = 0.0
        wrong = float((leaders(gaps, done, first, second) != 0).mean())
        if wrong < TAIL_COVERED:
            break
        largest = max(largest, (gap / float(np.interp(-wrong, -tail, fine))) ** 2)
    return largest


def largest_sum(m: int, done: float, n_studies: int, n_gaps: int) -> float:
    """The largest sum over rivals of how often each leads, by what it may be, over random gaps."""
    rng = np.random.default_rng([m, round(100 * done), 1])
    first, second = rng.normal(size=(2, n_studies, m))
    scale, largest = np.sqrt(share_of_runs(m, done)), 0.0
    for _ in range(n_gaps):
        gaps = np.concatenate([[0.0], rng.uniform(0.5, 3.0) * rng.uniform(size=m - 1) ** rng.choice([0.2, 1.0])])
        led = np.bincount(leaders(gaps, done, first, second).astype(np.int64), minlength=m)[1:] / n_studies
        largest = max(largest, float((led / slippage_tail(m - 1, gaps[1:] / scale)).sum()))
    return largest


def main() -> None:
    n_studies = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    print("share of the runs, by levels and the share done before\n  m  " + "".join(f"{done:13}" for done in DONE))
    for m in SIZES:
        found = [(least_share(m, done, n_studies), share_of_runs(m, done)) for done in DONE]
        print(f"{m:3}  " + "".join(f"{least:6.3f} ({used:.2f})" for least, used in found), flush=True)
    print("(in brackets: as used)\n\nlargest sum at unequal gaps\n  m  " + "".join(f"{done:7}" for done in DONE))
    for m in SIZES:
        sums = [largest_sum(m, done, n_studies // 5, 30) for done in DONE]
        print(f"{m:3}  " + "".join(f"{found:7.3f}" for found in sums), flush=True)


if __name__ == "__main__":
    main()
