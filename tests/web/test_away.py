"""A service that is away for a while: its workers wait, and nothing that they measured is lost."""

import logging
import signal
import socket
import threading
import time

import pytest
from typer.testing import CliRunner

import levers
from harness.http_load import running_server
from levers.cli.app import app
from levers.errors import NoSuchTrialError, UnreachableError
from levers.studies.state import TrialState
from levers.studies.workers.journal import Journal, Outcome, Owner, journals

SPACE: dict[str, list[int]] = {"heat": [0, 1, 2], "speed": [0, 1]}


def line(run: levers.Assignment) -> float:
    return float(run.codes[0]) + 0.1 * float(run.codes[1])


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_a_service_that_is_away_for_a_while(database: str, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    study = levers.create_study("oven", SPACE, budget=24, noise_sd=0.5, seed=3, storage=database)
    calls: list[levers.Assignment] = []
    found: list[levers.Verdict | None] = []
    away = threading.Event()

    def counted(run: levers.Assignment) -> float:
        calls.append(run)
        if len(calls) == 9:
            away.wait(60)  # measured while the service is gone
        return line(run)

    # the transport gives up soon, so it is the worker who waits
    with levers.Client(f"http://127.0.0.1:{port}", timeout=5.0, patience=0.2) as client:
        there = client.study("oven")
        worker = threading.Thread(target=lambda: found.append(there.optimize(counted, worker="ann", patience=120)))
        with caplog.at_level(logging.WARNING, "levers"):
            with running_server(database, port=port) as server:
                worker.start()
                while len(calls) < 9:
                    time.sleep(0.01)
                server.process.send_signal(signal.SIGKILL)
                server.process.wait(30)
                away.set()
                until = time.monotonic() + 60
                while not any("trying again for 120 s" in record.getMessage() for record in caplog.records):
                    assert time.monotonic() < until
                    time.sleep(0.05)
                [journal] = journals()
                assert len(journal.unsent) == 1
                assert journal.owner is not None
                assert journal.owner.address == f"http://127.0.0.1:{port}"
            with running_server(database, port=port):
                worker.join(120)
    assert found == [levers.create_study("oven", SPACE, budget=24, noise_sd=0.5, seed=3).optimize(line)]
    assert len(calls) == study.status().n_complete == 24
    assert journals() == []


def test_what_is_unsent_is_sent_by_the_command(server: str, database: str) -> None:
    study = levers.create_study("oven", SPACE, budget=24, noise_sd=0.5, seed=3, storage=database)
    with levers.Client(server) as client:
        trial = client.study("oven").ask(worker="ann")[0]
    with Journal.open(Owner(server, "oven", study.status().created_at, "ann")) as journal:
        journal.keep(Outcome(trial.number, 1.25, at=10.0))
    sent = CliRunner().invoke(app, ["journal", "send"])
    assert sent.output == "1 outcome is told\n"
    assert study.trial(trial.number).value == 1.25


def test_a_service_that_does_not_answer_is_away() -> None:
    with levers.Client(f"http://127.0.0.1:{free_port()}", patience=0.1) as client, pytest.raises(UnreachableError):
        client.study("oven").ask()


def test_a_lease_is_renewed_over_http(server: str, database: str) -> None:
    study = levers.create_study("oven", SPACE, budget=24, noise_sd=0.5, seed=3, storage=database)
    with levers.Client(server) as client:
        there = client.study("oven")
        first, second = there.ask(2, worker="ann", lease=60)
        study.tell(second, 1.0)
        before = study.trial(first.number).deadline
        assert there.renew([first, second], lease=600) == [first.number]
        after = study.trial(first.number).deadline
        assert before is not None
        assert after is not None
        assert 500 < after - before < 700
        assert study.trial(first.number).state is TrialState.RUNNING
        with pytest.raises(NoSuchTrialError):
            there.renew([999], lease=60)
        assert "renewed trial 0" in there.log()[-1].what
