"""Studies that doubt, are ended, go on, leave outcomes out and change their terms: the fold, and what follows."""

from contextlib import suppress
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import levers
from levers.algorithms.base import PAST, Remark
from levers.errors import StudyError, TrialError
from levers.studies import events, log
from levers.studies.analysis.describe import words
from levers.studies.library import create_study
from levers.studies.log import freeze, thaw
from levers.studies.state import AS_RUN, OPEN, SET_ASIDE, StudyState, Trial, TrialState
from levers.studies.study import Study

SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4]}
TYPO = 5
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
"""A typo may be asked about when it is told; here it is meant."""


def new(name: str = "oven", **settings: Any) -> Study:
    return create_study(name, SPACE, **{"tolerance": 0.8, "noise_sd": 1.0, "seed": 1, **settings})


def value(trial: Trial) -> float:
    """The same for every run of a trial, so that a study told again goes the same way."""
    noise = np.random.default_rng([trial.number, *trial.params.codes]).normal()
    return round(float(70 + 2.0 * (trial.params["heat"] == "mid") + noise), 3)


def tell(study: Study, n: int | None = None, typo: int | None = None) -> Study:
    """Tell n outcomes, or all that there are to tell."""
    while not study.is_finished and (n is None or n > 0):
        due = study.running()[:n] or study.ask(8 if n is None else min(n, 8))
        if not due:
            break
        study.tell_many((t, 100 * value(t) if t.number == typo else value(t)) for t in due)
        n = None if n is None else n - len(due)
    return study


def held(**settings: Any) -> Study:
    study = tell(new(**settings), typo=TYPO)
    assert study.is_held
    return study


def refolded(study: Study) -> StudyState:
    """The state again, from the log alone."""
    state = StudyState()
    for stored in study.storage.read(study.id, 0):
        state.apply(stored.record())
        state.head = stored.digest
    return state


def same(one: StudyState, other: StudyState) -> None:
    """Two states that say the same."""
    assert freeze(one) == freeze(other)


class TestHeld:
    def test_a_typo_holds_the_study(self) -> None:
        study = held()
        status = study.status()
        assert (status.state, study.is_finished, status.to_go.worst_case) == ("in doubt", True, 0)
        assert [doubt.trials for doubt in status.doubts] == [(TYPO,)]
        assert study.verdict().doubts == status.doubts
        assert study.verdict().promise.startswith("in doubt (otherwise within")
        assert "proven" not in study.verdict().statement
        assert not study.ask(5)
        same(study.state, refolded(study))

    def test_a_correction_answers_it(self) -> None:
        study = held()
        plain = value(study.trial(TYPO))
        study.correct(TYPO, plain, "decimal point")
        assert not study.status().doubts
        assert not tell(study).is_held
        twin = tell(new())
        assert study.verdict().assignment == twin.verdict().assignment
        same(study.state, refolded(study))

    def test_going_on_and_finishing_as_it_is(self) -> None:
        study = held()
        study.go_on(12, "more of it")
        block = study.state.open_block
        assert block is not None
        assert block.n_runs == 12
        assert study.status().doubts  # nothing has answered them
        tell(study)
        assert study.is_held
        verdict = study.finish("good enough")
        assert study.status().state == "finished"
        assert verdict.doubts
        assert any(remark.kind == "length chosen" for remark in verdict.provisos)
        with pytest.raises(StudyError, match="finished already"):
            study.finish()
        study.go_on()
        assert study.status().state == "running"
        same(study.state, refolded(study))

    def test_an_honest_study_is_not_held(self) -> None:
        study = tell(new())
        assert (study.is_finished, study.is_held, study.status().state) == (True, False, "finished")
        with pytest.raises(StudyError, match="finished already"):
            study.finish()


class TestFinish:
    def test_with_a_round_under_way(self) -> None:
        study = tell(new(tolerance=0.3), 20)
        study.ask(3)
        known = study.state.n_complete
        verdict = study.finish("the season is over")
        assert study.status().state == "finished"
        assert (verdict.n_runs, study.n_running) == (known, 0)
        assert [remark.kind for remark in verdict.provisos].count("stopped early") == 1
        last = study.state.blocks[-1]
        assert last.role == AS_RUN
        assert last.n_missing > 0
        states = study.state.trials.state[: study.state.trials.n_trials]
        assert not np.isin(states, [TrialState.WAITING, TrialState.RUNNING]).any()
        with pytest.raises(TrialError, match="not needed any more"):
            study.tell(study.state.trials.n_trials - 1, 1.0)
        same(study.state, refolded(study))

    def test_what_was_handed_out_is_told_too_late(self) -> None:
        study = tell(new(tolerance=0.3), 20)
        out = study.ask(2)
        study.finish()
        before = study.state.seq
        with pytest.raises(TrialError, match="not needed any more: its round was given up"):
            study.tell(out[0], 1.0)
        assert study.state.seq == before

    def test_nothing_to_answer_by(self) -> None:
        with pytest.raises(StudyError, match="no outcome yet"):
            new().finish()
        with pytest.raises(StudyError, match="cannot stop before its end"):
            tell(new(algorithm="modl"), 3).finish()
        with pytest.raises(StudyError, match="not at its end"):
            new().go_on()

    def test_a_correction_afterwards_keeps_it_ended(self) -> None:
        study = tell(new(tolerance=0.3), 20)
        study.finish()
        was = study.verdict()
        correction = study.correct(3, value(study.trial(3)) - 30.0, "typo")
        assert study.status().state == "finished"
        assert study.is_finished
        assert study.verdict().n_runs == was.n_runs
        assert study.verdict().doubts
        assert not study.is_held  # whoever ended it has answered
        assert correction == study.corrections()[-1]
        study.exclude(3, "left out after all")
        assert study.status().state == "finished"
        assert study.verdict().n_runs == was.n_runs - 1
        same(study.state, refolded(study))

    def test_at_every_moment(self) -> None:
        """A verdict can be had after any number of runs."""
        for n in (1, 2, 5, 11, 16, 23, 31):
            study = tell(new(tolerance=0.3), n)
            assert study.finish().n_runs == n


class TestExclude:
    @pytest.mark.parametrize("first", [True, False])
    def test_in_a_round_that_is_complete(self, first: bool) -> None:
        study = new(tolerance=0.3)
        tell(study, study.state.blocks[0].n_runs + (0 if first else study.state.blocks[0].n_runs))
        tell(study, 4)
        trial = 2 if first else study.state.blocks[1].first + 2
        n = study.status().n_complete
        one = study.exclude(trial, "door was open")
        assert (one.value, one.reason) == (value(study.trial(trial)), "door was open")
        found = study.trial(trial)
        assert (found.state, found.value) == (TrialState.EXCLUDED, one.value)
        assert study.status().n_complete == n - 1
        assert study.status().n_excluded == 1
        same(study.state, refolded(study))
        tell(study)
        text = next(remark.text for remark in study.verdict().provisos if remark.kind == "excluded")
        assert f"leaves out trial {trial}" in text
        assert "if it counted it would be" in text

    def test_in_the_round_under_way_its_run_is_asked_for_again(self) -> None:
        study = tell(new(), 4)
        n_trials = study.state.trials.n_trials
        study.exclude(2, "door was open")
        assert study.state.trials.n_trials == n_trials + 1
        [again] = study.ask(1)
        assert again.number == n_trials
        assert again.params == study.trial(2).params
        study.tell(again, value(again))
        with pytest.raises(TrialError, match="made again"):
            study.correct(2, 3.0, "right after all")
        with pytest.raises(TrialError, match="excluded"):
            study.exclude(2, "twice")
        same(study.state, refolded(study))

    def test_a_correction_brings_it_back(self) -> None:
        study = tell(new(), 4)
        study.exclude(2, "door was open")
        [again] = study.ask(1)
        study.correct(2, 71.0, "it was shut")
        assert (study.trial(2).state, study.trial(2).value) == (TrialState.COMPLETE, 71.0)
        assert study.trial(again.number).state is TrialState.ABANDONED
        assert not study.exclusions()
        with pytest.raises(TrialError, match="did the same run"):
            study.tell(again, 70.0)
        tell(study)
        assert study.status().n_complete == sum(block.n_runs for block in study.state.blocks)
        same(study.state, refolded(study))

    def test_several_at_once_all_or_none(self) -> None:
        study = held()
        before = study.state.seq
        with pytest.raises(TrialError):
            study.exclude_many([TYPO, 10_000], "wrong")
        assert study.state.seq == before
        assert len(study.exclude_many([TYPO, 6], "both went wrong")) == 2
        assert study.exclusions()[-1].changes
        with pytest.raises(levers.errors.InvalidSettingError, match="reason"):
            study.exclude(1, " ")
        same(study.state, refolded(study))

    def test_the_last_outcome_of_all(self) -> None:
        """Nothing is left to decide by: the study goes on as from its beginning."""
        study = tell(new(), 1)
        study.exclude(0, "wrong")
        assert study.status().n_complete == 0
        assert not tell(study).is_held


class TestRestate:
    def test_from_a_tolerance_to_a_budget_and_back(self) -> None:
        study = tell(new(tolerance=0.3), 22)
        out = study.ask(2)
        changes = study.restate(budget=40, reason="two days are left")
        assert changes == ("budget: 40, none before", "tolerance: none, 0.3 before")
        assert study.trial(out[0].number).state is TrialState.ABANDONED
        tell(study, 5)
        assert study.restate(tolerance=0.9) == ("budget: none, 40 before", "tolerance: 0.9, none before")
        assert (study.spec.tolerance, dict(study.spec.options).get("budget")) == (0.9, None)
        tell(study)
        verdict = study.verdict()
        assert [remark.kind for remark in verdict.provisos].count("restated") == 2
        assert verdict.tolerance is not None
        assert verdict.tolerance <= 0.9
        same(study.state, refolded(study))

    def test_a_budget_is_kept(self) -> None:
        study = tell(new(tolerance=0.3), 22)
        study.restate(budget=40)
        assert tell(study).status().n_complete == 40
        with pytest.raises(StudyError, match="were made already"):
            study.restate(budget=30)

    def test_then_an_earlier_outcome_is_corrected(self) -> None:
        """What came before the new terms is taken in once more under them; the study goes on from there."""
        study = tell(new(tolerance=0.3), 22)
        study.restate(budget=60)
        tell(study, 6)
        before = study.status().n_complete
        study.correct(1, 60.0, "typo")
        assert study.status().n_complete == before
        study.exclude(2, "door was open")
        assert study.status().n_complete == before - 1
        same(study.state, refolded(study))
        tell(study)
        assert study.status().n_complete == 60
        assert [block.role for block in study.state.blocks[: study.state.restated]] == [AS_RUN] * study.state.restated
        same(study.state, refolded(study))

    def test_runs_that_were_imported_since_count_once(self) -> None:
        study = tell(new(tolerance=0.3), 22)
        study.import_runs([{"heat": "low", "speed": 1}] * 2, [70.0, 70.5], "last year")
        study.restate(budget=60)
        study.import_runs([{"heat": "mid", "speed": 3}] * 3, [72.1, 71.9, 72.4], "this year")
        block = study.state.open_block
        assert block is not None
        tell(study, block.n_runs + 2)
        study.correct(1, 70.2, "typo")
        assert dict(study.finish().runs_by_stage)[PAST] == 5
        same(study.state, refolded(study))

    def test_the_noise(self) -> None:
        study = tell(new(noise_sd=0.2, tolerance=0.5))
        assert study.is_held
        assert study.restate(noise_sd=None, reason="it was a guess") == ("noise sd: not known, 0.2 before",)
        tell(study)
        assert (study.spec.noise_sd, study.status().state) == (None, "finished")
        assert not study.verdict().doubts
        with pytest.raises(StudyError, match="already"):
            study.restate(noise_sd=None)

    def test_a_finished_study(self) -> None:
        study = tell(new())
        study.restate(tolerance=0.4)
        assert study.status().state == "running"
        tell(study)
        found = study.verdict().tolerance
        assert found is not None
        assert found <= 0.4

    def test_what_makes_no_sense(self) -> None:
        study = tell(new(), 4)
        for terms in ({"tolerance": 0.3, "budget": 40}, {"tolerance": None}, {"seed": 3}, {"noise_sd": -1.0}):
            before = study.state.seq
            with pytest.raises(levers.errors.LeversError):
                study.restate(**terms)
            assert study.state.seq == before
        with pytest.raises(StudyError, match="other terms"):
            tell(new(algorithm="modl"), 3).restate(noise_sd=2.0)


class TestGoOn:
    def test_a_correction_in_the_added_round(self) -> None:
        """Whoever went on gets the verdict on all runs, whatever is corrected meanwhile."""
        study = tell(new())
        n = study.status().n_complete
        study.go_on(12)
        tell(study, 5)
        study.correct(1, value(study.trial(1)) + 0.5, "rounding")
        same(study.state, refolded(study))
        tell(study)
        assert study.status().n_complete >= n + 5
        assert study.status().state == "finished"

    def test_the_number_of_runs(self) -> None:
        for n in (1, 7, 12, 40):
            study = tell(new())
            study.go_on(n)
            assert study.status().to_go.now == n


class TestSnapshots:
    def test_everything_new_is_kept(self) -> None:
        study = held()
        study.exclude(TYPO, "typo")
        study.restate(budget=50, reason="a reason")
        tell(study, 6)
        study.finish("enough")
        state = study.state
        again = thaw(freeze(state))
        assert again is not None
        for name in (field.name for field in fields(StudyState)):
            if name not in ("trials", "blocks", "known", "past", "spec_", "expiring"):
                assert getattr(again, name) == getattr(state, name), name
        assert again.spec == state.spec
        assert again.doubts is not None
        assert again.ended is not None
        assert again.ended.reason == "enough"
        assert len(again.exclusions) == len(again.restatements) == 1
        assert (again.restated, len(again.checked_runs)) == (state.restated, len(state.checked_runs))

    def test_doubts_survive(self) -> None:
        state = held().state
        again = thaw(freeze(state))
        assert again is not None
        assert again.doubts == state.doubts
        assert again.is_held

    def test_a_snapshot_of_an_earlier_format_is_left_alone_and_the_log_read(
        self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        url = f"sqlite:///{tmp_path}/levers.db"
        with monkeypatch.context() as earlier:
            earlier.setattr(log, "FORMAT", log.FORMAT - 1)
            earlier.setattr(log, "EVERY", 1)
            study = tell(new(storage=url), typo=TYPO)
        found = study.storage.snapshot(study.id)
        assert found is not None
        assert thaw(found.data) is None
        again = levers.load_study("oven", url)
        assert again.is_held
        same(again.state, study.state)


def test_a_study_goes_on_from_a_snapshot_as_from_its_log(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "EVERY", 1)  # a snapshot after every change
    url = f"sqlite:///{tmp_path}/levers.db"
    study = tell(new(storage=url), typo=TYPO)
    for change in (
        lambda s: s.exclude(TYPO, "typo"),
        lambda s: tell(s, 3),
        lambda s: s.restate(budget=60),
        lambda s: tell(s, 4),
        lambda s: s.correct(2, 71.0, "typo"),
        lambda s: s.finish("enough"),
        lambda s: s.go_on(8),
        lambda s: tell(s),
    ):
        change(levers.load_study("oven", url))
        same(levers.load_study("oven", url).state, refolded(study))


WALKS: tuple[dict[str, Any], ...] = (
    {"tolerance": 0.5},
    {"tolerance": 0.6, "block_size": 4, "noise_sd": None},
    {"tolerance": None, "budget": 40},
    {"tolerance": 0.6, "forbidden": [{"heat": "high", "speed": 4}]},
    {"tolerance": 0.8, "min_effect": 1.5},
    {"tolerance": 0.8, "max_parents": 1},
)


def act(study: Study, what: str, rng: np.random.Generator) -> None:
    """Something that people do to a study."""
    trial, n = int(rng.integers(max(study.state.trials.n_trials, 1))), study.state.n_complete
    match what:
        case "tell":
            tell(study, int(rng.integers(1, 20)))
        case "typo":
            tell(study, 1, typo=study.state.fresh)
        case "exclude":
            study.exclude(trial, "went wrong")
        case "correct":
            study.correct(trial, float(70 + rng.normal()), "typo")
        case "fail":
            for out in study.ask(1):
                study.fail(out, "lost")
        case "import":
            study.import_runs([{"heat": "mid", "speed": 3}], [float(70 + rng.normal())], "last year")
        case "finish":
            study.finish("enough")
        case "go on":
            study.go_on(int(rng.integers(1, 12)))
        case "restate":
            terms: list[dict[str, Any]] = [
                {"budget": n + 12},
                {"tolerance": 0.7},
                {"noise_sd": None},
                {"noise_sd": 1.2},
            ]
            study.restate(**terms[rng.integers(4)])


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_done_in_whatever_order(seed: int) -> None:
    """The log tells the whole state, counts agree, the verdict counts what counts, and there is one at any time."""
    rng, study = np.random.default_rng(seed), new(**WALKS[seed])
    whats = ("tell", "tell", "tell", "typo", "exclude", "correct", "fail", "import", "finish", "go on", "restate")
    for _ in range(16):
        with suppress(levers.errors.LeversError):
            act(study, str(rng.choice(whats)), rng)
        state = study.state
        same(state, refolded(study))
        n = state.trials.n_trials
        counted = np.isin(state.trials.block[:n], [i for i, b in enumerate(state.blocks) if b.role != SET_ASIDE])
        complete = state.trials.state[:n] == TrialState.COMPLETE
        assert state.n_complete == (counted & complete).sum()
        if study.is_finished:
            assert study.verdict().n_runs == state.n_complete
    if not tell(study, 50).is_finished:  # a typo may ask for very many runs
        study.finish()
    assert study.verdict().n_runs == study.state.n_complete


def test_the_log_says_what_was_done() -> None:
    study = held()
    study.exclude(TYPO, "typed wrong")
    tell(study, 3)
    study.restate(budget=50, reason="two days")
    tell(study, 3)
    study.finish("enough")
    study.go_on(6, "one more day")
    said = [entry.what for entry in study.log()]
    for text in (
        f"excluded trial {TYPO}: ",
        "in doubt: the outcome of trial 5",
        "restated budget: 50, none before; tolerance: none, 0.8 before (two days)",
        "finished (enough)",
        "went on after the end (one more day)",
        "designed a round of 6 runs",
        "decided again from round 1 on: ",
    ):
        assert any(line.startswith(text) for line in said), text
    assert words(events.Checked((), 24)) == "checked 24 runs: no doubt"
    assert words(events.Checked((Remark("noise", "larger than stated"),), 24)) == "in doubt: larger than stated"


@pytest.mark.parametrize("size", [None, 4])
def test_one_number_for_the_block_of_a_trial(size: int | None, tmp_path: Any) -> None:
    """Pages, sheets, tables and trials say the same; a run asked for again is in the block in which it is made."""
    study = new(block_size=size, tolerance=0.3)
    first = study.state.blocks[0].n_runs
    tell(study, first - 2)
    study.fail(study.ask(1)[0], "lost")
    tell(study)
    n = study.state.trials.n_trials
    expected = [1 + (int(study.state.trials.block[t]) if size is None else t // size) for t in range(n)]
    assert study.state.block_numbers(np.arange(n)).tolist() == expected
    assert study.trials_dataframe()["block"].to_list() == expected
    assert [study.trial(t).block + 1 for t in range(n)] == expected
    study.export(tmp_path / "trials.csv")
    lines = (tmp_path / "trials.csv").read_text().splitlines()
    column = lines[0].split(",").index("block")
    assert [int(line.split(",")[column]) for line in lines[1:]] == expected[: len(lines) - 1]
    assert study.state.open_block is None
    assert OPEN not in {block.role for block in study.state.blocks}


def test_a_tolerance_in_percent_is_of_the_outcome_today() -> None:
    space = {"heat": ["low", "high"]}
    study = levers.create_study("line", space, tolerance=1.0, noise_sd=1.0, seed=1, baseline_outcome=70.0)
    study.restate(tolerance="5%")
    assert study.spec.tolerance == 3.5


SEVEN = {f"f{k}": [0, 1] for k in range(7)}


@pytest.mark.filterwarnings("ignore::levers.studies.study.SurprisingOutcomeWarning")
@pytest.mark.parametrize("block_size", [None, 8])
@pytest.mark.parametrize("factor", [10.0, 100.0])
def test_a_typo_in_a_budget_is_never_silent(block_size: int | None, factor: float) -> None:
    """Where the first runs are no more than the parameters, one outcome decides which levels are ever run again."""
    for seed in range(8):
        study = levers.create_study("typo", SEVEN, budget=60, noise_sd=1.0, block_size=block_size, seed=seed)
        rng, typo = np.random.default_rng(seed), seed
        while not study.is_finished:
            for trial in study.ask(8):
                y = 10 + sum(v * (i + 1) / 2 for i, v in enumerate(trial.params.codes)) + rng.normal()
                study.tell(trial, factor * y if trial.number == typo else y)
        assert study.is_held
        assert typo in {number for doubt in study.verdict().doubts for number in doubt.trials}


def test_stopping_now_gives_what_is_said_of_it() -> None:
    rng = np.random.default_rng(2)
    study = levers.create_study(
        "stop", {"heat": ["low", "mid", "high"], "speed": [1, 2, 3]}, tolerance=0.3, noise_sd=1.0, seed=3
    )
    said = []
    for _ in range(40):
        [trial] = study.ask(1)
        study.tell(trial, 2.0 * (trial.params["heat"] == "mid") + float(rng.normal()))
        stopped = levers.copy_study("stop", "copy", study.storage)
        now, verdict = study.status().within, stopped.finish()
        levers.delete_study("copy", study.storage)
        assert now == verdict.tolerance
        said.append(now)
    assert sum(one is not None for one in said) > 30
    assert len(set(said)) > 25


@pytest.mark.filterwarnings("ignore::levers.studies.study.SurprisingOutcomeWarning")
def test_a_held_study_of_any_algorithm_can_be_finished_as_it_is() -> None:
    rng = np.random.default_rng(1)
    study = levers.create_study(
        "paper", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, algorithm="modl", seed=1
    )
    while not study.is_finished:
        study.tell_many((trial, 1e4 if trial.number == 3 else float(rng.normal())) for trial in study.ask(1000))
    assert study.is_held
    with pytest.raises(StudyError, match="cannot go on"):
        study.go_on()
    study.finish("it is what it is")
    assert not study.is_held
    assert study.verdict().doubts


def test_a_study_without_any_outcome_left_has_no_numbers_and_no_traceback() -> None:
    study = levers.create_study("empty", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    study.tell_many((trial, 1.0 + trial.number % 3) for trial in study.ask(4))
    study.finish()
    study.exclude_many(range(4), "all of it was wrong")
    assert study.status().n_complete == 0
    assert study.verdict().tolerance is None
    assert {row.n_runs for row in study.effects()} == {0}


def test_the_worst_case_of_terms_restated_is_not_far_from_that_of_a_study_that_had_them_at_first() -> None:
    """It rested on a bound of the noise that holds at any time: 2,072 runs were said where 150 are taken at most."""
    space = levers.Space.of({f"lever {k}": list(range(m)) for k, m in enumerate([3, 2, 4, 2, 3, 2, 2])})
    study, rng = levers.create_study("line", space, budget=72, block_size=8, seed=3), np.random.default_rng(0)
    while study.state.n_complete < 64:
        for trial in study.ask(8):
            study.tell(trial, 1.5 * (trial.params["lever 0"] == 1) + float(rng.normal()))
    study.restate(tolerance=1.0, reason="closer")
    afresh = levers.plan(space, tolerance=1.0)
    to_go = study.status().to_go
    assert to_go.worst_case is not None
    assert to_go.now <= to_go.worst_case < 2 * afresh.worst_case_runs
