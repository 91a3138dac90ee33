"""The form of a new study shows each problem beside the field that it is about."""

import re

import pytest
from starlette.testclient import TestClient

from levers.studies.storage.memory import MemoryStorage
from levers.web.app import make_app
from levers.web.service import Service

GOOD = {"name": "field 7", "factor": ["seed rate", "budget class"], "levels": ["1, 2", "a, b, c"], "tolerance": "0.5"}


def problems(**changes: object) -> set[str]:
    """The fields beside which a problem is shown."""
    with TestClient(make_app(Service(MemoryStorage()))) as client:
        client.get("/login")
        answer = client.post("/studies", data={"form_token": client.cookies["levers_form"], **GOOD, **changes})
    return set(re.findall(r'id="problem-([a-z_]+)"', answer.text))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"forbidden": "seed rate=9, budget class=a"}, "forbidden"),
        ({"forbidden": "seed rate"}, "forbidden"),
        ({"merged": "seed rate, goal"}, "merged"),
        ({"max_parents": "9"}, "max_parents"),
        ({"failure_prob": "2"}, "failure_prob"),
        ({"seed": "x"}, "seed"),
        ({"tolerance": "-1"}, "tolerance"),
        ({"goal": "both"}, "goal"),
        ({"aim": "best"}, "aim"),
        ({"name": " "}, "name"),
        ({"name": "-x"}, "name"),
    ],
)
def test_a_problem_is_shown_beside_its_field(changes: dict[str, str], field: str) -> None:
    assert problems(**changes) == {field}


def test_a_good_form_has_no_problem() -> None:
    assert problems() == set()
    assert problems(forbidden="seed rate=2.0, budget class=a") == set()
