import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from harness.hard_worlds import additive_world
from levers.algorithms.base import Batch, Problem, Verdict
from levers.algorithms.cfs.settings import SCREENING, SELECTION
from levers.algorithms.cfs.two_stage import TwoStage
from levers.algorithms.cfs.verify import verify
from levers.core.certificates.certificate import scale_needed
from levers.core.codec import from_json, to_json
from levers.errors import InvalidOutcomeError, InvalidSettingError, OutcomeMismatchError, StateMismatchError
from levers.experiments.runner import run_on_world
from levers.worlds.named import factory_line
from levers.worlds.outcome import Noise
from levers.worlds.scm import World, gap, true_parents

NULL = [[0.0] * 4] * 8
EASY = additive_world([[0.0, 3.0, 0.0, 0.2], [2.0, 0.0, 0.0, 0.0], *NULL])


def study(world: World, seed: int = 0, tolerance: float | None = 0.5, known: bool = True, **options: Any) -> Verdict:
    noise_sd = world.outcome.noise_sd if known else None
    return run_on_world(TwoStage(Problem(world.space, tolerance, 0.1, noise_sd), **options), world, seed)


def test_an_easy_study_ends_with_everything_said() -> None:
    verdict = study(EASY)
    assert gap(EASY, verdict.assignment.codes) <= 0.5
    assert verdict.parents == ("X1", "X2")
    assert verdict.within <= 0.5
    assert verdict.certificate == "slippage"
    assert verdict.noise == "known, sd 1"
    assert [stage for stage, _ in verdict.runs_by_stage] == [SCREENING, SELECTION]
    assert sum(n for _, n in verdict.runs_by_stage) == verdict.n_runs == sum(b.n_runs for b in verdict.blocks)
    assert {(e.factor, e.level) for e in verdict.eliminations} >= {(0, 0), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)}
    assert all(e.gap > 0 and e.n_runs <= verdict.n_runs for e in verdict.eliminations)


def test_intervals_hold_the_true_losses_and_leave_out_zero_where_it_matters() -> None:
    for seed in range(10):
        verdict = study(EASY, seed)
        assert isinstance(EASY.outcome.parents, tuple)
        for k, row in enumerate(verdict.intervals):
            truth = EASY.outcome.mean(_moved(verdict.assignment.codes, k, len(row)))
            losses = truth[verdict.assignment.codes[k]] - truth
            assert all(
                pair is None or pair[0] - 1e-9 <= x <= pair[1] + 1e-9 for pair, x in zip(row, losses, strict=True)
            )


def _moved(codes: tuple[int, ...], k: int, m: int) -> np.ndarray[Any, np.dtype[np.int16]]:
    rows = np.tile(np.asarray(codes, dtype=np.int16), (m, 1))
    rows[:, k] = np.arange(m)
    return rows


def test_what_the_user_knows_saves_most_of_the_runs() -> None:
    plain = np.mean([study(EASY, seed).n_runs for seed in range(5)])
    parents = np.mean([study(EASY, seed, max_parents=2).n_runs for seed in range(5)])
    effect = np.mean([study(EASY, seed, min_effect=1.0).n_runs for seed in range(5)])
    assert parents < plain / 4
    assert effect < plain / 2
    assert "at most 2 factors that matter" in study(EASY, max_parents=2).guarantee
    assert "effects of at least 1 where" in study(EASY, min_effect=1.0).guarantee


def test_a_study_of_nothing_takes_the_first_block_and_one_design() -> None:
    world = additive_world(NULL)
    verdict = study(world)
    ideal = (scale_needed((4,) * 8, 0.09) / 0.5) ** 2
    assert [b.stage for b in verdict.blocks].count(SELECTION) == 1
    assert verdict.blocks[-1].n_runs >= ideal * verdict.blocks[-1].inflation
    assert verdict.n_runs < 1.35 * ideal
    assert verdict.parents == ()


def test_screening_alone_may_settle_it() -> None:
    world = additive_world([[0.0, 9.0], [9.0, 0.0]])
    verdict = study(world)
    assert [stage for stage, _ in verdict.runs_by_stage] == [SCREENING]
    assert verdict.within == 0.0
    assert verdict.certificate == "anytime"
    assert verdict.guarantee.startswith("proven")


def test_unknown_noise_is_bounded_and_costs_some_runs() -> None:
    quiet = additive_world([[0.0, 1.0, 0.3], [0.0] * 3, [0.0] * 3], Noise(0.5))
    known, unknown = study(quiet, 1), study(quiet, 1, known=False)
    assert unknown.noise is not None
    bound = float(unknown.noise.split("at most ")[1])
    assert 0.5 <= bound < 1.0
    assert unknown.n_runs > known.n_runs
    assert "estimated size" in unknown.guarantee
    assert unknown.blocks[0].n_runs >= 1 + 6 + 20


@pytest.mark.parametrize("budget", [24, 60, 61, 200, 1000])
def test_a_budget_is_kept_and_buys_a_tolerance(budget: int) -> None:
    world = additive_world([[0.0, 1.0, 0.3], [0.0, 0.2, 0.1], [0.0] * 3, [0.5, 0.0]])
    verdict = study(world, 2, tolerance=None, budget=budget)
    assert verdict.n_runs <= budget
    assert verdict.n_runs >= 0.9 * budget - 8 or verdict.within == 0.0
    assert verdict.within > 0.0
    assert gap(world, verdict.assignment.codes) <= verdict.within


def test_more_budget_buys_a_smaller_tolerance() -> None:
    world = additive_world(NULL)
    small, large = (study(world, 1, tolerance=None, budget=b).within for b in (200, 3200))
    assert large < small / 2.5


def test_batches_are_as_small_as_the_lab_wants() -> None:
    world = additive_world([[0.0, 1.0], [0.0, 0.4, 0.2]])
    cfs = TwoStage(Problem(world.space, 0.5, 0.1, 1.0), batch_size=8)
    rng, state, sizes = np.random.default_rng(0), cfs.start(), []
    noise = np.random.default_rng(1)
    while isinstance(step := cfs.ask(state, rng), Batch):
        sizes.append(step.n_runs)
        state = cfs.tell(state, step, world.sample(step.codes, noise).outcomes)
        assert len(to_json(state)) < 20_000  # the state stays small however many runs there were
    assert max(sizes) == 8
    assert sum(sizes) == step.n_runs
    whole = study(world)
    assert whole.blocks[0].n_runs == step.blocks[0].n_runs


def test_other_certificates_ask_for_more_and_say_so() -> None:
    world = additive_world([[0.0] * 4] * 4)
    slippage, proven = study(world), study(world, certificate="proven")
    subgaussian = study(world, noise="subgaussian")
    assert slippage.n_runs < proven.n_runs < subgaussian.n_runs
    assert proven.guarantee == "proven for additive effects, Gaussian noise of known size"
    assert "sub-Gaussian noise" in subgaussian.guarantee
    assert (proven.certificate, subgaussian.certificate) == ("proven", "subgaussian")


def test_an_interim_certificate_shrinks_as_evidence_grows() -> None:
    world = additive_world([[0.0, 1.0, 0.4], [0.7, 0.0, 0.1], [0.0, 0.9, 1.3]] * 2)
    cfs = TwoStage(Problem(world.space, 0.5, 0.1, 1.0))
    rng, state, seen = np.random.default_rng(0), cfs.start(), []
    assert cfs.interim(state) is None
    while isinstance(step := cfs.ask(state, rng), Batch):
        state = cfs.tell(state, step, world.sample(step.codes, rng).outcomes)
        interim = cfs.interim(state)
        if interim is not None and not state.finished:
            seen.append(interim.within)
    assert len(set(seen)) > 1
    assert seen[-1] < seen[0]
    assert cfs.interim(state) == step


def test_a_verdict_can_be_recomputed_and_a_forged_one_cannot() -> None:
    world = additive_world([[0.0, 1.0, 0.4], [0.0, 0.1], [0.3, 0.0, 0.0]])
    kept: list[float] = []
    cfs = TwoStage(Problem(world.space, 0.5, 0.1, None), batch_size=10, max_parents=2)
    rng, noise, state = np.random.default_rng(3), np.random.default_rng(4), cfs.start()
    while isinstance(step := cfs.ask(state, rng), Batch):
        outcomes = world.sample(step.codes, noise).outcomes
        kept += outcomes.tolist()
        state = cfs.tell(state, step, outcomes)
    assert verify(step, kept).ok
    flipped = dataclasses.replace(step, assignment=world.space.assignment([1 - c // 2 for c in step.assignment.codes]))
    forged = verify(flipped, kept)
    assert not forged.ok
    assert forged.differences == ("assignment",)
    assert not verify(dataclasses.replace(step, tolerance=0.01), kept).ok
    assert not verify(step, [*kept[:-1], kept[-1] + 50.0]).ok
    with pytest.raises(OutcomeMismatchError):
        verify(step, kept[:-1])
    with pytest.raises(InvalidOutcomeError):
        verify(step, [*kept[:-1], float("nan")])
    with pytest.raises(InvalidSettingError, match="does not carry"):
        verify(dataclasses.replace(step, algorithm="modl"), kept)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"certificate": "magic"}, "certificate must be one of slippage, proven"),
        ({"certificate": "subgaussian"}, "certificate must be one of slippage, proven"),
        ({"noise": "cauchy"}, "noise must be one of"),
        ({"max_parents": 11}, "from 1 to 10"),
        ({"min_effect": 0.0}, "min_effect"),
        ({"batch_size": 0}, "batch_size"),
        ({"budget": 500}, "either a tolerance or a budget"),
        ({"tolerance": None}, "either a tolerance or a budget"),
        ({"tolerance": None, "budget": 20}, "budget must be a whole number at least"),
        ({"known": False, "noise": "subgaussian"}, "cannot be bounded from the data"),
    ],
)
def test_wrong_settings_are_refused_before_anything_runs(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        study(EASY, **options)


def test_algorithms_that_need_the_noise_say_so() -> None:
    from levers.algorithms.registry import make_algorithm

    with pytest.raises(InvalidSettingError, match="modl needs noise_sd; give a number, or use cfs"):
        make_algorithm("modl", Problem(EASY.space, 0.5, 0.1, None))
    with pytest.raises(InvalidSettingError, match="parents-first needs tolerance"):
        make_algorithm("parents-first", Problem(EASY.space, None, 0.1, 1.0))


def test_a_study_is_never_longer_than_twice_one_design() -> None:
    worst = 0.0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        world = additive_world((rng.normal(size=(6, 3)) * rng.choice([0.05, 0.2, 1.0], size=(6, 1))).tolist())
        worst = max(worst, study(world, seed).n_runs)
    ideal = (scale_needed((3,) * 6, 0.09) / 0.5) ** 2
    assert worst <= 2.3 * ideal


def test_the_factory_line_takes_a_fraction_of_the_papers_runs() -> None:
    line = factory_line()
    verdict = study(line)
    assert set(verdict.parents or ()) == set(true_parents(line))
    assert gap(line, verdict.assignment.codes) <= 0.5
    assert verdict.n_runs < 1000
    assert math.prod(line.space.n_levels) > 1000 * verdict.n_runs


def test_only_the_batch_that_is_due_is_taken() -> None:
    """Asked twice before telling, told twice, or from another block: refused, and the state is as it was."""
    cfs = TwoStage(Problem(EASY.space, 0.5, 0.1, 1.0), batch_size=20)
    rng, state = np.random.default_rng(0), cfs.start()
    first, other = cfs.ask(state, rng), cfs.ask(state, rng)
    assert isinstance(first, Batch)
    assert isinstance(other, Batch)
    told = cfs.tell(state, first, np.zeros(20))
    for wrong in (first, other, dataclasses.replace(first, focus=None), dataclasses.replace(first, stage="selection")):
        with pytest.raises(OutcomeMismatchError):
            cfs.tell(told, wrong, np.zeros(20))
    following = cfs.ask(told, rng)
    assert isinstance(following, Batch)
    assert cfs.tell(told, following, np.zeros(20)).sums.n_runs == 40


def test_a_design_that_cannot_be_made_again_is_noticed() -> None:
    cfs = TwoStage(Problem(EASY.space, 0.5, 0.1, 1.0), batch_size=20)
    rng, state = np.random.default_rng(0), cfs.start()
    first = cfs.ask(state, rng)
    assert isinstance(first, Batch)
    told = dataclasses.replace(cfs.tell(state, first, np.zeros(20)), digest="00000000")
    following = cfs.ask(from_json(to_json(told), type(told)), rng)
    assert isinstance(following, Batch)
    with pytest.raises(StateMismatchError, match="cannot be made again"):
        cfs.tell(told, following, np.zeros(20))


@pytest.mark.parametrize(
    ("sizes", "budget"), [([40], 71), ([3] * 4, 29), ([5] * 6, 45), ([7] * 8, 87), ([3] * 40 + [4] * 60, 468)]
)
def test_a_budget_is_kept_with_unknown_noise_too(sizes: list[int], budget: int) -> None:
    world = additive_world([[0.0] * m for m in sizes])
    assert study(world, 1, tolerance=None, known=False, budget=budget).n_runs <= budget


def test_a_large_effect_does_not_hide_the_noise() -> None:
    """Cancellation in the residuals must not make the noise look smaller than it is."""
    world = additive_world([[0.0, 1e8], [0.0, 0.3], [0.0, 0.0, 0.0]])
    verdicts = [study(world, seed, tolerance=0.2, known=False) for seed in range(12)]
    assert all(gap(world, verdict.assignment.codes) <= 0.2 for verdict in verdicts)
    assert all(float((verdict.noise or "").split("at most ")[1]) > 1.0 for verdict in verdicts)
    exact = additive_world([[0.0, 5.0], [0.0, 0.0, 0.0]], Noise(1e-12))
    assert study(exact, 1, known=False).parents == ("X1",)


def test_a_budget_ends_with_the_better_of_two_certificates() -> None:
    """Few runs are left after screening: a poor last design never replaces a better certificate in hand."""
    world = additive_world([[0.0] * 4] * 6)
    in_hand = []
    for seed in range(20):
        cfs = TwoStage(Problem(world.space, None, 0.1, None), budget=57)
        rng, state, best = np.random.default_rng(seed), cfs.start(), math.inf
        while isinstance(step := cfs.ask(state, rng), Batch):
            state = cfs.tell(state, step, world.sample(step.codes, rng).outcomes)
            if state.upper_loss is not None:
                best = state.upper_loss
        assert step.within <= best
        in_hand.append(step.within == best)
    assert any(in_hand)


def test_interim_verdicts_can_be_recomputed() -> None:
    world = additive_world([[0.0, 1.0, 0.4], [0.7, 0.0, 0.1]])
    cfs = TwoStage(Problem(world.space, 0.3, 0.1, 1.0))
    rng, state = np.random.default_rng(0), cfs.start()
    step = cfs.ask(state, rng)
    assert isinstance(step, Batch)
    outcomes = world.sample(step.codes, rng).outcomes
    interim = cfs.interim(cfs.tell(state, step, outcomes))
    assert interim is not None
    assert verify(interim, outcomes).ok


def test_designs_too_large_to_hold_are_refused_first() -> None:
    with pytest.raises(InvalidSettingError, match="raise the tolerance"):
        study(EASY, tolerance=1e-4)
    with pytest.raises(InvalidSettingError, match="at least 1e-08"):
        TwoStage(Problem(EASY.space, 0.5, 1e-12, 1.0))


@pytest.mark.parametrize(
    "options", [{}, {"max_parents": 2}, {"min_effect": 0.5, "max_parents": 3}, {"min_effect": 0.5, "noise_sd": None}]
)
def test_screening_twice_changes_nothing(options: dict[str, Any]) -> None:
    """What comes next is decided on the standing before levels were dropped; it must be that of the state after."""
    effects = [[0.0, 1.0, 0.4], [0.7, 0.0, 0.1], [0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.3, 0.0]]
    world = additive_world(effects)
    noise_sd = options.pop("noise_sd", 1.0)
    cfs, dropped = TwoStage(Problem(world.space, 0.5, 0.1, noise_sd), **options), 0
    for seed in range(10):
        rng, state = np.random.default_rng(seed), cfs.start()
        everything = state.active
        while isinstance(step := cfs.ask(state, rng), Batch):
            state = cfs.tell(state, step, world.sample(step.codes, rng).outcomes)
            screened, before = cfs.screen(dataclasses.replace(state, active=everything, parents=(), closed=()))
            after = cfs.standing(screened)
            assert (before.at_stake, before.upper_loss) == (after.at_stake, after.upper_loss)
            for name in ("active", "parents", "open", "leaders"):
                assert (getattr(before, name) == getattr(after, name)).all()
            dropped += len(screened.eliminations) - len(state.eliminations)
    assert dropped > 3
