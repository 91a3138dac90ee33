"""Many HTTP workers at once, and a service that is stopped under them: benchmarks/http_load.py, smaller."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import levers
from harness.fleet import FLEET_SPACE
from harness.http_load import check_load, run_load, running_server
from harness.postgres import running_postgres
from levers.errors import StudyError
from levers.studies.library import open_storage
from levers.studies.storage.tokens import create_token

WORKERS = 16


def prepared(url: str) -> str:
    """A study with plenty of runs, and a token for it."""
    storage = open_storage(url)
    levers.create_study("load", FLEET_SPACE, budget=200_000, noise_sd=1.0, seed=0, storage=storage)
    token = create_token(storage, "write", study="load")
    storage.close()
    return token


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_workers_lose_and_double_nothing(kind: str, tmp_path: Path) -> None:
    if kind == "sqlite":
        workers_lose_nothing(f"sqlite:///{tmp_path}/levers.db")
    else:
        with running_postgres() as url:
            workers_lose_nothing(url)


def workers_lose_nothing(url: str) -> None:
    token = prepared(url)
    with running_server(url, "--require-token") as server:
        report = run_load(server.address, token, "load", workers=WORKERS, seconds=3, least=2 * WORKERS)
        assert server.stop() == 0
    assert report.problems == []
    assert report.unanswered == {}
    storage = open_storage(url)
    study = levers.load_study("load", storage)
    assert check_load(study, report) == []
    assert study.status().n_complete == len(report.told)
    storage.close()


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_is_asked_to_stop_keeps_what_it_answered_for(kind: int, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/levers.db"
    token = prepared(url)
    with running_server(url, "--require-token") as server:

        def stop() -> None:
            server.process.send_signal(kind)

        report = run_load(server.address, token, "load", workers=WORKERS, seconds=20, least=2 * WORKERS, then=stop)
        assert server.process.wait(30) == 0
    lost = [problem for problem in report.problems if "connection lost" not in problem and "503" not in problem]
    assert lost == []
    assert report.told
    assert check_load(levers.load_study("load", url), report) == []


def test_a_port_that_is_taken_is_said_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with (
            pytest.raises(StudyError, match="did not start"),
            running_server(f"sqlite:///{tmp_path}/a.db", port=taken.getsockname()[1]),
        ):
            pass


def test_another_address_needs_a_token_before_it_is_served(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    command = [sys.executable, "-m", "levers.cli.app", "dashboard", url, "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "levers token create" in done.stderr
    assert "Traceback" not in done.stderr
