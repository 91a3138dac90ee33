import numpy as np
import pytest

import levers
from levers.errors import InvalidOutcomeError, InvalidSettingError, UnknownAlgorithmError

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


def test_a_progress_bar_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    levers.optimize(Line(), SPACE, tolerance=1.0, noise_sd=0.5, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "cfs runs" in err


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
        levers.optimize(line, SPACE, **settings)  # type: ignore[arg-type]
    assert line.calls == 0


@pytest.mark.parametrize(("value", "message"), [(float("nan"), "returned nan at"), (None, "must be a number")])
def test_a_function_that_returns_nonsense_is_named(value: object, message: str) -> None:
    with pytest.raises(InvalidOutcomeError, match=message):
        levers.optimize(lambda run: value, SPACE, tolerance=0.5, noise_sd=0.5)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidSettingError, match="fn must be a function"):
        levers.optimize(3, SPACE, tolerance=0.5, noise_sd=0.5)  # type: ignore[arg-type]


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
