"""Numbers that people compare are the same wherever they stand: what is certified, runs to go, runs of a level."""

import math
from typing import Any, TypeAlias

import numpy as np
import pytest

import levers
from levers.charts.report import study_report
from levers.core.outcome_scale import OutcomeScale
from levers.core.space import Level
from levers.studies.library import create_study

LEVERS: dict[str, list[Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3], "belt": ["old", "new"]}
PAIR: dict[str, Level] = {"heat": "high", "speed": 3}
Pairs: TypeAlias = tuple[dict[str, Level], ...]


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_what_is_certified_is_never_said_smaller_than_it_is(scale: str) -> None:
    words = OutcomeScale(scale)
    rng = np.random.default_rng(4)
    for amount in [*10 ** rng.uniform(-8, 5, size=500), 0.1 + 0.2, 0.5, 0.0]:
        said = float(words.certified(amount).removesuffix(" %")) / (100 if words.is_log else 1)
        assert amount * (1 - 1e-8) <= said <= amount * 1.0101
    assert words.certified(math.inf).startswith("inf")


NEVER_OLD: Pairs = tuple({"belt": "old", "speed": speed} for speed in (1, 2, 3))


@pytest.mark.parametrize("forbidden", [(), (PAIR,), (PAIR, {"speed": 1, "belt": "old"}), NEVER_OLD])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_plan_and_the_study_begin_with_the_same_runs(forbidden: Pairs, scale: str) -> None:
    given: dict[str, Any] = {"tolerance": 0.4, "noise_sd": 0.8, "forbidden": forbidden, "scale": scale}
    planned = levers.plan(LEVERS, **given)
    to_go = create_study("oven", LEVERS, seed=1, **given).status().to_go
    assert (to_go.likely, to_go.worst_case) == (planned.runs_if_nothing_matters, planned.worst_case_runs)


def test_plans_see_which_levels_can_be_set_and_which_levers_are_one() -> None:
    given: dict[str, Any] = {"tolerance": 0.5, "noise_sd": 1.0}
    four = levers.plan({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4], "c": [1, 2, 3]}, **given)
    three = levers.plan([3, 4, 3], **given)
    for gone in (1, 4):  # the first level, or the last one
        never: Pairs = tuple({"a": gone, "b": b} for b in (1, 2, 3, 4))
        found = levers.plan({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4], "c": [1, 2, 3]}, forbidden=never, **given)
        assert found.worst_case_runs == three.worst_case_runs < four.worst_case_runs
    # two levers of two levels have as many levels as their four combinations, which are told apart all the same
    merged = levers.plan({"a": [1, 2], "b": [1, 2], "c": [1, 2, 3]}, merged=[["a", "b"]], **given)
    assert merged.one_shot_runs == levers.plan([4, 3], **given).one_shot_runs


@pytest.mark.parametrize("forbidden", [(), (PAIR,), (PAIR, {"speed": 1, "belt": "old"})])
def test_a_study_in_which_no_lever_matters_keeps_to_the_worst_case(forbidden: Pairs) -> None:
    for seed in range(3):
        study = create_study("oven", LEVERS, tolerance=0.5, noise_sd=1.0, seed=seed, forbidden=forbidden)
        rng, worst = np.random.default_rng(seed), []
        while trials := study.ask(1000):
            to_go = study.status().to_go
            assert to_go.worst_case is not None
            worst.append(study.status().n_complete + to_go.worst_case)
            study.tell_many((trial, rng.normal()) for trial in trials)
        assert study.verdict().n_runs <= min(worst)


def test_runs_of_a_combination_are_those_that_were_made_at_it() -> None:
    study = create_study("oven", LEVERS, budget=40, seed=2, forbidden=[PAIR])
    rng = np.random.default_rng(2)
    settings: list[tuple[Level, Level]] = []
    while trials := study.ask(1000):
        study.tell_many((trial, rng.normal() + (trial.params["heat"] == "mid")) for trial in trials)
        settings += [(trial.params["heat"], trial.params["speed"]) for trial in trials]
    rows = [row for row in study.effects() if row.factor == "heat + speed"]
    assert len(rows) == 8
    assert sum(row.n_runs for row in rows) == 40
    for row in rows:
        heat, speed = str(row.level).split(", ")
        assert row.n_runs == settings.count((heat, int(speed)))


def test_a_report_says_everything_that_was_asked_for() -> None:
    study = create_study(
        "oven", LEVERS, budget=24, noise_sd=1.0, seed=3, forbidden=[PAIR], hard_to_change=["belt"], block_size=8
    )
    while trials := study.ask(1000):
        study.tell_many((trial, float(trial.number % 5)) for trial in trials)
    page = study_report(study)
    assert "heat high with speed 3" in page
    assert "hard to change" in page
    assert "of 2 levers, those tied together counted as one, are shown" in page
