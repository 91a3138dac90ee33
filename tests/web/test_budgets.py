"""Studies with a budget on the pages and over HTTP: the plan, the aim, and a verdict that certifies nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

import levers
from levers.studies.library import create_study, load_study
from levers.studies.storage.memory import MemoryStorage
from levers.studies.study import Study
from levers.web.app import make_app
from levers.web.service import Service

FORM = {"name": "oven", "factor": ["heat", "speed"], "levels": ["1, 2, 3", "1, 2, 3, 4"]}


def certified(study: Study) -> str | None:
    best = study.best()
    return None if best is None else best.said()[0]


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def client(storage: MemoryStorage) -> Iterator[TestClient]:
    with TestClient(make_app(Service(storage))) as client:
        client.get("/login")
        yield client


def post(client: TestClient, path: str, **fields: Any) -> str:
    return client.post(path, data={"form_token": client.cookies["levers_form"], **FORM, **fields}).text


def test_the_form_takes_an_aim_and_shows_what_is_wrong_with_it(client: TestClient, storage: MemoryStorage) -> None:
    refused = post(client, "/studies", tolerance="1", aim="best")
    assert 'id="problem-aim"' in refused
    assert 'id="aim-best" name="aim" value="best" checked' in refused
    assert 'id="problem-aim"' in post(client, "/studies", budget="9", aim="worst")
    post(client, "/studies", budget="9", aim="certify")
    assert dict(load_study("oven", storage).spec.options) == {"aim": "certify", "budget": 9}
    post(client, "/studies", budget="9", aim="", name="usual")
    assert dict(load_study("usual", storage).spec.options) == {"budget": 9}


@pytest.mark.usefixtures("few_worlds")
def test_the_page_plans_a_budget_with_and_without_the_noise(client: TestClient) -> None:
    known = post(client, "/plan", budget="12", noise_sd="2")
    found = levers.plan([3, 4], budget=12, noise_sd=2.0)
    assert f'id="plan-certified">{found.tolerance:.4g}<' in known
    assert all(f'data-runs="{row.runs}"' in known for row in found.budgets)
    assert "plan-worst" not in known
    unknown = post(client, "/plan", budget="12")
    assert "in units of its standard deviation" in unknown
    few = post(client, "/plan", budget="4")
    assert 'id="plan-nothing"' in few
    assert "It takes 7 runs to certify anything" in few


def test_a_plan_with_forbidden_pairs_is_not_shorter(client: TestClient) -> None:
    free = levers.plan([3, 4], tolerance=1.0, noise_sd=1.0)
    text = post(client, "/plan", tolerance="1", noise_sd="1", forbidden="heat=1, speed=1")
    worst = int(text.split('id="plan-worst">')[1].split("<")[0].replace(",", ""))
    assert worst >= free.worst_case_runs


def test_the_api_takes_an_aim(client: TestClient) -> None:
    body: dict[str, Any] = {"name": "a", "factors": {"heat": [1, 2], "speed": [1, 2, 3]}, "budget": 9, "aim": "certify"}
    assert client.post("/api/v1/studies", json=body).json()["options"] == {"aim": "certify", "budget": 9}
    assert client.post("/api/v1/studies", json={**body, "name": "b", "aim": "worst"}).status_code == 422
    refused = client.post(
        "/api/v1/studies", json={**body, "name": "b", "budget": None, "tolerance": 1.0, "aim": "best"}
    )
    assert refused.status_code == 422
    assert "aim" in refused.text


def test_every_page_of_a_study_that_certifies_nothing(client: TestClient, storage: MemoryStorage) -> None:
    space = {f"x{k}": ["a", "b", "c", "d"] for k in range(10)}
    study = create_study("ten", space, budget=5, seed=1, storage=storage)
    study.tell_many((trial, 1.1 * trial.number) for trial in study.ask(5))
    page = client.get("/studies/ten").text
    assert "Nothing is certified." in page
    verdict = client.get("/studies/ten/verdict").text
    assert "nothing can be certified about it" in verdict
    assert "Why nothing is certified" in verdict
    assert "too few runs to certify anything" in verdict
    assert "slippage" not in verdict
    assert "So few runs do not show which." in verdict
    for text in (page, verdict, client.get("/compare?study=ten").text, client.get("/").text):  # numbers are said
        assert "inf" not in text.replace("info", "").replace("inform", "").lower().split()
        assert "None" not in text.replace("None so far", "")
    assert "<td>nothing</td>" in client.get("/compare?study=ten").text
    assert client.get("/api/v1/studies/ten/verdict").json()["tolerance"] is None
    assert client.get("/api/v1/studies/ten/status").json()["within"] is None
    assert client.get("/studies/ten/export/verdict.json").json()["tolerance"] is None


def test_a_study_under_way_says_what_it_certifies_if_it_stops_now(client: TestClient, storage: MemoryStorage) -> None:
    study = create_study("oven", {"a": [1, 2], "b": [1, 2, 3]}, budget=60, noise_sd=1.0, seed=1, storage=storage)
    while study.status().within is None:
        study.tell_many((trial, 1.0 * trial.number) for trial in study.ask(4))
    within = f"If you stop now: within {certified(study)} of the best with probability 90 %."
    assert within in client.get("/studies/oven").text
    assert within in client.get("/studies/oven/verdict").text
