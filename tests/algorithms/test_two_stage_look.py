"""Studies with a planned look: what it decides, what is kept of it, and studies that began before there was one."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from harness.hard_worlds import additive_world
from levers.algorithms.base import Batch, Problem, Verdict, run_to_verdict
from levers.algorithms.cfs.decisions import after_look
from levers.algorithms.cfs.settings import LOOK, SCREENING, SELECTION
from levers.algorithms.cfs.state import CfsState
from levers.algorithms.cfs.two_stage import TwoStage
from levers.algorithms.cfs.verify import verify
from levers.core.certificates.look import Look
from levers.core.codec import from_json, to_json
from levers.core.space import Space
from levers.errors import InvalidSettingError
from levers.experiments.runner import run_on_world
from levers.worlds.outcome import Noise
from levers.worlds.scm import World, gap

NULL = [[0.0] * 4] * 8
EASY = additive_world([[0.0, 3.0, 0.0, 0.2], [2.0, 0.0, 0.0, 0.0], *NULL])
CLOSE = additive_world([[0.0, 3.0, 2.9, 0.2], [2.0, 1.9, 0.0, 1.95], *NULL])


def solver(world: World, known: bool = True, **options: Any) -> TwoStage:
    return TwoStage(Problem(world.space, 0.5, 0.1, 1.0 if known else None), **{"min_effect": 0.5, **options})


def states(cfs: TwoStage, world: World, seed: int = 0) -> list[CfsState]:
    """The states after each block, the first one included."""
    rng, noise = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    found = [cfs.start()]
    state = found[0]
    while isinstance(step := cfs.ask(state, rng), Batch):
        state = cfs.tell(state, step, world.sample(step.codes, noise).outcomes)
        if state.sums.n_runs == 0:
            found.append(state)
    return found


def test_a_look_dismisses_what_has_no_effect_and_drops_what_is_behind() -> None:
    cfs = solver(EASY)
    first, looked = states(cfs, EASY)[:2]
    assert first.stage == LOOK
    assert first.look is not None
    assert first.target == first.look.n_runs
    assert len([k for k in looked.closed if k >= 2]) >= 7
    assert looked.active[:2] == ((1,), (0,))
    assert {(e.factor, e.level) for e in looked.eliminations} >= {(0, 0), (0, 2), (1, 1), (1, 3)}
    assert all(e.n_runs == looked.n_runs and e.gap > 0 for e in looked.eliminations)


def test_a_study_may_end_with_its_look_and_says_what_that_certifies() -> None:
    ended = [found for seed in range(6) if len(found := states(solver(EASY), EASY, seed)) == 2]
    assert ended  # nothing was left to select
    verdict = solver(EASY).verdict(ended[0][-1])
    assert gap(EASY, verdict.assignment.codes) == 0
    assert verdict.runs_by_stage == ((LOOK, verdict.n_runs),)
    assert verdict.within == pytest.approx(0.7 * 0.5)  # what the look may have lost
    assert verdict.certificate == "slippage"
    assert "effects of at least 0.5" in verdict.statement
    assert "equal gaps are taken as the worst case" in verdict.statement
    assert verdict.parents == ("X1", "X2")


def test_levels_that_stay_close_are_selected_on_fresh_runs() -> None:
    verdict = run_on_world(solver(CLOSE), CLOSE, 1)
    assert [stage for stage, _ in verdict.runs_by_stage] == [LOOK, SELECTION]
    assert verdict.within == 0.5  # never below what the look was planned for
    assert gap(CLOSE, verdict.assignment.codes) <= 0.5


def test_a_dismissed_factor_stays_where_the_look_left_it() -> None:
    for seed in range(4):
        found = states(solver(CLOSE), CLOSE, seed)
        looked, last = found[1], found[-1]
        assert all(looked.leaders[k] == last.leaders[k] for k in looked.closed)
        assert set(looked.closed) <= set(last.closed)


def test_when_the_noise_is_not_known_a_first_block_measures_it() -> None:
    cfs = solver(EASY, known=False)
    first, measured, looked = states(cfs, EASY)[:3]
    assert (first.stage, first.look) == (SCREENING, None)
    assert measured.stage == LOOK
    assert measured.look is not None
    assert all(len(measured.active[k]) == 1 for k in measured.closed)  # settled; none is dismissed before the look
    assert measured.noise_sd is not None
    assert looked.n_runs - measured.n_runs > measured.look.n_runs
    assert len(looked.closed) >= 6
    known = solver(EASY).start().look
    assert known is not None
    assert measured.look.n_runs > known.n_runs  # the noise is taken for more than it is


@pytest.mark.parametrize("options", [{}, {"certificate": "proven"}, {"noise": "subgaussian"}, {"max_parents": 8}])
def test_every_kind_of_look_ends_within_tolerance_and_can_be_verified(options: dict[str, Any]) -> None:
    cfs, kept = solver(EASY, **options), []
    rng, noise, state = np.random.default_rng(3), np.random.default_rng(4), None
    state = cfs.start()
    while isinstance(step := cfs.ask(state, rng), Batch):
        outcomes = EASY.sample(step.codes, noise).outcomes
        kept.append(outcomes)
        state = cfs.tell(state, step, outcomes)
    assert isinstance(step, Verdict)
    assert gap(EASY, step.assignment.codes) <= 0.5
    outcomes = np.concatenate(kept)
    assert verify(step, outcomes).ok
    assert not verify(step, outcomes + np.linspace(0, 40, len(outcomes))).ok


def test_a_state_with_a_look_survives_writing_and_reading() -> None:
    for cfs in (solver(EASY), solver(EASY, noise="subgaussian")):
        for state in states(cfs, EASY):
            again = from_json(to_json(state), CfsState)
            assert (again.look, again.rules, again.closed) == (state.look, state.rules, state.closed)
            assert "Infinity" not in to_json(state)


def test_a_level_that_a_look_drops_does_not_name_a_parent() -> None:
    """With max_parents a factor is found on evidence of its own; a look may drop levels of factors without effect."""
    dropped: set[int] = set()
    for seed in range(20):
        looked = states(solver(EASY, max_parents=8), EASY, seed)[1]
        assert set(looked.parents) <= {0, 1}
        dropped |= {e.factor for e in looked.eliminations}
    assert dropped - {0, 1}  # it did happen


def test_a_study_that_began_before_there_were_looks_goes_on_without_one() -> None:
    cfs = solver(EASY)
    old = dataclasses.replace(cfs.start(), stage=SCREENING, target=400.0, look=None, rules=1)
    rng, noise, state = np.random.default_rng(0), np.random.default_rng(1), old
    while isinstance(step := cfs.ask(state, rng), Batch):
        state = cfs.tell(state, step, EASY.sample(step.codes, noise).outcomes)
    assert {block.stage for block in state.blocks} == {SCREENING, SELECTION}
    assert gap(EASY, step.assignment.codes) <= 0.5
    shares = cfs.shares(old)
    assert sum(shares) == pytest.approx(0.1)
    assert shares.dismissal == pytest.approx(0.04)
    assert cfs.known(old).min_effect == 0.5
    assert cfs.known(cfs.start()).min_effect is None  # the look's alone


def test_no_look_where_it_does_not_pay() -> None:
    assert solver(EASY).looks
    assert not solver(EASY, min_effect=0.05).looks
    assert not solver(EASY, min_effect=None).looks
    assert not TwoStage(Problem(EASY.space, None, 0.1, 1.0), min_effect=0.5, budget=900).looks
    assert not solver(EASY, max_parents=1).looks  # one factor at most can lose: there is little to dismiss


def test_where_no_look_pays_a_least_effect_changes_nothing() -> None:
    plain, told = (run_on_world(solver(EASY, min_effect=effect), EASY, 1) for effect in (None, 0.05))
    assert (plain.n_runs, plain.assignment, plain.tolerance) == (told.n_runs, told.assignment, told.tolerance)
    assert plain.guarantee == told.guarantee  # which does not rest on it
    budget = TwoStage(Problem(EASY.space, None, 0.1, 1.0), min_effect=0.5, budget=900)
    assert budget.known(budget.start()).min_effect == 0.5
    assert budget.shares().dismissal == pytest.approx(0.04)


def test_past_runs_count_as_evidence_beside_a_look() -> None:
    cfs = solver(CLOSE)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, size=(300, 10)).astype(np.int16)
    y = CLOSE.sample(codes, rng).outcomes
    before = cfs.absorb(cfs.start(), codes, y, "past data")
    assert before.stage == LOOK
    looked = states(cfs, CLOSE)[1]
    after = cfs.absorb(looked, codes, y, "past data")
    assert after.stage in (SCREENING, SELECTION)
    assert after.reach == looked.reach > 0
    assert not set(looked.closed) - set(after.closed)


def test_what_is_to_come_is_told_during_a_look() -> None:
    cfs = solver(EASY)
    coming = cfs.outlook(cfs.start(), 0)
    assert coming.likely is not None
    assert coming.worst_case is not None
    assert 0 < coming.likely < coming.worst_case
    looked = states(cfs, CLOSE)[1]
    interim = cfs.interim(dataclasses.replace(looked, finished=False))
    assert interim is not None
    assert interim.within >= 0.35
    assert cfs.interim(cfs.start()) is None


def test_a_verdict_of_another_version_is_told_apart_from_a_wrong_one() -> None:
    world = additive_world([[0.0, 3.0]] * 3)
    cfs = TwoStage(Problem(world.space, 0.5, 0.1, 1.0))
    verdict = run_on_world(cfs, world, 1)
    other = dataclasses.replace(
        verdict, blocks=(dataclasses.replace(verdict.blocks[0], digest="00000000"), *verdict.blocks[1:])
    )
    older = dataclasses.replace(verdict, rules=verdict.rules - 1)
    for changed in (other, older):
        with pytest.raises(InvalidSettingError, match="another version"):
            verify(changed, np.zeros(verdict.n_runs))


def test_changed_outcomes_are_never_taken_for_another_version() -> None:
    world = additive_world([[0.0, 1.0, 0.3], [0.5, 0.0, 0.2], [0.0, 0.1, 0.0]])
    cfs = TwoStage(Problem(world.space, 0.5, 0.1, 1.0))
    for seed in range(12):
        noise, kept = np.random.default_rng(seed), []

        def outcomes_of(batch: Batch) -> tuple[Batch, list[float]]:
            kept.extend(world.sample(batch.codes, noise).outcomes.tolist())  # noqa: B023 (used at once)
            return batch, kept[-batch.n_runs :]  # noqa: B023

        verdict = run_to_verdict(cfs, outcomes_of, np.random.default_rng([seed, 1]))
        assert verify(verdict, kept).ok
        assert not verify(verdict, np.array(kept) + 0.05 * np.arange(len(kept))).ok


def test_numbers_that_no_experiment_has_plan_no_look() -> None:
    assert not TwoStage(Problem(EASY.space, 1e99, 0.1, 1e-99), min_effect=1e99).looks
    assert not TwoStage(Problem(EASY.space, 1.0, 0.1, 1.0), min_effect=1e-99).looks
    with pytest.raises(InvalidSettingError, match="raise the tolerance"):
        TwoStage(Problem(EASY.space, 1e-90, 0.1, 1.0), min_effect=1.0)
    for name, numbers in (
        ("tolerance", (1e300, 1.0, 1.0)),
        ("noise_sd", (1.0, 1e-300, 1.0)),
        ("min_effect", (1.0, 1.0, 1e-170)),
    ):
        with pytest.raises(InvalidSettingError, match=f"{name} must be between 1e-100 and 1e"):
            TwoStage(Problem(EASY.space, numbers[0], 0.1, numbers[1]), min_effect=numbers[2])


def test_a_drop_is_measured_from_the_best_level_in_play() -> None:
    """A leader that screening has ruled out already cannot speak for what it leaves."""
    look = Look(100.0, 3.0, ((4, 0.0),), 0.04, 0.7, 1.0)
    state = dataclasses.replace(solver(EASY).start(), active=((0, 2, 3), *[(0, 1, 2, 3)] * 9))
    effects = (np.array([1.0, 5.0, 3.5, 0.0]),)
    found = after_look(state, look, (0,), ((0, 1, 2, 3),), effects, math.sqrt(4), (4,) * 10)
    assert found.active[0] == (0, 2)  # 1 is 4 ahead of 0, but out; 2 is 2.5 ahead
    assert [(e.level, e.gap) for e in found.eliminations] == [(3, 3.5)]


def test_a_dismissed_factor_whose_level_is_ruled_out_is_settled_again() -> None:
    cfs = solver(additive_world([[0.0] * 4] * 10))
    flat = additive_world([[0.0] * 4] * 10)
    looked = states(cfs, flat)[1]
    k = looked.closed[0]
    worse, better = looked.leaders[k], (looked.leaders[k] + 1) % 4
    rng = np.random.default_rng(0)
    codes = np.tile(np.asarray(looked.leaders, dtype=np.int16), (4000, 1))
    codes[:, k] = rng.choice([worse, better], size=4000)
    after = cfs.absorb(looked, codes, 3.0 * (codes[:, k] == better) + rng.normal(size=4000), "past data")
    assert worse not in after.active[k]
    assert k not in after.closed
    assert len(after.active[k]) > 1
    assert not after.finished


def test_rows_that_are_not_the_planned_ones_are_evidence_but_no_look() -> None:
    cfs = solver(EASY)
    start = cfs.start()
    whole = cfs.ask(start, np.random.default_rng(0))
    assert isinstance(whole, Batch)
    few = Batch(whole.codes[-60:], LOOK, focus=whole.focus)
    state = cfs.tell_block(start, few, EASY.sample(few.codes, np.random.default_rng(1)).outcomes)
    assert not state.looked
    assert state.blocks[0].stage == SCREENING
    assert state.stage == LOOK  # it is still to come
    assert all(len(state.active[k]) == 1 for k in state.closed)  # settled by evidence, none dismissed


@pytest.mark.parametrize(("failure_prob", "noise"), [(1e-8, 1.0), (1e-6, 0.01), (1e-4, 0.05), (0.99, 1.0)])
def test_extreme_probabilities_and_little_noise_end_well(failure_prob: float, noise: float) -> None:
    world = additive_world([[0.5, 0.2, 0.0]] * 3 + [[0.0] * 3] * 3, Noise(noise))
    for known in (noise, None):
        cfs = TwoStage(Problem(world.space, 0.5, failure_prob, known), min_effect=0.5)
        verdict = run_on_world(cfs, world, 1)
        assert verdict.within <= 0.5


def test_with_little_noise_no_look_is_worth_its_rows() -> None:
    sizes = [2 + i % 12 for i in range(40)]
    assert not TwoStage(Problem(Space.sized(sizes), 0.5, 0.1, 0.02), min_effect=0.5).looks
    assert TwoStage(Problem(Space.sized(sizes), 0.5, 0.1, 0.5), min_effect=0.5).looks


@pytest.mark.parametrize(
    ("sizes", "tolerance", "failure_prob", "min_effect"),
    [
        ((6,) * 10, 0.3, 0.1, 0.3),  # about as long as what is searched at most
        ((3, 6, 2, 7, 8, 5, 9, 3, 4, 9, 4, 8, 8, 9), 0.3, 0.01, 1.0),
        ((24, 11, 17, 7, 25, 3, 4), 0.3, 0.01, 2.0),
        ((19, 25, 16, 19), 0.5, 0.01, 2.0),
        ((2, 33, 2, 40), 0.5, 0.1, 1.0),
    ],
)
def test_looks_are_about_as_long_as_planned(
    sizes: tuple[int, ...], tolerance: float, failure_prob: float, min_effect: float
) -> None:
    """What a look asks of its design must be what designs of that length are like."""
    cfs = TwoStage(Problem(Space.sized(sizes), tolerance, failure_prob, 1.0), min_effect=min_effect)
    state = cfs.start()
    assert state.look is not None
    design = cfs.design(state, seed=1)
    assert state.look.n_runs <= design.n_runs < 1.2 * state.look.n_runs
    assert design.coupling <= state.look.coupling
