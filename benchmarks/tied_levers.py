"""What forbidden combinations cost, and whether that is enough: python benchmarks/tied_levers.py [studies]

First the mean runs of levers of 4, 3, 2 and 3 levels to a tolerance of half a standard deviation of the noise, where
nothing matters: nothing forbidden, a pair, and a chain of two pairs, by the rules of studies begun before and by those
of new ones. Then, for groups of levers, the most that effects were found to lose, over what the certificate allows for
before its margin of 1.15; designs of 2, 6 and 12 runs a parameter, 12,000 studies each by default.
"""

import sys
from dataclasses import replace

from harness.tied import GROUPS, Group, mean_runs, two, worst_share
from levers.algorithms.cfs.settings import LEADER_RULES, PARTS_RULES

PAIR, CHAIN = (two(0, 3, 1, 2),), (two(0, 3, 1, 2), two(1, 2, 2, 1))
TIED = {
    "nothing": Group((4, 3, 2, 3), (), others=()),
    "a pair": Group((4, 3), PAIR, others=(2, 3)),
    "a chain": Group((4, 3, 2), CHAIN, others=(3,)),
}


def main() -> None:
    n_studies = int(sys.argv[1]) if len(sys.argv) > 1 else 12_000
    print(f"{'forbidden':10} {'before':>7} {'now':>7}   mean runs")
    for word, tied in TIED.items():
        before, now = (mean_runs(tied, rules, 10) for rules in (LEADER_RULES, PARTS_RULES))
        print(f"{word:10} {before:7.0f} {now:7.0f}   {now / before:.2f}", flush=True)
    print(f"\n{'levels':14} {'forbidden':>9} {'runs a parameter':>16} {'most lost, of what is allowed for':>34}")
    worst = 0.0
    for group in GROUPS:
        for per_parameter in (2, 6, 12):
            one = replace(group, per_parameter=per_parameter)
            share = worst_share(one, n_studies, 100)
            worst = max(worst, share)
            levels = " x ".join(map(str, one.sizes))
            print(f"{levels:14} {len(one.forbidden):9} {per_parameter:16} {share:34.2f}", flush=True)
    print(f"worst: {worst:.2f}, and 1.15 is used")


if __name__ == "__main__":
    main()
