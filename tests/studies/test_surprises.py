"""Outcomes far from what a study's runs lead one to expect: stored with a warning, or refused if nobody insists."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import levers
from levers.errors import SurprisingOutcomesError
from levers.studies.analysis.expectation import Outlook, surprises
from levers.studies.outcomes import BY_FIT, BY_SPREAD
from levers.studies.study import Study, SurprisingOutcomeWarning

SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4], "on": [True, False]}


def oven(**more: object) -> Study:
    given = {"tolerance": 0.4, "noise_sd": 1.0, "seed": 1, **more}
    return levers.create_study("oven", SPACE, **given)  # type: ignore[arg-type]


def outcome(params: levers.Assignment, rng: np.random.Generator) -> float:
    return 70.0 + 2.0 * (params["heat"] == "mid") + float(rng.normal())


def told(study: Study, n: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    while left := n - study.status().n_complete:
        study.tell_many([(trial, outcome(trial.params, rng)) for trial in study.ask(left)])


def test_a_typo_is_stored_with_a_warning_that_names_it() -> None:
    study = oven()
    told(study, 20)
    trial = study.ask()[0]
    with pytest.warns(SurprisingOutcomeWarning, match=f"trial {trial.number}: 7250, expected about 7") as caught:
        study.tell(trial, 7250.0)
    assert study.trial(trial.number).value == 7250.0
    assert caught[0].filename == __file__  # where it was told, not where it was found
    warning = caught[0].message
    assert isinstance(warning, SurprisingOutcomeWarning)
    (flag,) = warning.flags
    assert (flag.trial, flag.value, flag.how, flag.row) == (trial.number, 7250.0, BY_FIT, None)
    assert flag.low < flag.expected < flag.high
    assert 60 < flag.low < 70 < flag.high < 80


def test_honest_outcomes_around_0_that_come_one_by_one_are_no_surprise() -> None:
    """A false alarm is allowed in one study of a hundred; without the uncertainty of the fit it was one in eight."""
    alarms = 0
    for seed in range(30):
        rng = np.random.default_rng([seed, 7])
        effects = rng.normal(size=(4, 3))
        space = {f"x{k}": [0, 1, 2] for k in range(4)}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            levers.optimize(
                lambda run, e=effects, r=rng: sum(e[k][run[f"x{k}"]] for k in range(4)) + r.normal(),  # type: ignore[misc]
                space, tolerance=1.0, noise_sd=1.0, seed=seed,
            )  # fmt: skip
        alarms += any(issubclass(one.category, SurprisingOutcomeWarning) for one in caught)
    assert alarms <= binom.ppf(0.999, 30, 0.01)


def test_without_insisting_nothing_is_stored() -> None:
    study = oven()
    told(study, 20)
    first, second = study.ask(2)
    seq = study.state.seq
    with pytest.raises(SurprisingOutcomesError, match="nothing was stored") as refused:
        study.tell_many({first.number: 70.5, second.number: 705.0}, insist=False)
    assert study.state.seq == seq
    assert [flag.trial for flag in refused.value.flags] == [second.number]
    study.tell(first, 70.5, insist=False)
    study.tell(second, 70.5, insist=False)
    assert study.status().n_complete == 22


@pytest.mark.filterwarnings("error::levers.studies.study.SurprisingOutcomeWarning")
def test_a_number_that_was_stored_is_asked_about_once() -> None:
    study = oven()
    told(study, 20)
    first, second = study.ask(2)
    with pytest.warns(SurprisingOutcomeWarning):
        study.tell(first, 0.0)
    study.tell(second, 0.0)


def test_two_typos_in_the_first_sheet(tmp_path: Path) -> None:
    study = oven(noise_sd=None)
    path = tmp_path / "runs.csv"
    study.ask_sheet(path, 8)
    rng = np.random.default_rng(3)
    head, *rows = path.read_text().splitlines()
    values = [70 + float(rng.normal()) for _ in rows]
    values[2], values[5] = 10 * values[2], values[5] / 100
    path.write_text("\n".join([head, *(f"{row}{value}" for row, value in zip(rows, values, strict=True))]))
    with pytest.raises(SurprisingOutcomesError) as refused:
        study.tell_sheet(path, insist=False)
    assert [(flag.trial, flag.how) for flag in refused.value.flags] == [(2, BY_SPREAD), (5, BY_SPREAD)]
    assert study.status().n_complete == 0
    with pytest.warns(SurprisingOutcomeWarning, match="2 outcomes are far"):
        report = study.tell_sheet(path)
    assert (report.n_new, [flag.trial for flag in report.flags]) == (8, [2, 5])


def test_past_runs_are_compared_with_each_other(tmp_path: Path) -> None:
    study = oven()
    told(study, 12)
    rng = np.random.default_rng(5)
    row: dict[str, levers.Level] = {"heat": "low", "speed": 1, "on": True}
    other: dict[str, levers.Level] = {"heat": "mid", "speed": 2, "on": False}
    rows = [row, other] * 10
    values = [500 + float(rng.normal()) for _ in rows]  # another year, another constant
    values[7] = -values[7]
    with pytest.raises(SurprisingOutcomesError, match="row 8: -499") as refused:
        study.import_runs(rows, values, "last year", insist=False)
    assert [(flag.trial, flag.row) for flag in refused.value.flags] == [(None, 8)]
    sheet = tmp_path / "past.csv"
    lines = [f"{one['heat']},{one['speed']},{one['on']},{y}" for one, y in zip(rows, values, strict=True)]
    sheet.write_text("heat,speed,on,outcome\n" + "\n".join(lines))
    with pytest.raises(SurprisingOutcomesError, match="row 9"):  # of the file, which has a header
        study.import_sheet(sheet, "last year", insist=False)
    with pytest.warns(SurprisingOutcomeWarning, match="row 9"):
        assert study.import_sheet(sheet, "last year") == 20


def test_what_is_kept_between_outcomes_says_the_same() -> None:
    """The fit is not made again for each outcome, and no decision rests on it."""
    study = oven()
    told(study, 30)
    outlook = Outlook.of(study.state)
    due = study.ask_numbers(1)
    value = np.array([90.0])
    (kept,) = surprises(study.state, due, value, outlook)
    (fresh,) = surprises(study.state, due, value)
    assert kept.expected == pytest.approx(fresh.expected)
    assert kept.low == pytest.approx(fresh.low)
    assert outlook.serves(study.state)
    study.correct(0, 71.0, "scale was off")
    assert not outlook.serves(study.state)


def test_runs_without_an_outcome_are_no_surprise() -> None:
    study = oven()
    told(study, 10)
    due = study.ask_numbers(2)
    assert surprises(study.state, due, np.array([np.nan, 70.0])) == ()


def test_a_tied_study_is_judged_by_its_parts() -> None:
    forbidden = [{"heat": "high", "speed": 4}]
    study = oven(forbidden=forbidden, noise_sd=None)
    told(study, 24)
    trial = study.ask()[0]
    with pytest.warns(SurprisingOutcomeWarning) as caught:
        study.tell(trial, 7.2)
    assert isinstance(caught[0].message, SurprisingOutcomeWarning)
    assert caught[0].message.flags[0].how == BY_FIT
