"""Optuna's own loop with the sampler: threads, processes, failures, and what is refused."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

import levers
from levers.errors import InvalidOutcomeError, InvalidSettingError, NotFinishedError
from levers.integrations.optuna import LeversSampler, stop_at_verdict

SETTINGS: dict[str, Any] = {"tolerance": 0.5, "noise_sd": 0.5, "seed": 3}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(optuna.logging.INFO)


class Oven:
    """An objective: three parameters of three kinds, with noise."""

    def __init__(self, sign: float = 1.0) -> None:
        self.rng, self.sign = np.random.default_rng(5), sign

    def mean(self, params: dict[str, object]) -> float:
        heat = {10: 0.0, 20: 2.0, 30: 1.0}[int(str(params["heat"]))]
        return self.sign * (2.0 * (params["fan"] == "on") + heat + float(str(params["rate"])))

    def __call__(self, trial: optuna.Trial) -> float:
        trial.suggest_categorical("fan", ["off", "on", None])
        trial.suggest_int("heat", 10, 30, step=10)
        trial.suggest_float("rate", 0.0, 0.6, step=0.3)
        return self.mean(trial.params) + float(self.rng.normal(scale=0.5))


def test_a_log_scale_is_a_setting_and_refuses_0() -> None:
    kinds = {"fan": CategoricalDistribution(["off", "on"]), "heat": IntDistribution(1, 2)}
    given: dict[str, Any] = {"scale": "log", "tolerance": "5%", "noise_sd": 0.1, "seed": 1, "distributions": kinds}

    def time_of(trial: optuna.Trial) -> float:
        return (
            10.0
            * (1.25 if trial.suggest_categorical("fan", ["off", "on"]) == "off" else 1.0)
            * (1.1 ** trial.suggest_int("heat", 1, 2))
        )

    sampler = LeversSampler(**given)
    study = optuna.create_study(direction="minimize", sampler=sampler)
    study.optimize(time_of, n_trials=300, callbacks=[stop_at_verdict])
    assert dict(sampler.verdict().assignment) == {"fan": "on", "heat": 1}
    assert sampler.verdict().scale == "log"
    study = optuna.create_study(direction="minimize", sampler=LeversSampler(**given))
    with pytest.raises(InvalidOutcomeError, match="the outcome of Optuna trial 0 is 0; on a log scale every outcome"):
        study.optimize(lambda trial: 0.0 * time_of(trial), n_trials=3)


@pytest.mark.parametrize(("direction", "sign"), [("maximize", 1.0), ("minimize", -1.0)])
@pytest.mark.parametrize("n_jobs", [1, 4])
def test_it_stops_at_a_certified_answer(direction: Literal["maximize", "minimize"], sign: float, n_jobs: int) -> None:
    oven = Oven(sign)
    study = optuna.create_study(direction=direction, sampler=LeversSampler(**SETTINGS))
    study.optimize(oven, n_trials=2000, n_jobs=n_jobs, callbacks=[stop_at_verdict])
    sampler = study.sampler
    assert isinstance(sampler, LeversSampler)
    verdict = sampler.verdict()
    best = {"fan": "on", "heat": 20, "rate": 0.6}
    assert abs(oven.mean(best) - oven.mean(dict(verdict.assignment))) <= 0.5
    assert verdict.tolerance is not None
    assert verdict.tolerance <= 0.5
    assert len(study.trials) < 2000
    told = {t.number: t.value for t in map(sampler.levers_study.trial, range(verdict.n_runs))}
    made = {one.system_attrs["levers:trial"]: one.value for one in study.trials if "levers:trial" in one.system_attrs}
    assert {number: made[number] for number in told if number in made} == told
    first = [one for one in study.trials if "levers:first" in one.system_attrs]
    assert len(first) >= 1  # with threads, as many as began before the first one ended
    assert sampler.levers_study.status().n_past == len(first)


def test_trials_that_were_pruned_or_failed_are_made_again() -> None:
    oven, n_lost = Oven(), 0

    def objective(trial: optuna.Trial) -> float:
        nonlocal n_lost
        value = oven(trial)
        if trial.number % 10 == 3:
            n_lost += 1
            raise optuna.TrialPruned
        if trial.number % 10 == 6:
            n_lost += 1
            raise RuntimeError("broken")
        return float("nan") if trial.number % 10 == 9 else value

    sampler = LeversSampler(**SETTINGS)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=2000, callbacks=[stop_at_verdict], catch=(RuntimeError,))
    status = sampler.levers_study.status()
    n_nan = sum(one.number % 10 == 9 for one in study.trials)
    assert n_lost > 2
    assert status.n_failed == n_lost + n_nan
    assert oven.mean(dict(sampler.verdict().assignment)) >= 4.6 - 0.5
    reasons = [entry.what for entry in sampler.levers_study.log() if "failed" in entry.what]
    assert any("pruned" in what for what in reasons)


SCRIPT = """
import sys, optuna
sys.path.insert(0, sys.argv[3])
from test_optuna import Oven, SETTINGS
from levers.integrations.optuna import LeversSampler, stop_at_verdict
optuna.logging.set_verbosity(optuna.logging.ERROR)
folder, seed = sys.argv[1], int(sys.argv[2])
oven = Oven()
oven.rng = __import__("numpy").random.default_rng(seed)
study = optuna.create_study(study_name="oven", direction="maximize", storage=f"sqlite:///{folder}/optuna.db",
    load_if_exists=True, sampler=LeversSampler(storage=f"sqlite:///{folder}/levers.db", **SETTINGS))
study.optimize(oven, n_trials=500, callbacks=[stop_at_verdict])
print(sorted(dict(study.sampler.verdict().assignment).items()))
"""


def test_processes_share_a_study(tmp_path: Path) -> None:
    commands = [[sys.executable, "-c", SCRIPT, str(tmp_path), str(seed), str(Path(__file__).parent)] for seed in (1, 2)]
    optuna.create_study(study_name="oven", direction="maximize", storage=f"sqlite:///{tmp_path}/optuna.db")
    workers = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for c in commands]
    said = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], said
    assert said[0][0] == said[1][0]
    begun = levers.load_study("oven", f"sqlite:///{tmp_path}/levers.db")
    assert begun.is_finished
    study = optuna.load_study(study_name="oven", storage=f"sqlite:///{tmp_path}/optuna.db")
    numbers = [one.system_attrs["levers:trial"] for one in study.trials if "levers:trial" in one.system_attrs]
    assert len(numbers) == len(set(numbers))
    again = LeversSampler(storage=f"sqlite:///{tmp_path}/levers.db", **SETTINGS)
    study = optuna.load_study(study_name="oven", storage=f"sqlite:///{tmp_path}/optuna.db", sampler=again)
    study.optimize(Oven(), n_trials=5, callbacks=[stop_at_verdict])
    assert len(study.trials) <= len(numbers) + 5
    assert dict(again.verdict().assignment) == dict(begun.verdict().assignment)


def test_what_has_no_levels_is_refused_in_the_first_trial() -> None:
    for suggest, says in (
        (lambda t: t.suggest_float("x", 0, 1), "give suggest_float a step"),
        (lambda t: t.suggest_int("x", 1, 64, log=True), "log scale"),
        (lambda t: t.suggest_int("x", 1, 10**6), "1,000,000 levels, more than 1,000"),
    ):
        study = optuna.create_study(sampler=LeversSampler(**SETTINGS))
        with pytest.raises(InvalidSettingError, match=says):
            study.optimize(lambda t, suggest=suggest: float(suggest(t)), n_trials=1)  # type: ignore[misc]


def test_other_parameters_in_later_trials_are_refused() -> None:
    def objective(trial: optuna.Trial) -> float:
        trial.suggest_int("a", 1, 2)
        return 0.0 if trial.number == 0 else float(trial.suggest_int("b", 1, 2))

    study = optuna.create_study(sampler=LeversSampler(**SETTINGS))
    with pytest.raises(InvalidSettingError, match="'b' is not among the parameters of the first trial"):
        study.optimize(objective, n_trials=2)


def test_parameters_may_be_given_before() -> None:
    given: dict[str, BaseDistribution] = {
        "fan": CategoricalDistribution(["off", "on", None]),
        "heat": IntDistribution(10, 30, step=10),
    }
    given |= {"rate": FloatDistribution(0.0, 0.6, step=0.3)}
    sampler = LeversSampler(distributions=given, **SETTINGS)
    with pytest.raises(InvalidSettingError, match="no trial has been made"):
        sampler.verdict()
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(Oven(), n_trials=1, callbacks=[stop_at_verdict])
    assert "levers:trial" in study.trials[0].system_attrs
    with pytest.raises(NotFinishedError):
        sampler.verdict()


def test_asking_without_telling_is_refused_at_the_end_of_the_round() -> None:
    given: dict[str, BaseDistribution] = {"heat": IntDistribution(10, 30, step=10)}
    study = optuna.create_study(direction="maximize", sampler=LeversSampler(distributions=given, **SETTINGS))
    asked = study.sampler
    assert isinstance(asked, LeversSampler)
    study.ask(given)
    for _ in range(asked.levers_study.status().n_waiting):
        study.ask(given)
    with pytest.raises(InvalidSettingError, match="trials are out, and what comes next depends on them"):
        study.ask(given)


def test_settings_that_cannot_be() -> None:
    with pytest.raises(InvalidSettingError, match="the goal is the direction"):
        LeversSampler(goal="minimize", tolerance=1.0)
    several = optuna.create_study(directions=["minimize", "maximize"], sampler=LeversSampler(**SETTINGS))
    with pytest.raises(ValueError, match="multi-objective"):
        several.optimize(lambda t: (t.suggest_int("a", 1, 2), 1.0), n_trials=1)
    with pytest.raises(InvalidSettingError, match="whose sampler is a LeversSampler"):
        optuna.create_study().optimize(lambda t: t.suggest_int("a", 1, 2), n_trials=1, callbacks=[stop_at_verdict])


def test_a_shared_optuna_study_needs_a_storage_here_too(tmp_path: Path) -> None:
    study = optuna.create_study(storage=f"sqlite:///{tmp_path}/optuna.db", sampler=LeversSampler(**SETTINGS))
    with pytest.raises(InvalidSettingError, match="levers needs one too"):
        study.optimize(lambda t: t.suggest_int("a", 1, 2), n_trials=1)
    kept = f"sqlite:///{tmp_path}/levers.db"
    levers.create_study(study.study_name, {"b": [1, 2]}, storage=kept, **SETTINGS)
    study = optuna.load_study(
        study_name=study.study_name,
        storage=f"sqlite:///{tmp_path}/optuna.db",
        sampler=LeversSampler(storage=kept, **SETTINGS),
    )
    study.optimize(lambda t: t.suggest_int("a", 1, 2), n_trials=1)
    with pytest.raises(InvalidSettingError, match="with other levers or another goal"):
        study.optimize(lambda t: t.suggest_int("a", 1, 2), n_trials=1)
