"""Points of the experiments: which worlds they have, what methods are told there, and what their rows say."""

import numpy as np
import pytest

from levers.algorithms.base import Problem
from levers.algorithms.modl import Modl
from levers.algorithms.restricted import ParentsFirst
from levers.experiments.runner import run_on_world
from levers.reproduction.sweeps import MODL, ORACLE, PARENTS_FIRST, RELEASED, SWEEPS, Point, Task
from levers.reproduction.tasks import _random_entry, run_task
from levers.worlds.named import even_table
from levers.worlds.outcome import AdditiveOutcome
from levers.worlds.random import random_world
from levers.worlds.scm import World


def effects(name: str, point: Point, world: int = 0) -> dict[int, tuple[float, ...]]:
    task = Task(name, SWEEPS[name].points["paper"].index(point), world, "paper")
    outcome = _random_entry(task, point, MODL).world.outcome
    assert isinstance(outcome, AdditiveOutcome)
    return outcome.effects


def test_every_degree_has_worlds_of_its_own_and_knowing_the_parents_does_not_change_them() -> None:
    points = SWEEPS["degree"].points["paper"]
    by_panel = [[p for p in points if p.panel == panel] for panel in dict.fromkeys(p.panel for p in points)]
    drawn = [[str(effects("degree", p, world)) for p in panel for world in range(2)] for panel in by_panel]
    assert len(set(drawn[0])) == len(drawn[0])
    assert drawn[0] == drawn[1]


def test_setting_all_levers_never_reads_the_graph() -> None:
    """What the degree can show of such a method is nothing: the same outcome without any arrows, the same study."""
    world = random_world(6, 3, np.random.default_rng(2), degree=4.0)
    bare = World(world.space, [even_table(m) for m in world.space.n_levels], world.outcome)
    problem = Problem(world.space, 1.0, 0.1, 1.0)
    for algorithm in (Modl(problem, outcome_bound=5.0), ParentsFirst(problem)):
        assert run_on_world(algorithm, world, seed=1) == run_on_world(algorithm, bare, seed=1)


def test_the_released_setting_is_run() -> None:
    for point in SWEEPS["interactions"].points["paper"]:
        settings = dict(point.settings)
        assert {key: settings[key] for key in RELEASED} == RELEASED
        assert settings["magnitude"] == point.x
    known = SWEEPS["interactions"].points["paper"][-1]
    comparison = known.comparison(MODL, seed=0)
    algorithm = comparison.algorithm("modl", comparison.world(0))
    assert isinstance(algorithm, Modl)
    assert (algorithm.max_parents, algorithm.outcome_bound) == (10, 1.0)


@pytest.mark.parametrize("name", ["recovery", "gaps"])
def test_rows_carry_bounds_of_modl_and_missed_parents(name: str) -> None:
    found = {row.contender: row for row in run_task(Task(name, 0, 0, "smoke"))}
    for label in ("modl", "modl, algorithm-1", "modl, proof"):
        row = found[label]
        assert row.bound is not None
        assert row.ceiling is not None
        assert row.expected is not None
        assert row.n_runs <= row.ceiling
        assert 0.2 < row.n_runs / row.expected < 5
        assert (row.parents_missed == 0) == row.parents_exact or row.parents_exact is False
    assert found["parents-first"].bound is None
    assert found["parents-first"].parents_missed is not None


def test_interactions_have_no_bound_on_modl() -> None:
    point = SWEEPS["interactions"].points["smoke"][0]
    for contender in (MODL, PARENTS_FIRST, ORACLE):
        limit, *bounds = _random_entry(Task("interactions", 0, 0, "smoke"), point, contender).bounds
        assert limit is not None
        assert bounds == [None, None, None]
