"""What is particular to each algorithm."""

import numpy as np
import pytest

from levers.algorithms.arms import NaiveSearch, NaiveState, SuccessiveElimination
from levers.algorithms.base import Batch, Problem
from levers.algorithms.modl import Modl, ModlState
from levers.algorithms.observational import ObservationalRegression
from levers.algorithms.registry import make_algorithm
from levers.algorithms.restricted import ParentsFirst
from levers.core.codec import from_json, to_json
from levers.core.space import Space
from levers.errors import InvalidSettingError, OutcomeMismatchError
from levers.experiments.runner import run_by_phases, run_on_world
from levers.worlds.named import even_table, needle_world
from levers.worlds.outcome import AdditiveOutcome, Noise
from levers.worlds.scm import World, gap, true_parents


def world_with(effects: dict[int, tuple[float, ...]], sizes: list[int], sd: float = 1.0) -> World:
    return World(Space.sized(sizes), [even_table(m) for m in sizes], AdditiveOutcome(effects, Noise(sd)))


def problem_of(world: World, tolerance: float = 0.5) -> Problem:
    return Problem(world.space, tolerance, 0.1, world.outcome.noise_sd)


def test_modl_uses_exactly_its_formula_when_nothing_can_be_eliminated() -> None:
    """A flat outcome: every phase has all 6 levels, n = ceil(4 * 6 * log(L / delta) / gamma^2) with L = 5."""
    world = world_with({0: (0.0, 0.0)}, [2, 2, 2])
    modl = Modl(problem_of(world))
    verdict = run_on_world(modl, world, seed=3)
    expected = [int(np.ceil(4 * 6 * np.log(5 / 0.1) / w**2)) for w in (8.0, 4.0, 2.0, 1.0, 0.5, 0.25)]
    assert [n for _, n in verdict.runs_by_stage] == expected
    assert verdict.n_runs == modl.most_runs == sum(expected)
    assert verdict.parents == ()
    assert verdict.eliminations == ()


def test_modl_stops_at_max_parents_and_reports_what_it_knows() -> None:
    world = world_with({1: (0.0, 2.0, 4.0)}, [3, 3, 3])
    verdict = run_on_world(Modl(problem_of(world), max_parents=1), world, seed=0)
    free = run_on_world(Modl(problem_of(world)), world, seed=0)
    assert verdict.n_runs < free.n_runs / 5
    assert verdict.parents == free.parents == ("X2",)
    assert verdict.on_parents == {"X2": 3}
    assert {(e.factor, e.level) for e in verdict.eliminations} == {(1, 0), (1, 1)}
    losses = verdict.effects[1]
    assert losses[2] == 0.0
    assert losses[0] == pytest.approx(4.0, abs=1.5)


def test_modl_keeps_a_record_of_every_phase() -> None:
    world = world_with({0: (0.0, 5.0, 0.0), 1: (1.0, 0.0)}, [3, 2])
    modl, rng, noise = Modl(problem_of(world)), np.random.default_rng(0), np.random.default_rng(1)
    state = modl.start()
    while isinstance(step := modl.ask(state, rng), Batch):
        state = modl.tell(state, step, world.sample(step.codes, noise).outcomes)
    history = from_json(to_json(state), ModlState).history
    assert history == modl.history(state)
    assert [phase.width for phase in history] == list(modl.widths.widths[: len(history)])
    assert [phase.n_runs for phase in history] == [n for _, n in step.runs_by_stage]
    assert history[0].active == ((0, 1, 2), (0, 1))
    assert history[-1].leaders == step.assignment.codes
    assert [pair for phase in history for pair in phase.dropped] == [(e.factor, e.level) for e in step.eliminations]
    for phase in history:  # the leader is 0 behind itself
        assert all(
            row[levels.index(k)] == 0 for row, levels, k in zip(phase.behind, phase.active, phase.leaders, strict=True)
        )
    before = to_json(state).replace(', "history": ' + to_json(history), "")
    assert from_json(before, ModlState).history == ()  # a state that was stored before there were records


@pytest.mark.parametrize("name", ["oracle", "parents-first"])
def test_other_factors_may_be_left_to_nature(name: str) -> None:
    world = world_with({0: (0.0, 2.0, 4.0)}, [3, 3, 2])
    options = {"parents": ["X1"]} if name == "oracle" else {}
    algorithm = make_algorithm(name, problem_of(world), others="free", **options)
    set_together = set[tuple[int, ...]]()

    def watch(batch: Batch) -> None:
        set_together.update(tuple(np.flatnonzero(row != -1)) for row in np.unique(batch.codes, axis=0))

    verdict = run_by_phases(algorithm, world, 0)
    assert verdict.assignment.codes == (2, -1, -1)
    assert run_on_world(algorithm, world, 0, on_batch=watch).assignment == verdict.assignment
    assert set_together == ({(0,)} if name == "oracle" else {(0,), (1,), (2,)})
    assert not algorithm.sets_every_lever
    assert make_algorithm(name, problem_of(world), **options).sets_every_lever
    with pytest.raises(InvalidSettingError, match="others must be one of set, free"):
        make_algorithm(name, problem_of(world), others="held", **options)


def test_modl_runs_shrink_as_levels_go() -> None:
    world = world_with({0: (0.0, 5.0, 0.0), 1: (5.0, 0.0, 0.0)}, [3, 3])
    verdict = run_on_world(Modl(problem_of(world)), world, seed=0)
    assert verdict.assignment.codes == (1, 0)
    assert verdict.n_runs < Modl(problem_of(world)).most_runs / 20


def test_long_phases_repeat_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levers.algorithms.modl.CHUNK", 100)
    world = world_with({0: (0.0, 0.0)}, [2, 3])
    modl, rng, state = Modl(problem_of(world)), np.random.default_rng(0), None
    state = modl.start()
    last_phase: list[Batch] = []
    while isinstance(step := modl.ask(state, rng), Batch):
        if step.stage == f"phase {len(modl.widths.widths)}":
            last_phase.append(step)
        state = modl.tell(state, step, rng.normal(size=step.n_runs))
    assert {b.n_runs for b in last_phase[:-1]} == {96}
    assert all((b.codes == last_phase[0].codes).all() for b in last_phase[:-1])
    rows = np.concatenate([b.codes for b in last_phase])
    assert max(np.bincount(rows[:, 1])) - min(np.bincount(rows[:, 1])) <= 1


def test_parents_first_moves_one_factor_at_a_time() -> None:
    world = world_with({2: (0.0, 0.0, 3.0)}, [2, 2, 3])
    first = ParentsFirst(problem_of(world), baseline=(1, 0, 1))
    rng, noise, state = np.random.default_rng(5), np.random.default_rng(6), first.start()
    tested = []
    while isinstance(step := first.ask(state, rng), Batch) and step.stage == "testing for parents":
        moved = [k for k in range(3) if (step.codes[:, k] != (1, 0, 1)[k]).any()]
        assert set(moved) <= {step.focus}
        tested.append((step.focus, int(step.codes[0, step.focus or 0]), step.n_runs))
        state = first.tell(state, step, world.sample(step.codes, noise).outcomes)
    # n_k = ceil(8 / 0.25^2 * log(2 * 3 * M_k / 0.05)) runs a level, every factor once, all levels unless found early
    assert {f for f, _, _ in tested} == {0, 1, 2}
    assert {n for f, _, n in tested if f == 0} == {int(np.ceil(128 * np.log(2 * 3 * 2 / 0.05)))}
    assert [level for f, level, _ in tested if f == 0] == [0, 1]
    assert state.found == (2,)


def test_parents_first_order_is_random_and_stops_early_when_told() -> None:
    world = world_with({0: (0.0, 4.0), 1: (0.0, 4.0)}, [2] * 8)
    orders = set()
    for seed in range(6):
        first = ParentsFirst(problem_of(world))
        batch = first.ask(first.start(), np.random.default_rng(seed))
        assert isinstance(batch, Batch)
        orders.add(batch.focus)
    assert len(orders) > 2
    known = run_on_world(ParentsFirst(problem_of(world), max_parents=2), world, seed=1)
    unknown = run_on_world(ParentsFirst(problem_of(world)), world, seed=1)
    assert known.n_runs < unknown.n_runs
    assert known.parents == unknown.parents == ("X1", "X2")


def test_parents_first_searches_everything_when_it_finds_nothing() -> None:
    world = world_with({0: (0.0, 0.01)}, [2, 2])
    verdict = run_on_world(ParentsFirst(problem_of(world)), world, seed=0)
    assert verdict.parents == ()
    assert any(stage.startswith("phase") for stage, _ in verdict.runs_by_stage)
    assert all(loss is not None for row in verdict.effects for loss in row)


def test_successive_elimination_really_eliminates() -> None:
    world = world_with({0: (0.0, 3.0), 1: (0.0, 3.0)}, [2, 2])
    se = SuccessiveElimination(problem_of(world))
    verdict = run_on_world(se, world, seed=0)
    assert verdict.assignment.codes == (1, 1)
    assert verdict.n_runs < 4 * 150  # without elimination: until the radius is eps/2, about 4 * 1000 runs
    flat = world_with({0: (0.0, 0.0)}, [2, 2])
    assert run_on_world(SuccessiveElimination(problem_of(flat)), flat, seed=0).n_runs > 4 * 500


def test_naive_search_draws_every_assignment_once() -> None:
    world = needle_world([2, 2, 2], 3, 1.0, np.random.default_rng(0))
    naive = NaiveSearch(Problem(world.space, 1.0, 0.1, 1.0), target=100.0)  # never reached: all are tried
    verdict = run_on_world(naive, world, seed=0)
    assert verdict.n_runs == 8 * naive.test_runs
    assert gap(world, verdict.assignment.codes) == 0.0  # the best mean seen is the needle
    drawn = {naive._draw(NaiveState(tried=(0, 3, 5)), np.random.default_rng(s)) for s in range(100)}
    assert drawn == {1, 2, 4, 6, 7}


def test_naive_search_grows_with_the_settings_of_the_parents_alone() -> None:
    """The lower bound's point: halving the parents' settings halves the search, however many other factors."""
    means = []
    for n_parents in (2, 4, 6):
        runs = []
        for seed in range(40):
            world = needle_world([2] * 7, n_parents, 1.0, np.random.default_rng(seed))
            runs.append(run_on_world(NaiveSearch(Problem(world.space, 1.0, 0.1, 1.0)), world, seed=seed).n_runs)
        means.append(np.mean(runs))
    assert 2.0 < means[1] / means[0] < 8.0
    assert 2.0 < means[2] / means[1] < 8.0


def test_observational_regression_never_sets_anything() -> None:
    world = world_with({0: (0.0, 4.0)}, [2, 2])
    watch = ObservationalRegression(problem_of(world), runs=20_000)
    seen = []
    verdict = run_on_world(watch, world, 0, on_batch=lambda batch: seen.append((batch.n_runs, batch.codes.max())))
    assert [n for n, _ in seen] == [16_384, 20_000 - 16_384]
    assert all(code == -1 for _, code in seen)
    assert verdict.n_runs == 20_000
    assert verdict.assignment["X1"] == 2  # no confounding here, so even this works
    assert "none" in verdict.guarantee


@pytest.mark.parametrize(
    "name",
    [
        *(
            "modl",
            "parents-first",
            "oracle",
            "successive-elimination",
            "naive-search",
            "rage",
            "xy-adaptive",
            "lingape",
        ),
        *("ucb", "modl-unions", "one-at-a-time", "fractional-factorial", "random", "thompson"),
    ],
)
def test_a_batch_told_out_of_turn_is_refused(name: str) -> None:
    """Whatever was told before: a batch from an earlier point of the study is noticed."""
    world = world_with({0: (0.0, 5.0), 1: (1.0, 0.0, 0.4)}, [2, 3])
    options: dict[str, object] = {"parents": ["X1", "X2"]} if name == "oracle" else {}
    algorithm = make_algorithm(name, problem_of(world, tolerance=1.0), **options)
    rng, noise, state = np.random.default_rng(0), np.random.default_rng(1), algorithm.start()
    first = algorithm.ask(state, rng)
    step = first
    refused = 0
    while isinstance(step, Batch):
        outcomes = world.sample(step.codes, noise).outcomes
        state = algorithm.tell(state, step, outcomes)
        step = algorithm.ask(state, rng)
    assert isinstance(first, Batch)
    try:
        algorithm.tell(state, first, np.zeros(first.n_runs))
    except OutcomeMismatchError as error:
        refused += "due" in str(error)
    assert refused == 1


def test_oracle_equals_modl_when_every_factor_is_a_parent() -> None:
    world = world_with({0: (0.0, 1.0), 1: (1.0, 0.0, 0.4)}, [2, 3])
    modl = run_on_world(make_algorithm("modl", problem_of(world)), world, 4)
    oracle = run_on_world(make_algorithm("oracle", problem_of(world), parents=true_parents(world)), world, 4)
    assert oracle.n_runs == modl.n_runs
    assert oracle.assignment == modl.assignment
