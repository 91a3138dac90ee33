"""Studies that may leave levers alone, counted: the small version of benchmarks/left_alone.py."""

import pytest
from scipy.stats import binom

from harness.left_alone import FAILURE_PROB, Kind, kinds
from levers.algorithms.cfs.settings import HIDDEN_ERROR

KINDS = {kind.name: kind for kind in kinds()}
COUNTED = [
    "a hidden coin, three other levers",
    "nothing hidden, levers influence each other",
    "a hidden cause of levers alone",
    "critical gaps, 0 other levers, left alone +0.52",
    "critical gaps, 2 other levers, left alone -0.3",
]


@pytest.mark.parametrize("kind", [KINDS[name] for name in COUNTED], ids=lambda kind: kind.name)
def test_the_promise_over_subsets_and_values_is_kept(kind: Kind) -> None:
    n = 14
    found = [kind.study(seed) for seed in range(n)]
    assert sum(one.failed for one in found) <= binom.ppf(0.999, n, FAILURE_PROB)
    if not kind.hidden:
        assert sum(one.fired for one in found) <= binom.ppf(0.999, n, HIDDEN_ERROR)
    if "coin" in kind.name:
        assert sum(one.left == ("X",) for one in found) >= 12  # most of them
        assert sum(one.fired for one in found) >= 11
