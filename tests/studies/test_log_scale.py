"""Outcomes on a log scale: the decisions of a linear study of logarithms, in percent, and no outcome of 0 or below."""

import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levers
from levers.algorithms.base import Verdict
from levers.charts.html import page_text
from levers.charts.report import study_report
from levers.core.codec import from_json, to_json
from levers.core.outcome_scale import EVERY_SCALE, OutcomeScale
from levers.errors import InvalidOutcomeError, InvalidSettingError, SheetError, TrialError
from levers.studies.analysis.diagnostics import residuals
from levers.studies.spec import StudySpec
from levers.studies.study import Study, SurprisingOutcomeWarning

SPACE: dict[str, list[levers.Level]] = {"a": ["on", "off"], "b": ["on", "off"], "c": [1, 2, 3]}
ABOVE = "on a log scale every outcome is above 0"


def time_of(run: Any) -> float:
    """Seconds: each lever multiplies, by hand 10 s at best, 25 % more without a, 10 % more without b."""
    return 10.0 * (1.25 if run["a"] == "off" else 1.0) * (1.1 if run["b"] == "off" else 1.0)


def noisy(goal: str, seed: int) -> Callable[[Any], float]:
    """Logarithms of outcomes, with noise that depends on the order of runs only."""
    rng = np.random.default_rng(seed)
    sign = 1.0 if goal == "maximize" else -1.0
    effects: dict[str, dict[levers.Level, float]] = {
        "a": {"on": 0.3, "off": 0.0},
        "b": {"on": 0.0, "off": 0.1},
        "c": {1: 0.0, 2: 0.25, 3: 0.2},
    }

    def log_outcome(run: Any) -> float:
        return 2.0 + sign * sum(effects[name][run[name]] for name in effects) + 0.1 * float(rng.normal())

    return log_outcome


def both(goal: str, seed: int, **more: Any) -> tuple[Study, Study]:
    """A linear study of logarithms, and a log study of outcomes, run to the end."""
    loss = more.pop("loss", None)
    scale, found = OutcomeScale("log", 1.0 if goal == "maximize" else -1.0), []
    for name in ("linear", "log"):
        if loss is not None:
            more["tolerance"] = loss if name == "log" else scale.difference(loss)
        measure = noisy(goal, seed)
        study = levers.create_study(name, SPACE, goal=goal, seed=seed, scale=name, **more)
        while trials := study.ask(1000):
            logs = [measure(trial.params) for trial in trials]
            values = [math.exp(y) if name == "log" else y for y in logs]
            study.tell_many(list(zip(trials, values, strict=True)))
        found.append(study)
    return found[0], found[1]


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
@pytest.mark.parametrize(
    "asked",
    [
        {"loss": 0.1},
        {"loss": 0.08, "noise_sd": 0.1},
        {"budget": 30},
        {"loss": 0.15, "block_size": 8},
        {"loss": 0.2, "algorithm": "modl", "noise_sd": 0.1},
    ],
)
def test_a_log_study_decides_as_a_linear_study_of_logarithms(goal: str, asked: dict[str, Any]) -> None:
    baseline = {"baseline": {"a": "off", "b": "on", "c": 1}}
    plain, log = both(goal, 3, **asked, **baseline)
    scale, one, other = log.spec.outcome_scale, plain.verdict(), log.verdict()
    rows = [[list(block.batch.codes.ravel()) for block in study.state.blocks] for study in (plain, log)]
    assert rows[0] == rows[1]
    assert one.assignment == other.assignment
    assert one.n_runs == other.n_runs
    assert (one.tolerance is None) == (other.tolerance is None)
    if one.tolerance is not None and other.tolerance is not None:
        assert other.tolerance == pytest.approx(scale.loss(one.tolerance))
        assert scale.difference(other.tolerance) == pytest.approx(one.tolerance)
    for row, same in zip(plain.effects(), log.effects(), strict=True):
        assert (row.standing, row.n_runs, row.scale, same.scale) == (same.standing, same.n_runs, "linear", "log")
        assert same.loss == pytest.approx(scale.loss(row.loss), abs=1e-12)
        assert same.usual_low == pytest.approx(scale.loss(row.usual_low), abs=1e-12)
    here, there = plain.best(), log.best()
    assert here is not None
    assert there is not None
    if here.predicted is not None and here.low is not None:
        assert there.predicted == pytest.approx(math.exp(here.predicted))
        assert there.low == pytest.approx(math.exp(here.low))
    assert here.gain is not None
    assert there.gain is not None
    assert there.gain.high == pytest.approx(scale.gain(here.gain.high))
    assert here.gain.shown == there.gain.shown
    assert [doubt.kind for doubt in one.doubts] == [doubt.kind for doubt in other.doubts]
    assert residuals(log.state).sd == pytest.approx(residuals(plain.state).sd)


def exact_study(goal: str = "minimize", **more: Any) -> Study:
    """A study of times without noise in them, with a noise stated."""
    study = levers.create_study(
        "exact", SPACE, goal=goal, scale="log", tolerance="5%", noise_sd=0.1, seed=1, baseline_outcome=13.75,
        baseline={"a": "off", "b": "off", "c": 1}, **more,
    )  # fmt: skip
    while trials := study.ask(1000):
        study.tell_many([(trial, time_of(trial.params)) for trial in trials])
    return study


def test_what_people_read_is_in_percent_to_the_digit() -> None:
    study = exact_study()
    found, best = study.verdict(), study.best()
    assert best is not None
    losses = {(row.factor, row.level): row.loss for row in study.effects()}
    assert losses["a", "off"] == pytest.approx(0.25)  # 12.5 s where 10 s are possible
    assert losses["b", "off"] == pytest.approx(0.10)
    assert best.predicted == pytest.approx(10.0, rel=0.005)  # a little above: the setting was chosen
    assert best.gain is not None
    assert best.gain.estimate is not None
    assert best.gain.estimate == pytest.approx(1 - 10 / 13.75, rel=0.04)  # 27.27 % less
    said = page_text(study_report(study))
    assert f"Typical outcome (median) to expect there: {best.predicted:.4g} (" in said
    assert f"Gain over the baseline: {100 * best.gain.estimate:.4g} % less, 95 % between " in said
    assert "within 5 % of the best" in said
    assert "standard deviation 10 %, as stated" in said
    assert "on a log scale: effects multiply" in said
    assert "a | off | " in said
    assert " | 25 % | " in said
    assert found.promise.startswith(f"within {EVERY_SCALE['log'].certified(found.within)} of the best")
    assert [remark.kind for remark in found.provisos].count("log scale") == 1


def test_where_larger_is_better_a_loss_is_of_the_better_outcome() -> None:
    study = exact_study("maximize")
    losses = {(row.factor, row.level): row.loss for row in study.effects()}
    assert losses["a", "on"] == pytest.approx(1 - 1 / 1.25)  # 11 where 13.75 are possible: 20 % less
    best = study.best()
    assert best is not None
    assert best.gain is not None
    assert best.gain.low == 0.0  # the baseline is the best
    tolerance = study.spec.solver.problem.tolerance
    assert tolerance == pytest.approx(-math.log(0.95))
    assert exact_study().spec.solver.problem.tolerance == pytest.approx(math.log(1.05))


def test_an_interval_is_that_of_logarithms() -> None:
    study = exact_study()
    row = next(row for row in study.effects() if (row.factor, row.level) == ("a", "off"))
    trials, blocks = study.state.trials.n_trials, study.state.trials.block
    told = [trial for n in range(trials) if (trial := study.trial(n)).value is not None]
    n_blocks = len(study.state.blocks)  # each round has a constant of its own
    columns = [
        [
            *np.eye(n_blocks)[blocks[t.number]],
            *(t.params[k] == v for k, v in (("a", "off"), ("b", "off"), ("c", 2), ("c", 3))),
        ]
        for t in told
    ]
    design = np.array(columns, dtype=float)
    covariance = np.linalg.inv(design.T @ design)[n_blocks:, n_blocks:]
    half = 1.959964 * 0.1 * math.sqrt(covariance[0, 0])
    assert row.usual_low == pytest.approx(1.25 * math.exp(-half) - 1, abs=1e-5)
    assert row.usual_high == pytest.approx(1.25 * math.exp(half) - 1, abs=1e-5)


@pytest.mark.parametrize("value", [0.0, -2.5])
def test_an_outcome_of_0_or_below_is_refused_before_anything_is_stored(value: float, tmp_path: Path) -> None:
    study = levers.create_study("oven", SPACE, scale="log", tolerance=0.1, seed=1)
    first, second = study.ask(2)
    seq = study.state.seq
    with pytest.raises(
        TrialError, match=f"the outcome of trial {second.number} is {value:g}; {ABOVE}; nothing was stored"
    ):
        study.tell_many([(first, 3.0), (second, value)])
    with pytest.raises(TrialError, match=f"outcome 2 of 2 is {value:g}; {ABOVE}; nothing was stored"):
        study.import_runs([first.params, second.params], [2.0, value], "last year")
    assert study.state.seq == seq
    study.tell(first, 3.0)
    with pytest.raises(TrialError, match=f"trial {first.number} cannot be corrected to {value:g}: {ABOVE}"):
        study.correct(first, value, "typo")
    seq = study.state.seq
    past = tmp_path / "past.csv"
    past.write_text(f"a,b,c,outcome\non,on,1,2.5\noff,on,2,{value}\n")
    with pytest.raises(SheetError, match=f"row 3: the outcome is {value:g}; {ABOVE}"):
        study.import_sheet(past, "last year")
    sheet = tmp_path / "runs.csv"
    study.open_sheet(sheet)
    sheet.write_text(sheet.read_text().rstrip("\n").rpartition(",")[0] + f",{value}\n")
    with pytest.raises(SheetError, match=rf"row 2: the outcome of trial {second.number} is {value:g}; {ABOVE}"):
        study.tell_sheet(sheet)
    assert study.state.seq == seq
    study.tell(second, 4.0)
    sheet.write_text(sheet.read_text())
    with pytest.raises(SheetError, match=rf"row 2: .*trial {second.number} .*{ABOVE}"):
        study.correct_sheet(sheet, "typo")


def test_a_function_that_returns_0_ends_with_the_trial_named() -> None:
    with pytest.raises(InvalidOutcomeError, match=f"the outcome of trial 0 is 0; {ABOVE}"):
        levers.optimize(lambda run: 0.0, SPACE, scale="log", budget=20, seed=1)
    found = levers.optimize(time_of, SPACE, scale="log", goal="minimize", tolerance="10%", noise_sd=0.1, seed=1)
    assert (found.assignment["a"], found.assignment["b"]) == ("on", "on")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale": "sqrt"}, "scale must be one of linear, log"),
        ({"tolerance": 5}, "0.05 is 5 %, not 5"),
        ({"tolerance": -0.1}, "tolerance must be a finite number above 0"),
        ({"min_effect": 2.0, "noise_sd": 0.1}, "min_effect is a share on a log scale"),
        ({"baseline_outcome": -1.0}, f"the baseline's outcome is -1; {ABOVE}"),
    ],
)
def test_settings_that_are_none_on_a_log_scale(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        levers.create_study("oven", SPACE, **{"scale": "log", "tolerance": 0.05, **changes})


def test_more_than_twice_the_time_may_be_good_enough() -> None:
    study = levers.create_study("oven", SPACE, scale="log", goal="minimize", tolerance="150%")
    assert study.spec.solver.problem.tolerance == pytest.approx(math.log(2.5))


def test_a_percentage_needs_no_outcome_of_today_on_a_log_scale() -> None:
    assert levers.create_study("oven", SPACE, scale="log", tolerance="5%").spec.tolerance == 0.05
    with pytest.raises(InvalidSettingError, match="on a log scale it needs none"):
        levers.create_study("oven", SPACE, tolerance="5%")


def test_a_merged_study_stays_on_its_scale() -> None:
    storage = levers.MemoryStorage()
    study = levers.create_study("oven", SPACE, scale="log", tolerance=0.1, noise_sd=0.1, seed=1, storage=storage)
    study.tell_many([(trial, time_of(trial.params)) for trial in study.ask(4)])
    merged = levers.merge_study("oven", "both", ["a", "b"], storage)
    assert merged.spec.scale == "log"
    assert merged.spec.solver.problem.tolerance == pytest.approx(-math.log(0.9))


def test_a_least_effect_is_a_share() -> None:
    study = levers.create_study("oven", SPACE, scale="log", tolerance=0.1, noise_sd=0.1, min_effect=0.2)
    assert study.spec.inner_min_effect == pytest.approx(-math.log(0.8))
    assert dict(study.spec.options)["min_effect"] == 0.2


def test_terms_are_restated_in_percent() -> None:
    study = levers.create_study("oven", SPACE, scale="log", tolerance="5%", noise_sd=0.1, seed=1)
    study.tell_many([(trial, time_of(trial.params)) for trial in study.ask(5)])
    changes = study.restate(tolerance="10%", noise_sd=0.2)
    assert changes == ("noise sd: 20 %, 10 % before", "tolerance: 10 %, 5 % before")
    assert study.spec.solver.problem.tolerance == pytest.approx(-math.log(0.9))


def test_surprises_are_in_the_unit_of_the_outcome() -> None:
    study = levers.create_study("oven", SPACE, scale="log", tolerance=0.02, noise_sd=0.1, seed=1)
    trials = study.ask(20)
    study.tell_many([(trial, time_of(trial.params)) for trial in trials[:-1]])
    with pytest.warns(SurprisingOutcomeWarning) as caught:
        study.tell(trials[-1], 100 * time_of(trials[-1].params))
    (flag,) = caught[0].message.flags  # type: ignore[union-attr]
    usual = time_of(trials[-1].params)
    assert flag.expected == pytest.approx(usual, rel=0.05)
    assert 0 < flag.low < usual < flag.high < 3 * usual


def test_a_verdict_is_recomputed_from_its_outcomes() -> None:
    study = levers.create_study("oven", SPACE, scale="log", goal="minimize", tolerance="10%", noise_sd=0.1, seed=1)
    kept, measure = [], noisy("minimize", 5)
    while trials := study.ask(1000):
        values = [math.exp(measure(trial.params)) for trial in trials]
        kept += values
        study.tell_many(list(zip(trials, values, strict=True)))
    exported = from_json(to_json(study.verdict()), Verdict)
    assert exported.scale == "log"
    assert levers.verify(exported, kept).ok
    assert not levers.verify(exported, np.log(kept)).ok
    assert study.verify().ok


def test_a_spec_of_before_is_linear() -> None:
    written = json.loads(to_json(levers.create_study("oven", SPACE, tolerance=1.0).spec))
    assert written.pop("scale") == "linear"
    assert from_json(json.dumps(written), StudySpec).outcome_scale == OutcomeScale()


def test_fresh_runs_confirm_in_percent() -> None:
    study, measure = exact_study(), noisy("minimize", 1)
    study.confirm(6)
    study.tell_many([(t, time_of(t.params) * math.exp(measure(t.params) % 0.02)) for t in study.ask(12)])
    found = study.verdict().confirmation
    assert found is not None
    assert found.measured is not None
    assert found.gain is not None
    fresh = [study.trial(n).value for n in range(study.state.trials.n_trials)][-12:]
    settings = [study.trial(n).params["a"] for n in range(study.state.trials.n_trials)][-12:]
    mine = [math.log(y or 1) for y, a in zip(fresh, settings, strict=True) if a == "on"]
    theirs = [math.log(y or 1) for y, a in zip(fresh, settings, strict=True) if a == "off"]
    assert found.measured.value == pytest.approx(math.exp(np.mean(mine)))  # the median, not the mean
    assert found.gain.value == pytest.approx(1 - math.exp(np.mean(mine) - np.mean(theirs)))
    said = page_text(study_report(study))
    assert "a typical outcome (median) of" in said
    assert f"a gain over the baseline of {100 * found.gain.value:.4g} %" in said


def test_a_linear_study_of_what_multiplies_is_told_of_the_log_scale() -> None:
    space = {name: ["on", "off"] for name in "abcd"}
    rng = np.random.default_rng(0)
    study = levers.create_study("oven", space, tolerance=20.0, noise_sd=1.0, seed=1)
    every = [dict(zip(space, levels, strict=True)) for levels in product(*space.values())] * 6
    values = [10 * 1.8 ** sum(one[n] == "off" for n in space) * float(np.exp(0.05 * rng.normal())) for one in every]
    study.import_runs(every, values, "last year")
    while trials := study.ask(1000):
        study.tell_many([(t, 10 * 1.8 ** sum(t.params[n] == "off" for n in space)) for t in trials])
    doubts = {doubt.kind: doubt for doubt in study.verdict().doubts}
    assert doubts["nonadditivity"].scale == "log"
    assert "begin a study with the scale log" in doubts["nonadditivity"].text
    assert all(doubt.scale is None for kind, doubt in doubts.items() if kind in ("noise", "outlier"))
