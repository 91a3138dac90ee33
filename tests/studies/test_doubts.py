"""What a study says when its outcomes contradict what its certificate rests on: who is named, and what to do."""

import math
from typing import Any

import numpy as np
import pytest

import levers
from levers.algorithms.cfs.pooled.verdict import DRAWN_IN
from levers.studies.analysis.diagnostics import AT_END, AT_LATER_ENDS, additivity, level_now, residuals
from levers.studies.analysis.doubts import SHARES, chance, checks, doubts, doubts_since, share
from levers.studies.study import Study

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
"""Outcomes that surprise are what is tested here."""
SPACE: dict[str, list[Any]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3], "tray": ["A", "B"]}
EFFECTS = np.array([[0.0, 0.4, 0.8], [0.0, 0.3, 0.1], [0.0, 0.2, 0.0]])


def run(study: Study, seed: int = 0, change: Any = None, most: int = 100_000) -> Study:
    """All runs of a study; `change` may do something to outcomes, given the rows, the trial numbers and a generator."""
    rng = np.random.default_rng([seed, 3])
    while study.state.open_block is not None and study.state.n_complete < most:
        trials = study.ask(100_000)
        codes = np.array([trial.params.codes for trial in trials])
        numbers = np.array([trial.number for trial in trials])
        y = 70 + EFFECTS[np.arange(codes.shape[1]), codes].sum(axis=1) + rng.normal(size=len(trials))
        if change is not None:
            y = change(y, codes, numbers, rng)
        study.tell_many(zip(trials, y.tolist(), strict=True))
    return study


def make(**settings: Any) -> Study:
    return levers.create_study("line", SPACE, **{"tolerance": 0.8, "noise_sd": 1.0, "seed": 1, **settings})


def kinds(study: Study) -> set[str]:
    return {doubt.kind for doubt in doubts(study.state)}


@pytest.mark.parametrize("noise_sd", [1.0, None])
def test_an_honest_study_is_not_in_doubt_and_all_checks_can_be_read(noise_sd: float | None) -> None:
    study = run(make(noise_sd=noise_sd))
    assert doubts(study.state) == ()
    found = checks(study.state)
    expected = {"outlier", "spread", "drift", "serial", "shape", "nonadditivity"}
    assert {result.check.kind for result in found} == expected | ({"noise"} if noise_sd else set())
    for result in found:
        assert 0 <= result.check.p_value <= 1
        more = 0.006 if result.check.kind == "noise" else 0.0  # nothing is claimed about levers, none hard to change
        assert math.isclose(result.level, AT_END * (SHARES[result.check.kind] + more))
        assert not result.alarms
        assert result.remark.text


def test_a_typo_is_named_with_its_trial_and_block() -> None:
    def typed(y: Any, codes: Any, numbers: Any, rng: Any) -> Any:
        return np.where(numbers == 5, 10 * y, y)

    for noise_sd in (1.0, None):
        study = run(make(noise_sd=noise_sd, block_size=4), change=typed, most=300)
        (doubt,) = doubts(study.state)
        assert (doubt.kind, doubt.trials, doubt.block) == ("outlier", (5,), 2)
        assert doubt.p_value is not None
        assert doubt.p_value < 1e-6
        assert "trial 5" in doubt.text
        assert "exclude" in doubt.text


@pytest.mark.parametrize("noise_sd", [1.0, None])
def test_a_typo_is_in_doubt_as_soon_as_what_is_said_rests_on_it(noise_sd: float | None) -> None:
    """Rounds are checked when there are a third more runs; until then "within 0 of the best" was said of a typo."""

    def typed(y: Any, codes: Any, numbers: Any, rng: Any) -> Any:
        return np.where(numbers == n_complete + 2, 100 * y, y)

    study = make(noise_sd=noise_sd, tolerance=0.3)
    n_complete = run(study, most=40).state.n_complete
    assert not study.status().doubts
    rng, trials = np.random.default_rng(5), study.ask(8)
    for trial in trials:
        codes = np.array([trial.params.codes])
        y = 70 + EFFECTS[np.arange(3), codes].sum(axis=1) + rng.normal(size=1)
        study.tell(trial, float(typed(y, codes, np.array([trial.number]), rng)[0]))
    assert study.state.open_block is not None
    assert study.state.n_complete < 1.35 * study.state.checked_runs[-1]  # no check is due
    status, best = study.status(), study.best()
    assert {one.trials for one in status.doubts if one.kind == "outlier"} == {(n_complete + 2,)}
    assert best is not None
    assert best.in_doubt
    study.exclude(n_complete + 2, reason="mistyped")
    assert not study.status().doubts


def test_honest_outcomes_told_one_by_one_are_not_in_doubt_between_checks() -> None:
    for seed in range(3):
        study, rng = make(seed=seed), np.random.default_rng([seed, 8])
        while not study.is_finished and study.state.n_complete < 60:
            for trial in study.ask(4):
                codes = np.array(trial.params.codes)
                study.tell(trial, 70 + float(EFFECTS[np.arange(3), codes].sum() + rng.normal()))
            assert doubts_since(study.state) == ()


def test_a_noise_stated_too_small_is_said_with_both_numbers() -> None:
    study = run(make(noise_sd=0.5))
    doubt = doubts(study.state)[0]  # what explains most comes first
    assert doubt.kind == "noise"
    assert "0.5" in doubt.text
    assert "restate the noise" in doubt.text


def test_spread_names_its_lever_and_level() -> None:
    def wide(y: Any, codes: Any, numbers: Any, rng: Any) -> Any:
        return y + np.where(codes[:, 0] == 2, 3.0, 0.0) * rng.normal(size=len(y))

    study = run(make(noise_sd=None, tolerance=0.7), change=wide)
    found = {doubt.kind: doubt for doubt in doubts(study.state)}
    assert found["spread"].levers == ("heat",)
    assert "heat=high" in found["spread"].text


def test_days_are_no_doubt_where_they_are_blocks_and_one_where_nobody_said_so() -> None:
    effects = np.random.default_rng(4).normal(size=400)

    def daily(y: Any, codes: Any, numbers: Any, rng: Any) -> Any:
        return y + 2 * effects[numbers // 8]

    assert kinds(run(make(noise_sd=None, block_size=8), change=daily)) == set()
    assert "serial" in kinds(run(make(noise_sd=None), change=daily))


def test_drift_inside_a_round_is_seen() -> None:
    def drifting(y: Any, codes: Any, numbers: Any, rng: Any) -> Any:
        return y + 0.3 * numbers

    study = make(noise_sd=None, tolerance=None, budget=40, aim="certify")
    assert kinds(run(study, change=drifting)) & {"drift", "serial"}


def test_claims_about_levers_are_held_against_their_effects() -> None:
    large = np.array([[0.0, 5.0, 1.0], [0.0, 1.0, 5.0], [0.0, 0.0, 0.0]])

    def louder(y: Any, codes: Any, numbers: Any, rng: Any) -> Any:
        return y + large[np.arange(3), codes].sum(axis=1)

    study = run(make(max_parents=1, tolerance=0.5), change=louder)
    found = {doubt.kind: doubt for doubt in doubts(study.state)}
    assert "max_parents" in found
    assert "at most 1" in found["max_parents"].text
    assert "max_parents" not in kinds(run(make(max_parents=3, tolerance=0.5), change=louder))

    study = run(make(min_effect=9.0, tolerance=0.3), change=louder)
    found = {doubt.kind: doubt for doubt in doubts(study.state)}
    assert found["min_effect"].levers[0] in SPACE


def test_an_outcome_whose_logarithm_adds_up_is_said_to_bend() -> None:
    def grown(y: Any, codes: Any, numbers: Any, rng: Any) -> Any:
        return 30 * np.exp(0.6 * codes.sum(axis=1)) + (y - 70)

    study = run(make(tolerance=None, budget=60, aim="certify", noise_sd=None), change=grown)
    found = {doubt.kind: doubt for doubt in doubts(study.state)}
    assert "nonadditivity" in found
    assert "better together" in found["nonadditivity"].text
    assert "outlier" not in found


PAIRED: dict[str, list[Any]] = {name: ["off", "on"] for name in "abcdefgh"}


def paired(seed: int, change: Any = None) -> Study:
    """A study with a budget of levers that help in pairs: the setting is chosen by a fit with pairs."""
    study = levers.create_study("line", PAIRED, budget=80, seed=seed)
    rng = np.random.default_rng([seed, 3])
    while study.state.open_block is not None:
        trials = study.ask(100_000)
        codes = np.array([trial.params.codes for trial in trials])
        both = 3.0 * (codes[:, 0] == codes[:, 1]) + 2.0 * (codes[:, 2] != codes[:, 3]) + codes[:, 4]
        y = 40 + both + 0.2 * rng.normal(size=len(trials))
        if change is not None:
            y = change(y, np.array([trial.number for trial in trials]))
        study.tell_many(zip(trials, y.tolist(), strict=True))
    return study


def test_good_runs_of_levers_that_work_together_are_no_outliers() -> None:
    """Effects that are added up leave the best runs far out: the fit that chose the setting does not."""
    for seed in range(8):
        study = paired(seed)
        verdict = study.verdict()
        provisos = [one for one in verdict.provisos if one.kind != DRAWN_IN]  # by 3 of their sds, at times
        assert [one.kind for one in provisos] == ["work together", "interaction", "checked"]
        assert {"a", "b"} <= set(provisos[1].levers)
        assert verdict.doubts == ()
        assert [result.check.kind for result in checks(study.state)] == ["outlier"]
        found = additivity(study.state)
        assert found.suspects
        assert not found.in_doubt
        assert "set together" in found.summary
        assert "certificate" not in found.summary
        left = residuals(study.state)
        assert left.together
        assert left.n_outliers == 0
        assert left.sd == pytest.approx(0.2, abs=0.08)


def test_a_typo_is_named_alone_where_levers_work_together() -> None:
    studies = [paired(seed, lambda y, numbers: np.where(numbers == 70, y + 8, y)) for seed in range(4)]
    together = [study for study in studies if residuals(study.state).together]
    assert len(together) >= 2  # a wrong outcome may hide that effects do not add up
    for study in together:
        (doubt,) = doubts(study.state)
        assert (doubt.kind, doubt.trials) == ("outlier", (70,))


def test_an_outlier_is_no_interaction() -> None:
    def typed(y: Any, codes: Any, numbers: Any, rng: Any) -> Any:
        return np.where(numbers == 7, 7000.0, y)

    for seed in range(8):
        study = run(make(seed=seed, noise_sd=None), seed, typed, most=150)
        assert kinds(study) == {"outlier"}


def test_a_typo_among_fewer_runs_than_parameters_is_named() -> None:
    study = levers.create_study("many", levers.Space.sized([3] * 200), tolerance=1.0, noise_sd=1.0, max_parents=3)
    rng = np.random.default_rng(1)
    trials = study.ask(1000)
    y = [70.0 + 2.0 * trial.params.codes[0] + float(rng.normal()) for trial in trials]
    y[9] *= 10
    study.tell_many(zip(trials, y, strict=True))
    assert study.state.n_complete < 400
    assert [(doubt.kind, doubt.trials) for doubt in doubts(study.state)] == [("outlier", (9,))]


def test_imported_runs_are_looked_at_and_have_no_place_in_time() -> None:
    study = make()
    codes = np.random.default_rng(2).integers(0, 2, (40, 3))
    rows = [
        {"heat": SPACE["heat"][a], "speed": SPACE["speed"][b], "tray": SPACE["tray"][c]} for a, b, c in codes.tolist()
    ]
    study.import_runs(rows, np.append(np.random.default_rng(5).normal(70, 1, 39), 7000.0).tolist(), "last year")
    run(study, most=20)
    (doubt,) = doubts(study.state)
    assert doubt.kind == "outlier"
    assert doubt.trials == ()
    assert "imported" in doubt.text


def test_levels_of_alarm_add_up_to_the_share_over_all_looks_and_ends() -> None:
    study = run(make())
    state = study.state.copy()
    assert level_now(state, 1.0) == AT_END
    ends, looks = [AT_END], []
    for f in range(2, 400):
        state.checked_ends = [1] * (f - 1)
        ends.append(level_now(state, 1.0))
        assert math.isclose(ends[-1], AT_LATER_ENDS / (f * (f - 1)))
    awaiting = make().state
    for b in range(1, 400):
        awaiting.checked_runs = [-1] * (b - 1)
        looks.append(level_now(awaiting, 1.0))
    assert 0.97 <= sum(ends) + sum(looks) <= 1.0 + 1e-9
    assert math.isclose(sum(SHARES.values()), 0.03)


def test_what_a_study_has_no_use_for_goes_to_the_noise() -> None:
    alone = levers.create_study("one", {"heat": [1, 2]}, tolerance=0.5, noise_sd=1.0)
    claimed = make(max_parents=2, min_effect=0.5)
    assert math.isclose(share(alone.state, "noise"), 0.022)
    assert math.isclose(share(make().state, "noise"), 0.014)
    assert math.isclose(share(claimed.state, "noise"), 0.01)
    assert share(alone.state, "drift") == SHARES["drift"]


def test_numbers_are_said_as_people_read_them() -> None:
    assert [chance(p) for p in (0.04, 1e-7, 1e-12)] == ["p = 0.04", "p = 1e-07", "p < 1e-9"]
