"""`levers schema`: the schemas take what the commands and the service take, and refuse what they refuse."""

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient
from typer.testing import CliRunner

import levers
from levers.cli.app import app
from levers.cli.schema import SCHEMAS, sheet_schema, space_schema, study_schema
from levers.errors import LeversError
from levers.studies.settings import CREATE, settings_of
from levers.studies.space_text import parse_space
from levers.web.app import make_app
from levers.web.service import Service

SPACE = """
merged = [["heat", "speed"]]
hard_to_change = ["speed", "heat"]
[factors]
heat = ["low", "mid", "high"]
speed = [1, 2.5]
fan = {levels = [true, false], free = true}
[[forbidden]]
heat = "high"
speed = 2.5
"""


def accepts(schema: dict[str, Any], value: Any) -> bool:
    return bool(Draft202012Validator(schema).is_valid(value))


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_printed_and_is_one(name: str) -> None:
    result = CliRunner().invoke(app, ["schema", name])
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert printed == SCHEMAS[name]()
    Draft202012Validator.check_schema(printed)


@pytest.mark.parametrize(
    "text",
    [
        SPACE,
        '[factors]\nheat = ["low"]',
        '[factors]\nheat = ["low", "low"]',
        "[factors]\nheat = 3",
        '[factors]\n"" = [1, 2]',
        "[levers]\nheat = [1, 2]",
        "[factors]\nheat = [1, 2]\n[budget]\nruns = 3",
        "[factors]\nheat = {levels = [1, 2], free = 1}",
        "[factors]\nheat = {levels = [1, 2], fixed = true}",
        'hard_to_change = "heat"\n[factors]\nheat = [1, 2]',
        "hard_to_change = [1]\n[factors]\nheat = [1, 2]",
        "forbidden = 3\n[factors]\nheat = [1, 2]",
        "[factors]\nheat = [1, [2]]",
    ],
)
def test_a_space_file_is_right_by_the_schema_if_it_can_be_read(text: str) -> None:
    try:
        parse_space(text).space  # noqa: B018
        readable = True
    except LeversError:
        readable = False
    assert accepts(space_schema(), tomllib.loads(text)) == readable


@pytest.fixture
def service() -> TestClient:
    return TestClient(make_app(Service(levers.MemoryStorage())), base_url="http://127.0.0.1")


GOOD: dict[str, Any] = {"name": "oven", "factors": {"heat": ["low", "high"], "speed": [1, 2, 3]}, "tolerance": 0.5}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"factors": [{"name": "heat", "levels": ["low", "high"]}, {"name": "speed", "levels": [1, 2]}]},
        {"tolerance": "5%", "baseline_outcome": 70, "baseline": {"heat": "low", "speed": 2}},
        {"tolerance": None, "budget": 24, "aim": "best", "block_size": 8, "seed": 3},
        {"forbidden": [{"heat": "high", "speed": 3}]},
        {"free": ["heat"]},
        {"hard_to_change": ["speed", "heat"]},
        {"hard_to_change": [1]},
        {"noise_sd": 1.0, "noise": "subgaussian", "goal": "minimize", "failure_prob": 0.05},
        {"goal": "best"},
        {"failure_prob": 1.5},
        {"failure_prob": None},
        {"budget": 2.5, "tolerance": None},
        {"tolerance": "much"},
        {"tolerance": -1},
        {"seed": -1},
        {"colour": "red"},
        {"factors": {}},
        {"factors": {"heat": ["low"]}},
        {"factors": {"heat": "low"}},
        {"name": 3},
        {"forbidden": {"heat": "high"}},
        {"options": {"rho": [1]}},
    ],
    ids=str,
)
def test_a_study_is_right_by_the_schema_if_the_service_takes_it(change: dict[str, Any], service: TestClient) -> None:
    body = {**GOOD, **change}
    answer = service.post("/api/v1/studies", json=body)
    assert answer.status_code in (201, 422), answer.text
    assert accepts(study_schema(), body) == (answer.status_code == 201), answer.text


def test_the_schema_of_a_study_has_every_setting_with_its_default() -> None:
    properties = study_schema()["properties"]
    assert set(properties) == {"name", "factors", "options", *(setting.name for setting in settings_of(CREATE))}
    for setting in settings_of(CREATE):
        assert properties[setting.name]["description"] == setting.help
        assert accepts(properties[setting.name], properties[setting.name]["default"])


def test_the_rows_of_a_sheet_are_right_by_its_schema(tmp_path: Path) -> None:
    space = levers.Space.of({"heat": ["low", "high"], "speed": [1, 2]})
    study = levers.create_study("oven", space, budget=8, seed=1)
    rows = [
        {"trial": one.number, "block": 1, "study": "oven #1", **one.params, "outcome": None} for one in study.ask(4)
    ]
    for schema in (sheet_schema(), sheet_schema(space)):
        assert accepts(schema, rows)
        assert accepts(schema, [{**rows[0], "outcome": 71.5}])
        for wrong in ({"trial": -1}, {"trial": "first"}, {"outcome": "many"}, {"block": 0}, {"speed": None}):
            assert not accepts(schema, [{**rows[0], **wrong}]), wrong
    assert not accepts(sheet_schema(space), [{**rows[0], "heat": "mid"}])
    without = copy.deepcopy(rows)
    del without[0]["heat"]
    assert not accepts(sheet_schema(space), without)

    file = tmp_path / "oven.toml"
    file.write_text('[factors]\nheat = ["low", "high"]\nspeed = [1, 2]\n')
    printed = json.loads(CliRunner().invoke(app, ["schema", "sheet", "--space", str(file)]).stdout)
    assert printed == sheet_schema(space)


@pytest.mark.parametrize(
    ("words", "message"),
    [(["plan"], "space, sheet and study, not 'plan'"), (["study", "--space", "oven.toml"], "columns of a sheet")],
)
def test_wrong_requests_are_explained(words: list[str], message: str) -> None:
    with pytest.raises(LeversError, match=message):
        CliRunner().invoke(app, ["schema", *words], catch_exceptions=False)
