"""Fresh runs that confirm a verdict, or put it in doubt: from the event to the answer, in every storage of a study."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import levers
from harness.confirmed import FALSE, HONEST, confirmed
from levers.algorithms.base import Batch
from levers.core.codec import to_json
from levers.core.model.confirmation import CONFIRMED, IN_DOUBT, MEASURED, SHARE, UNDECIDED
from levers.core.space import Assignment
from levers.errors import NotFinishedError, StudyError
from levers.studies.analysis.verification import read_log, verify_log
from levers.studies.events import Checked, ConfirmationOpened
from levers.studies.log import freeze, thaw
from levers.studies.state import TrialState
from levers.studies.storage.base import decoded, encoded, new_log
from levers.studies.storage.memory import MemoryStorage
from levers.studies.study import Study

LEVERS: dict[str, list[levers.Level]] = {"heat": ["low", "high"], "speed": [1, 2, 3]}
BASELINE = {"heat": "low", "speed": 1}
Truth = Callable[[Assignment], float]


def truth(params: Assignment) -> float:
    return 3.0 * (params["heat"] == "high") + float(params["speed"])


def lucky(params: Assignment) -> float:
    """Another truth than the one that the study saw."""
    return truth(params) - 4.0 * (params["heat"] == "high")


def noisy(of: Truth, seed: int = 1) -> Truth:
    rng = np.random.default_rng(seed)
    return lambda params: of(params) + float(rng.normal())


def finished(storage: str | None = None, **more: object) -> Study:
    terms: dict[str, object] = {"tolerance": 1.0, "noise_sd": 1.0, "seed": 3} | more
    study = levers.create_study("oven", LEVERS, storage=storage, **terms)  # type: ignore[arg-type]
    study.optimize(noisy(truth))
    return study


def test_fresh_runs_are_of_setting_and_baseline_in_a_mixed_order() -> None:
    study = finished(baseline=BASELINE)
    before = study.verdict()
    study.confirm(12, "before we buy")
    assert study.status().state == "confirming"
    assert not study.is_finished
    assert study.verdict().confirmation.answer == UNDECIDED  # type: ignore[union-attr]
    trials = study.ask(100)
    is_best = [dict(trial.params) == dict(before.assignment) for trial in trials]
    assert len(trials) == 24
    assert {trial.stage for trial in trials} == {"confirmation"}
    assert all(sum(is_best[i : i + 2]) == 1 for i in range(0, 24, 2))  # each beside one of the baseline
    assert len({tuple(is_best[i : i + 2]) for i in range(0, 24, 2)}) == 2  # and not always first
    fresh = noisy(truth, 2)
    study.tell_many((trial, fresh(trial.params)) for trial in trials)
    after = study.verdict()
    found = after.confirmation
    assert found is not None
    assert (found.answer, found.compared, found.look) == (CONFIRMED, "gain", 1)
    assert (found.n_runs, found.n_baseline, found.n_awaited) == (12, 12, 0)
    assert found.gain is not None
    assert found.gain.low < 5.0 < found.gain.high  # type: ignore[operator]
    assert found.predicted_gain is not None
    assert found.predicted is not None
    # what is certified, estimated and counted does not rest on them
    assert (after.tolerance, after.effects, after.n_runs) == (before.tolerance, before.effects, before.n_runs)
    assert not after.doubts
    assert study.status().state == "finished"
    assert study.verify().ok


def test_a_prediction_that_fresh_runs_contradict_is_in_doubt_and_held() -> None:
    study = finished()
    study.confirm(12)
    study.optimize(noisy(lucky, 2))
    found = study.verdict()
    assert found.confirmation is not None
    assert found.confirmation.answer == IN_DOUBT
    assert [doubt.kind for doubt in found.doubts] == ["confirmation"]
    assert "12 fresh runs" in found.doubts[0].text
    assert study.is_held
    assert study.verify().ok
    study.finish("known")
    assert study.status().state == "finished"
    assert study.verdict().doubts  # for ever


def test_a_forged_confirmation_is_found() -> None:
    study = finished()
    study.confirm(3)
    header, stored = read_log(study.storage, study.id)
    record = decoded([stored[-1]])[0]
    assert isinstance(record.event, ConfirmationOpened)
    other = replace(record.event, batch=Batch(1 - record.event.batch.codes, "confirmation"))
    made = encoded([replace(record, event=other)])[0]
    made = replace(made, digest=made.digest_after(stored[-2].digest))
    found = verify_log(replace(header, head=made.digest), [*stored[:-1], made])
    assert [one.kind for one in found.differences] == ["ConfirmationOpened"]


def test_fails_leases_corrections_and_exclusions_work_as_for_other_runs() -> None:
    now = [1000.0]
    study = finished()
    study = Study(study.name, study.storage, study.id, clock=lambda: now[0])
    study.confirm(3)
    first, second = study.ask(2, lease=10)
    study.fail(first, "dropped")
    now[0] += 60
    again = study.ask(10)
    assert len(again) == 3  # both rows once more, and the third
    study.tell_many((trial, 500.0 if i == 0 else 6.0) for i, trial in enumerate(again))
    assert study.trial(second.number).state is TrialState.STALE
    assert study.verdict().confirmation.answer == IN_DOUBT  # type: ignore[union-attr]
    study.correct(again[0], 6.0, "typo")
    assert study.verdict().confirmation.answer == CONFIRMED  # type: ignore[union-attr]
    assert study.status().state == "finished"
    study.exclude(again[1], "door was open")
    assert study.verdict().confirmation.n_runs == 2  # type: ignore[union-attr]
    assert study.verify().ok


def test_finish_ends_it_on_what_has_come_in_and_confirming_again_adds_to_it() -> None:
    study = finished()
    study.confirm(12)
    with pytest.raises(StudyError, match="under way"):
        study.confirm(2)
    with pytest.raises(StudyError, match="under way"):
        study.go_on(4)
    study.tell_many((trial, 6.0) for trial in study.ask(5))
    study.finish("enough")
    found = study.verdict().confirmation
    assert found is not None
    assert (found.answer, found.n_runs) == (CONFIRMED, 5)
    assert found.level == pytest.approx(0.04)
    study.confirm(4)
    study.tell_many((trial, 6.0) for trial in study.ask(10))
    found = study.verdict().confirmation
    assert found is not None
    assert (found.n_runs, found.look) == (9, 2)
    assert found.level == pytest.approx(0.005)
    study.go_on(6)
    study.optimize(noisy(truth, 5))
    assert study.verdict().confirmation.look == 3  # type: ignore[union-attr]
    assert study.verify().ok


def test_a_round_without_an_outcome_is_no_look() -> None:
    study = finished(tolerance=None, budget=30)
    study.confirm(6)
    study.tell_many((trial, 6.0) for trial in study.ask(6))
    before = study.verdict().confirmation
    for n_runs in (60, 70):
        study.restate(budget=n_runs, reason="more")
        study.finish("not after all")
    assert study.verdict().confirmation == before
    assert before is not None
    assert before.look == 1
    assert study.verify().ok


def test_a_round_that_is_given_up_washes_no_doubt_away_and_older_logs_are_not_accused() -> None:
    study = finished(tolerance=None, budget=30)
    study.confirm(6)
    study.tell_many((trial, 4.4 + 0.1 * (i % 3)) for i, trial in enumerate(study.ask(6)))
    study.restate(budget=60, reason="more")
    study.finish("not after all")
    found = study.verdict().confirmation
    assert found is not None
    assert (found.answer, found.look) == (IN_DOUBT, 1)
    assert found.p_value is not None
    assert 0.005 < found.p_value < 0.04  # of a second look, which it was up to edition 3, it would be no doubt
    *before, last = study.storage.read(study.id, 0)
    washed = replace(last, data=to_json(Checked((), study.state.n_closed)))
    for rules, ok in ((3, True), (4, False)):
        storage = MemoryStorage()
        log = new_log("oven", [replace(one, rules=rules) for one in (*before, washed)])
        told = Study("oven", storage, storage.create("oven", log)).verify()
        assert told.ok is ok
        assert any("another level" in one.text for one in told.remarks) is ok


def test_a_correction_that_changes_the_setting_ends_the_confirmation_of_the_old_one() -> None:
    study = levers.create_study("two", {"heat": [1, 2]}, budget=12, seed=1)
    trials = []
    while due := study.ask(12):
        study.tell_many((trial, 1.0 * (trial.params["heat"] == 2) + 0.1 * (trial.number % 3)) for trial in due)
        trials += due
    assert study.verdict().assignment["heat"] == 2
    study.confirm(3)
    out = study.ask(2)
    study.correct_many([(trial, 9.0) for trial in trials if trial.params["heat"] == 1], "swapped")
    assert study.verdict().assignment["heat"] == 1
    assert study.trial(out[0].number).state is TrialState.ABANDONED
    found = study.verdict().confirmation
    assert found is not None
    assert (found.answer, found.n_runs) == (UNDECIDED, 0)
    assert study.verify().ok


def test_a_correction_that_changes_no_setting_leaves_it_under_way() -> None:
    study = finished()
    told = next(t for t in study.trials_dataframe()["trial"].to_list())
    study.confirm(3)
    out = study.ask(3)
    study.correct(told, study.trial(told).value + 0.01, "typo")  # type: ignore[operator]
    assert study.status().state == "confirming"
    study.tell_many((trial, 6.0) for trial in out)
    assert study.verdict().confirmation.answer == CONFIRMED  # type: ignore[union-attr]
    assert study.verify().ok


def test_it_waits_for_a_verdict_and_for_a_number_of_runs() -> None:
    study = levers.create_study("oven", LEVERS, tolerance=1.0, noise_sd=1.0, seed=3)
    with pytest.raises(NotFinishedError, match="no verdict to confirm yet"):
        study.confirm(12)
    study.optimize(noisy(truth))
    for n in (0, 1, 10_001):
        with pytest.raises(levers.errors.InvalidSettingError, match="n_runs"):
            study.confirm(n)


@pytest.mark.parametrize("algorithm", ["modl", "thompson", "random"])
def test_other_algorithms_are_confirmed_too(algorithm: str) -> None:
    terms: dict[str, object] = {"tolerance": 1.5, "noise_sd": 1.0} if algorithm == "modl" else {"budget": 60}
    study = levers.create_study("oven", LEVERS, algorithm=algorithm, seed=1, **terms)  # type: ignore[arg-type]
    study.optimize(noisy(truth))
    study.confirm(6)
    study.optimize(noisy(truth, 2))
    assert study.verdict().confirmation.answer == CONFIRMED  # type: ignore[union-attr]
    assert study.verify().ok


def test_without_noise_nothing_is_predicted_and_it_is_measured_only() -> None:
    study = levers.create_study("exact", LEVERS, budget=12, seed=1)
    study.optimize(truth)
    study.confirm(2)
    study.optimize(truth)
    found = study.verdict().confirmation
    assert found is not None
    assert (found.answer, found.measured.value) == (MEASURED, 6.0)  # type: ignore[union-attr]


def test_it_survives_another_process_a_snapshot_and_a_sheet(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'levers.db'}"
    study = finished(url, baseline=BASELINE)
    study.confirm(2)
    again = levers.load_study("oven", url)
    sheet = tmp_path / "fresh.csv"
    assert again.ask_sheet(sheet, 10) == 4
    rows = sheet.read_text().splitlines()
    filled = [rows[0], *(f"{row.rstrip(',')},{6.0 if 'high' in row else 1.0}" for row in rows[1:])]
    sheet.write_text("\n".join(filled))
    again.tell_sheet(sheet)
    state = again.frozen()
    restored = thaw(freeze(state))
    assert restored is not None
    assert [block.role for block in restored.blocks] == [block.role for block in state.blocks]
    assert study.verdict().confirmation.n_baseline == 2  # type: ignore[union-attr]
    copy = tmp_path / "verdict.json"
    study.export(copy)
    assert '"Confirmation"' in copy.read_text()


def test_honest_studies_are_seldom_in_doubt_and_false_predictions_often() -> None:
    """The small version of benchmarks/confirm.py."""
    few = next(kind for kind in HONEST if kind.name.startswith("no lever matters, 10 of 2 levels, budget 40"))
    n = 8
    doubted = sum(confirmed(few, seed)[1][-1].answer == IN_DOUBT for seed in range(n))
    assert binom.sf(doubted - 1, n, SHARE) > 0.001
    off = next(kind for kind in FALSE if "budget 120, off by 2" in kind.name)
    assert sum(confirmed(off, seed)[1][-1].answer == IN_DOUBT for seed in range(3)) >= 2
