"""What a study does, on every storage."""

import inspect
import math
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levers
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.pooled.state import PooledState
from levers.client.study import RemoteStudy
from levers.core.codec import to_json
from levers.core.designs.design import Design
from levers.core.space import Level
from levers.errors import InvalidSettingError, InvalidSpaceError, LeversError, StudyError, TrialError
from levers.reproduction.run import Reproduction
from levers.studies.analysis.tables import as_pandas
from levers.studies.state import AS_DESIGNED, AS_RUN, SET_ASIDE, Trial, TrialState
from levers.studies.storage.base import Snapshot, Stored, new_log
from levers.studies.study import NoOutcomeWarning, Study

SPACE: dict[str, Sequence[Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4], "supplier": ["A", "B"]}
STORAGES = ("memory", "sqlite", "postgres")


class Clock:
    """A time that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=STORAGES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_storage"))
    return None if request.param == "memory" else f"sqlite:///{tmp_path}/levers.db"


def new(storage: str | None = None, **settings: object) -> Study:
    given = {"tolerance": 0.5, "noise_sd": 1.0, "seed": 1, **settings}
    return levers.create_study("oven", SPACE, storage=storage, **given)  # type: ignore[arg-type]


def outcome(trial: Trial, shift: float = 0.0) -> float:
    """The same for every run of a row, whichever trial makes it: noise follows from the block and the setting."""
    params = trial.params
    effect = {"low": 0.0, "mid": 1.4, "high": 0.6}[str(params["heat"])] + 1.2 * (params["speed"] == 3)
    noise = np.random.default_rng([trial.block, *params.codes, trial.number % 7]).normal()
    return float(effect + noise + shift)


def finish(study: Study, value: Callable[[Trial], float] = outcome, at_a_time: int = 9) -> Study:
    while not study.is_finished:
        study.tell_many((trial, value(trial)) for trial in study.ask(at_a_time))
    return study


def reload(study: Study, clock: Callable[[], float] | None = None) -> Study:
    storage = study.storage
    return Study(study.name, storage, storage.find(study.name), clock=clock or study._log.clock)


def test_a_study_ends_with_a_verdict(url: str | None) -> None:
    study = finish(new(url))
    verdict = study.verdict()
    assert dict(study.best_params) | {"supplier": "A"} == {"heat": "mid", "speed": 3, "supplier": "A"}
    assert verdict.n_runs == study.status().n_complete == study.trials_dataframe().height
    assert study.ask(5) == []
    assert study.status().state == "finished"
    assert study.forecast().now == 0


def test_trials_as_tables() -> None:
    study = new()
    first, second = study.ask(2, worker="ann")
    study.tell(first, 1.25)
    polars_frame: Any = study.trials_dataframe()
    pandas_frame: Any = study.trials_dataframe(pandas=True)
    for frame in (polars_frame, pandas_frame):
        assert list(frame.columns) == list(polars_frame.columns)
        assert list(frame["outcome"][:1]) == [1.25]
        assert list(frame["state"][:3]) == ["COMPLETE", "RUNNING", "WAITING"]
        assert list(frame["heat"][:2]) == [first.params["heat"], second.params["heat"]]
        assert list(frame["worker"][:2]) == ["ann", "ann"]
    assert polars_frame["speed"].dtype.is_integer()
    assert pandas_frame["speed"].dtype.kind == "i"
    assert pandas_frame["outcome"].isna().tolist() == [False] + [True] * (len(pandas_frame) - 1)
    assert pandas_frame["told_at"].isna().tolist() == pandas_frame["outcome"].isna().tolist()
    assert pandas_frame["told_at"][0].to_pydatetime() == polars_frame["told_at"][0]
    assert pandas_frame["worker"][2:].isna().all()


def test_a_frame_without_rows_keeps_its_kinds() -> None:
    frame = as_pandas(new().trials_dataframe().clear())
    assert len(frame) == 0
    assert frame["outcome"].dtype.kind == "f"
    assert frame["told_at"].dt.tz is not None


@pytest.mark.parametrize("kind", [Study, RemoteStudy, Reproduction])
def test_pandas_is_had_wherever_polars_is_returned(kind: type) -> None:
    methods = [one for name, one in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")]
    frames = [one for one in methods if "DataFrame" in str(inspect.signature(one).return_annotation)]
    assert frames
    assert [one.__name__ for one in frames if "pandas" not in inspect.signature(one).parameters] == []


def test_without_pandas_the_way_to_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    study = new()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InvalidSettingError, match=r"pip install '\.\[pandas\]'"):
        study.trials_dataframe(pandas=True)


def test_the_order_of_outcomes_and_reloading_change_nothing(url: str | None) -> None:
    plain = finish(new(url)).verdict()
    study = levers.create_study("oven again", SPACE, tolerance=0.5, noise_sd=1.0, seed=1, storage=url)
    rng = np.random.default_rng(5)
    held: list[Trial] = []
    while not study.is_finished:
        held += study.ask(int(rng.integers(1, 20)))
        rng.shuffle(held)
        keep = int(rng.integers(0, len(held)))
        study.tell_many((trial, outcome(trial)) for trial in held[keep:])
        held = held[:keep]
        study = reload(study)
    assert to_json(study.verdict()) == to_json(plain)


def test_the_verdict_is_that_of_the_loop_in_memory() -> None:
    study = finish(new())
    values = study.trials_dataframe()["outcome"].to_numpy()
    assert levers.verify(study.verdict(), values).ok


def test_minimizing_is_maximizing_the_negative() -> None:
    up = finish(new()).verdict()
    down = finish(new(goal="minimize"), lambda trial: -outcome(trial)).verdict()
    assert up.assignment == down.assignment
    assert (up.tolerance, down.goal) == (down.tolerance, "minimize")


@pytest.mark.parametrize("algorithm", ["modl", "parents-first", "successive-elimination"])
def test_other_algorithms_can_be_studied(algorithm: str) -> None:
    study = levers.create_study(
        "x", {"a": [1, 2], "b": [1, 2]}, tolerance=1.0, noise_sd=0.5, algorithm=algorithm, seed=2
    )
    finish(study, lambda trial: 2.0 * (trial.params["a"] == 2), at_a_time=500)
    assert study.best_params["a"] == 2
    assert study.verdict().algorithm == algorithm


class TestTrials:
    def test_a_failed_run_is_asked_again(self, url: str | None) -> None:
        study = new(url)
        first = study.ask()[0]
        study.fail(first, "spilled")
        again = study.ask()[0]
        assert study.trial(first.number).state is TrialState.FAIL
        assert again.params == first.params
        assert again.number != first.number
        study.tell(again, 1.0)
        assert study.status().n_failed == 1

    def test_nan_is_a_failure_with_a_warning(self, url: str | None) -> None:
        study = new(url)
        trials = study.ask(3)
        with pytest.warns(NoOutcomeWarning, match="1 outcome was NaN"):
            study.tell_many(zip(trials, [1.0, math.nan, 2.0], strict=True))
        assert [study.trial(t.number).state.name for t in trials] == ["COMPLETE", "FAIL", "COMPLETE"]
        assert study.ask()[0].params == trials[1].params

    def test_a_stale_trial_goes_to_whoever_asks_next(self, url: str | None) -> None:
        study = new(url)
        clock = Clock()
        study = reload(study, clock)
        late = study.ask(worker="slow", lease=60)[0]
        assert study.ask(worker="other")[0].params is not late.params
        clock.now += 61
        again = study.ask(worker="fast")[0]
        assert (again.params, study.trial(late.number).state) == (late.params, TrialState.STALE)
        assert again.worker == "fast"

    def test_a_late_outcome_is_taken_once(self, url: str | None) -> None:
        clock = Clock()
        study = reload(new(url), clock)
        late = study.ask(lease=60)[0]
        clock.now += 61
        again = study.ask(lease=60)[0]
        study.tell(late, 3.0)
        assert study.trial(late.number).state is TrialState.COMPLETE
        assert study.trial(again.number).state is TrialState.ABANDONED
        with pytest.raises(TrialError, match="told first"):
            study.tell(again, 4.0)
        assert reload(study).status().n_complete == 1

    def test_a_late_outcome_of_a_row_that_waits_again_takes_it_off_the_list(self, url: str | None) -> None:
        clock = Clock()
        study = reload(new(url), clock)
        one, two = study.ask(2, lease=60)
        clock.now += 61
        assert study.ask()[0].params == one.params
        study.tell(two, 1.0)  # its replacement was waiting
        assert study.ask()[0].params != two.params

    def test_leases_end_after_a_reload_too(self, url: str | None) -> None:
        clock = Clock()
        study = reload(new(url), clock)
        late = study.ask(lease=60)[0]
        study.ask(2)
        clock.now += 61
        assert reload(study, clock).ask()[0].params == late.params

    def test_telling_twice_changes_nothing(self, url: str | None) -> None:
        study = new(url)
        trial = study.ask()[0]
        study.tell(trial, 1.25)
        before = study.state.seq
        study.tell(trial, 1.25)
        assert study.state.seq == before
        with pytest.raises(TrialError, match=r"was told 1\.25 already, not 2; use `correct`"):
            study.tell(trial, 2.0)

    def test_all_or_nothing(self, url: str | None) -> None:
        study = new(url)
        trials = study.ask(3)
        before = study.state.seq
        for wrong in (
            [(trials[0], 1.0), (999, 2.0)],
            [(trials[0], 1.0), (trials[0], 1.0)],
            [(trials[0], 1.0), (trials[2].number + 1, 2.0)],
            [(trials[0], 1.0), (trials[1], math.inf)],
            [(trials[0], 1.0), (trials[1], "x")],
            [(trials[0], 1.0), ("1", 1.0)],
        ):
            with pytest.raises(LeversError):
                study.tell_many(wrong)  # type: ignore[arg-type]
        assert study.state.seq == before
        assert reload(study).status().n_complete == 0

    def test_a_block_ends_where_the_next_one_depends_on_it(self) -> None:
        study = new()
        asked = study.ask(10_000)
        assert len(asked) == study.forecast().now
        assert study.ask() == []
        assert not study.is_finished

    def test_running_trials_can_be_listed_by_worker(self) -> None:
        study = new()
        mine = study.ask(2, worker="me")
        study.ask(3, worker="you")
        assert [t.number for t in study.running("me")] == [t.number for t in mine]
        assert len(study.running()) == 5


class TestCorrections:
    def test_in_an_open_block_nothing_was_decided_yet(self, url: str | None) -> None:
        study = new(url)
        trial = study.ask()[0]
        study.tell(trial, 100.0)
        found = study.correct(trial, 1.0, "typo")
        assert (found.before, found.value, found.reason, found.changes) == (100.0, 1.0, "typo", ())
        assert study.trial(trial.number).value == 1.0

    def test_a_typo_corrected_at_once_leads_to_the_same_verdict(self, url: str | None) -> None:
        plain = finish(new(url)).verdict()
        study = levers.create_study("typo", SPACE, tolerance=0.5, noise_sd=1.0, seed=1, storage=url)
        first = study.ask()[0]
        study.tell(first, 500.0)
        study.correct(first, outcome(first), "typo")
        verdict = finish(study).verdict()
        assert (verdict.assignment, verdict.tolerance, verdict.n_runs) == (
            plain.assignment,
            plain.tolerance,
            plain.n_runs,
        )
        assert "rests on 1 correction not" in verdict.statement

    def test_decisions_are_taken_again_and_the_runs_kept(self, url: str | None) -> None:
        study = new(url, tolerance=0.3)

        def wrong(trial: Trial) -> float:
            return outcome(trial) - (40.0 if trial.block == 0 and trial.params["heat"] == "mid" else 0.0)

        while study.status().n_complete < study.state.blocks[0].n_runs + 10:
            study.tell_many((trial, wrong(trial)) for trial in study.ask(5))
        assert {(e.factor, e.level) for e in study.state.known[-1].eliminations} >= {(0, 1)}
        n_before = study.status().n_complete
        changes: list[str] = []
        for trial in [study.trial(i) for i in range(study.state.blocks[0].n_runs)]:
            if trial.params["heat"] == "mid":
                changes += study.correct(trial, outcome(trial), "scale was off").changes
        assert "heat=mid was ruled out and is back in play" in changes
        roles = [block.role for block in study.state.blocks]
        assert roles[0] == AS_DESIGNED
        assert AS_RUN in roles
        finish(study)
        assert study.best_params["heat"] == "mid"
        assert study.verdict().n_runs >= n_before
        assert dict(study.verdict().runs_by_stage)["kept after a correction"] >= 10
        again = reload(study)
        assert to_json(again.verdict()) == to_json(study.verdict())
        assert len(again.state.corrections) == len(study.state.corrections)

    def test_a_finished_study_may_need_more_runs(self) -> None:
        def in_other_units(trial: Trial) -> float:  # which leaves high the best, by less than mid was before
            return outcome(trial, shift=-1.4 * (trial.params["heat"] == "mid"))

        study = finish(new(seed=0))
        assert len(study.state.blocks) > 1
        plain = study.verdict().effects[0]
        runs = [study.trial(i) for i in range(study.verdict().n_runs)]
        shifted = {t.number: in_other_units(t) for t in runs if t.params["heat"] == "mid"}
        made = study.correct_many(shifted, "units")
        assert not study.is_finished
        assert any("not at its end any more" in line for line in made[-1].changes)
        study.correct_many({t.number: outcome(t) for t in runs if t.number in shifted}, "units were right")
        assert study.is_finished
        assert study.verdict().effects[0] == pytest.approx(plain)
        study.correct_many(shifted, "no, they were wrong")
        finish(study, in_other_units)
        assert study.best_params["heat"] == "high"

    def test_another_algorithm_sets_the_runs_aside(self) -> None:
        space = {"a": [1, 2, 3], "b": [1, 2]}
        study = levers.create_study("x", space, tolerance=0.2, noise_sd=0.5, algorithm="modl", seed=2)

        def value(trial: Trial) -> float:
            return 5.0 * (trial.params["a"] == 2)

        while not study.state.known[-1].eliminations:
            study.tell_many((trial, value(trial)) for trial in study.ask(500))
        told = [study.trial(i) for i in range(study.state.blocks[-1].first)]
        study.tell_many((trial, value(trial)) for trial in study.ask(3))
        for trial in told:
            if trial.params["a"] == 2:
                study.correct(trial, -50.0, "sign")
        assert SET_ASIDE in [block.role for block in study.state.blocks]
        n_counted = study.status().n_complete
        finish(study, value, at_a_time=500)
        assert study.verdict().n_runs == study.status().n_complete > n_counted

    def test_wrong_corrections_are_refused(self) -> None:
        study = new()
        told, running = study.ask(2)
        study.tell(told, 1.0)
        for trial, value, reason, message in (
            (running, 1.0, "x", "RUNNING"),
            (told, 1.0, "x", "already"),
            (told, 2.0, " ", "reason"),
            (told, math.nan, "x", "not to nan"),
            (9999, 2.0, "x", "there is no trial"),
        ):
            with pytest.raises(LeversError, match=message):
                study.correct(trial, value, reason)
        assert study.trial(told.number).value == 1.0


class TestForbidden:
    FORBIDDEN = ({"heat": "mid", "speed": 3},)

    def test_no_forbidden_run_is_asked_and_the_best_allowed_is_found(self, url: str | None) -> None:
        study = finish(new(url, forbidden=self.FORBIDDEN))
        frame = study.trials_dataframe()
        assert frame.filter((frame["heat"] == "mid") & (frame["speed"] == 3)).height == 0
        best = study.best_params
        assert (best["heat"], best["speed"]) in {("high", 3), ("mid", 1), ("mid", 2), ("mid", 4)}
        assert "the certificate is about these" in study.verdict().statement

    def test_wrong_combinations_are_refused(self) -> None:
        for wrong in ([{"heat": "mid"}], [{"heat": "mid", "dose": 3}], [{"heat": "hot", "speed": 3}], ["heat"]):
            with pytest.raises(InvalidSpaceError):
                new(forbidden=wrong)


class TestPastData:
    def test_it_enters_the_estimate_with_a_note(self, url: str | None) -> None:
        study = new(url)
        rng = np.random.default_rng(3)
        rows: list[dict[str, Level]] = [
            {"heat": "mid", "speed": int(s), "supplier": "A"} for s in rng.integers(1, 5, 200)
        ]
        values = [1.4 + 1.2 * (row["speed"] == 3) + rng.normal() for row in rows]
        assert study.import_runs(rows, values, "last year") == 200
        finish(study)
        assert "200 imported runs" in study.verdict().statement
        assert dict(study.verdict().runs_by_stage)["past data"] == 200
        assert study.status().n_past == 200

    def test_it_is_refused_where_it_cannot_be_used(self) -> None:
        row: list[dict[str, Level]] = [{"heat": "mid", "speed": 1, "supplier": "A"}]
        with pytest.raises(StudyError, match="finished"):
            finish(new()).import_runs(row, [1.0], "late")
        with pytest.raises(StudyError, match="modl cannot use runs that it did not ask for"):
            new(algorithm="modl").import_runs(row, [1.0], "x")
        with pytest.raises(TrialError, match="finite"):
            new().import_runs(row, [math.nan], "x")
        with pytest.raises(StudyError, match="forbids"):
            new(forbidden=[{"heat": "mid", "speed": 1}]).import_runs(row, [1.0], "x")


class TestOptimize:
    def test_it_runs_to_the_verdict_with_several_workers(self, url: str | None) -> None:
        rng = np.random.default_rng(0)
        verdict = new(url).optimize(lambda run: 2.0 * (run["heat"] == "mid") + rng.normal(), workers=4)
        assert verdict is not None
        assert verdict.assignment["heat"] == "mid"

    def test_an_error_of_the_function_fails_the_trial_and_is_raised(self) -> None:
        study = new()
        with pytest.raises(ZeroDivisionError):
            study.optimize(lambda run: 1 / 0)
        assert (study.status().n_running, study.status().n_failed) == (0, 1)

    def test_time_runs_out_and_the_study_goes_on_later(self) -> None:
        study = new()
        assert study.optimize(lambda run: 0.0, timeout=1e-9) is None
        assert study.status().n_running == 0

    @pytest.mark.parametrize("workers", [1, 3])
    def test_it_stops_after_so_many_runs_or_when_it_is_told_to(self, workers: int) -> None:
        study = new()
        assert study.optimize(lambda run: 0.0, n_runs=5, workers=workers) is None
        assert (study.status().n_complete, study.status().n_running) == (5, 0)
        assert study.optimize(lambda run: 0.0, until=lambda it: it.state.n_complete >= 8, workers=workers) is None
        assert 8 <= study.status().n_complete <= 8 + workers - 1
        assert study.status().n_running == 0

    def test_one_worker_is_the_thread_that_calls(self) -> None:
        threads = set()

        def fn(_: object) -> float:
            threads.add(threading.current_thread())
            return 0.0

        new().optimize(fn, n_runs=3)
        assert threads == {threading.current_thread()}

    def test_an_interrupt_while_an_outcome_is_kept_does_not_lose_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        study = new()
        tell = study.tell_many
        calls = []

        def interrupted(*given: Any, **more: Any) -> int:
            calls.append(given)
            if len(calls) == 1:
                raise KeyboardInterrupt
            return tell(*given, **more)

        monkeypatch.setattr(study, "tell_many", interrupted)
        with pytest.raises(KeyboardInterrupt):
            study.optimize(lambda run: 4.0)
        assert (study.status().n_complete, study.status().n_running) == (1, 0)

    def test_a_named_worker_goes_on_with_what_it_had(self) -> None:
        study = new()
        mine, theirs = study.ask(2, worker="bench 1"), study.ask(worker="bench 2")
        made: list[levers.Assignment] = []

        def fn(run: levers.Assignment) -> float:
            made.append(run)
            return 0.0

        assert study.optimize(fn, worker="bench 1", n_runs=3) is None
        assert made[:2] == [trial.params for trial in mine]
        assert [trial.number for trial in study.running()] == [theirs[0].number]

    def test_a_function_that_never_gives_a_number_is_given_up(self) -> None:
        with pytest.warns(NoOutcomeWarning), pytest.raises(StudyError, match="gave no outcome"):
            new().optimize(lambda run: math.nan)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"goal": "best"}, "goal"),
        ({"tolerance": -1}, "tolerance"),
        ({"tolerance": None}, "tolerance or a budget"),
        ({"seed": -1}, "seed"),
        ({"block_size": 0}, "block_size"),
        ({"algorithm": "observational-regression"}, "watches"),
        ({"algorithm": "modl", "min_effect": 0.5}, "no option 'min_effect'"),
        ({"max_parents": 9}, "max_parents"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_stored(
    settings: dict[str, object], message: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/levers.db"
    with pytest.raises(LeversError, match=message):
        new(url, **settings)
    assert levers.list_studies(url) == []


def test_names_that_sheets_use_are_refused() -> None:
    with pytest.raises(InvalidSpaceError, match="rename it"):
        levers.create_study("x", {"Outcome": [1, 2]}, tolerance=1.0, noise_sd=1.0)
    with pytest.raises(StudyError, match="name"):
        levers.create_study(" x", {"a": [1, 2]}, tolerance=1.0, noise_sd=1.0)
    with pytest.raises(InvalidSettingError, match="lease"):
        new().ask(lease=-1)


def test_a_snapshot_is_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levers.studies.log.EVERY", 10)
    monkeypatch.setattr("levers.studies.log.GROWTH", 0.0)
    clock = Clock()
    study = reload(new(), clock)
    for i in range(40):
        clock.now += 7
        asked = study.ask(lease=30.0)
        trial = asked[0] if asked else study.running()[-1]
        if i % 5 == 1:
            study.fail(trial)
        elif i % 5 != 2:
            study.tell(trial, outcome(trial))
    again = reload(study, clock)
    assert again._log.storage.snapshot(again._log.study) is not None
    one, other = study.state, again.state
    assert again._log._snapshot_seq > 0
    n = one.trials.n_trials
    for name in ("state", "block", "row", "lease"):
        assert (getattr(one.trials, name)[:n] == getattr(other.trials, name)[:n]).all(), name
    assert list(one.again) == list(other.again)
    assert one.fresh == other.fresh
    assert one.leases == other.leases
    clock.now += 60  # nobody waits for the runs that are out
    assert to_json(finish(study).verdict()) == to_json(reload(study).verdict())


def test_a_library_that_shuffles_differently_does_not_end_a_study(monkeypatch: pytest.MonkeyPatch) -> None:
    study = new()
    original = Pooled.design

    def other(self: Pooled, state: PooledState, seed: int) -> Design:
        return original(self, state, seed + 1)

    for _ in range(40):
        asked = study.ask(9)
        # the version that takes in a block is not the one that designed it
        monkeypatch.setattr(Pooled, "design", other)
        study = reload(study)
        study.tell_many((trial, outcome(trial)) for trial in asked)
        monkeypatch.setattr(Pooled, "design", original)
    assert study.is_finished
    assert study.best_params["heat"] == "mid"
    assert "as stored" in {block.design for block in study.verdict().blocks}


class TestFoundInReview:
    def test_past_data_survives_a_tiny_correction(self) -> None:
        study = new()
        rng = np.random.default_rng(3)
        codes = np.column_stack([rng.integers(0, m, 360) for m in (3, 4, 2)])
        values = 2.0 * (codes[:, 0] == 1) + 1.5 * (codes[:, 1] == 2) + rng.normal(size=360)
        study.import_arrays(codes, values, "last year")
        while len(study.state.blocks) < 2 and not study.is_finished:
            study.tell_many((trial, outcome(trial)) for trial in study.ask(100))
        before = study.best()
        assert before is not None
        first = study.trial(0)
        assert first.value is not None
        study.correct(0, first.value + 1e-9, "tiny")
        after = study.best()
        assert after is not None
        assert after.within == pytest.approx(before.within)
        assert reload(study).best() == after

    def test_the_same_past_data_is_not_counted_twice(self) -> None:
        study = new()
        study.import_arrays([[0, 0, 0], [1, 2, 1]], [1.0, 2.0], "x")
        with pytest.raises(StudyError, match="imported before"):
            study.import_arrays([[0, 0, 0], [1, 2, 1]], [1.0, 2.0], "x again")

    def test_past_data_may_come_in_the_last_block(self) -> None:
        study = new(noise_sd=None)
        for _ in range(2):
            study.tell_many((trial, outcome(trial)) for trial in study.ask(100))
        study.import_arrays([[0, 0, 0], [1, 2, 1]], [1.0, 2.0], "x")
        verdict = finish(study).verdict()
        assert verdict.certificate == "slippage"
        assert "checked numerically" in verdict.statement

    def test_past_data_does_not_eat_the_budget(self) -> None:
        study = new(tolerance=None, budget=80)
        rng = np.random.default_rng(3)
        codes = np.column_stack([rng.integers(0, m, 54) for m in (3, 4, 2)])
        study.import_arrays(codes, rng.normal(size=54), "x")
        finish(study)
        assert 70 <= study.status().n_complete <= 80
        assert study.verdict().n_runs == study.status().n_complete

    @pytest.mark.parametrize("data", [b"", b"\x00", b"x" * 500])
    def test_a_damaged_snapshot_is_ignored(self, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
        monkeypatch.setattr("levers.studies.log.EVERY", 5)
        monkeypatch.setattr("levers.studies.log.GROWTH", 0.0)
        study = new()
        for _ in range(6):
            study.tell(study.ask()[0], 1.0)
        with study.storage.writing(study._log.study) as writing:
            writing.save_snapshot(Snapshot.of(3, writing.read(2)[0].digest, data))
        assert reload(study).status().n_complete == 6

    @pytest.mark.parametrize("value", [1e160, 1e308, math.inf, -math.inf])
    def test_outcomes_too_large_to_compute_with_are_refused(self, value: float) -> None:
        study = new()
        trial = study.ask()[0]
        for tell in (lambda: study.tell(trial, value), lambda: study.tell_arrays([trial.number], [value])):
            with pytest.raises(LeversError, match="in size"):
                tell()
        assert study.status().n_complete == 0

    def test_arrays_are_checked(self) -> None:
        study = new()
        study.ask(3)
        for trials in ([1.7], ["1"], [[0]]):
            with pytest.raises(TrialError):
                study.tell_arrays(trials, [1.0])
        for codes, values in (([[9, 0, 0]], [1.0]), ([[0]], [1.0]), ([[0, 0, 0]], [math.nan]), ([[0, 0, 0]], [])):
            with pytest.raises(TrialError):
                study.import_arrays(codes, values, "x")
        assert study.status().n_past == 0

    def test_nan_twice_and_for_a_stale_trial_is_no_news(self) -> None:
        clock = Clock()
        study = reload(new(), clock)
        first, second = study.ask(2, lease=10)
        with pytest.warns(NoOutcomeWarning):
            study.tell(first, math.nan)
        study.tell(first, math.nan)
        clock.now += 11
        study.ask()
        assert study.trial(second.number).state is TrialState.STALE
        study.tell(second, math.nan)

    def test_a_function_that_fails_after_its_lease_is_heard(self) -> None:
        clock = Clock()
        study = reload(new(), clock)

        def fn(_: object) -> float:
            clock.now += 100
            study.ask()
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            study.optimize(fn, lease=10)

    def test_an_infinite_outcome_lets_the_trial_go(self) -> None:
        study = new()
        with pytest.raises(LeversError, match="in size"):
            study.optimize(lambda run: math.inf)
        assert study.status().n_running == 0

    def test_outcomes_of_other_workers_count_when_one_fails(self) -> None:
        study = new()
        begun = threading.Barrier(3)

        def fn(run: levers.Assignment) -> float:
            begun.wait(3)  # a fourth run waits in vain
            if run == first.params:
                raise ZeroDivisionError
            return 1.0

        first = study.ask()[0]
        study.fail(first, "to be asked again first")
        with pytest.raises(ZeroDivisionError):
            study.optimize(fn, workers=3)
        assert (study.status().n_complete, study.status().n_running) == (2, 0)

    def test_a_verdict_on_forbidden_combinations_names_real_factors(self) -> None:
        study = finish(new(forbidden=[{"heat": "mid", "speed": 3}]))
        verdict = study.verdict()
        assert verdict.assignment == study.best_params
        assert set(verdict.parents or ()) <= set(SPACE)
        assert verdict.on_parents

    def test_equal_outcomes_are_pointed_out(self) -> None:
        study = finish(new(noise_sd=None), lambda trial: 0.0)
        assert "every outcome was the same" in study.verdict().statement

    def test_a_tolerance_in_the_wrong_unit_is_pointed_out(self) -> None:
        study = new(noise_sd=None)
        rng = np.random.default_rng(0)
        study.tell_many((trial, 120_000 + 9_000 * rng.normal()) for trial in study.ask(1000))
        assert "large against the tolerance" in str(study.status().note)

    def test_what_a_corrected_study_cannot_do_is_said(self) -> None:
        study = new()
        study.import_arrays([[0, 0, 0], [1, 2, 1]], [1.0, 2.0], "x")
        verdict = finish(study).verdict()
        with pytest.raises(InvalidSettingError, match="imported, corrected"):
            levers.verify(verdict, [0.0] * verdict.n_runs)

    def test_an_event_that_is_not_known_is_named(self) -> None:
        study = new()
        storage = study.storage
        for data in ('{"$": "Zapped"}', '{"$": "Factor", "name": "a", "levels": [1, 2]}', "3"):
            name, records = f"odd {data[:14]}", storage.read(study._log.study, 0)
            made = storage.create(name, new_log(name, [*records, Stored(4, 0.0, "x", "Odd", data)]))
            with pytest.raises(StudyError, match=r"event 4 .*newer version"):
                Study("odd", storage, made).status()


def test_the_worst_case_is_not_exceeded() -> None:
    """Over mixed spaces, tolerances and knowledge; forecasts made before each block."""
    rng = np.random.default_rng(5)
    n_forecasts = 0
    for seed in range(25):
        sizes = rng.choice([2, 3, 4, 5, 7], size=int(rng.integers(4, 13))).tolist()
        effects = [rng.normal(size=m) if rng.random() < 0.3 else np.zeros(m) for m in sizes]
        study = levers.create_study(
            "s",
            levers.Space.sized(sizes),
            tolerance=float(rng.choice([0.8, 1.5, 3.0])),
            noise_sd=1.0 if rng.random() < 0.5 else None,
            seed=seed,
        )
        promised: list[int] = []
        while not study.is_finished:
            to_go = study.forecast().worst_case
            promised += [] if to_go is None else [study.status().n_complete + to_go]
            due = study.ask_numbers(10**7)
            codes = study.state.blocks[-1].batch.codes[study.state.trials.row[due]]
            study.tell_arrays(due, sum(e[codes[:, k]] for k, e in enumerate(effects)) + rng.normal(size=len(due)))
        n_forecasts += len(promised)
        assert study.status().n_complete <= min(promised, default=10**9)
    assert n_forecasts > 25


def test_the_predicted_interval_allows_for_the_choice() -> None:
    """No factor matters, so the true mean is 0 everywhere; the estimate at the best setting is far too high."""
    n_held = 0
    for seed in range(20):
        study = levers.create_study("s", levers.Space.sized([4] * 8), tolerance=0.7, noise_sd=1.0, seed=seed)
        rng = np.random.default_rng(seed)
        while not study.is_finished:
            due = study.ask_numbers(10**6)
            study.tell_arrays(due, rng.normal(size=len(due)))
        best = study.best()
        assert best is not None
        assert best.low is not None
        assert best.high is not None
        n_held += best.low <= 0.0 <= best.high
    assert n_held >= 18
