"""Levers studied as one, over HTTP: the API, the client and the forms."""

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

import levers
from levers.errors import InvalidSpaceError, StudyError, StudyExistsError
from levers.studies.study import Study

FACTORS: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3], "belt": ["A", "B"]}


@pytest.fixture
def study(database: str, server: str) -> Study:
    """Heat and speed help each other, and all runs that were asked for are told."""
    made = levers.create_study("oven", FACTORS, tolerance=0.4, noise_sd=0.7, seed=1, storage=database)
    rng = np.random.default_rng(0)
    while not made.is_finished:
        trials = made.ask(10_000)
        helped = [2.0 * (t.params["heat"] == "high" and t.params["speed"] == 3) for t in trials]
        made.tell_many([(trial, both + 0.7 * rng.normal()) for trial, both in zip(trials, helped, strict=True)])
    return made


@pytest.fixture
def http(server: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server, trust_env=False, timeout=60, follow_redirects=True) as found:
        yield found


def test_a_study_is_merged_over_the_api(http: httpx.Client, study: Study, database: str) -> None:
    body = {"name": "b", "factors": ["heat", "speed"], "seed": 2}
    key = {"idempotency-key": "k"}
    first, again = (http.post("/api/v1/studies/oven/merge", json=body, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert first.json()["merged"] == [["heat", "speed"]]
    made = levers.load_study("b", database)
    assert made.status().n_past == study.status().n_complete
    assert made.spec.seed == 2
    wrong: list[tuple[dict[str, Any], int]] = [
        ({**body, "factors": ["heat"]}, 422),
        ({**body, "factors": "heat"}, 422),
        ({**body, "factors": [["heat"], ["speed"]]}, 422),
        ({**body, "name": "oven"}, 409),
        ({**body, "name": "c", "budget": 40}, 409),
    ]
    for asked, status in wrong:
        answer = http.post("/api/v1/studies/oven/merge", json=asked)
        assert answer.status_code == status, (asked, answer.text)
    assert levers.list_studies(database) == ["oven", "b"]


def test_the_client_merges_like_the_library(server: str, study: Study) -> None:
    with levers.Client(server) as client:
        new = client.merge_study("oven", "b", ["heat", "speed"], seed=5)
        assert new.spec.merging.inner.names == ("heat + speed", "belt")
        assert new.status().n_past == study.status().n_complete
        joint = client.create_study("c", FACTORS, tolerance=1.0, merged=[["speed", "belt"]])
        assert joint.spec.merged == (("speed", "belt"),)
        with pytest.raises(StudyExistsError):
            client.merge_study("oven", "b", ["heat", "speed"])
        with pytest.raises(InvalidSpaceError):
            client.merge_study("oven", "d", ["heat"])
        with pytest.raises(StudyError):
            client.merge_study("oven", "d", ["heat", "speed"], budget=9)


def send(http: httpx.Client, path: str, fields: dict[str, Any]) -> httpx.Response:
    http.get("/login")
    return http.post(path, data={"form_token": http.cookies["levers_form"], **fields})


def test_the_form_of_a_new_study_takes_groups(http: httpx.Client, database: str) -> None:
    fields = {"name": "joint", "tolerance": "0.5", "noise_sd": "1", "table": "heat: low, high\nspeed: 1, 2\nbelt: A, B"}
    plans = [send(http, "/plan", {**fields, "merged": text}).text for text in ("", "heat, speed")]
    assert plans[0] != plans[1]
    assert send(http, "/studies", {**fields, "merged": "heat, speed"}).status_code == 200
    assert levers.load_study("joint", database).spec.merged == (("heat", "speed"),)
    answer = send(http, "/studies", {**fields, "name": "other", "merged": "heat, tempo"})
    assert answer.status_code == 422
    assert 'id="problem-merged"' in answer.text
    assert "heat, tempo</textarea>" in answer.text  # what was typed is kept
    taken = send(http, "/studies", {**fields, "merged": "heat, speed"})
    assert taken.status_code == 409
    assert 'id="problem-name"' in taken.text
    file = {"file": ("s.toml", b'merged = [["heat", "speed"]]\n[factors]\nheat = ["low", "high"]\nspeed = [1, 2]\n')}
    http.get("/login")
    form = {"form_token": http.cookies["levers_form"], "name": "filed", "tolerance": "0.5"}
    assert http.post("/studies", data=form, files=file).status_code == 200
    assert levers.load_study("filed", database).spec.merged == (("heat", "speed"),)


def test_a_merge_on_the_page_says_what_is_wrong_and_keeps_what_was_typed(
    http: httpx.Client, study: Study, database: str
) -> None:
    path = "/studies/oven/merge"
    assert 'value="heat" checked' in http.get(path, params={"factors": ["heat", "speed"]}).text
    answer = send(http, path, {"new_name": "b", "factors": ["heat"]})
    assert answer.status_code == 422
    assert "two or more different names" in answer.text
    assert 'value="heat" checked' in answer.text
    assert send(http, path, {"new_name": "oven", "factors": ["heat", "speed"]}).status_code == 409
    levers.create_study("capped", FACTORS, budget=200, noise_sd=0.7, seed=1, storage=database)
    assert 'name="budget"' in http.get("/studies/capped/merge").text
    answer = send(http, "/studies/capped/merge", {"new_name": "b", "factors": ["heat", "speed"], "budget": "many"})
    assert answer.status_code == 422
    assert "the budget" in answer.text
    assert levers.list_studies(database) == ["oven", "capped"]


def test_tied_levers_by_themselves_over_the_api_and_on_the_page(http: httpx.Client, server: str, database: str) -> None:
    forbidden: list[dict[str, levers.Level]] = [{"heat": "high", "speed": 3}]
    tied = levers.create_study("tied", FACTORS, budget=20, seed=1, storage=database, forbidden=forbidden)
    rng = np.random.default_rng(1)
    tied.optimize(lambda run: 2.0 * (run["heat"] == "mid") + float(rng.normal()))
    rows = tied.part_effects()
    assert [(row.factor, row.level) for row in rows] == [(k, level) for k in ("heat", "speed") for level in FACTORS[k]]
    with levers.Client(server) as client:
        assert client.study("tied").part_effects() == rows
    text = http.get("/studies/tied/verdict").text
    assert text.index('id="levels"') < text.index("each by itself") < text.index('id="part-levels"')
    assert "come once more at the end of the table" in http.get("/studies/tied").text
