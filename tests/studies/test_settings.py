"""A study's settings stand in one table; what is spelled out elsewhere is held to it."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import levers
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.registry import option_names
from levers.cli.app import load_command
from levers.client import Client
from levers.studies.settings import CREATE, FORM, PLAN, QUESTIONS, settings_of
from levers.studies.spec import StudySpec
from levers.web.api.schemas import NewStudy, PlanFor, StudyShape
from levers.web.app import make_app
from levers.web.service import Service

SPELLED = {"forbidden": "forbid", "merged": "merge", "free": "free", "hard_to_change": "hard_to_change"}
"""Options of the command line that are given once for each combination, group or lever."""


@pytest.mark.parametrize(
    ("function", "face"),
    [(levers.create_study, CREATE), (Client.create_study, CREATE), (levers.plan, PLAN), (Client.plan, PLAN)],
)
def test_a_function_takes_every_setting_with_its_default(function: Callable[..., Any], face: str) -> None:
    parameters = inspect.signature(function).parameters
    for setting in settings_of(face):
        assert setting.name in parameters, setting.name
        assert parameters[setting.name].default == setting.default, setting.name
    others = {"self", "name", "space", "storage", "who", "options"}
    assert {name for name in parameters if name not in others} == {setting.name for setting in settings_of(face)}


def test_the_client_creates_and_plans_like_the_library() -> None:
    for here, there in ((levers.create_study, Client.create_study), (levers.plan, Client.plan)):
        ours = dict(inspect.signature(here).parameters)
        for name in ("storage", "who"):
            ours.pop(name, None)
        theirs = dict(inspect.signature(there).parameters)
        del theirs["self"]
        assert ours == theirs


@pytest.mark.parametrize(("command", "face"), [("create", CREATE), ("plan", PLAN)])
def test_a_command_has_an_option_for_every_setting(command: str, face: str) -> None:
    options = {parameter.name: parameter for parameter in load_command(command).params}
    for setting in settings_of(face):
        assert SPELLED.get(setting.name, setting.name) in options
        if setting.name not in SPELLED:
            assert options[setting.name].help == setting.help


@pytest.mark.parametrize(("model", "face"), [(NewStudy, CREATE), (PlanFor, PLAN)])
def test_a_request_has_a_field_for_every_setting(model: Any, face: str) -> None:
    fields_of_it = set(model.model_fields)
    assert {setting.name for setting in settings_of(face)} == fields_of_it - {"name", "factors", "options"}


def test_the_form_asks_for_every_setting_in_its_own_words() -> None:
    with TestClient(make_app(Service(levers.MemoryStorage()))) as client:
        page = client.get("/new").text
    for setting in settings_of(FORM):
        assert f' name="{setting.name}"' in page, setting.name
        assert setting.title in page, setting.name
        assert {value for value, _ in setting.words if value} == set(setting.choices), setting.name
    titles = [f">{title}</" for title, _ in QUESTIONS.values()]
    assert titles == sorted(titles, key=page.index)
    assert all(hint in page for _, hint in QUESTIONS.values())


def test_a_command_takes_a_setting_by_its_other_names() -> None:
    for command, face in (("create", CREATE), ("plan", PLAN)):
        options = {name for parameter in load_command(command).params for name in parameter.opts}
        assert {flag for setting in settings_of(face) for flag in setting.flags} <= options


def test_noise_of_any_shape_is_a_setting_of_its_own() -> None:
    study = levers.create_study("votes", {"text": ["a", "b"]}, tolerance=0.5, noise_sd=0.5, noise="subgaussian", seed=1)
    usual = levers.create_study("votes", {"text": ["a", "b"]}, tolerance=0.5, noise_sd=0.5, seed=1)
    rng = np.random.default_rng(0)
    while not study.is_finished:
        for trial in study.ask(50):
            study.tell(trial, float(rng.random() < (0.9 if trial.params["text"] == "b" else 0.1)))
    assert (study.verdict().certificate, study.verdict().assignment["text"]) == ("subgaussian", "b")
    assert "noise" not in dict(usual.spec.options)  # studies that say nothing are what they were
    with pytest.raises(levers.LeversError, match="noise must be one of gaussian, subgaussian"):
        levers.create_study("votes", {"text": ["a", "b"]}, tolerance=0.5, noise_sd=0.5, noise="loud")


def test_a_plan_and_a_study_take_the_same_noise_and_certificate() -> None:
    space: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3]}
    given: dict[str, Any] = {"tolerance": 0.5, "noise_sd": 1.0}
    usual = levers.plan(space, **given).one_shot_runs
    asked = {"proven": {"certificate": "proven"}, "subgaussian": {"noise": "subgaussian"}}
    for certificate, more in asked.items():
        assert levers.plan(space, **given | more).one_shot_runs > usual
        study = levers.create_study("oven", space, **given | more, seed=1)
        assert isinstance(study.spec.solver, Cfs)
        assert study.spec.solver.two_stage.bound == certificate


def test_a_setting_is_kept_in_the_study_or_is_an_option_of_the_default_algorithm() -> None:
    kept = {field.name for field in fields(StudySpec) if field.init}
    for setting in settings_of(CREATE):
        assert setting.name in kept or setting.name in option_names("cfs"), setting.name
    assert {setting for setting in settings_of(FORM) if PLAN not in setting.faces} <= set(settings_of(CREATE))
    assert kept - {"space"} == set(StudyShape.model_fields) - {"name", "factors"}
