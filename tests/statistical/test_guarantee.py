"""CFS's promise, counted: the small version of benchmarks/guarantee.py.

A scenario alone has so few studies that only a rule which fails in most of them shows. Up to 20 scenarios of a kind are
also counted together: of about 80 studies 17 may fail, so a rule shows that fails in a third of them. What is a little
worse than promised is counted by the benchmark, with up to 2,000 studies a scenario.
"""

import numpy as np
import pytest
from scipy.stats import binom

from harness.coverage import ANY_STOP, Counted, Scenario, every_scenario, groups, scenarios, selection_failures
from harness.hard_worlds import FAILURE_PROB
from levers.core.designs.design import Design
from levers.experiments.compare import Comparison, run_tasks, summarise

VERY_FEW, FEW, MANY = 3, 5, 8
AT_ONCE = 20
SLOW = (
    "K=30",
    "budget of 80, best",
    "budget of 150, best",
    "budget of 500",
    "x 12 levels",
    "x 16 levels",
    "proven, three",
)
QUICK = ("K=1 ", "K=2 ", "two stages", "rounded to", "budget of 10, certify", "budget of 14, certify")
MORE = {"noise unknown, budget of 8, promised 0.001": 250, "noise unknown, budget of 14, best, 3 x 3 levels": 120}


def n_studies(scenario: Counted) -> int:
    """How many studies the small version has: by how long one takes, and more where a failure should be rare."""
    stopped = isinstance(scenario, Scenario) and scenario.counted == ANY_STOP
    slow = stopped or any(word in scenario.name for word in SLOW)
    if slow or scenario.name == "mixed gaps, proven":
        return VERY_FEW
    return MORE.get(scenario.name, MANY if any(word in scenario.name for word in QUICK) else FEW)


PARTS = {
    f"{name} {begin // AT_ONCE + 1}": group[begin : begin + AT_ONCE]
    for name, group in groups().items()
    if name != "forbidden pairs"  # test_forbidden.py
    for begin in range(0, len(group), AT_ONCE)
}


@pytest.mark.parametrize("part", PARTS)
def test_the_promise_is_kept(part: str) -> None:
    n_all = n_failed = 0
    for scenario in PARTS[part]:
        n = n_studies(scenario)
        failed = sum(scenario.fails(seed) for seed in range(n))
        assert failed <= binom.ppf(0.999, n, scenario.failure_prob), scenario.name
        if scenario.failure_prob == FAILURE_PROB and n <= MANY:
            n_all, n_failed = n_all + n, n_failed + failed
    assert n_failed <= binom.ppf(0.999, max(n_all, 1), FAILURE_PROB)


def test_each_rule_is_counted() -> None:
    """A count of failures says nothing about rules that no study follows."""
    by_name = {scenario.name: scenario for scenario in scenarios()}
    assert len(every_scenario()) == sum(map(len, groups().values()))
    for name, pools in (("slippage K=2 m=2", True), ("mixed gaps, proven", False), ("bounded noise", False)):
        scenario = by_name[name]
        assert scenario.solver(scenario.world(0)).pools is pools, name


def test_scenarios_of_a_look_have_one() -> None:
    """A count of failures says nothing about a rule that was never applied."""
    named = [s for s in scenarios() if "min_effect" in s.options and "budget" not in s.options]
    assert len(named) == 9
    for scenario in named:
        assert all(scenario.solver(scenario.world(seed)).two_stage.looks for seed in range(20)), scenario.name


def test_the_hardest_instances_do_fail_sometimes() -> None:
    """A check that can fail: at the worst gap the selection errs about as often as it is allowed to."""
    by_name = {scenario.name: scenario for scenario in scenarios()}
    assert sum(by_name["slippage K=2 m=2"].fails(seed) for seed in range(200)) >= 4


@pytest.mark.parametrize("certificate", ["slippage", "proven"])
def test_designs_far_from_orthogonal_keep_the_promise(certificate: str) -> None:
    rng = np.random.default_rng(1)
    sizes = (3, 2, 4)
    rows = np.stack([rng.integers(0, m, 48) for m in sizes], axis=1).astype(np.int16)
    rows[:, 1] = np.where(rng.random(48) < 0.7, rows[:, 0] % 2, rows[:, 1])
    design = Design(rows, sizes, "skewed")
    assert design.inflation > 2
    assert selection_failures(design, 800, 0, certificate) <= binom.ppf(0.999, 800, FAILURE_PROB)


@pytest.mark.parametrize(
    ("n_factors", "n_parents", "known", "most"),
    [(10, 1, False, 1800), (10, 5, False, 1250), (10, 5, True, 470), (10, 10, False, 650)],
)
def test_mean_runs_on_the_papers_worlds(n_factors: int, n_parents: int, known: bool, most: int) -> None:
    """20 worlds; the full table is printed by benchmarks/sample_counts.py."""
    plan = Comparison(n_factors=n_factors, n_parents=n_parents, known_parents=known, n_repeats=1, algorithms=("cfs",))
    [row] = summarise(plan.algorithms, [r for batch in run_tasks(plan) for r in batch])
    assert row.runs_mean <= most
    assert row.failures <= binom.ppf(0.999, row.n, FAILURE_PROB)


def test_a_known_least_effect_saves_most_of_the_runs() -> None:
    """8 worlds of thirty factors; four times fewer with 1 and with 10 parents. All 20: sample_counts.py."""
    for n_parents in (1, 10):
        runs = []
        for known in (False, True):
            plan = Comparison(
                n_factors=30,
                n_parents=n_parents,
                min_effect=0.5,
                known_min_effect=known,
                n_worlds=8,
                n_repeats=1,
                algorithms=("cfs",),
            )
            [row] = summarise(plan.algorithms, [r for batch in run_tasks(plan) for r in batch])
            assert row.failures <= binom.ppf(0.999, row.n, FAILURE_PROB)
            runs.append(row.runs_mean)
        assert runs[0] > 3.5 * runs[1]
