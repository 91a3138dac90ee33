"""A study that spends a budget for the best setting is not led by single outcomes far out."""

from dataclasses import replace

import numpy as np
import pytest

from levers import Problem, Space, Verdict, from_json, to_json
from levers.algorithms.base import Batch
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.pooled.state import PooledState
from levers.algorithms.cfs.pooled.verdict import DRAWN_IN
from levers.algorithms.cfs.settings import STEADY_RULES, TOGETHER_RULES

EFFECTS = np.array([0.8, -0.6, 0.5, -0.4, 0.0, 0.0, 0.3, 0.0])


def study(rules: int, seed: int, spikes: bool, aim: str = "best") -> tuple[float, PooledState, Verdict]:
    """The loss, the last state, and the verdict. Now and then a run is worse by eight standard deviations or so."""
    rng, noise = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    solver = Pooled(Problem(Space.sized((2,) * 8), None, 0.1, None), budget=60, aim=aim, rules=rules)
    state = solver.start()
    while isinstance(step := solver.ask(state, rng), Batch):
        y = step.codes @ EFFECTS + noise.normal(size=step.n_runs)
        worse = np.where(noise.random(step.n_runs) < 0.05, noise.exponential(8.0, size=step.n_runs), 0.0)
        state = solver.tell(state, step, y - worse if spikes else y)
    best = EFFECTS[EFFECTS > 0].sum()
    return float(best - np.array(step.assignment.codes) @ EFFECTS), state, step


def test_outcomes_far_out_cost_less_than_they_did() -> None:
    """24 studies, the same runs in the first round; benchmarks/far_out.py has more kinds of worlds."""
    losses = {rules: [study(rules, seed, True)[0] for seed in range(24)] for rules in (STEADY_RULES, TOGETHER_RULES)}
    assert np.mean(losses[STEADY_RULES]) < 0.75 * np.mean(losses[TOGETHER_RULES])


def test_a_verdict_says_how_many_outcomes_were_drawn_in() -> None:
    _, state, verdict = study(STEADY_RULES, 4, True)
    [remark] = [remark for remark in verdict.provisos if remark.kind == DRAWN_IN]
    assert state.n_drawn_in > 0
    assert str(state.n_drawn_in) in remark.text or (state.n_drawn_in == 1 and "one outcome" in remark.text)


def test_where_nothing_is_far_out_nothing_changes() -> None:
    """Most first rounds of normal outcomes have nothing far out, and the round after them is the same as before."""
    n_plain = 0
    for seed in range(8):
        rows, drawn = [], 0
        for rules in (STEADY_RULES, TOGETHER_RULES):
            solver = Pooled(Problem(Space.sized((2,) * 8), None, 0.1, None), budget=60, aim="best", rules=rules)
            first = solver.ask(solver.start(), np.random.default_rng(seed))
            assert isinstance(first, Batch)
            y = first.codes @ EFFECTS + np.random.default_rng([seed, 1]).normal(size=first.n_runs)
            state = solver.tell(solver.start(), first, y)
            following = solver.ask(state, np.random.default_rng(seed))
            assert isinstance(following, Batch)
            rows.append(following.codes)
            drawn += state.n_drawn_in  # always 0 by the rules before
        if not drawn:
            n_plain += 1
            assert np.array_equal(rows[0], rows[1])
    assert n_plain >= 4


def test_certificates_take_outcomes_as_they_were_told() -> None:
    _, state, verdict = study(STEADY_RULES, 4, True, aim="certify")
    assert state.trusted is None
    assert DRAWN_IN not in {remark.kind for remark in verdict.provisos}


def test_a_state_with_outcomes_drawn_in_goes_to_json_and_back() -> None:
    _, state, _ = study(STEADY_RULES, 4, True)
    again = from_json(to_json(state), PooledState)
    assert again.n_drawn_in == state.n_drawn_in
    assert again.trusted_sums.sums == pytest.approx(state.trusted_sums.sums)
    assert replace(again, trusted=None).trusted_sums is again.pooled
