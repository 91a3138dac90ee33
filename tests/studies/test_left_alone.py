"""Levers that runs leave alone: what nature took is told, kept, and given to the algorithm; fits rest on set runs."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levers
from harness.watching import HIDDEN, SPACE, WATCHED, register, run, tell, to_the_end, until_left_alone
from levers.core.codec import from_json, to_json
from levers.core.space import FREE, Level, Space, levels_had
from levers.errors import (
    InvalidSettingError,
    InvalidSpaceError,
    LeversError,
    ObservedLevelError,
    SheetError,
    SurprisingOutcomesError,
    TrialError,
)
from levers.studies.analysis import diagnostics, views
from levers.studies.analysis.estimates import Estimates, counted_runs
from levers.studies.analysis.tables import trials_frame
from levers.studies.analysis.trials import TrialFilter, find_trials
from levers.studies.events import Corrected, Told
from levers.studies.log import freeze, thaw
from levers.studies.spec import StudySpec, free_levers
from levers.studies.state import AS_RUN, StudyState, Trial, TrialState
from levers.studies.study import NoOutcomeWarning, Study, SurprisingOutcomeWarning

SOLVERS = ["watching", "cfs"]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


@pytest.fixture(params=SOLVERS)
def solver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def oven(solver: str = "watching", **given: Any) -> Study:
    """A study that may leave the heat alone."""
    settings: dict[str, Any] = {"free": ["heat"], "seed": 1, "noise_sd": 1.2, "algorithm": solver, **given}
    settings.setdefault("tolerance", None if "budget" in settings else 0.9)
    return levers.create_study("oven", SPACE, **settings)


def one_left_alone(study: Any) -> Trial:
    return next(trial for trial in until_left_alone(study) if trial.params.free)


def test_what_may_be_left_alone_is_checked_before_anything_is_kept() -> None:
    more: dict[str, list[Level]] = {f"X{k}": [0, 1] for k in range(5)}
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("there is no factor 'heet'", {"free": ["heet"]}),
        ("named twice", {"free": ["heat", "heat"]}),
        ("modl sets every lever", {"algorithm": "modl"}),
        ("part of a forbidden combination", {"forbidden": [{"heat": "high", "speed": 3}]}),
        ("part of a merged group", {"merged": [["heat", "belt"]]}),
        ("at most 4", {"space": more, "free": list(more)}),
        ("a level of 'heat' is called 'leave alone'", {"space": {**SPACE, "heat": ["low", "Leave alone"]}}),
    ]
    for says, given in wrong:
        settings = {"space": SPACE, "free": ["heat"], "algorithm": "watching", "tolerance": 1.0, "noise_sd": 1.0}
        with pytest.raises(LeversError, match=says) as error:
            levers.create_study("wrong", **{**settings, **given})
        assert error.value.field == "free"
    assert free_levers(Space.of(SPACE), "belt") == ("belt",)


def test_the_solver_is_given_the_free_levers_and_old_specs_have_none() -> None:
    study = oven(free=["belt", "heat"], forbidden=[], merged=[])
    assert study.spec.free == ("heat", "belt")
    assert study.spec.solver.free == (0, 2)  # type: ignore[attr-defined]
    saved = json.loads(to_json(study.spec))
    del saved["free"]
    assert from_json(json.dumps(saved), StudySpec).free == ()
    assert from_json(to_json(study.spec), StudySpec).solver == study.spec.solver


def test_nothing_changes_without_free_levers() -> None:
    study = oven(free=[])
    assert to_the_end(study).assignment.free == ()
    assert all(block.observed is None for block in study.state.blocks)
    assert trials_frame(study.state).columns.count("observed:heat") == 0


def test_a_round_that_leaves_a_lever_alone_is_told_with_what_it_took(solver: str) -> None:
    study = oven(solver)
    trials = until_left_alone(study)
    block = len(study.state.blocks) - 1
    for trial in trials:
        assert ("heat" in trial.params) == (trial.params.free == ())
        assert trial.observed is None
    tell(study, trials)
    state = study.state
    for trial in trials:
        value, taken = run(trial)
        told = study.trial(trial.number)
        assert told.value == value
        assert (dict(told.observed) if told.observed else {}) == taken
    codes, values = state.blocks[block].told_rows()
    assert not np.isnan(values).any()
    assert (levels_had(codes) >= 0).all()
    assert ((codes < FREE).any(axis=1) == (state.blocks[block].batch.codes == FREE).any(axis=1)).all()
    assert (state.blocks[block].as_run.asked == state.blocks[block].batch.codes).all()  # type: ignore[union-attr]


def test_the_verdict_leaves_alone_what_nature_knows_better(solver: str) -> None:
    study = oven(solver, baseline={"heat": "low", "speed": 1, "belt": "A"})
    found = to_the_end(study)
    assert found.assignment.free == ("heat",)
    assert "heat" not in found.on_parents
    assert HIDDEN.kind in {remark.kind for remark in found.provisos}
    best = study.best()
    assert best is not None
    assert (best.params.free, best.predicted, best.gain) == (("heat",), None, None)
    standings = {(row.factor, row.level): row.standing for row in study.effects()}
    assert "chosen" not in {standings["heat", "low"], standings["heat", "high"]}
    assert "chosen" in {standings["belt", "A"], standings["belt", "B"]}
    heat = [row for row in study.effects() if row.factor == "heat"]
    assert min(row.loss or 0.0 for row in heat) == 0
    assert found.usual_intervals[0] == tuple((row.usual_low, row.usual_high) for row in heat)
    evidence = views.evidence(study.state)[0]
    assert {evidence.better, evidence.worse} == {"low", "high"}


def test_a_level_that_is_missing_or_wrong_is_refused_and_nothing_is_stored(solver: str) -> None:
    study = oven(solver)
    trial = one_left_alone(study)
    before = study.state.seq
    refused: list[tuple[str, Any]] = [
        (f"trial {trial.number} left 'heat' alone: say with its outcome which level it took", None),
        (f"trial {trial.number}: 'mid' is not a level of factor 'heat'", {"heat": "mid"}),
        (f"trial {trial.number}: there is no factor 'heet'", {"heet": "low"}),
        ("looks like", ["heat"]),
    ]
    for says, observed in refused:
        with pytest.raises(ObservedLevelError, match=says):
            study.tell(trial, 1.0, observed=observed)
    other = next(level for level in SPACE["belt"] if level != trial.params["belt"])
    with pytest.raises(ObservedLevelError, match=f"was to be run at belt={trial.params['belt']}, and not at {other}"):
        study.tell(trial, 1.0, observed={"heat": "low", "belt": other})
    with pytest.raises(ObservedLevelError, match="no outcome"):
        study.tell_many({trial.number: 1.0}, observed={trial.number + 1: {"heat": "low"}})
    assert study.state.seq == before
    study.tell(trial, 1.0, observed={"heat": "low", "belt": trial.params["belt"]})  # a level that was set may be said
    study.tell(trial, 1.0, observed={"heat": "low"})
    study.tell(trial, 1.0)
    assert study.state.seq == before + 1
    with pytest.raises(TrialError, match="was told with heat=low already, not high; use `correct`"):
        study.tell(trial, 1.0, observed={"heat": "high"})


def test_levels_of_a_run_that_set_everything_must_agree() -> None:
    study = oven(free=[])
    trial = study.ask()[0]
    other = next(level for level in SPACE["heat"] if level != trial.params["heat"])
    with pytest.raises(ObservedLevelError, match="was to be run at heat"):
        study.tell(trial, 1.0, observed={"heat": other})
    study.tell(trial, 1.0, observed={"heat": trial.params["heat"]})
    assert study.trial(trial.number).observed is None


def test_a_run_without_an_outcome_needs_no_levels(solver: str) -> None:
    study = oven(solver)
    trial = one_left_alone(study)
    with pytest.warns(NoOutcomeWarning):
        study.tell(trial, math.nan)
    assert study.trial(trial.number).state is TrialState.FAIL
    again = study.ask()[0]
    assert again.params == trial.params
    tell(study, [again])
    assert study.trial(again.number).observed is not None


def test_a_wild_outcome_of_a_run_left_alone_is_asked_about(solver: str) -> None:
    study = oven(solver)
    trial = one_left_alone(study)
    with pytest.raises(SurprisingOutcomesError):
        study.tell(trial, 1e6, observed={"heat": "low"}, insist=False)
    with pytest.warns(SurprisingOutcomeWarning):
        study.tell(trial, 1e6, observed={"heat": "low"})


def test_fits_and_checks_rest_on_set_runs_only(solver: str) -> None:
    study = oven(solver)
    trials = until_left_alone(study)
    before = counted_runs(study.state)
    told = [trial for trial in trials if trial.params.free]
    tell(study, told)
    state = study.state
    assert len(counted_runs(state)[1]) == len(before[1]) < state.n_complete
    for runs in (counted_runs(state)[0], diagnostics.gathered_runs(state, with_open=True).codes):
        assert (runs >= 0).all()
    assert not set(diagnostics.gathered_runs(state, True).trial) & {trial.number for trial in told}
    assert sum(Estimates.of(state).counts(0)) == len(before[1])
    assert diagnostics.residuals(state).n_runs == len(before[1])
    tell(study, [trial for trial in trials if not trial.params.free])
    to_the_end(study)
    state = study.state
    n_set = sum((block.batch.codes >= 0).all(axis=1).sum() for block in state.blocks)
    assert len(counted_runs(state)[1]) == n_set < state.n_complete
    checked = [remark.text for remark in study.verdict().provisos if remark.kind == "checked"]
    assert not checked or checked[0].startswith(f"{n_set} runs")
    assert all(study.forecast().now == 0 for _ in [views.effects(state), views.best(state), views.status("x", state)])


def test_the_state_is_the_same_from_events_and_from_a_snapshot(solver: str) -> None:
    study = oven(solver)
    trials = until_left_alone(study)
    tell(study, trials[: len(trials) // 2])
    left = next(trial for trial in trials[: len(trials) // 2] if trial.params.free)
    other = {"low": "high", "high": "low"}[str(study.trial(left.number).observed["heat"])]  # type: ignore[index]
    study.correct(left, 2.5, "typo", observed={"heat": other})
    folded = StudyState()
    for stored in study.storage.read(study.id, 0):
        folded.apply(stored.record())
    thawed = thaw(freeze(study.state))
    assert thawed is not None
    for state in (folded, thawed, study.frozen()):
        assert [t.observed for t in views.trials(state, np.arange(state.trials.n_trials))] == [
            t.observed for t in views.trials(study.state, np.arange(study.state.trials.n_trials))
        ]
        assert state.corrections == study.state.corrections
        for mine, theirs in zip(state.blocks, study.state.blocks, strict=True):
            assert np.array_equal(mine.told_rows()[0], theirs.told_rows()[0])
    # what older versions wrote has no such field
    assert from_json('{"$": "Told", "trials": [1], "values": [2.0]}', Told).observed is None
    assert (
        from_json('{"$": "Corrected", "trial": 1, "before": 1, "value": 2, "reason": ""}', Corrected).observed is None
    )


def test_corrections_and_exclusions_before_and_after_a_round_left_alone(solver: str) -> None:
    study = oven(solver)
    trials = until_left_alone(study)
    first = next(trial for trial in views.trials(study.state, [0]))
    study.correct(first, 3.25, "read off the wrong line")  # of a round that is over
    trials = study.running() or until_left_alone(study)
    left = [trial for trial in trials if trial.params.free]
    tell(study, left[:2])
    study.exclude(left[0], "door was open")  # of the round under way: its run is asked for again
    assert study.trial(left[0].number).observed is not None
    again = next(trial for trial in study.ask(10_000) if trial.params == left[0].params)
    study.correct(left[0], 1.5, "it was closed")  # and takes the place of the run that was asked for again
    assert study.trial(again.number).state is TrialState.ABANDONED
    assert study.trial(left[0].number).observed is not None
    to_the_end(study)
    seq = study.state.seq
    study.correct(left[1], 2.0, "typo")
    study.exclude(left[1], "door was open")
    assert study.state.seq > seq
    assert study.is_finished or study.running() or study.ask(1)
    found = to_the_end(study)
    assert {remark.kind for remark in found.provisos} >= {"corrected", "excluded"}


def test_what_a_lever_took_can_be_corrected(solver: str) -> None:
    study = oven(solver)
    trials = until_left_alone(study)
    tell(study, trials)
    left = next(trial for trial in trials if trial.params.free)
    value, taken = run(left)
    other = {"low": "high", "high": "low"}[str(taken["heat"])]
    with pytest.raises(TrialError, match="already"):
        study.correct(left, value, "typo")
    with pytest.raises(TrialError, match="already"):
        study.correct(left, value, "typo", observed=taken)
    made = study.correct(left, value, "the switch was read wrongly", observed={"heat": other})
    assert (made.before, made.value, made.observed) == (value, value, (("heat", taken["heat"], other),))
    assert dict(study.trial(left.number).observed or {}) == {"heat": other}
    assert "what a lever took" in next(e.what for e in study.log() if e.what.startswith("corrected"))
    one_set = next(trial for trial in views.trials(study.state, [0]))
    wrong = next(level for level in SPACE["belt"] if level != one_set.params["belt"])
    with pytest.raises(ObservedLevelError, match="was to be run at belt"):
        study.correct(one_set, 1.0, "no", observed={"belt": wrong})


def test_a_study_can_be_ended_go_on_and_be_restated_around_a_round_left_alone(solver: str) -> None:
    study = oven(solver, budget=60) if solver == "cfs" else oven(solver)
    trials = until_left_alone(study)
    tell(study, trials[: len(trials) // 2])
    assert study.status().n_complete
    study.finish("enough")
    assert study.is_finished
    study.go_on(4)
    tell(study, study.ask(100))
    to_the_end(study)
    study = oven(solver)
    tell(study, until_left_alone(study)[:3])
    study.restate(noise_sd=None, reason="not so sure")
    assert {block.role for block in study.state.blocks[:2]} == {AS_RUN}
    found = to_the_end(study)
    assert "restated" in {remark.kind for remark in found.provisos}


def test_merged_levers_beside_a_free_one(solver: str) -> None:
    """Then the columns of the algorithm's space are others than those of the study."""
    space: dict[str, list[Level]] = {"speed": [1, 2], "belt": ["A", "B"], "heat": ["low", "high"]}
    settings: dict[str, Any] = {"tolerance": 1.5, "noise_sd": 1.0, "seed": 1, "algorithm": solver}
    study = levers.create_study("m", space, free=["heat"], merged=[["speed", "belt"]], **settings)
    assert study.spec.inner_free == (1,)
    trials = until_left_alone(study)
    left = [trial for trial in trials if trial.params.free]
    assert left
    assert all(set(trial.params) == {"speed", "belt"} for trial in left)
    tell(study, trials)
    for trial in left:
        assert dict(study.trial(trial.number).observed or {}) == run(trial)[1]
    found = to_the_end(study)
    assert set(found.assignment) | set(found.assignment.free) == set(space)


def test_runs_that_left_something_alone_are_no_past_data_of_a_merged_study() -> None:
    storage = levers.MemoryStorage()
    study = levers.create_study(
        "one", SPACE, free=["heat"], tolerance=1.0, noise_sd=1.0, algorithm="watching", storage=storage
    )
    to_the_end(study)
    made = levers.merge_study("one", "two", ["speed", "belt"], storage)
    assert made.spec.free == ("heat",)
    n_set = len(counted_runs(study.state)[1])
    assert sum(len(past.values) for past in made.state.past) == n_set < study.state.n_complete
    with pytest.raises(InvalidSettingError, match="merged group"):
        levers.merge_study("one", "three", ["heat", "belt"], storage)


def test_optimize_takes_what_the_function_says_of_levers_left_alone(solver: str) -> None:
    rng = np.random.default_rng(1)

    def fn(params: levers.Assignment) -> Any:
        value = 2.0 * (params.get("speed") == 2) + 0.3 * float(rng.normal())
        return (value, {"heat": "low"}) if params.free else value

    study = oven(solver)
    found = study.optimize(fn)
    assert found is not None
    assert found.n_runs == study.status().n_complete
    again = levers.optimize(fn, SPACE, free=["heat"], tolerance=0.9, noise_sd=1.2, algorithm=solver, seed=1)
    assert again.n_runs == found.n_runs


def test_optimize_keeps_everything_when_the_function_does_not_say() -> None:
    study = oven()
    with pytest.raises(ObservedLevelError, match=r"Let the function return outcome, ..heat.: level") as error:
        study.optimize(lambda params: 3.5)
    [out] = study.running()
    assert out.params.free == ("heat",)
    assert f"study.tell({out.number}, 3.5, observed=" in str(error.value)
    assert study.status().n_failed == 0
    study.tell(out, 3.5, observed={"heat": "low"})


def test_trials_can_be_found_and_are_in_tables() -> None:
    study = oven()
    trials = until_left_alone(study)
    tell(study, trials[:-1])
    left = [trial.number for trial in trials if trial.params.free]
    assert find_trials(study.state, TrialFilter(factor="heat", level="leave alone")).tolist() == left
    by_heat = find_trials(study.state, TrialFilter(sort="heat"))
    assert set(by_heat[-len(left) :].tolist()) == set(left)
    frame = study.trials_dataframe()
    alone = frame.filter(frame["heat"].is_null())
    assert alone["trial"].to_list() == left
    assert alone["observed:heat"].to_list() == [
        None if number == trials[-1].number else run(study.trial(number))[1]["heat"] for number in left
    ]
    assert frame.filter(frame["heat"].is_not_null())["observed:heat"].is_null().all()


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".xlsx"])
def test_a_run_sheet_says_leave_alone_and_takes_what_was_written_over_it(tmp_path: Path, suffix: str) -> None:
    from levers.studies.sheets.read import read_sheet
    from levers.studies.sheets.write import write_sheet

    study = oven()
    trials = until_left_alone(study)
    path = tmp_path / f"runs{suffix}"
    assert study.open_sheet(path) == len(trials)
    assert read_texts(path, "heat").count("leave alone") == sum("heat" in trial.params.free for trial in trials)
    study.open_sheet(path)  # nothing was written on it yet, so it may be written over
    sheet = read_sheet(path, study.space)
    numbers = [trial.number for trial in trials]
    asked = [list(trial.params.codes) for trial in trials]
    made = [run(trial) for trial in trials]
    values = [value for value, _ in made]
    assert sheet.trials is not None
    assert sheet.trials.tolist() == numbers
    # outcomes alone
    write_sheet(path, study.space, trials=numbers, blocks=[2] * len(numbers), codes=asked, outcomes=values)
    row = 2 + next(i for i, trial in enumerate(trials) if trial.params.free)
    with pytest.raises(SheetError, match="write the level that it took over 'leave alone'") as error:
        study.tell_sheet(path)
    assert error.value.n_wrong == sum(bool(trial.params.free) for trial in trials)
    assert error.value.rows[0][0] == row
    assert "one of 'low', 'high'" in error.value.rows[0][1]
    assert study.running() == trials
    # levels alone: they would be lost
    had = [[SPACE["heat"].index(taken["heat"]), *codes[1:]] if taken else codes
           for codes, (_, taken) in zip(asked, made, strict=True)]  # fmt: skip
    write_sheet(path, study.space, trials=numbers, blocks=[2] * len(numbers), codes=had)
    with pytest.raises(SheetError, match="has levels in it that levers took"):
        study.open_sheet(path)
    assert study.tell_sheet(path).n_empty == len(trials)
    # both
    write_sheet(path, study.space, trials=numbers, blocks=[2] * len(numbers), codes=had, outcomes=values)
    assert study.tell_sheet(path).n_new == len(trials)
    assert study.tell_sheet(path).n_known == len(trials)
    for trial in trials:
        assert dict(study.trial(trial.number).observed or {}) == run(trial)[1]
    # all trials once more, as they were run
    whole = tmp_path / f"all{suffix}"
    study.export(whole)
    texts = read_texts(whole, "heat")
    assert {text for text in texts if "alone" in text} == {"left alone: low", "left alone: high"}
    assert study.tell_sheet(whole).n_known == study.state.n_complete
    other = levers.create_study("other", SPACE, tolerance=1.0, noise_sd=1.0)
    with pytest.raises(SheetError, match="past runs must have been set"):
        other.import_sheet(whole, "as past data")


def test_a_sheet_corrects_what_a_lever_took_and_refuses_to_leave_alone_what_was_set(tmp_path: Path) -> None:
    from levers.studies.sheets.write import write_sheet

    study = oven()
    trials = until_left_alone(study)
    tell(study, trials)
    left = next(trial for trial in trials if trial.params.free)
    one_set = next(views.trials(study.state, [0]))
    value, taken = run(left)
    other = 1 - SPACE["heat"].index(taken["heat"])
    path = tmp_path / "corrected.csv"
    columns: dict[str, Any] = {"trials": [left.number], "blocks": [2], "outcomes": [value]}
    write_sheet(path, study.space, codes=[[other, *left.params.codes[1:]]], **columns)
    with pytest.raises(SheetError, match="was told with heat"):
        study.tell_sheet(path)
    [made] = study.correct_sheet(path, "switch read wrongly")
    assert made.observed == (("heat", taken["heat"], SPACE["heat"][other]),)
    columns = {"trials": [0], "blocks": [1], "outcomes": [one_set.value]}
    write_sheet(path, study.space, codes=[[FREE, *one_set.params.codes[1:]]], **columns)
    with pytest.raises(SheetError, match=r"was to be run at heat=.*, the sheet says leave alone"):
        study.tell_sheet(path)


def read_texts(path: Path, column: str) -> list[str]:
    """The texts of a column of a sheet, as a spreadsheet shows them."""
    if path.suffix == ".xlsx":
        import openpyxl

        header, *rows = openpyxl.load_workbook(path).active.iter_rows(values_only=True)  # type: ignore[union-attr]
    else:
        header, *rows = (line.split("\t" if path.suffix == ".tsv" else ",") for line in path.read_text().splitlines())
    return [str(row[list(header).index(column)]) for row in rows]


def test_a_stage_left_alone_is_named(solver: str) -> None:
    study = oven(solver)
    trials = until_left_alone(study)
    if solver == "watching":
        assert {trial.stage for trial in trials} == {WATCHED}
    with pytest.raises(InvalidSpaceError):
        study.import_runs([{"speed": 1, "belt": "A"}], [1.0], "past data has to be set")


def test_before_anything_is_left_alone_the_promise_is_about_settings_of_all_levers() -> None:
    study = levers.create_study("oven", SPACE, tolerance=1.0, noise_sd=1.0, seed=1, free=["heat"])
    rng, said = np.random.default_rng(0), set()
    while trials := study.ask(200):
        some_alone = any(trial.params.free for trial in trials)
        taken = {t: {name: SPACE[name][0] for name in t.params.free} for t in trials if t.params.free}
        study.tell_many([(trial, float(rng.normal())) for trial in trials], observed=taken)
        best = study.best()
        assert best is not None
        said.add((some_alone, best.compared_with))
    assert said == {(False, "the best setting of all levers"), (True, "the best")}


@pytest.mark.parametrize(("settings", "most"), [({"budget": 40}, 40), ({"tolerance": 2.0, "max_runs": 30}, 30)])
def test_runs_to_go_are_never_more_than_the_study_may_have(settings: dict[str, Any], most: int) -> None:
    space: dict[str, list[Any]] = {"heat": ["low", "high"], "speed": [1, 2, 3]}
    study = levers.create_study("line", space, free=["heat"], seed=3, **settings)
    rng = np.random.default_rng(0)
    while not study.is_finished:
        done, to_go = study.state.n_complete, study.status().to_go
        assert to_go.worst_case is None or done + to_go.worst_case <= most
        if "budget" in settings:
            assert done + (to_go.likely or 0) == most
        for trial in study.ask(100):
            taken = {"heat": "low"} if trial.params.free else None
            study.tell(trial, float(rng.normal()), observed=taken)
    assert study.state.n_complete <= most
