"""A study recomputed from its log: over HTTP, by the client, on its page and on the command line, in the same words."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

import levers
from levers.cli.app import app
from levers.client import Client
from levers.errors import DamagedLogError
from levers.studies.library import open_storage
from levers.studies.storage.tokens import create_token
from levers.studies.study import Study
from levers.web.app import make_app
from levers.web.service import Service


@pytest.fixture
def study(database: str) -> Study:
    made = levers.create_study("line 3", {"heat": [1, 2, 3]}, tolerance=1.0, noise_sd=1.0, seed=1, storage=database)
    while not made.is_finished:
        noise = np.random.default_rng(made.state.trials.n_trials)
        made.tell_many([(t, float(t.params["heat"]) + noise.normal()) for t in made.ask(100)])
    return made


@pytest.fixture
def web(database: str) -> TestClient:
    return TestClient(make_app(Service(open_storage(database))), base_url="http://127.0.0.1")


def tamper(database: str) -> int:
    """Somebody changes who told the first outcomes; returns the number of that event."""
    with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as connection:
        seq = connection.execute("SELECT min(seq) FROM events WHERE kind = 'Told'").fetchone()[0]
        connection.execute("UPDATE events SET who = 'eve' WHERE seq = ?", (seq,))
        connection.commit()
        return int(seq)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def test_over_http_and_on_the_page(study: Study, web: TestClient, database: str) -> None:
    here = study.verify()
    at = "/api/v1/studies/line%203/verification"
    found = web.get(at, params={"head": here.head}).json()
    assert (found["ok"], found["head"], found["contains_head"]) == (True, here.head, True)
    assert found["verdict"] == here.verdict
    page = web.get("/studies/line%203/verification")
    assert 'data-ok="true"' in page.text
    assert here.head in page.text
    assert "/studies/line%203/verification" in web.get("/studies/line%203/verdict").text
    for wrong in ({"head": "abc"}, {"seconds": "0"}, {"seconds": "nan"}):
        assert web.get(at, params=wrong).status_code == 422
    assert web.get("/api/v1/studies/other/verification").status_code == 404
    seq = tamper(database)
    service = TestClient(make_app(Service(open_storage(database))), base_url="http://127.0.0.1")
    found = service.get(at).json()
    assert not found["ok"]
    assert [(one["seq"], one["kind"]) for one in found["differences"]] == [(seq, "Told")]
    page = service.get("/studies/line%203/verification")
    assert 'data-ok="false"' in page.text
    assert f"event {seq} (Told)" in page.text
    refused = service.get("/api/v1/studies/line%203/status")
    assert (refused.status_code, refused.json()["error"]["kind"]) == (409, "DamagedLogError")


def test_whoever_may_read_may_verify_and_nobody_else(study: Study, database: str) -> None:
    storage = open_storage(database)
    web = TestClient(make_app(Service(storage, needs_token=True)), base_url="http://127.0.0.1")
    other = levers.create_study("other", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0, storage=storage)
    for token, code in (
        (create_token(storage, "read", study.name), 200),
        (create_token(storage, "read", other.name), 403),
        ("levers_x_y", 401),
    ):
        given = {"authorization": f"Bearer {token}"}
        assert web.get("/api/v1/studies/line%203/verification", headers=given).status_code == code


def test_the_client_and_the_command_say_the_same(study: Study, server: str, database: str) -> None:
    remote = Client(server).load_study("line 3")
    head = remote.verify().head
    assert remote.verify(head) == study.verify(head)
    told = [run("verify", "line 3", "--head", head, *where) for where in (("--url", server), ("--storage", database))]
    assert told[0].exit_code == 0
    assert told[0].stdout == told[1].stdout
    assert f"head: {head}" in told[0].stdout
    assert json.loads(run("verify", "line 3", "--storage", database, "--format", "json").stdout)["ok"]
    missing = run("verify", "line 3", "--head", "0" * 64, "--storage", database)
    assert missing.exit_code == 6
    assert "WRONG: the log does not contain 000" in missing.stdout


def test_what_is_wrong_has_an_exit_code(study: Study, database: str, tmp_path: Path) -> None:
    seq = tamper(database)
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(tmp_path / "served.db")) as live, closing(sqlite3.connect(copy)) as other:
        live.backup(other)
    found = run("verify", "line 3", "--storage", f"sqlite:///{copy}")
    assert found.exit_code == 6
    assert f"WRONG: event {seq} (Told)" in found.stdout
    refused = run("status", "line 3", "--storage", f"sqlite:///{copy}")
    assert isinstance(refused.exception, DamagedLogError)
    assert refused.exception.seq == seq


def test_a_client_notices_that_the_service_s_storage_was_rolled_back(server: str, tmp_path: Path) -> None:
    remote = Client(server).create_study("oven", {"heat": [1, 2]}, tolerance=0.5, noise_sd=1.0, seed=1)
    for _ in range(2):
        remote.tell(remote.ask()[0], 1.0)
    assert remote.state.n_complete == 2
    with closing(sqlite3.connect(tmp_path / "served.db")) as live, closing(sqlite3.connect(tmp_path / "c.db")) as copy:
        live.backup(copy)
        for _ in range(3):
            remote.tell(remote.ask()[0], 1.0)
        assert remote.state.n_complete == 5
        copy.backup(live)
    assert remote.state.n_complete == 2
    remote.tell(remote.ask()[0], 1.0)
    assert remote.state.n_complete == 3
