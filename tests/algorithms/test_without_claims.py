"""What a verdict certifies without the claims that it rests on."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import levers
from harness.doubtful import parents_shape, small_effects
from harness.hard_worlds import additive_world
from levers import Problem, Space, Verdict
from levers.algorithms.base import Batch, run_to_verdict
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.pooled.state import PooledState
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.cfs.two_stage import TwoStage
from levers.algorithms.cfs.without_claims import UnclaimedRisks
from levers.core.certificates.certificate import stakes_tolerance
from levers.core.codec import from_json, to_json
from levers.core.model.evidence import level_mask
from levers.core.outcome_scale import AS_TOLD
from levers.worlds.scm import World, gap

FEW = additive_world([[1.0, 0.0, 0.0]] * 2 + [[0.0] * 3] * 4)
"""Two of six levers matter."""


def problem(world: World, **more: Any) -> Problem:
    asked: dict[str, Any] = {"tolerance": 0.5, "noise_sd": 1.0, **more}
    return Problem(world.space, asked["tolerance"], 0.1, asked["noise_sd"])


def ended(solver: Any, world: World, seed: int = 0, noise_sd: float = 1.0) -> tuple[Any, Verdict, list[float]]:
    """The last state, the verdict and all outcomes."""
    rng, noise, state, kept = np.random.default_rng(seed), np.random.default_rng([seed, 1]), solver.start(), []
    while isinstance(step := solver.ask(state, rng), Batch):
        y = world.outcome.mean(step.codes) + noise.normal(0.0, noise_sd, step.n_runs)
        kept += y.tolist()
        state = solver.tell(state, step, y)
    return state, step, kept


def without(verdict: Verdict) -> float:
    assert verdict.tolerance_without_claims is not None
    return verdict.tolerance_without_claims


def test_a_pooled_study_counts_all_levers_with_levels_in_play() -> None:
    world = additive_world([[3.0, 0.0, 0.0]] * 2 + [[0.0] * 3] * 4)
    solver = Pooled(problem(world), max_parents=2)
    state, verdict, _ = ended(solver, world)
    assert len(state.parents) == 2  # found, so that the others were closed
    closed = [k for k in state.closed if len(state.active[k]) > 1]
    assert len(closed) == 4
    assert not state.open_factors
    assert verdict.within == 0.0
    least = solver.evidence(state).least(level_mask(state.active, 3))
    stakes = [(len(state.active[k]), 1 / math.sqrt(2 * least[k])) for k in closed]
    assert without(verdict) == pytest.approx(stakes_tolerance(stakes, solver.shares.selection), rel=1e-6)


@pytest.mark.parametrize("noise_sd", [1.0, None])
def test_it_is_wider_than_with_the_claim_and_said_beside_it(noise_sd: float | None) -> None:
    _, verdict, kept = ended(Pooled(problem(FEW, noise_sd=noise_sd), max_parents=2), FEW)
    assert without(verdict) > verdict.within > 0
    assert verdict.promise.endswith(
        f"; within {AS_TOLD.certified(without(verdict))} without what was claimed of levers"
    )
    assert replace(verdict, doubts=verdict.provisos[:1]).promise.startswith("in doubt (otherwise within ")
    assert levers.verify(verdict, kept).ok
    assert not levers.verify(replace(verdict, tolerance_without_claims=0.1), kept).ok


def test_without_a_claim_there_is_one_number() -> None:
    for claimed in (None, FEW.space.n_factors):  # the second one claims nothing
        _, verdict, _ = ended(Pooled(problem(FEW), max_parents=claimed), FEW)
        assert verdict.tolerance_without_claims is None
        assert "claimed" not in verdict.promise + verdict.statement


def test_verdicts_of_before_are_read() -> None:
    _, verdict, _ = ended(Pooled(problem(FEW), max_parents=2), FEW)
    text = to_json(verdict)
    assert from_json(text, Verdict).tolerance_without_claims == verdict.tolerance_without_claims
    name = ', "tolerance_without_claims": '
    assert from_json(text[: text.index(name)] + "}", Verdict).tolerance_without_claims is None


def test_a_look_at_any_time_is_charged_for() -> None:
    solver = Pooled(problem(FEW), max_parents=2)
    state = solver.start()
    batch = solver.ask(state, np.random.default_rng(0))
    assert isinstance(batch, Batch)
    state = solver.tell(state, batch, FEW.outcome.sample(batch.codes, np.random.default_rng(1)))
    assert not state.finished
    now = solver.interim(state)
    assert now is not None
    planned = solver.unclaimed(state).tolerance(solver.risk(state))
    assert planned is not None
    assert without(now) > planned


def finished(solver: Pooled, world: World) -> PooledState:
    state, _, _ = ended(solver, world)
    assert isinstance(state, PooledState)
    return state


def test_levels_of_today_that_only_the_claim_chose_cost_what_they_may_lose() -> None:
    world = additive_world([[3.0, 0.0, 0.0]] * 2 + [[0.0] * 3] * 4)
    plain, kept = (Pooled(problem(world), max_parents=2, baseline=level) for level in (None, (1,) * 6))
    state = finished(kept, world)
    evidence = kept.evidence(state)
    behind = [k for k in range(2, 6) if any(evidence.estimate(k, j, 1) > 0 for j in (0, 2))]
    assert behind
    found = kept.unclaimed(state)
    assert found.settled > 0
    assert len(found.stakes) == 4 - len(behind)
    assert plain.unclaimed(finished(plain, world)).settled == 0


def test_a_budget_for_the_best_setting_counts_all_levers_too() -> None:
    solver = Pooled(problem(FEW, tolerance=None), max_parents=2, budget=80, aim="best")
    _, verdict, kept = ended(solver, FEW)
    assert without(verdict) > verdict.within
    assert levers.verify(verdict, kept).ok


def test_levers_that_may_be_left_alone() -> None:
    cfs = Cfs(problem(FEW), max_parents=2, free=(5,))
    state, rng, noise = cfs.start(), np.random.default_rng(0), np.random.default_rng(1)
    seen = []
    while isinstance(step := cfs.ask(state, rng), Batch):
        codes = np.where(step.codes < 0, noise.integers(0, 3, step.codes.shape), step.codes)
        y = FEW.outcome.sample(codes.astype(np.int16), noise)
        state = cfs.tell(state, step.observed(codes), y)
        now = cfs.interim(state)
        if now is not None and now.tolerance is not None:
            seen.append(without(now) >= now.tolerance)
    assert without(step) > step.within
    assert seen
    assert all(seen)


def test_a_study_with_fewer_runs_than_parameters_says_that_it_has_none() -> None:
    world = additive_world([[2.0, 0.0, 0.0]] + [[0.0] * 3] * 199)
    verdict = run_to_verdict(
        Cfs(problem(world), max_parents=1),
        lambda batch: (batch, world.outcome.sample(batch.codes, np.random.default_rng(batch.n_runs))),
        np.random.default_rng(0),
    )
    assert verdict.tolerance is not None
    assert verdict.tolerance_without_claims is None
    assert verdict.provisos[-1].kind == "only with claims"


# in two stages


def test_what_a_look_and_a_selection_may_lose_is_added_up() -> None:
    world = small_effects(0.2).world(0)
    solver = TwoStage(problem(world), min_effect=0.6)
    numbers = {}
    for seed in range(4):
        state, verdict, kept = ended(solver, world, seed)
        assert state.looked
        assert 0.5 < without(verdict) < 2.5
        assert levers.verify(verdict, kept).ok
        numbers[state.selected] = without(verdict)
    assert numbers[True] > numbers[False]
    _, unknown, _ = ended(replace(solver, problem=problem(world, noise_sd=None)), world)
    assert without(unknown) > without(verdict)  # by the evidence on pairs alone


@pytest.mark.parametrize(
    "options",
    [
        {"max_parents": 2, "certificate": "proven"},
        {"max_parents": 2, "noise": "subgaussian"},
        {"max_parents": 1, "certificate": "proven"},  # made for one factor alone, and false
        {"max_parents": 2, "min_effect": 0.8},
        {"min_effect": 0.8, "noise": "subgaussian"},
        {"min_effect": 0.8, "tolerance": None, "budget": 300},
    ],
    ids=str,
)
def test_every_kind_of_two_stages_has_a_number_that_holds(options: dict[str, Any]) -> None:
    asked = problem(FEW, tolerance=options.pop("tolerance", 0.5))
    failed = 0
    for seed in range(6):
        state, verdict, kept = ended(TwoStage(asked, **options), FEW, seed)
        assert verdict.within <= without(verdict) < 20
        failed += gap(FEW, verdict.assignment.codes) > without(verdict)
        assert levers.verify(verdict, kept).ok
        assert from_json(to_json(state), type(state)) is not None
    assert failed <= binom.ppf(0.999, 6, 0.1)


def test_after_it_went_on_the_evidence_speaks() -> None:
    world = small_effects(0.2).world(0)
    solver = TwoStage(problem(world), min_effect=0.6)
    state, before, _ = next(found for seed in range(9) if (found := ended(solver, world, seed))[0].selected)
    state = solver.extend(state, 60)
    batch = solver.ask(state, np.random.default_rng(5))
    assert isinstance(batch, Batch)
    state = solver.tell(state, batch, world.outcome.sample(batch.codes, np.random.default_rng(6)))
    assert state.kept is not None
    assert without(solver.verdict(state)) > without(before)


def test_parts_of_the_risk_add_up() -> None:
    shares = TwoStage(Problem(Space.sized([3] * 10), 0.5, 0.1, None), min_effect=0.6).shares()
    for looked in (True, False):
        parts = UnclaimedRisks.of(0.1, shares, looked)
        spent = shares.screening + shares.noise + parts.evidence + parts.look + parts.selection
        assert spent == pytest.approx(0.1)


@pytest.mark.parametrize("n_factors", [3, 10])
def test_it_holds_where_the_claim_is_false(n_factors: int) -> None:
    shape = {3: parents_shape(3, 3, 1.0), 10: parents_shape(10, 3, 0.5)}[n_factors]
    world, n = shape.world(0), 60
    solver = Pooled(problem(world, noise_sd=shape.noise_sd), max_parents=n_factors // 3)
    failed = unclaimed = 0
    for seed in range(n):
        _, verdict, _ = ended(solver, world, seed, shape.noise_sd)
        lost = gap(world, verdict.assignment.codes)
        failed, unclaimed = failed + (lost > verdict.within), unclaimed + (lost > without(verdict))
    assert unclaimed <= binom.ppf(0.999, n, 0.1)
    assert failed > unclaimed


def test_levels_kept_for_the_claim_count_without_it_where_all_runs_are_one_design() -> None:
    """A lever that the claim says does not matter stays at today's level, whatever the runs say of it."""
    world = additive_world([[0.0, 6.0], *([0.0, 0.8] for _ in range(5))])
    solver = Cfs(problem(world, tolerance=None), budget=24, aim="certify", max_parents=1, baseline=(0,) * 6)
    for seed in range(10):
        _, found, _ = ended(solver, world, seed)
        lost = gap(world, found.assignment.codes)
        assert lost > 2.0  # the claim is false
        assert found.tolerance_without_claims is None or found.tolerance_without_claims >= lost
