"""The setting in place today: run in every day, and kept where nothing is better."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import levers
from harness.hard_worlds import additive_world, slippage_world
from levers.algorithms.base import Batch, Problem, Verdict
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.cfs.verify import verify
from levers.core.codec import from_json, to_json
from levers.errors import LeversError
from levers.worlds.scm import World, gap

WORLD = additive_world([[0.0, 0.8, 0.2], [0.5, 0.0], [0.0, 0.1, 0.2, 0.9], [0.3, 0.0], [0.0, 0.0]])
BASELINE = (0, 1, 0, 1, 1)
TIED = (((0, 0), (0, 1), (1, 0)), (), (), (), ())


def cfs_of(world: World = WORLD, tolerance: float | None = 0.5, noise_sd: float | None = 1.0, **options: Any) -> Cfs:
    return Cfs(Problem(world.space, tolerance, 0.1, noise_sd), **options)


def studied(cfs: Cfs, world: World = WORLD, seed: int = 0) -> tuple[Verdict, list[Batch], list[float]]:
    rng, state, batches, outcomes = np.random.default_rng(seed), cfs.start(), list[Batch](), list[float]()
    while isinstance(step := cfs.ask(state, np.random.default_rng([seed, len(batches)])), Batch):
        y = world.sample(step.codes, rng).outcomes
        state = cfs.tell_block(from_json(to_json(state), type(state)), step, y)
        batches.append(step)
        outcomes += y.tolist()
    return step, batches, outcomes


def at_baseline(batch: Batch) -> np.ndarray:
    found: np.ndarray = (batch.codes == np.array(BASELINE)).all(axis=1)
    return found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"noise_sd": None},
        {"tolerance": None, "budget": 96},
        {"tolerance": None, "budget": 96, "aim": "certify"},
        {"parts": TIED},
        {"max_parents": 4},
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [None, 8, 4])
def test_the_baseline_is_run_every_day_or_one_run_in_sixteen(options: dict[str, Any], size: int | None) -> None:
    cfs = cfs_of(baseline=BASELINE, block_size=size, **options)
    verdict, batches, outcomes = studied(cfs)
    assert verdict.n_runs == sum(batch.n_runs for batch in batches)
    assert at_baseline(batches[0]).any()
    rows = np.concatenate([at_baseline(batch) for batch in batches])
    every = {None: 16, 8: 8, 4: 8}[size]
    whole = len(rows) // every
    by_itself = len(rows) / WORLD.space.n_assignments  # a design may have that row
    assert abs(rows.sum() - whole) <= 2 + 0.1 * whole + by_itself
    if size == 8:
        assert rows[: 8 * whole].reshape(-1, 8).any(axis=1).all()
    if "parts" not in options:
        assert verify(verdict, outcomes).ok


def test_it_is_run_when_its_levels_are_out_of_play() -> None:
    world = additive_world([[0.0, 5.0], [0.0, 0.0, 0.1], [0.0, 0.1]])
    cfs = cfs_of(world, baseline=(0, 0, 0), tolerance=0.3)
    verdict, batches, _ = studied(cfs, world)
    assert (0, 0) in [(gone.factor, gone.level) for gone in verdict.eliminations]
    assert (batches[-1].codes[:, 0] == 0).sum() >= 1
    assert (batches[-1].codes[batches[-1].codes[:, 0] == 0] == 0).all()


@pytest.mark.parametrize(
    "options", [{}, {"tolerance": None, "budget": 20}, {"tolerance": None, "budget": 20, "aim": "certify"}], ids=str
)
def test_where_nothing_is_better_it_is_kept(options: dict[str, Any]) -> None:
    """Outcomes that are all the same say nothing for any level."""
    cfs, state = cfs_of(baseline=BASELINE, **options), cfs_of(baseline=BASELINE, **options).start()
    rng = np.random.default_rng(0)
    step = cfs.ask(state, rng)
    assert isinstance(step, Batch)
    assert cfs.verdict(cfs.finish(state, step.codes[:0], [])).assignment.codes == BASELINE
    assert cfs.verdict(cfs.finish(state, step.codes, np.zeros(step.n_runs))).assignment.codes == BASELINE
    assert cfs.tell(state, step, np.zeros(step.n_runs)).leaders == BASELINE


def test_levers_that_are_known_not_to_matter_stay_where_they_are() -> None:
    world = additive_world([[0.0, 3.0], [0.0, 0.0, 0.0], [0.0, 0.0]])
    for seed in range(5):
        verdict, _, _ = studied(cfs_of(world, max_parents=1, baseline=(0, 2, 1)), world, seed)
        assert verdict.assignment.codes == (1, 2, 1)


def test_its_runs_cost_about_what_they_are() -> None:
    """One run in eight, most of which hardly tells levels in play apart."""
    with_it, without = 0, 0
    for seed in range(12):
        with_it += studied(cfs_of(baseline=BASELINE, block_size=8), seed=seed)[0].n_runs
        without += studied(cfs_of(block_size=8), seed=seed)[0].n_runs
    assert 1.02 * without < with_it < 1.2 * without


def test_the_promise_is_kept_with_a_baseline() -> None:
    world, n_studies, failed = slippage_world(3, 3), 30, 0
    for seed in range(n_studies):
        verdict, _, _ = studied(cfs_of(world, baseline=(1, 1, 1), block_size=8), world, seed)
        failed += gap(world, verdict.assignment.codes) > verdict.within
    assert failed <= binom.ppf(0.999, n_studies, 0.1)


def test_hardly_more_runs_than_parameters_are_spent_on_levels() -> None:
    verdict, batches, _ = studied(cfs_of(tolerance=None, budget=9, aim="certify", baseline=BASELINE))
    assert sum(at_baseline(batch).sum() for batch in batches) <= 1
    assert verdict.tolerance is not None


def test_a_study_hands_its_baseline_to_the_solver() -> None:
    study = levers.create_study(
        "s",
        {"a": [0, 1, 2], "b": [0, 1], "c": [0, 1]},
        tolerance=0.5,
        noise_sd=1.0,
        baseline={"a": 2, "b": 1, "c": 0},
        forbidden=[{"a": 0, "b": 0}],
        seed=1,
    )
    rows = [dict(trial.params) for trial in study.ask(100)]
    assert {"a": 2, "b": 1, "c": 0} in rows
    for rules in ({"min_effect": 0.5}, {"algorithm": "modl"}):
        other = levers.create_study(
            "t", {"a": [0, 1, 2], "b": [0, 1]}, tolerance=0.5, noise_sd=1.0, baseline={"a": 2, "b": 1}, seed=1, **rules
        )
        assert other.ask(3)
    with pytest.raises(LeversError):
        cfs_of(baseline=(0, 5, 0, 0, 0))
