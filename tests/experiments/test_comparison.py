import dataclasses
from pathlib import Path

import numpy as np
import pytest

from levers.algorithms.registry import ALGORITHMS
from levers.errors import InvalidSettingError, TooManyActionsError, UnknownAlgorithmError
from levers.experiments.compare import Comparison, RunRecord, curve, run_curves, run_tasks, summarise
from levers.worlds.outcome import AdditiveOutcome

SMALL = Comparison(n_factors=4, n_parents=2, n_worlds=3, n_repeats=2, algorithms=("modl", "parents-first", "oracle"))


def numbers(plan: Comparison, workers: int = 1) -> list[RunRecord]:
    """All records without their times."""
    return [dataclasses.replace(r, seconds=0.0) for batch in run_tasks(plan, workers) for r in batch]


def test_same_seed_same_numbers_whatever_the_worker_count() -> None:
    one = numbers(SMALL)
    assert numbers(SMALL, workers=2) == one
    assert numbers(dataclasses.replace(SMALL, seed=1)) != one


def test_another_algorithm_changes_nothing_for_the_others() -> None:
    alone = numbers(dataclasses.replace(SMALL, algorithms=("modl",)))
    assert alone == [r for r in numbers(SMALL) if r.algorithm == "modl"]


def test_every_algorithm_can_be_compared() -> None:
    names = tuple(ALGORITHMS)
    plan = Comparison(3, 2, (2, 3), tolerance=1.0, n_worlds=2, n_repeats=1, algorithms=names)
    summaries = summarise(plan.algorithms, numbers(plan))
    assert [s.algorithm for s in summaries] == list(names)
    assert all(s.n == 2 and s.runs_mean > 0 for s in summaries)
    assert {s.algorithm for s in summaries if s.parents_exact is not None} == {"cfs", "modl", "parents-first"}


def test_a_curve_has_the_answer_after_each_number_of_runs() -> None:
    names = ("cfs", "thompson", "modl", "rage")
    plan = Comparison(3, 2, (3, 3), tolerance=2.0, n_worlds=2, n_repeats=2, algorithms=names, at=(2, 12, 400))
    records = [record for batch in run_curves(plan) for record in batch]
    points = {(point.algorithm, point.at): point for point in curve(plan, records)}
    assert len(records) == 2 * 2 * 4 * 3
    assert all(record.n_runs <= record.at for record in records)
    for name in ("cfs", "thompson"):  # they spend what they have
        assert [points[name, n].runs_mean for n in plan.at] == [2.0, 12.0, 400.0]
    verdicts = summarise(names, numbers(plan))
    for row in verdicts[2:]:  # they stop by themselves
        last = points[row.algorithm, 400]
        assert (last.runs_mean, last.gap_mean, last.failures) == (row.runs_mean, row.gap_mean, row.failures)
    assert (points["rage", 2].answers, points["rage", 2].gap_mean) == (0, None)  # its first phase is longer
    gaps = [record.gap for record in records if (record.algorithm, record.at) == ("thompson", 12)]
    assert points["thompson", 12].gap_mean == pytest.approx(np.mean([one for one in gaps if one is not None]))
    with pytest.raises(InvalidSettingError, match="after which numbers"):
        list(run_curves(SMALL))


def test_algorithms_may_be_told_a_wrong_number_of_parents() -> None:
    told = dataclasses.replace(SMALL, told_parents=1)
    world = told.world(0)
    assert told.algorithm("modl", world).max_parents == 1  # type: ignore[attr-defined]
    assert SMALL.algorithm("modl", world).max_parents is None  # type: ignore[attr-defined]
    assert told.null_bound(world) == 0.0
    assert told.necessary_runs(world) < SMALL.necessary_runs(world)
    assert dataclasses.replace(SMALL, told_parents=99).told(world) == 4


def test_noise_of_other_shapes_reaches_the_worlds() -> None:
    plan = dataclasses.replace(SMALL, noise="two-point")
    outcome = plan.world(0).outcome
    rows = np.zeros((50, 4), dtype=np.int16)
    drawn = outcome.sample(rows, np.random.default_rng(0)) - outcome.mean(rows)
    assert set(np.round(drawn, 9)) == {-1.0, 1.0}


def test_known_parents_help_modl_and_leave_the_oracle_alone() -> None:
    known = summarise(SMALL.algorithms, numbers(dataclasses.replace(SMALL, known_parents=True)))
    unknown = summarise(SMALL.algorithms, numbers(SMALL))
    assert known[0].runs_mean < unknown[0].runs_mean
    assert known[2].runs_mean == unknown[2].runs_mean


@pytest.mark.parametrize(
    ("n_factors", "n_parents", "expected"), [(10, 1, 285), (10, 5, 159), (30, 1, 1086), (30, 10, 714)]
)
def test_the_limit_of_any_method_on_the_papers_worlds(n_factors: int, n_parents: int, expected: int) -> None:
    plan = Comparison(n_factors=n_factors, n_parents=n_parents, make_worlds=False)
    assert round(np.mean([plan.null_bound(plan.world(w)) for w in range(20)])) == expected
    assert dataclasses.replace(plan, known_parents=True).null_bound(plan.world(0)) == 0.0
    told = dataclasses.replace(plan, min_effect=0.3, known_min_effect=True)
    assert 0 < told.null_bound(plan.world(0)) < plan.null_bound(plan.world(0))


def test_summaries_are_computed_from_the_records() -> None:
    records = [
        RunRecord("modl", world, repeat, runs, loss, loss > 0.5, exact, runs / 10, 1.0)
        for world, repeat, runs, loss, exact in [(0, 0, 10, 0.0, True), (0, 1, 20, 0.6, True), (1, 0, 30, 0.1, False)]
    ]
    [row] = summarise(["modl"], records)
    assert (row.runs_mean, row.gap_max, row.failures, row.n, row.seconds) == (20.0, 0.6, 1, 3, 3.0)
    assert row.gap_mean == pytest.approx(0.7 / 3)
    assert row.over_necessary == 2.0
    assert row.parents_exact == pytest.approx(2 / 3)
    assert row.runs_sem == pytest.approx(np.std([15, 30], ddof=1) / np.sqrt(2))
    [row] = summarise(["modl"], records[:2])
    assert row.runs_sem == pytest.approx(np.std([10, 20], ddof=1) / np.sqrt(2))  # of one world the repeats count


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"n_worlds": 0}, InvalidSettingError, "worlds"),
        ({"n_repeats": 0}, InvalidSettingError, "repeats"),
        ({"seed": -1}, InvalidSettingError, "seed"),
        ({"algorithms": ()}, InvalidSettingError, "at least one"),
        ({"algorithms": ("modl", "modl")}, InvalidSettingError, "twice"),
        ({"algorithms": ("magic",)}, UnknownAlgorithmError, "known are"),
        ({"schedule": "x"}, InvalidSettingError, "schedule"),
        ({"known_min_effect": True}, InvalidSettingError, "needs a min_effect"),
        ({"tolerance": 0.0}, InvalidSettingError, "tolerance"),
        ({"at": (0, 10)}, InvalidSettingError, "at must be"),
        ({"at": (20, 10)}, InvalidSettingError, "increasing order"),
        ({"told_parents": 0}, InvalidSettingError, "told_parents"),
        ({"told_parents": 2, "known_parents": True}, InvalidSettingError, "not both"),
        ({"outcome": "Y"}, InvalidSettingError, "give the file too"),
        ({"world_file": "x.toml"}, InvalidSettingError, "n_worlds must be 1"),
        ({"noise": "loud"}, InvalidSettingError, "noise must be one of"),
        ({"n_factors": 8, "algorithms": ("rage",)}, TooManyActionsError, "use cfs or modl"),
        ({"n_factors": 12, "algorithms": ("successive-elimination",)}, TooManyActionsError, "use modl"),
    ],
)
def test_wrong_plans_are_refused_before_anything_runs(
    changes: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        dataclasses.replace(SMALL, **changes)  # type: ignore[arg-type]
    with pytest.raises(InvalidSettingError, match="workers"):
        list(run_tasks(SMALL, workers=0))


def test_a_world_of_a_file_is_compared_over_subsets_and_values() -> None:
    """The best leaves the steam alone, and nobody who sets everything can be within 0.3 of it."""
    path = str(Path(__file__).parents[2] / "examples" / "bakery.toml")
    plan = Comparison(world_file=path, n_worlds=1, n_repeats=2, tolerance=0.3, algorithms=("cfs", "modl"))
    records = [record for batch in run_tasks(plan) for record in batch]
    assert all(record.gap >= 0.4 - 1e-9 for record in records)
    with pytest.raises(InvalidSettingError, match="one world"):
        Comparison(world_file=path, n_worlds=2)
    with pytest.raises(InvalidSettingError, match="noise_sd is of random worlds") as refused:
        Comparison(world_file=path, n_worlds=1, noise_sd=5.0)
    assert refused.value.field == "noise_sd"


def test_the_generators_options_reach_the_worlds() -> None:
    plan = Comparison(6, 5, n_worlds=1, noise="bernoulli", tolerance=0.1, algorithms=("modl",))
    assert plan.world(0).noise_sd == 0.5
    released = Comparison(6, 5, n_worlds=1, interactions=(2, 3), magnitude=0.1, algorithms=("modl",))
    outcome = released.world(0).outcome
    assert isinstance(outcome, AdditiveOutcome)
    assert [len(term.factors) for term in outcome.interactions] == [2, 3]
    none = Comparison(6, 5, n_worlds=1, child_prob=0.0, algorithms=("modl",))
    assert not any(mechanism.reads_outcome for mechanism in none.world(0).mechanisms)
