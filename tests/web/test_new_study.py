"""The form of a new study shows each problem beside the field that it is about."""

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

import levers
from levers.studies.library import load_study
from levers.studies.storage.memory import MemoryStorage
from levers.web.app import make_app
from levers.web.drafts import Question, bought
from levers.web.service import Service

GOOD = {"name": "field 7", "factor": ["seed rate", "budget class"], "levels": ["1, 2", "a, b, c"], "tolerance": "0.5"}


def sent(path: str, storage: MemoryStorage | None = None, **changes: Any) -> str:
    """What the service answers to a form."""
    with TestClient(make_app(Service(storage or MemoryStorage()))) as client:
        client.get("/login")
        return client.post(path, data={"form_token": client.cookies["levers_form"], **GOOD, **changes}).text


def problems(**changes: Any) -> set[str]:
    """The fields beside which a problem is shown."""
    return set(re.findall(r'id="problem-([a-z_]+)"', sent("/studies", **changes)))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"forbidden": "seed rate=9, budget class=a"}, "forbidden"),
        ({"forbidden": "seed rate"}, "forbidden"),
        ({"merged": "seed rate, goal"}, "merged"),
        ({"hard_to_change": "seed rate, goal"}, "hard_to_change"),
        ({"hard_to_change": "seed rate", "min_effect": "1"}, "hard_to_change"),
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


@pytest.mark.parametrize(
    ("typed", "tolerance", "budget"),
    [
        ({"tolerance": "0.5"}, 0.5, None),
        ({"tolerance": "0.5", "by-runs": "budget"}, 0.5, None),  # without scripts the choice is easily forgotten
        ({"tolerance": "0.5", "budget": "30", "by-runs": "budget"}, None, 30),
        ({"tolerance": "0.5", "budget": "30", "by-runs": "tolerance"}, 0.5, None),
        ({"tolerance": "0.5", "budget": "30", "by-runs": "budget", "scripted": "1"}, None, 30),
        ({"tolerance": "x", "budget": "30", "by-runs": "budget", "scripted": "1"}, None, 30),
    ],
)
def test_runs_or_closeness_one_of_two_answers(
    typed: dict[str, str], tolerance: float | None, budget: int | None
) -> None:
    storage = MemoryStorage()
    sent("/studies", storage, **typed)
    spec = load_study("field 7", storage).spec
    assert (spec.tolerance, dict(spec.options).get("budget")) == (tolerance, budget)


def test_a_choice_without_its_number_is_a_problem() -> None:
    assert problems(**{"by-runs": "budget", "scripted": "1"}) == {"budget"}
    assert problems(budget="30") == {"budget"}, "two answers and no choice"
    assert problems(tolerance="") == {"budget"}
    page = sent("/studies", None, **{"by-runs": "budget", "scripted": "1"})
    assert re.search(r'id="pick-budget"[^>]*checked', page)
    assert 'value="0.5"' in page, "what was typed stays"


@pytest.mark.parametrize(
    ("typed", "noise_sd"),
    [
        ({}, None),
        ({"noise_sd": "2"}, 2.0),
        ({"expected_noise": "2"}, None),
        ({"noise_sd": "2", "by-noise": "expected_noise"}, 2.0),
        ({"noise_sd": "2", "by-noise": "expected_noise", "scripted": "1"}, None),
        ({"noise_sd": "2", "expected_noise": "3"}, 2.0),
        ({"noise_sd": "2", "expected_noise": "3", "by-noise": "expected_noise"}, None),
    ],
)
def test_a_guess_of_the_noise_is_for_the_plan_alone(typed: dict[str, str], noise_sd: float | None) -> None:
    storage = MemoryStorage()
    sent("/studies", storage, **typed)
    assert load_study("field 7", storage).spec.noise_sd == noise_sd


@pytest.mark.usefixtures("few_worlds")
def test_the_plan_answers_in_days_where_the_noise_is_not_known() -> None:
    sizes = [2, 3]
    budget = sent("/plan", tolerance="", budget="10", block_size="8")
    assert "10 runs, 2 days of 8" in budget
    assert "in units of its standard deviation" in budget
    assert re.findall(r'data-runs="(\d+)".*?days">(\d+)<', budget) == [("5", "1"), ("10", "2"), ("20", "3")]
    guessed = sent("/plan", tolerance="", budget="10", expected_noise="4")
    found = levers.plan(sizes, budget=10, expected_noise=4.0)
    assert "your guess, an sd of 4" in guessed
    assert f'id="plan-certified">{found.tolerance:.4g}<' in guessed
    assert "days" not in guessed
    unknown = sent("/plan", block_size="8")
    for noise in (0.25, 0.5, 1.0, 2.0):
        found = levers.plan(sizes, tolerance=0.5, expected_noise=noise, block_size=8)
        few, many = found.runs_if_few_matter, found.worst_case_runs
        row = unknown.split(f'data-noise="{noise:g}"')[1].split("</tr>")[0]
        assert re.findall(r'class="n(?: days)?">([^<]+)<', row)[1:] == [
            f"{few:,}",
            f"{many:,}",
            f"{found.days(few)} to {found.days(many)}",
        ]
    assert "plan-worst" not in unknown
    found = levers.plan(sizes, tolerance=0.5, expected_noise=1.0)
    assert f'id="plan-worst">{found.worst_case_runs:,}<' in sent("/plan", expected_noise="1")


def test_what_an_assumption_buys_is_compared_at_one_noise() -> None:
    for known, expected in ((1.0, None), (None, 1.0), (None, None)):
        asked = Question((4,) * 6, 1.0, None, 0.1, known, expected_noise=expected)
        wider = next(pair for pair in bought(asked) if "tolerance of 2" in pair.what)
        for tolerance, runs in ((2.0, wider.with_it), (1.0, wider.without)):
            guess = 1.0 if known is None else None
            found = levers.plan([4] * 6, tolerance=tolerance, noise_sd=known, expected_noise=guess)
            assert runs[0] == found.worst_case_runs


def test_people_read_one_word_for_levers() -> None:
    with TestClient(make_app(Service(MemoryStorage()))) as client:
        page = client.get("/new").text
    said = re.sub(r"<[^>]+>", " ", page) + sent("/plan") + sent("/plan", tolerance="", budget="9")
    assert "actor" not in said


@pytest.mark.usefixtures("few_worlds")
def test_a_plan_says_that_runs_which_leave_levers_alone_are_not_in_it() -> None:
    budget: dict[str, Any] = {"tolerance": "", "budget": "10"}
    assert "plan-free" not in sent("/plan", **budget)
    assert "part of these runs leaves levers alone" in sent("/plan", **budget, free="seed rate")
    assert "come on top" in sent("/plan", free="seed rate")
