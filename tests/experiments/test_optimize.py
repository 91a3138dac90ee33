import io
import itertools
import re
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levers
from levers.errors import InvalidOutcomeError, InvalidSettingError, StudyError, UnknownAlgorithmError
from levers.studies.run import OLD_WORKER, AnyStudy

SPACE = {"heat": ["low", "mid", "high"], "shift": ["day", "night"]}


class Line:
    """A noisy line that counts its runs."""

    def __init__(self, sign: float = 1.0) -> None:
        self.rng, self.sign, self.calls = np.random.default_rng(0), sign, 0

    def __call__(self, run: levers.Assignment) -> float:
        self.calls += 1
        return self.sign * {"low": 0.0, "mid": 3.0, "high": 1.0}[str(run["heat"])] + 0.5 * float(self.rng.normal())


@pytest.mark.parametrize(("goal", "sign"), [("maximize", 1.0), ("minimize", -1.0)])
def test_a_function_is_optimised_in_either_direction(goal: str, sign: float) -> None:
    line = Line(sign)
    verdict = levers.optimize(line, SPACE, tolerance=0.5, noise_sd=0.5, goal=goal, seed=1)
    assert verdict.assignment["heat"] == "mid"
    assert verdict.parents == ("heat",)
    assert verdict.n_runs == line.calls


def test_same_seed_same_runs_and_options_reach_the_algorithm() -> None:
    runs = [levers.optimize(Line(), SPACE, tolerance=0.5, noise_sd=0.5, seed=3).n_runs for _ in range(2)]
    assert runs[0] == runs[1]
    known = levers.optimize(Line(), SPACE, tolerance=0.2, noise_sd=0.5, seed=3, max_parents=1)
    unknown = levers.optimize(Line(), SPACE, tolerance=0.2, noise_sd=0.5, seed=3)
    assert known.n_runs < unknown.n_runs


def test_several_runs_are_made_at_the_same_time_in_memory_too() -> None:
    first, together = itertools.count(), threading.Barrier(3, timeout=30)  # which no call passes alone

    def measure(run: levers.Assignment) -> float:
        if next(first) < 3:
            together.wait()
        return 3.0 * (run["heat"] == "mid")

    verdict = levers.optimize(measure, SPACE, budget=12, seed=1, workers=3)
    assert (verdict.assignment["heat"], verdict.n_runs) == ("mid", 12)


def test_a_progress_bar_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    levers.optimize(Line(), SPACE, tolerance=1.0, noise_sd=0.5, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "cfs runs" in err


class Terminal(io.StringIO):
    """What a person sees, or a file that takes its place."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_shown_where_somebody_sees_it(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Terminal(False), Terminal(is_terminal)
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)

    def printing(run: levers.Assignment) -> float:
        sys.stdout.write("measured\n")
        return float(run.codes[0])

    verdict = levers.optimize(printing, SPACE, tolerance=1.0, noise_sd=0.5)
    assert ("cfs runs" in err.getvalue()) == is_terminal
    assert out.getvalue().count("measured") == verdict.n_runs, "what is printed arrives where it was sent"


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"tolerance": 0}, InvalidSettingError, "tolerance"),
        ({"failure_prob": 1.2}, InvalidSettingError, "failure_prob"),
        ({"goal": "best"}, InvalidSettingError, "maximize, minimize"),
        ({"algorithm": "magic"}, UnknownAlgorithmError, "known are"),
        ({"max_parents": 7}, InvalidSettingError, "max_parents"),
        ({"algorithm": "observational-regression"}, InvalidSettingError, "watches without setting"),
    ],
)
def test_wrong_input_is_refused_before_the_function_is_called(
    kwargs: dict[str, object], error: type[Exception], message: str
) -> None:
    line = Line()
    settings = {"tolerance": 0.5, "noise_sd": 0.5, **kwargs}
    with pytest.raises(error, match=message):
        levers.optimize(line, SPACE, **settings)  # type: ignore[call-overload]
    assert line.calls == 0


@pytest.mark.parametrize(("value", "message"), [(float("nan"), "returned nan at"), (None, "must be a number")])
def test_a_function_that_returns_nonsense_is_named(value: object, message: str) -> None:
    with pytest.raises(InvalidOutcomeError, match=message):
        levers.optimize(lambda run: value, SPACE, tolerance=0.5, noise_sd=0.5)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidSettingError, match="fn must be a function"):
        levers.optimize(3, SPACE, tolerance=0.5, noise_sd=0.5)  # type: ignore[call-overload]


def test_a_budget_and_unknown_noise_need_no_other_number() -> None:
    line = Line(sign=-1.0)
    verdict = levers.optimize(line, SPACE, budget=120, goal="minimize", seed=2)
    assert verdict.n_runs <= 120
    assert verdict.assignment["heat"] == "mid"
    assert verdict.goal == "minimize"


def test_a_minimised_verdict_can_be_verified() -> None:
    kept: list[float] = []
    line = Line(sign=-1.0)

    def remembered(run: levers.Assignment) -> float:
        kept.append(line(run))
        return kept[-1]

    verdict = levers.optimize(remembered, SPACE, tolerance=0.5, noise_sd=0.5, goal="minimize", seed=2)
    assert levers.verify(verdict, kept).ok
    assert not levers.verify(verdict, [-y for y in kept]).ok


class Stopped(Line):
    """A line that breaks down at one of its runs."""

    def __init__(self, at: int, error: type[BaseException]) -> None:
        super().__init__()
        self.at, self.error = at, error

    def __call__(self, run: levers.Assignment) -> float:
        value = super().__call__(run)
        if self.calls == self.at:
            raise self.error
        return value


ASKED: dict[str, Any] = {"tolerance": 0.5, "noise_sd": 0.5, "seed": 3}


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError, SystemExit])
class TestRunsAreNeverLost:
    def test_in_memory_the_exception_has_them(self, error: type[BaseException]) -> None:
        with pytest.raises(error) as caught:
            levers.optimize(Stopped(10, error), SPACE, **ASKED)
        study = caught.value.study  # type: ignore[attr-defined]
        assert study.status().n_complete == 9
        assert study.status().n_running == 0
        assert "9 runs are kept in memory" in caught.value.__notes__[0]
        line = Line()
        verdict = study.optimize(line)
        assert verdict.n_runs == 9 + line.calls
        assert verdict.assignment["heat"] == "mid"

    def test_in_a_storage_the_same_call_goes_on(self, error: type[BaseException], tmp_path: Path) -> None:
        kept: dict[str, Any] = {"name": "line", "storage": f"sqlite:///{tmp_path}/levers.db", **ASKED}
        with pytest.raises(error) as caught:
            levers.optimize(Stopped(10, error), SPACE, **kept)
        assert "9 runs are kept in sqlite:///" in caught.value.__notes__[0]
        assert "make the same call again" in caught.value.__notes__[0]
        line = Line()
        verdict = levers.optimize(line, SPACE, **kept)
        assert verdict.n_runs == 9 + line.calls
        assert levers.optimize(Line(), SPACE, **kept) == verdict
        assert levers.list_studies(kept["storage"]) == ["line"]


def test_what_the_note_says_works(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/levers.db"
    with pytest.raises(ZeroDivisionError) as caught:
        levers.optimize(Stopped(5, ZeroDivisionError), SPACE, budget=20, name="it's", storage=storage)
    call = re.search(r"levers\.load_study\(.*\)$", caught.value.__notes__[0])
    assert call is not None
    assert eval(call[0], {"levers": levers, "fn": Line()}).n_runs == 20


def test_a_process_that_was_killed_goes_on_with_the_run_it_had(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/levers.db"
    study = levers.create_study("line", SPACE, storage=storage, **ASKED)
    trial = study.ask(worker=OLD_WORKER)[0]
    runs: list[levers.Assignment] = []
    line = Line()

    def remembered(run: levers.Assignment) -> float:
        runs.append(run)
        return line(run)

    verdict = levers.optimize(remembered, SPACE, name="line", storage=storage, **ASKED)
    assert runs[0] == trial.params
    assert verdict.n_runs == len(runs) == study.status().n_complete


def test_other_settings_are_another_study() -> None:
    kept: dict[str, Any] = {"name": "line", "storage": levers.MemoryStorage()}
    levers.optimize(Line(), SPACE, budget=12, **kept)
    with pytest.raises(StudyError, match="budget was 12 and is 13 here; take another name"):
        levers.optimize(Line(), SPACE, budget=13, **kept)
    with pytest.raises(StudyError, match="other settings: space, goal was 'maximize' and is 'minimize' here"):
        levers.optimize(Line(), {"heat": [1, 2]}, budget=12, goal="minimize", **kept)
    with pytest.raises(InvalidSettingError, match="storage is missing"):
        levers.optimize(Line(), SPACE, budget=12, name="line")
    with pytest.raises(InvalidSettingError, match="name is missing"):
        levers.optimize(Line(), SPACE, budget=12, storage=levers.MemoryStorage())


def test_a_call_may_stop_before_the_verdict() -> None:
    line, storage = Line(), levers.MemoryStorage()

    def go_on(n_runs: int | None = None, until: Any = None) -> levers.Verdict | None:
        return levers.optimize(line, SPACE, budget=30, name="line", storage=storage, n_runs=n_runs, until=until)

    def enough(study: AnyStudy) -> bool:
        return study.state.n_complete >= 15

    assert go_on(n_runs=7) is None
    assert line.calls == 7
    assert go_on(until=enough) is None
    assert line.calls == 15
    verdict = go_on()
    assert verdict is not None
    assert verdict.n_runs == line.calls == 30
    assert go_on(n_runs=1) == verdict
    with pytest.raises(InvalidSettingError, match="its runs would be lost"):
        levers.optimize(line, SPACE, budget=30, n_runs=7)  # type: ignore[call-overload]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1.0, 0.0, 0.1, 1e9 / 3])
def test_a_function_that_is_always_the_same_shows_no_levers_that_work_together(value: float) -> None:
    verdict = levers.optimize(lambda _: value, {"a": [1, 2], "b": ["x", "y", "z"]}, budget=20, seed=1)
    assert verdict.statement.startswith("every outcome was the same")
    assert "work together" not in verdict.statement
    assert verdict.tolerance is None
