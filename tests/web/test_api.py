"""Every operation over real HTTP: what it answers, to whom, and what it refuses."""

import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import polars as pl
import pytest

import levers
from levers.core.space import Space
from levers.studies.library import open_storage
from levers.studies.sheets.read import read_sheet
from levers.studies.storage.tokens import create_token
from levers.studies.study import Study
from levers.web.access.attempts import MOST_FAILURES
from levers.web.service import Limits

Serve = Callable[..., AbstractContextManager[str]]
FACTORS: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2]}
OVEN = {"name": "oven", "factors": FACTORS, "tolerance": 0.5, "noise_sd": 0.2, "seed": 3}
HOSTILE = ["a/b", "100 %", "ü", "<script>", "..%2f", "a?b#c", "a b", "%00", "studies", "x" * 200, "'; drop table--"]


def at(name: str, what: str = "") -> str:
    return f"/studies/{quote(name, safe='')}" + (f"/{what}" if what else "")


def connect(url: str, token: str | None = None) -> httpx.Client:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"{url}/api/v1", headers=headers, trust_env=False, timeout=60)


@pytest.fixture
def http(server: str) -> Iterator[httpx.Client]:
    with connect(server) as client:
        yield client


@pytest.fixture
def study(database: str, server: str) -> Study:
    return levers.create_study("oven", FACTORS, tolerance=0.5, noise_sd=0.2, seed=3, storage=database)


def outcome(params: Any) -> float:
    return float({"low": 0.0, "mid": 1.0, "high": 0.4}[params["heat"]] + 0.5 * params["speed"])


def finish(study: Study) -> None:
    study.optimize(outcome)


def error(answer: httpx.Response, status: int) -> dict[str, str]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()["error"]
    assert {"kind", "message"} <= set(found) <= {"kind", "message", "field", "problems", "rows", "n_wrong"}
    return dict(found)


def test_a_study_from_creation_to_verdict(http: httpx.Client, database: str) -> None:
    made = http.post("/studies", json=OVEN)
    assert made.status_code == 201
    assert made.headers["location"] == "/api/v1/studies/oven"
    assert made.json() == http.get("/studies/oven").json()
    assert made.json()["factors"] == [{"name": name, "levels": levels} for name, levels in FACTORS.items()]
    while http.get("/studies/oven/status").json()["state"] == "running":
        trials = http.post("/studies/oven/ask", json={"n": 100}).json()["trials"]
        told = [{"trial": t["trial"], "value": outcome(t["params"])} for t in trials]
        taken = http.post("/studies/oven/tell", json={"outcomes": told}).json()
        assert taken == {"n_new": len(told), "n_failed": 0, "flags": []}
    verdict = http.get("/studies/oven/verdict").json()
    assert verdict["assignment"] == {"heat": "mid", "speed": 2}
    local = levers.create_study("here", FACTORS, tolerance=0.5, noise_sd=0.2, seed=3)
    finish(local)
    assert verdict["n_runs"] == local.verdict().n_runs
    assert verdict["guarantee"] == levers.load_study("oven", database).verdict().statement


def test_factors_may_come_as_a_list(http: httpx.Client) -> None:
    factors = [{"name": "b", "levels": [1, 2.5]}, {"name": "a", "levels": [True, "x"]}]
    made = http.post("/studies", json={**OVEN, "factors": factors})
    assert made.json()["factors"] == factors
    forbidden = [{"heat": "low", "speed": 1}]
    more = {**OVEN, "name": "b", "forbidden": forbidden, "block_size": 4, "options": {"noise": "subgaussian"}}
    made = http.post("/studies", json=more)
    assert made.json()["forbidden"] == forbidden
    assert made.json()["options"] == {"noise": "subgaussian"}


@pytest.mark.parametrize(
    "change",
    [
        {"factors": {}},
        {"factors": {"heat": ["low"]}},
        {"factors": {"heat": [1, 1]}},
        {"factors": {"outcome": [1, 2]}},
        {"factors": {"heat": [None, 1]}},
        {"tolerance": None},
        {"tolerance": True},
        {"tolerance": "0.5"},
        {"tolerance": -1},
        {"budget": 100},
        {"goal": "best"},
        {"algorithm": "magic"},
        {"algorithm": "observational-regression"},
        {"options": {"storage": "sqlite:///elsewhere.db"}},
        {"options": {"who": "root"}},
        {"options": {"budget": 3}},
        {"options": {"noise": 3}},
        {"forbidden": [{"heat": "low"}]},
        {"seed": -1},
        {"failure_prob": 1},
        {"unknown": 1},
        {"name": 3},
    ],
)
def test_a_study_that_makes_no_sense_is_refused(http: httpx.Client, change: dict[str, Any]) -> None:
    error(http.post("/studies", json={**OVEN, **change}), 422)
    assert http.get("/studies").json()["total"] == 0


@pytest.mark.parametrize("name", ["", " x", "-x", ".", "..", "a\nb", "x" * 201])
def test_a_name_that_cannot_be_is_refused(http: httpx.Client, name: str) -> None:
    assert error(http.post("/studies", json={**OVEN, "name": name}), 422)["kind"] == "InvalidNameError"


@pytest.mark.parametrize("name", HOSTILE)
def test_any_printable_name_will_do(http: httpx.Client, name: str) -> None:
    made = http.post("/studies", json={**OVEN, "name": name})
    assert made.status_code == 201
    assert (
        httpx.get(str(http.base_url.copy_with(path=made.headers["location"])), trust_env=False).json()["name"] == name
    )
    trial = http.post(at(name, "ask"), json={}).json()["trials"][0]
    assert http.post(at(name, "tell"), json={"trial": trial["trial"], "value": 1}).json()["n_new"] == 1
    assert http.get(at(name, "status")).json()["name"] == name
    sheet = http.get(at(name, "export/csv"))
    assert sheet.status_code == 200
    assert "/" not in sheet.headers["content-disposition"]
    assert http.delete(at(name)).status_code == 204
    assert error(http.get(at(name)), 404)["kind"] == "NoSuchStudyError"


@pytest.mark.parametrize(
    "path", ["", "status", "effects", "trials", "log", "export/csv", "sheet", "frame", "diagnostics"]
)
def test_what_is_not_there_is_404(http: httpx.Client, path: str) -> None:
    assert error(http.get(at("none", path)), 404)["kind"] == "NoSuchStudyError"
    assert "sqlite" not in http.get(at("none", path)).text


def test_other_addresses_are_404_and_other_methods_405(http: httpx.Client) -> None:
    for path in ("/none", "/studies/", "/studies//status", "/studies/a/b", "/studies/a/trials/x/y"):
        error(http.get(path), 404)
    answer = http.put("/studies")
    error(answer, 405)
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


def test_a_name_is_taken_once(http: httpx.Client, study: Study) -> None:
    assert error(http.post("/studies", json=OVEN), 409)["kind"] == "StudyExistsError"
    assert error(http.post("/studies/oven/copy", json={"name": "oven"}), 409)["kind"] == "StudyExistsError"
    assert http.post("/studies/oven/copy", json={"name": "b"}).status_code == 201
    assert [one["name"] for one in http.get("/studies").json()["items"]] == ["oven", "b"]
    assert http.delete("/studies/oven").status_code == 204
    assert http.post("/studies", json=OVEN).status_code == 201
    assert http.post("/studies/oven/ask", json={}).status_code == 200


def test_studies_come_in_pages(http: httpx.Client, database: str) -> None:
    for i in range(5):
        levers.create_study(f"s{i}", FACTORS, tolerance=1, storage=database)
    page = http.get("/studies", params={"offset": 3, "limit": 10}).json()
    assert ([one["name"] for one in page["items"]], page["total"]) == (["s3", "s4"], 5)
    assert http.get("/studies", params={"offset": 10**15}).json()["items"] == []
    for wrong in ({"limit": 0}, {"limit": 10**9}, {"offset": -1}, {"limit": "x"}, {"offset": 10**30}):
        error(http.get("/studies", params=wrong), 422)


WRITES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "ask", {"json": {"n": 1}}),
    ("POST", "tell", {"json": {"trial": 0, "value": 1.0}}),
    ("POST", "fail", {"json": {"trial": 1}}),
    ("POST", "correct", {"json": {"trial": 0, "value": 2.0, "reason": "x"}}),
    ("POST", "finish", {"json": {"reason": "x"}}),
    ("POST", "continue", {"json": {"n_runs": 4}}),
    ("POST", "confirm", {"json": {"n_runs": 4}}),
    ("POST", "restate", {"json": {"noise_sd": 2.0}}),
    ("POST", "exclude", {"json": {"trials": [0], "reason": "x"}}),
    ("POST", "import", {"json": {"rows": [{"heat": "low", "speed": 1}], "values": [1.0]}}),
    ("POST", "sheet", {}),
    ("PUT", "sheet", {"content": b"trial,outcome\n", "headers": {"content-type": "text/csv"}}),
]
READS = ["", "status", "effects", "forecast", "best", "trials", "trials/0", "running", "log", "diagnostics"]
READS += ["export/csv", "export/parquet", "frame", "sheet", "corrections", "exclusions"]


def test_each_role_may_do_what_it_may(serve: Serve, database: str) -> None:
    study = levers.create_study("oven", FACTORS, tolerance=0.5, noise_sd=1.0, seed=3, storage=database)
    levers.create_study("other", FACTORS, tolerance=0.5, noise_sd=1.0, storage=database)
    study.ask(2)
    storage = open_storage(database)
    tokens = {role: create_token(storage, role, note=f"the {role}") for role in ("read", "write", "admin")}
    only = create_token(storage, "write", study="oven")
    with serve(database, needs_token=True) as url:
        with connect(url) as nobody, connect(url, "levers_x_y") as wrong:
            for client, later in ((nobody, 401), (wrong, 429)):  # wrong tokens are counted, none is not
                for n, path in enumerate(("/studies", *(at("oven", what) for what in READS))):
                    answer = client.get(path)
                    error(answer, 401 if n < MOST_FAILURES else later)
                    assert answer.headers.get("www-authenticate") == ("Bearer" if answer.status_code == 401 else None)
                assert len(READS) >= MOST_FAILURES
                for method, what, more in WRITES:
                    error(client.request(method, at("oven", what), **more), later)
                error(client.post("/plan", json={"factors": [2, 2], "tolerance": 1}), later)
                error(client.get(at("none")), later)
        with connect(url, tokens["read"]) as reader:
            assert {reader.get(at("oven", what)).status_code for what in READS} == {200}
            assert reader.post("/plan", json={"factors": [2, 2], "tolerance": 1}).status_code == 200
            for method, what, more in WRITES:
                assert "write" in error(reader.request(method, at("oven", what), **more), 403)["message"]
        with connect(url, only) as worker:
            for method, what, more in WRITES:
                assert worker.request(method, at("oven", what), **more).status_code in (200, 409, 422)
                error(worker.request(method, at("other", what), **more), 403)
            assert [one["name"] for one in worker.get("/studies").json()["items"]] == ["oven"]
            error(worker.get(at("other", "status")), 403)
            error(worker.get(at("none", "status")), 403)
        for text in (tokens["read"], tokens["write"], only):
            with connect(url, text) as client:
                error(client.post("/studies", json=OVEN), 403)
                error(client.delete(at("oven")), 403)
                error(client.post(at("oven", "copy"), json={"name": "x"}), 403)
        with connect(url, tokens["write"]) as writer:
            asked = writer.post(at("oven", "ask"), json={}).json()["trials"][0]
            assert asked["worker"] == f"the write (token {tokens['write'].split('_')[1]})"
        with connect(url, tokens["admin"]) as admin:
            assert admin.post(at("oven", "copy"), json={"name": "x"}).status_code == 201
            assert admin.delete(at("other")).status_code == 204
            assert asked["worker"] in {one["who"] for one in admin.get(at("oven", "log")).json()["items"]}


def test_outcomes_are_taken_all_or_none(http: httpx.Client, study: Study) -> None:
    trials = [t["trial"] for t in http.post("/studies/oven/ask", json={"n": 3, "worker": "ann"}).json()["trials"]]
    answer = http.post("/studies/oven/tell", json={"outcomes": [{"trial": 0, "value": 1}, {"trial": 99, "value": 1}]})
    assert error(answer, 409)["kind"] == "TrialError"
    assert study.status().n_complete == 0
    for n_new in (1, 0):
        taken = http.post("/studies/oven/tell", json={"trial": trials[0], "value": 1}).json()
        assert taken == {"n_new": n_new, "n_failed": 0, "flags": []}
    assert "correct" in error(http.post("/studies/oven/tell", json={"trial": trials[0], "value": 2}), 409)["message"]
    assert http.post("/studies/oven/tell", json={"trial": trials[1], "value": None}).json()["n_failed"] == 1
    assert http.get(f"/studies/oven/trials/{trials[1]}").json()["state"] == "FAIL"
    assert http.post("/studies/oven/fail", json={"trial": trials[2], "reason": "lost"}).json() == {"trial": trials[2]}
    error(http.post("/studies/oven/fail", json={"trial": trials[2]}), 409)
    error(http.post("/studies/oven/fail", json={"trial": 10**9}), 404)
    made = http.post("/studies/oven/correct", json={"trial": trials[0], "value": 2.5, "reason": "typo"}).json()
    assert made["corrections"][0]["before"] == 1.0
    many = {"outcomes": [{"trial": trials[0], "value": 3}], "reason": "typo"}
    assert http.post("/studies/oven/correct", json=many).json()["corrections"][0]["value"] == 3.0
    error(http.post("/studies/oven/correct", json=many), 409)
    error(http.post("/studies/oven/correct", json={**many, "reason": " "}), 422)
    assert http.get("/studies/oven/trials/0").json()["value"] == 3.0
    error(http.get("/studies/oven/trials/99999"), 404)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{",
        '{"trial": 0}',
        '{"trial": 0, "value": NaN}',
        '{"trial": 0, "value": Infinity}',
        '{"trial": 0, "value": 1e999}',
        '{"trial": 0, "value": 1e101}',
        '{"trial": 0, "value": true}',
        '{"trial": 0, "value": "1"}',
        '{"trial": true, "value": 1}',
        '{"trial": 0.5, "value": 1}',
        '{"trial": "0", "value": 1}',
        '{"trial": -1, "value": 1}',
        '{"trial": 1e30, "value": 1}',
        '{"trial": 0, "value": 1, "more": 1}',
        '{"outcomes": [{"trial": 0, "value": 1}], "trial": 0}',
        '{"outcomes": {"0": 1}}',
        '{"trial": 0, "value": 1' + "0" * 400 + "}",
        '{"\\ud800": 1}',
    ],
)
def test_what_is_no_outcome_is_refused(http: httpx.Client, study: Study, body: str) -> None:
    study.ask(2)
    answer = http.post("/studies/oven/tell", content=body, headers={"content-type": "application/json"})
    assert error(answer, 422)["kind"] == "InvalidRequest"
    assert study.status().n_complete == 0


def test_a_body_that_cannot_be_read_is_refused(http: httpx.Client, study: Study) -> None:
    headers = {"content-type": "application/json"}
    for body in (b'{"trial": 0, "value": ' + b"1" * 5000 + b"}", b"[" * 100_000, b"\xff"):
        error(http.post("/studies/oven/tell", content=body, headers=headers), 400)
    error(http.post("/studies/oven/tell", content=b'{"trial": 0, "value": 1}'), 422)


def test_rows_and_bodies_are_limited(serve: Serve, database: str) -> None:
    levers.create_study("oven", FACTORS, tolerance=0.05, noise_sd=1.0, storage=database)
    with serve(database, limits=Limits(rows=5, body_bytes=2000, page_rows=3)) as url, connect(url) as http:
        assert "in parts" in error(http.post("/studies/oven/ask", json={"n": 6}), 413)["message"]
        error(http.post("/studies/oven/sheet", params={"n": 6}), 413)
        assert len(http.post("/studies/oven/ask", json={"n": 5}).json()["trials"]) == 5
        told = {"outcomes": [{"trial": i, "value": 1} for i in range(6)]}
        error(http.post("/studies/oven/tell", json=told), 413)
        error(http.post("/studies/oven/tell", content=b" " * 3000), 413)
        page = http.get("/studies/oven/trials", params={"limit": 100}).json()
        assert (len(page["items"]), page["limit"]) == (3, 3)


def test_past_runs_come_in_once(http: httpx.Client, study: Study) -> None:
    body = {"rows": [{"heat": "low", "speed": 1}] * 3, "values": [1.0, 2.0, 3.0], "note": "2025"}
    assert http.post("/studies/oven/import", json=body).json() == {"n_imported": 3, "flags": []}
    error(http.post("/studies/oven/import", json=body), 409)
    error(http.post("/studies/oven/import", json={**body, "values": [1.0]}), 422)
    error(http.post("/studies/oven/import", json={**body, "rows": [{"heat": "none", "speed": 1}] * 3}), 422)


CHANGES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("ask", {"n": 2}, {"n": 3}),
    ("tell", {"trial": 0, "value": 1.0}, {"trial": 0, "value": 2.0}),
    ("fail", {"trial": 1, "reason": "lost"}, {"trial": 2, "reason": "lost"}),
    ("correct", {"trial": 3, "value": 9.0, "reason": "typo"}, {"trial": 3, "value": 8.0, "reason": "typo"}),
    ("exclude", {"trials": [3], "reason": "typo"}, {"trials": [3], "reason": "lost"}),
    ("finish", {"reason": "enough"}, {"reason": "no more"}),
    ("restate", {"noise_sd": 2.0}, {"noise_sd": 3.0}),
    ("import", {"rows": [{"heat": "low", "speed": 1}], "values": [1.0]}, {"rows": [], "values": []}),
]


@pytest.mark.parametrize(("verb", "body", "other"), CHANGES)
def test_a_change_with_a_key_happens_once(
    serve: Serve, database: str, verb: str, body: dict[str, Any], other: dict[str, Any]
) -> None:
    study = levers.create_study("oven", FACTORS, tolerance=0.5, noise_sd=1.0, seed=3, storage=database)
    study.ask(4)
    study.tell(3, 1.0)
    key = {"idempotency-key": "k-1"}
    with serve(database) as url, connect(url) as http:
        first = http.post(at("oven", verb), json=body, headers=key)
        assert first.status_code == 200
        assert "idempotency-replayed" not in first.headers
        seq = study.state.seq
        again = http.post(at("oven", verb), json=body, headers=key)
        assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
        error(http.post(at("oven", verb), json=other, headers=key), 422)
        error(http.post(at("oven", verb), json=body, headers={"idempotency-key": "a b"}), 422)
    with serve(database) as url, connect(url) as http:  # another server knows it too
        again = http.post(at("oven", verb), json=body, headers=key)
        assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    assert study.state.seq == seq


def test_a_key_holds_for_sheets_creation_and_copies(http: httpx.Client, study: Study) -> None:
    key = {"idempotency-key": "k"}
    first, again = (http.post("/studies/oven/sheet", params={"n": 3}, headers=key) for _ in range(2))
    assert first.content == again.content
    assert again.headers["idempotency-replayed"] == "true"
    assert study.status().n_running == 3
    error(http.post("/studies/oven/sheet", params={"n": 4}, headers=key), 422)
    for path, body in (("/studies", {**OVEN, "name": "new"}), ("/studies/oven/copy", {"name": "copy"})):
        first, again = (http.post(path, json=body, headers=key) for _ in range(2))
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.json() == again.json()
        assert again.headers["idempotency-replayed"] == "true"
        error(http.post(path, json=body, headers={"idempotency-key": "other"}), 409)
    error(http.post("/studies", json={**OVEN, "name": "new", "seed": 4}, headers=key), 422)
    past = b"heat,speed,outcome\nlow,1,2.5\n"
    for _ in range(2):
        headers = {**key, "content-type": "text/csv", "idempotency-key": "p"}
        made = http.post("/studies/oven/sheet/past", content=past, headers=headers).json()
        assert made == {"n_imported": 1, "flags": []}


def test_a_request_that_failed_may_come_again_with_its_key(http: httpx.Client, study: Study) -> None:
    key = {"idempotency-key": "k"}
    error(http.post("/studies/oven/tell", json={"trial": 0, "value": 1.0}, headers=key), 409)
    study.ask()
    assert http.post("/studies/oven/tell", json={"trial": 0, "value": 1.0}, headers=key).status_code == 200


def test_many_at_once_with_one_key_get_one_answer(server: str, study: Study) -> None:
    answers: list[bytes] = []

    def ask() -> None:
        with connect(server) as http:
            answers.append(http.post("/studies/oven/ask", json={"n": 2}, headers={"idempotency-key": "k"}).content)

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 12
    assert len(set(answers)) == 1
    assert study.status().n_running == 2


def test_trials_are_filtered_sorted_and_paged_as_the_table_says(http: httpx.Client, database: str) -> None:
    study = levers.create_study("oven", FACTORS, tolerance=0.5, noise_sd=1.0, seed=3, storage=database)
    for worker in ("ann", "bob", "ann"):
        study.tell_many([(trial, outcome(trial.params)) for trial in study.ask(3, worker=worker)])
    study.fail(study.ask(2, worker="bob")[0])
    frame = study.trials_dataframe()
    in_order: dict[str, list[Any]] = {factor.name: list(factor.levels) for factor in study.space.factors}
    in_order["state"] = list(levers.TrialState.__members__)  # as they follow each other
    for sort in ("trial", "block", "stage", "state", "heat", "speed", "outcome", "worker", "asked_at", "told_at"):
        for order in ("up", "down"):
            key = pl.Series([in_order[sort].index(x) for x in frame[sort]]) if sort in in_order else frame[sort]
            down = order == "down"
            expected = frame.with_columns(key=key).sort("key", descending=down, nulls_last=True, maintain_order=True)
            got: list[Any] = []
            while len(got) < frame.height:
                params = {"sort": sort, "order": order, "offset": len(got), "limit": 4}
                page = http.get("/studies/oven/trials", params=params).json()
                assert page["total"] == frame.height
                got += page["items"]
            assert [one["trial"] for one in got] == expected["trial"].to_list(), (sort, order)
    shown = http.get("/studies/oven/trials").json()["items"]
    assert [one["params"]["heat"] for one in shown] == frame["heat"].to_list()
    assert [one["value"] for one in shown] == frame["outcome"].to_list()
    assert [one["block"] for one in shown] == frame["block"].to_list()
    for only in ({"state": "COMPLETE"}, {"worker": "bob"}, {"state": "FAIL", "worker": "bob"}, {"worker": "nobody"}):
        expected = frame.filter([pl.col(name) == value for name, value in only.items()])
        page = http.get("/studies/oven/trials", params=only).json()
        assert [one["trial"] for one in page["items"]] == expected["trial"].to_list()
        assert page["total"] == expected.height
    assert [t["trial"] for t in http.get("/studies/oven/running").json()["trials"]] == [
        t.number for t in study.running()
    ]
    assert http.get("/studies/oven/running", params={"worker": "ann"}).json()["trials"] == []
    assert "told_at" in error(http.get("/studies/oven/trials", params={"sort": "none"}), 422)["message"]
    error(http.get("/studies/oven/trials", params={"state": "LOST"}), 422)


@pytest.mark.filterwarnings("ignore::UserWarning")  # a typo may be asked about; here it is meant
def test_doubts_and_the_end_of_a_study(http: httpx.Client, study: Study) -> None:
    while not study.is_finished:
        study.tell_many(
            (trial, 700.0 if trial.number == 3 else outcome(trial.params) + 0.1 * (-1) ** (trial.number // 2))
            for trial in study.ask(100)
        )
    status = http.get("/studies/oven/status").json()
    assert status["state"] == "in doubt"
    assert status["doubts"][0]["trials"] == [3]
    verdict = http.get("/studies/oven/verdict").json()
    assert verdict["doubts"][0]["kind"] == "outlier"
    assert verdict["doubts"][0]["p_value"] < 1e-6
    assert "ASSUMPTION IN DOUBT" in verdict["guarantee"]
    assert http.get("/studies").json()["items"][0]["state"] == "in doubt"
    error(http.post("/studies/oven/exclude", json={"trials": [], "reason": "x"}), 422)
    error(http.post("/studies/oven/exclude", json={"trials": [3], "reason": " "}), 422)
    error(http.post("/studies/oven/exclude", json={"trials": [3, 99_999], "reason": "x"}), 404)
    gone_on = http.post("/studies/oven/continue", json={"n_runs": 5}).json()
    assert (gone_on["status"]["state"], gone_on["status"]["to_go"]["now"]) == ("running", 5)
    error(http.post("/studies/oven/continue", json={}), 409)
    error(http.post("/studies/oven/continue", json={"n_runs": 10**12}), 422)
    made = http.post("/studies/oven/exclude", json={"trials": [3], "reason": "typo"}).json()["exclusions"]
    assert made == http.get("/studies/oven/exclusions").json()["exclusions"]
    assert (made[0]["trial"], made[0]["value"], made[0]["reason"]) == (3, 700.0, "typo")
    assert http.get("/studies/oven/trials/3").json()["state"] == "EXCLUDED"
    assert http.get("/studies/oven/trials", params={"state": "EXCLUDED"}).json()["total"] == 1
    assert http.get("/studies/oven/status").json()["n_excluded"] == 1
    for wrong in ({"tolerance": 1, "budget": 40}, {"seed": 1}, {"noise_sd": -1}, {"aim": "win"}):
        error(http.post("/studies/oven/restate", json=wrong), 422)
    error(http.post("/studies/oven/restate", json={"noise_sd": 0.2}), 409)
    changed = http.post("/studies/oven/restate", json={"budget": 60, "noise_sd": None, "reason": "x"}).json()
    assert changed["changes"] == [
        "budget: 60, none before",
        "noise sd: not known, 0.2 before",
        "tolerance: none, 0.5 before",
    ]
    told = http.get("/studies/oven").json()
    assert (told["tolerance"], told["noise_sd"], told["options"]["budget"]) == (None, None, 60)
    ended = http.post("/studies/oven/finish", json={"reason": "enough"}).json()
    assert ended["status"]["state"] == "finished"
    kinds = {proviso["kind"] for proviso in http.get("/studies/oven/verdict").json()["provisos"]}
    assert {"stopped early", "restated", "excluded"} <= kinds
    error(http.post("/studies/oven/finish", json={}), 409)


def test_blocks_have_the_same_number_everywhere(http: httpx.Client, database: str) -> None:
    study = levers.create_study("line", FACTORS, tolerance=0.5, noise_sd=1.0, seed=3, block_size=4, storage=database)
    asked = http.post("/studies/line/ask", json={"n": 10}).json()["trials"]
    assert [one["block"] for one in asked] == [1 + one["trial"] // 4 for one in asked]
    frame = study.trials_dataframe()
    assert [one["block"] for one in asked] == frame["block"].to_list()[: len(asked)]
    assert http.get("/studies/line/trials/5").json()["block"] == 2


def test_reading_says_what_the_study_says(http: httpx.Client, study: Study) -> None:
    assert http.get("/studies/oven/best").json()["params"] is None
    assert error(http.get("/studies/oven/verdict"), 409)["kind"] == "NotFinishedError"
    error(http.get("/studies/oven/export/json"), 409)
    finish(study)
    best = study.best()
    assert best is not None
    assert http.get("/studies/oven/best").json()["params"] == dict(best.params)
    assert http.get("/studies/oven/best").json()["low"] == best.low
    assert http.get("/studies/oven/forecast").json() == {"now": 0, "likely": 0, "worst_case": 0}
    effects = http.get("/studies/oven/effects").json()
    assert [(row["factor"], row["level"], row["loss"]) for row in effects] == [
        (row.factor, row.level, row.loss) for row in study.effects()
    ]
    log = http.get("/studies/oven/log", params={"limit": 1000}).json()
    assert log["total"] == study.state.seq == len(log["items"])
    assert log["items"][0]["what"].startswith("created")
    assert http.get("/studies/oven/log", params={"offset": 2, "limit": 1}).json()["items"] == log["items"][2:3]
    found = http.get("/studies/oven/diagnostics").json()
    assert found["residuals"]["n_runs"] == study.status().n_complete
    assert [one["factor"] for one in found["evidence"]] == ["heat", "speed"]
    assert isinstance(found["additivity"]["in_doubt"], bool)


def test_exports_can_be_read_again(http: httpx.Client, study: Study, tmp_path: Path) -> None:
    finish(study)
    verdict = http.get("/studies/oven/export/json")
    assert verdict.headers["content-type"] == "application/json"
    assert levers.from_json(verdict.text, levers.Verdict) == study.verdict()
    space = Space.of(FACTORS)
    for kind, media in (("csv", "text/csv; charset=utf-8"), ("tsv", None), ("xlsx", None)):
        answer = http.get(f"/studies/oven/export/{kind}")
        assert answer.headers["content-type"] == (media or answer.headers["content-type"])
        assert answer.headers["content-disposition"] == f'attachment; filename="oven.{kind}"'
        path = tmp_path / f"oven.{kind}"
        path.write_bytes(answer.content)
        assert read_sheet(path, space).n_rows == study.status().n_complete
        assert study.tell_sheet(path).n_known == study.status().n_complete
    frame = pl.read_parquet(io.BytesIO(http.get("/studies/oven/export/parquet").content))
    assert frame["outcome"].to_list() == study.trials_dataframe()["outcome"].to_list()
    assert pl.read_parquet(io.BytesIO(http.get("/studies/oven/frame").content)).equals(study.trials_dataframe())
    error(http.get("/studies/oven/export/pdf"), 422)


@pytest.mark.parametrize("kind", ["csv", "tsv", "xlsx"])
def test_a_sheet_goes_out_and_comes_back(http: httpx.Client, study: Study, tmp_path: Path, kind: str) -> None:
    asked = http.post("/studies/oven/sheet", params={"n": 4, "format": kind, "worker": "ann", "lease": 60})
    assert asked.headers["levers-runs"] == "4"
    assert http.get("/studies/oven/sheet", params={"format": kind}).headers["levers-runs"] == "4"
    assert http.get("/studies/oven/sheet", params={"worker": "bob"}).headers["levers-runs"] == "0"
    media = {"content-type": asked.headers["content-type"]}
    empty = http.put("/studies/oven/sheet", content=asked.content, headers=media)
    assert empty.json() == {"n_new": 0, "n_known": 0, "n_empty": 4, "n_late": 0, "flags": []}
    for number in range(4):
        study.tell(number, 1.5)
    path = f"/studies/oven/export/{kind}"
    full = http.get(path)
    assert http.put("/studies/oven/sheet", content=full.content, headers=media).json()["n_known"] == 4
    form = {"file": (f"runs.{kind}", full.content)}
    assert http.put("/studies/oven/sheet", files=form).json()["n_known"] == 4
    if kind == "csv":
        changed = full.content.replace(b"1.5", b"2.5", 1)
        refused = error(http.put("/studies/oven/sheet", content=changed, headers=media), 422)
        assert refused["kind"] == "SheetError"
        where = "/studies/oven/sheet/corrections"
        made = http.post(where, params={"reason": "scale"}, content=changed, headers=media)
        assert [one["value"] for one in made.json()["corrections"]] == [2.5]
        error(http.post(where, content=changed, headers=media), 422)


def test_what_is_no_sheet_is_refused(http: httpx.Client, study: Study) -> None:
    where = "/studies/oven/sheet"
    error(http.put(where, content=b"x", headers={"content-type": "application/pdf"}), 415)
    error(http.put(where, content=b"x"), 415)
    error(http.put(where, files={"other": ("a.csv", b"x")}), 422)
    error(http.put(where, files={"file": ("a.pdf", b"x")}), 422)
    error(http.put(where, content=b"x", headers={"content-type": "multipart/form-data"}), 400)
    for kind in ("text/csv", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"):
        for content in (b"", b"\0\1\2", b"PK\3\4", b"trial,outcome\n99,1\n"):
            answer = http.put(where, content=content, headers={"content-type": kind})
            assert error(answer, 422)["kind"] == "SheetError"
            assert "/tmp" not in answer.text


def test_a_plan_is_the_one_that_is_made_here(http: httpx.Client) -> None:
    found = http.post("/plan", json={"factors": [4] * 10, "tolerance": 0.5}).json()
    local = levers.plan([4] * 10, tolerance=0.5)
    assert found["one_shot_runs"] == local.one_shot_runs
    assert [one["runs"] for one in found["trade_off"]] == [one.runs for one in local.trade_off]
    assert http.post("/plan", json={"factors": FACTORS, "budget": 8}).status_code == 200
    for wrong in ({"factors": [4]}, {"factors": [1], "tolerance": 1}, {"factors": [2] * 2000, "tolerance": 1}):
        error(http.post("/plan", json=wrong), 422)


def test_a_plan_that_would_take_minutes_is_refused(http: httpx.Client) -> None:
    body = {"factors": [200, 3], "tolerance": 0.5}
    assert "own machine" in error(http.post("/plan", json={**body, "certificate": "proven"}), 422)["message"]
    assert http.post("/plan", json=body).status_code == 200


def test_the_document_says_how_every_operation_fails(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    assert "HTTPValidationError" not in document["components"]["schemas"]
    names = []
    for path, operations in document["paths"].items():
        if not path.startswith("/api/v1"):
            continue
        for method, operation in operations.items():
            names.append(operation["operationId"])
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            assert operation["security"] == [{"token": []}]
            for status, response in operation["responses"].items():
                assert response["description"]
                if status >= "400":
                    assert response["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Problem"}
            assert {"401", "403", "422", "503"} <= set(operation["responses"])
    assert len(names) == len(set(names)) == 41
    assert json.dumps(document)
