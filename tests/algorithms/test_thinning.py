"""The last round leaves out levels far behind."""

from typing import Any

import numpy as np
import pytest

import levers
from harness.hard_worlds import additive_world
from levers.algorithms.base import Batch, Problem, Verdict, run_to_verdict
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.pooled.state import PooledState
from levers.algorithms.cfs.settings import DAY_RULES, THIN_BEHIND
from levers.core.certificates.tails import slippage_tail
from levers.core.certificates.thinning import LEAST_COVERED, share_of_runs
from levers.core.model.level_index import Numbers
from levers.worlds.scm import World

WORLD = additive_world([[0.0, 0.8, 0.1, 0.2], [0.0] * 4, [0.0] * 5, [0.3, 0.0, 0.2, 0.0, 0.1, 0.0]])


def solver_of(world: World, **options: object) -> Pooled:
    terms: dict[str, Any] = {"tolerance": 0.5, "failure_prob": 0.1} | options
    problem = Problem(world.space, terms.pop("tolerance"), terms.pop("failure_prob"), 1.0)
    return Pooled(problem, **terms)


def last_round(solver: Pooled, world: World, seed: int) -> tuple[PooledState, Batch, Numbers]:
    """The study before its last round, this round, and all its outcomes."""
    rng, noise = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    state, before, batch, y = solver.start(), solver.start(), None, np.array([])
    while not state.finished:
        step = solver.ask(state, rng)
        assert isinstance(step, Batch)
        before, batch, y = state, step, world.outcome.sample(step.codes, noise)
        state = solver.tell(state, step, y)
    assert batch is not None
    return before, batch, y


def test_levels_far_behind_get_no_more_runs() -> None:
    solver = solver_of(WORLD)
    state, batch, _ = last_round(solver, WORLD, 0)
    evidence, left_out = solver.evidence(state), 0
    assert {one.factor for one in state.thinned} <= set(state.open_factors)
    for one in state.thinned:
        run = np.unique(batch.codes[:, one.factor])
        assert tuple(run) == one.kept
        assert len(one.kept) >= 2
        for level in set(state.active[one.factor]) - set(one.kept):
            left_out += 1
            behind = evidence.estimate(one.factor, state.leaders[one.factor], level)
            assert behind >= THIN_BEHIND / np.sqrt(2 * one.known)
    assert left_out > 0


def test_it_takes_fewer_runs_for_the_same_promise() -> None:
    runs = {}
    for rules in (DAY_RULES, Pooled.rules):
        verdicts = [ended(solver_of(WORLD, rules=rules), seed) for seed in range(6)]
        assert all(verdict.within <= 0.5 for verdict in verdicts)
        assert all(("levels left out" in [p.kind for p in v.provisos]) == (rules != DAY_RULES) for v in verdicts)
        runs[rules] = sum(verdict.n_runs for verdict in verdicts)
    assert runs[Pooled.rules] < 0.97 * runs[DAY_RULES]


def ended(solver: Pooled, seed: int) -> Verdict:
    noise = np.random.default_rng([seed, 1])
    return run_to_verdict(solver, lambda b: (b, WORLD.outcome.sample(b.codes, noise)), np.random.default_rng(seed))


def test_the_verdict_can_be_recomputed() -> None:
    noise, kept = np.random.default_rng(3), []

    def outcomes_of(batch: Batch) -> tuple[Batch, Numbers]:
        kept.append(WORLD.outcome.sample(batch.codes, noise))
        return batch, kept[-1]

    verdict = run_to_verdict(solver_of(WORLD), outcomes_of, np.random.default_rng(3))
    assert "levels left out" in [proviso.kind for proviso in verdict.provisos]
    assert levers.verify(verdict, np.concatenate(kept)).ok


@pytest.mark.parametrize("options", [{"failure_prob": 0.005}, {"rules": DAY_RULES}, {"tolerance": None, "budget": 200}])
def test_where_it_is_not_covered_all_levels_stay(options: dict[str, object]) -> None:
    """Promises beyond the table, studies of earlier rules, and budgets."""
    assert not last_round(solver_of(WORLD, **options), WORLD, 0)[0].thinned


def test_a_study_that_goes_on_for_long_takes_them_back() -> None:
    solver = solver_of(WORLD)
    state, batch, y = last_round(solver, WORLD, 0)
    assert state.thinned
    state = solver.tell(state, batch, y)
    few, many = solver.extend(state, 8), solver.extend(state, 4 * state.n_runs)
    assert few.varied == state.varied != state.active
    assert many.varied == tuple(
        levels if k in many.open_factors else (many.leaders[k],) for k, levels in enumerate(many.active)
    )
    rng, noise = np.random.default_rng(5), np.random.default_rng(6)
    for longer in (few, many):  # what is certified then takes no run for more than it says
        step = solver.ask(longer, rng)
        assert isinstance(step, Batch)
        again = solver.tell(longer, step, WORLD.outcome.sample(step.codes, noise))
        assert again.finished
        assert again.certified is not None
    assert solver.ask(solver.extend(again, None), rng).n_runs > 0


@pytest.mark.parametrize(("m", "done"), [(3, 0.65), (4, 0.7), (6, 0.8)])
def test_leaving_out_errs_no_more_often_than_the_table_says(m: int, done: float) -> None:
    """A factor by itself, at equal gaps: the small version of benchmarks/thinning.py."""
    rng, n = np.random.default_rng([m, 1]), 40_000
    for gap in (1.5, 2.5, 3.5):
        means = np.full(m, -gap)
        means[0] = 0.0
        early = means + rng.normal(size=(n, m)) / np.sqrt(done)
        second = np.sort(early, axis=1)[:, -2:-1]
        kept = (early > early.max(axis=1, keepdims=True) - THIN_BEHIND / np.sqrt(done)) | (early >= second)
        n_kept = kept.sum(axis=1, keepdims=True)
        added = (1 - done) * m / n_kept
        late = means + rng.normal(size=(n, m)) / np.sqrt(added)
        # constants of their own: the second part compares those kept with each other only
        centre = [(kept * part).sum(axis=1, keepdims=True) / n_kept for part in (early, late)]
        both = centre[0] + (done * (early - centre[0]) + added * (late - centre[1])) / (done + added)
        wrong = (np.where(kept, both, early).argmax(axis=1) != 0).mean()
        plain = float(slippage_tail(m - 1, np.array([gap]))[0])
        allowed = float(slippage_tail(m - 1, np.array([gap / np.sqrt(share_of_runs(m, done))]))[0])
        assert wrong <= allowed + 3 * np.sqrt(allowed / n)
        assert allowed < plain


def test_shares_are_between_what_is_possible_and_one() -> None:
    for m in range(2, 20):
        shares = [share_of_runs(m, done) for done in np.linspace(LEAST_COVERED, 1.0, 41)]
        assert all(1 - 0.5 * (1 - 2 / m) <= share <= 1.0 for share in shares)
        assert shares[-1] == share_of_runs(m, 0.3) == 1.0


def test_a_short_budget_is_one_design() -> None:
    world = additive_world([[0.0, 1.0], [0.0, 0.0, 0.5], [0.0] * 4])  # six parameters
    problem = Problem(world.space, None, 0.1, 1.0)
    first = {budget: Pooled(problem, budget=budget, aim="best").first_block for budget in (7, 8, 20)}
    assert (first[7], first[8]) == (7, 8)
    assert first[20] < 12
    assert Pooled(problem, budget=8, aim="best", rules=DAY_RULES).first_block < 8
