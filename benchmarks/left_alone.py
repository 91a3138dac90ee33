"""Studies that may leave levers alone, counted: python benchmarks/left_alone.py [studies [part of a name]]

"failed" is how often the recommendation was worse than certified, over all subsets of levers and all values (promised:
at most 10 %); "left alone" how often the first lever was, and "hidden cause" how often the test for one fired (where
there is none: at most 1 %). "runs" is their mean, "of set only" its ratio to studies of the same worlds in which no
lever may be left alone, and which promise nothing about that.
"""

import sys
from dataclasses import replace

from scipy.stats import binom

from harness.left_alone import FAILURE_PROB, kinds
from levers.algorithms.cfs.settings import HIDDEN_ERROR


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    n_set = max(n // 20, 5)
    print(f"{'':55} {'failed':>8} {'left alone':>10} {'hidden cause':>12} {'runs':>7} {'of set only':>11}")
    missed = False
    for kind in kinds():
        if part not in kind.name:
            continue
        found = [kind.study(seed) for seed in range(n)]
        failed, fired = sum(one.failed for one in found), sum(one.fired for one in found)
        left = sum("X" in one.left or "X1" in one.left for one in found)
        runs = sum(one.n_runs for one in found) / n
        plain = [replace(kind, free=()).study(seed).n_runs for seed in range(n_set)]
        ok = failed <= binom.ppf(0.999, n, FAILURE_PROB)
        ok &= kind.hidden or fired <= binom.ppf(0.999, n, HIDDEN_ERROR)
        missed |= not ok
        print(
            f"{kind.name:55} {failed / n:8.1%} {left / n:10.1%} {fired / n:12.1%} {runs:7.0f} "
            f"{runs * n_set / sum(plain):11.2f}{'' if ok else '   MISSED'}",
            flush=True,
        )
    sys.exit(missed)


if __name__ == "__main__":
    main()
