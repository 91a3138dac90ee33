"""What a study can say about its own assumptions, also when little or nothing can be said."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

import levers
from levers.studies.analysis import views
from levers.studies.analysis.diagnostics import additivity, residuals
from levers.studies.analysis.views import FactorEvidence, evidence
from levers.studies.state import Trial
from levers.studies.study import Study

SPACE: dict[str, list[str] | list[int]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3], "supplier": ["A", "B"]}
Value = Callable[[Trial], float]


def new(space: Any = SPACE, **settings: Any) -> Study:
    return levers.create_study("oven", space, **{"tolerance": 0.8, "noise_sd": 1.0, "seed": 1, **settings})


def noise(trial: Trial) -> float:
    return float(np.random.default_rng([5, trial.number]).normal())


def additive(trial: Trial) -> float:
    codes = trial.params.codes
    return 20 + 1.5 * codes[0] - 0.8 * (codes[1] == 1) + noise(trial)


def crossed(trial: Trial) -> float:
    """Heat and speed have to fit each other; neither matters alone."""
    codes = trial.params.codes
    return 20 + 3.0 * (codes[0] == codes[1]) + noise(trial)


def finish(study: Study, value: Value = additive) -> Study:
    while not study.is_finished:
        study.tell_many((trial, value(trial)) for trial in study.ask(1000))
    return study


def by_name(study: Study) -> dict[str, FactorEvidence]:
    return {row.factor: row for row in evidence(study.state)}


def test_residuals_agree_with_statsmodels_and_keep_the_outcomes_sign() -> None:
    study = finish(new(goal="minimize", tolerance=0.6))
    found = residuals(study.state)
    frame = study.trials_dataframe()
    y = frame["outcome"].to_numpy()
    columns = [np.ones(len(y))] + [
        (frame[name] == level).to_numpy().astype(float) for name, levels in SPACE.items() for level in levels[1:]
    ]
    oracle = sm.OLS(y, np.column_stack(columns)).fit()
    assert found.n_runs == len(y) == len(found.residual)
    assert found.trial.tolist() == list(range(len(y)))
    np.testing.assert_allclose(found.residual, oracle.resid, atol=1e-9)
    np.testing.assert_allclose(found.fitted, oracle.fittedvalues, atol=1e-9)
    np.testing.assert_allclose(found.standardised, oracle.get_influence().resid_studentized_internal, atol=1e-8)
    assert found.sd is not None
    np.testing.assert_allclose(found.sd**2, oracle.mse_resid)
    away = oracle.resid - oracle.resid.mean()
    assert found.autocorrelation is not None
    np.testing.assert_allclose(found.autocorrelation, (away[1:] @ away[:-1]) / (away @ away))
    assert {*found.stage} == {block.batch.stage for block in study.state.blocks}
    assert (np.diff(found.observed) >= 0).all()
    assert (np.diff(found.normal) > 0).all()
    assert math.isclose(found.observed[-1], found.standardised.max())


def test_few_points_are_drawn_but_the_largest_always_and_summaries_count_all_runs() -> None:
    wild = 100
    study = finish(new(tolerance=0.25), lambda trial: additive(trial) + 30 * (trial.number == wild))
    everything, some = residuals(study.state), residuals(study.state, most=30)
    assert everything.n_runs > 200
    assert len(some.residual) == len(some.stage) == len(some.standardised) <= 30
    assert wild in some.trial
    assert some.n_outliers == everything.n_outliers == 1
    assert (some.sd, some.skewness, some.n_runs) == (everything.sd, everything.skewness, everything.n_runs)
    assert len(some.normal) == len(some.observed) <= 200
    assert np.ptp(some.trial) > 0.8 * some.n_runs


def test_residuals_are_in_the_order_of_telling() -> None:
    study = new(noise_sd=None, tolerance=1.0)
    trials = study.ask(1000)[::-1]
    for i, trial in enumerate(trials):
        study.tell(trial, float(np.sin(i / 5)))  # a slow swing in time
    found = residuals(study.state)
    assert found.trial.tolist() == [trial.number for trial in trials]
    assert found.autocorrelation is not None
    assert found.autocorrelation > 0.5
    assert not found.noise_known
    assert found.noise_sd is not None  # the bound that the first block gave


def test_levers_that_fit_each_other_are_named() -> None:
    found = additivity(finish(new(), crossed).state)
    assert found.in_doubt
    assert [(found.names[c.first], found.names[c.second]) for c in found.suspects] == [("heat", "speed")]
    assert "heat and speed seem to interact" in found.summary
    assert "one lever of 9 combinations" in found.summary
    assert (np.nanargmax(found.cells[0].means, axis=1) == [0, 1, 2]).all()
    assert found.checks[0].adjusted < found.level


def test_no_sign_is_no_alarm() -> None:
    study = finish(new(tolerance=0.4))
    found = additivity(study.state)
    assert (found.in_doubt, found.suspects, found.reason) == (False, (), None)
    assert found.summary == "no sign of interaction in 3 pairs"
    assert found.noise_used == 1.0
    assert found.n_runs == study.status().n_complete


def test_drift_between_blocks_is_no_interaction() -> None:
    study = new(tolerance=0.4)
    rng = np.random.default_rng(2)
    rows = np.where(rng.random((60, 3)) < 0.6, 1, rng.integers(0, [3, 3, 2], (60, 3)))
    study.import_arrays(rows, -500 + 1.5 * rows[:, 0] - 0.8 * (rows[:, 1] == 1) + rng.normal(size=60), "other oven")
    found = additivity(finish(study, lambda trial: additive(trial) + 50 * trial.block).state)
    assert not found.in_doubt
    assert found.noise_used == 1.0
    shifted = residuals(study.state)  # whereas residuals are there to show it
    assert shifted.sd is not None
    assert shifted.sd > 10
    assert (shifted.trial == -1).sum() == (shifted.block == -1).sum() == shifted.stage.count("past data") == 60
    assert found.n_runs == shifted.n_runs == study.status().n_complete + 60


def test_a_wrong_noise_is_not_taken_for_interaction() -> None:
    found = additivity(finish(new(), lambda trial: 8 * additive(trial)).state)
    assert not found.in_doubt
    assert found.noise_used is None
    assert "where a noise of 1 was stated: interactions or more noise" in found.summary


def test_tied_levers_are_tested_for_what_they_do_to_each_other() -> None:
    """Forbidden combinations tie levers together, but their effects are still taken to add up."""
    study = finish(new(tolerance=0.3, forbidden=[{"heat": "high", "speed": 3}]), crossed)
    found = additivity(study.state)
    assert found.names == ("heat", "speed", "supplier")
    assert found.in_doubt
    assert (found.suspects[0].first, found.suspects[0].second) == (0, 1)


def test_merged_levers_are_tested_as_the_algorithm_sees_them() -> None:
    study = finish(new(merged=[["heat", "speed"]]), crossed)
    found = additivity(study.state)
    assert found.names == ("heat + speed", "supplier")
    assert not found.in_doubt  # what fits each other is one lever now, so the sum of effects holds
    assert found.cells[0].means.shape == (9, 2)
    rows = by_name(study)
    assert rows["heat + speed"].shown
    assert {"heat", "speed"} <= set(study.verdict().parents or ())


def test_corrections_count_at_once() -> None:
    study = finish(new(tolerance=0.3), lambda trial: 1e4 if trial.number == 90 else additive(trial))
    before = residuals(study.state)
    study.correct(90, additive(study.trial(90)), "typo")
    finish(study)
    after = residuals(study.state)
    assert before.n_outliers == 1
    assert after.n_outliers == 0
    assert np.abs(after.residual).max() < 6
    assert not additivity(study.state).in_doubt


@pytest.mark.parametrize("noise_sd", [1.0, None])
def test_nothing_told_and_one_run_say_so(noise_sd: float | None) -> None:
    study = new(noise_sd=noise_sd)
    for n_told in (0, 1):
        found = residuals(study.state)
        assert (found.n_runs, len(found.residual), found.sd, found.n_outliers) == (n_told, n_told, None, 0)
        assert len(found.normal) == len(found.observed) == 0
        assert additivity(study.state).reason == "no round of runs is complete yet"
        for row in evidence(study.state):
            assert (row.contrast, row.ratio, row.t, row.shown) == (None, None, None, False)
        study.tell_many([(trial, 2.0) for trial in study.ask(1)])


@pytest.mark.parametrize("noise_sd", [1.0, None])
def test_constant_outcomes_alarm_nobody(noise_sd: float | None) -> None:
    study = finish(new(noise_sd=noise_sd), lambda trial: 0.3)
    found, left = additivity(study.state), residuals(study.state)
    assert not found.in_doubt
    assert "fits every run exactly" in str(found.reason)
    assert (left.sd, left.skewness, left.autocorrelation, left.n_outliers) == (None, None, None, 0)
    assert not any(row.shown for row in evidence(study.state))


def test_a_lever_with_one_level_left_and_a_single_lever() -> None:
    study = finish(new(tolerance=0.2), lambda trial: additive(trial) + 20 * (trial.params["heat"] == "low"))
    gone = {row.level for row in study.effects() if row.factor == "heat" and row.standing == "ruled out"}
    assert gone == {"mid", "high"}
    found = additivity(study.state)
    assert not found.in_doubt
    assert by_name(study)["heat"].shown
    single = additivity(finish(new({"heat": ["low", "high"]}), noise).state)
    assert single.reason == "a single lever has nothing to interact with"


@pytest.mark.parametrize(
    "settings", [{}, {"noise_sd": None}, {"max_parents": 1}, {"goal": "minimize"}, {"min_effect": 1.0}]
)
def test_evidence_agrees_with_the_verdict_at_every_look(settings: dict[str, Any]) -> None:
    study = new(tolerance=0.3, **settings)
    n_shown = 0
    while not study.is_finished:
        study.tell_many((trial, additive(trial)) for trial in study.ask(1000))
        found = views.certified(study.state)
        assert found is not None
        for row in evidence(study.state):
            assert row.shown == (row.factor in (found.parents or ()))
            assert row.ratio is not None
            assert row.t is None
            assert row.contrast is not None
            assert row.radius is not None
            assert math.isclose(row.ratio, row.contrast / row.radius)
            assert row.shown == (row.ratio > 1) or "max_parents" in settings
            n_shown += row.shown
    assert n_shown > 0
    heat = by_name(study)["heat"]
    assert heat.better == ("low" if settings.get("goal") else "high")
    assert heat.worse != heat.better
    assert heat.shown


@pytest.mark.parametrize("algorithm", ["modl", "parents-first", "successive-elimination"])
def test_other_algorithms_get_a_description_only(algorithm: str) -> None:
    study = new({"a": [1, 2], "b": [1, 2]}, tolerance=1.0, noise_sd=0.5, algorithm=algorithm)
    finish(study, lambda trial: 2.0 * (trial.params["a"] == 2) + 0.5 * noise(trial))
    a, b = evidence(study.state)
    assert (a.better, a.worse, a.ratio, a.radius) == (2, 1, None, None)
    assert a.t is not None
    assert b.t is not None
    assert a.t > 5 > b.t
    assert [row.shown for row in (a, b)] == [row.factor in (study.verdict().parents or ()) for row in (a, b)]
    assert not additivity(study.state).in_doubt


def test_a_verdict_says_when_its_assumption_is_in_doubt() -> None:
    assert "ASSUMPTION IN DOUBT: heat and speed seem to interact" in finish(new(), crossed).verdict().statement
    assert "DOUBT" not in finish(new()).verdict().statement
