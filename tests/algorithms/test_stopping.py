"""Stopping before the end, going on after it, and deciding anew: what every rule of cfs can do."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.hard_worlds import additive_world
from levers.algorithms.base import PAST, Batch, Problem, Verdict
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.cfs.sparse.solver import Sparse
from levers.algorithms.cfs.sparse.state import block_codes
from levers.algorithms.modl import Modl
from levers.core.codec import from_json, to_json
from levers.errors import InvalidSettingError, StateMismatchError
from levers.worlds.scm import World

SMALL = additive_world([[0.0, 1.0, 0.2], [0.5, 0.0], [0.0, 0.1, 0.2, 0.9]])
MANY = additive_world([[0.0, 1.5, 1.4]] * 2 + [[0.0, 0.0, 0.0]] * 38)
KINDS: dict[str, tuple[World, dict[str, Any]]] = {
    "pooled": (SMALL, {}),
    "pooled, noise unknown": (SMALL, {"noise_sd": None}),
    "pooled, budget to certify": (SMALL, {"tolerance": None, "budget": 90, "aim": "certify"}),
    "pooled, one design": (SMALL, {"tolerance": None, "budget": 20, "aim": "certify"}),
    "pooled, budget for the best": (SMALL, {"tolerance": None, "budget": 60}),
    "two stages": (SMALL, {"certificate": "proven"}),
    "two stages, noise unknown": (SMALL, {"certificate": "proven", "noise_sd": None}),
    "two stages, a look": (additive_world([[0.5, 0.1, 0.0]] * 6), {"min_effect": 0.5}),
    "sparse": (MANY, {"max_parents": 2}),
}


def solver_of(kind: str, **more: Any) -> tuple[World, Any]:
    world, settings = KINDS[kind]
    settings = {"tolerance": 0.5, "noise_sd": 1.0, **settings, **more}
    problem = Problem(world.space, settings.pop("tolerance"), 0.1, settings.pop("noise_sd"))
    return world, (Sparse if kind == "sparse" else Cfs)(problem, **settings)


def run(solver: Any, world: World, state: Any, rng: np.random.Generator, n_blocks: int = 10**6) -> Any:
    """The state after so many more blocks, or at the end."""
    for _ in range(n_blocks):
        step = solver.ask(state, rng)
        if isinstance(step, Verdict):
            break
        state = solver.tell(state, step, world.sample(step.codes, rng).outcomes)
    return state


@pytest.mark.parametrize("kind", KINDS)
def test_a_study_can_be_stopped_anywhere(kind: str) -> None:
    world, solver = solver_of(kind)
    rng = np.random.default_rng(5)
    state, n_rounds = solver.start(), 0
    while n_rounds < 3 and isinstance(step := solver.ask(state, rng), Batch):
        stop_inside(kind, solver, state, step, world.sample(step.codes, rng).outcomes)
        state, n_rounds = run(solver, world, state, rng, 1), n_rounds + 1
    assert n_rounds >= 1


def stop_inside(kind: str, solver: Any, state: Any, step: Batch, y: NDArray[np.float64]) -> None:
    """Stop a round before its first run, before its last one, and in between."""
    rng = np.random.default_rng(0)
    before = sum(block.n_runs for block in state.blocks)
    for n_told in sorted({0, 1, 2, step.n_runs // 2, step.n_runs - 1}):
        ended = solver.finish(state, step.codes[:n_told], y[:n_told])
        verdict = solver.ask(ended, rng)
        assert isinstance(verdict, Verdict)
        assert "stopped early" in [proviso.kind for proviso in verdict.provisos]
        assert verdict.n_runs == before + (n_told if kind != "sparse" else 0)
        assert (verdict.tolerance is None) == ("nothing certified" in [p.kind for p in verdict.provisos])
        again = solver.verdict(from_json(to_json(ended), type(ended)))
        assert to_json(again) == to_json(verdict)
        assert solver.finish(ended, step.codes[:0], []) is ended  # it has ended
        assert solver.progress(ended).finished


@pytest.mark.parametrize("kind", KINDS)
def test_runs_told_in_pieces_count_like_runs_told_at_the_end(kind: str) -> None:
    world, solver = solver_of(kind, batch_size=8)
    step = solver.ask(solver.start(), np.random.default_rng(5))
    y = world.sample(step.codes, np.random.default_rng(6)).outcomes
    whole = solver.finish(solver.start(), step.codes, y)
    told = solver.tell(solver.start(), step, y)
    assert not told.finished
    pieces = solver.finish(told, step.codes[:0], [])
    one, other = solver.verdict(whole), solver.verdict(pieces)
    assert one.assignment == other.assignment
    assert one.n_runs == other.n_runs
    assert one.tolerance == pytest.approx(other.tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_after_the_end_for_so_many_runs_and_ends_again(kind: str) -> None:
    world, solver = solver_of(kind)
    rng = np.random.default_rng(3)
    ended = run(solver, world, solver.start(), rng)
    before = solver.verdict(ended)
    with pytest.raises(StateMismatchError, match="not ended"):
        solver.extend(solver.start(), 10)
    state = solver.extend(ended, 12)
    step = solver.ask(state, rng)
    assert isinstance(step, Batch)
    assert step.n_runs == 12
    state = solver.tell_block(state, step, world.sample(step.codes, rng).outcomes)
    assert state.finished
    after = solver.verdict(from_json(to_json(state), type(state)))
    assert after.n_runs == before.n_runs + 12
    assert after.tolerance is not None
    assert not {"stopped early"} & {proviso.kind for proviso in after.provisos}


@pytest.mark.parametrize("kind", KINDS)
def test_left_to_the_rules_it_goes_on_to_its_tolerance(kind: str) -> None:
    """After a stop by mistake: the promise holds for whoever stops and goes on as he likes."""
    world, solver = solver_of(kind)
    rng = np.random.default_rng(4)
    state = run(solver, world, solver.start(), rng, 1)
    if not state.finished:
        step = solver.ask(state, rng)
        state = solver.finish(state, step.codes[:5], world.sample(step.codes, rng).outcomes[:5])
    state = solver.extend(state, None)
    assert not state.finished
    verdict = solver.verdict(run(solver, world, state, rng))
    assert verdict.within <= (solver.problem.tolerance or np.inf)
    assert verdict.tolerance is not None


def test_what_is_certified_after_going_on_is_charged_for_it() -> None:
    """The same runs certify more if it was known in advance how many there would be."""
    world, solver = solver_of("pooled, one design")
    rng = np.random.default_rng(0)
    ended = run(solver, world, solver.start(), rng)
    stopped = replace(ended, finished=False, certified=None)
    step = solver.ask(solver.start(), np.random.default_rng(0))
    early = solver.finish(stopped, step.codes[:0], [])
    assert early.certified > 1.05 * ended.certified


def test_nothing_in_play_brings_everything_back() -> None:
    """Where an outlier dropped every level but one, going on has to vary something."""
    world = additive_world([[0.0, 9.0], [0.0, 9.0]])
    solver = Pooled(Problem(world.space, 0.5, 0.1, 1.0))
    rng = np.random.default_rng(1)
    ended = run(solver, world, solver.start(), rng)
    assert ended.open_factors == ()
    step = solver.ask(solver.extend(ended, 8), rng)
    assert isinstance(step, Batch)
    assert [len(set(column)) for column in step.codes.T] == [2, 2]


def test_other_algorithms_say_that_they_cannot() -> None:
    modl = Modl(Problem(SMALL.space, 0.5, 0.1, 1.0))
    assert not modl.finishes_early
    with pytest.raises(InvalidSettingError, match="cfs can"):
        modl.finish(modl.start(), np.zeros((0, 3), dtype=np.int16), [])
    with pytest.raises(InvalidSettingError, match="cfs can"):
        modl.extend(modl.start(), 3)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sparse"])
def test_a_fresh_start_with_all_runs_goes_on_where_they_lead(kind: str) -> None:
    """What is asked for is restated half way: the runs made so far count, in blocks as they were made."""
    world, solver = solver_of(kind)
    rng = np.random.default_rng(8)
    state, made = solver.start(), []
    for _ in range(3):
        step = solver.ask(state, rng)
        if isinstance(step, Verdict):
            break
        y = world.sample(step.codes, rng).outcomes
        state = solver.tell(state, step, y)
        made.append((step.codes, y))
    more = {"tolerance": 5.0} if solver.problem.tolerance else {"budget": solver.budget + 40}
    restated = solver_of(kind, **more)[1]
    fresh = restated.start()
    for codes, y in made:
        fresh = restated.absorb(fresh, codes, y, "before it was restated")
    fresh = restated.resume(fresh)
    assert fresh.n_runs == sum(len(y) for _, y in made)
    assert fresh.rho is not None
    if solver.problem.tolerance:
        assert fresh.finished
        assert restated.verdict(fresh).within <= 5.0
    else:
        assert not fresh.finished
        end = run(restated, world, fresh, rng)
        assert restated.verdict(end).n_runs == solver.budget + 40


def test_a_sparse_study_is_restated_as_it_stands() -> None:
    world, solver = solver_of("sparse")
    rng = np.random.default_rng(8)
    state = run(solver, world, solver.start(), rng)
    assert solver_of("sparse", tolerance=0.9)[1].resume(state).finished
    finer = solver_of("sparse", tolerance=0.3)[1]
    again = finer.resume(state)
    assert not again.finished
    assert finer.verdict(run(finer, world, again, rng)).within <= 0.3


def test_a_sparse_study_takes_in_its_own_blocks_and_no_other_runs() -> None:
    world, solver = solver_of("sparse")
    rng = np.random.default_rng(8)
    state = run(solver, world, solver.start(), rng, 2)
    finer, begin = solver_of("sparse", tolerance=0.3)[1], 0
    fresh = finer.start()
    for block in state.blocks:
        codes = block_codes(block, solver.n_levels, state.leaders, 0, block.n_runs)
        y = state.outcomes[begin : begin + block.n_runs]
        assert finer.absorb(fresh, codes, y, PAST) is fresh
        assert finer.absorb(fresh, codes[1:-2], y[1:-2], "screening") is fresh
        fresh = finer.absorb(fresh, codes, y, "screening")
        begin += block.n_runs
    assert (fresh.n_runs, fresh.found) == (state.n_runs, state.found)
    again = finer.resume(from_json(to_json(fresh), type(fresh)))
    assert finer.verdict(run(finer, world, again, rng)).within <= 0.3


@pytest.mark.parametrize("kind", ["pooled", "two stages", "two stages, noise unknown"])
def test_a_first_block_kept_after_a_correction_is_decided_on(kind: str) -> None:
    """Past data wait for the first block; what was the first block does not."""
    world, solver = solver_of(kind)
    step = solver.ask(solver.start(), np.random.default_rng(1))
    y = world.sample(step.codes, np.random.default_rng(2)).outcomes
    waits = solver.absorb(solver.start(), step.codes, y, PAST)
    decided = solver.absorb(solver.start(), step.codes, y, "kept after a correction")
    assert waits.rho is None
    assert decided.rho is not None
    assert decided.leaders == solver.tell(solver.start(), step, y).leaders
    assert solver.interim(decided) is not None


def test_states_of_before_are_neither_stopped_nor_charged() -> None:
    state = Pooled(Problem(SMALL.space, 0.5, 0.1, 1.0)).start()
    text = to_json(state)
    for name in ("stopped", "last", "charged"):
        assert f', "{name}": false' in text
        text = text.replace(f', "{name}": false', "")
    old = from_json(text, type(state))
    assert (old.stopped, old.last, old.charged) == (False, False, False)
