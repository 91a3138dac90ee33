"""A worker that is stopped inside a change, and a PostgreSQL server that is started again, with real processes."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

import levers
from harness import postgres
from levers.errors import StorageError
from levers.studies.storage.sql import SqlStorage, parse_url
from levers.studies.study import Study

SECONDS = 120
"""So that a failure ends."""

WORKER = """
import os, sys
import levers
from levers.errors import StorageError
from levers.studies.storage import postgres
postgres.IDLE_SECONDS = int(sys.argv[2])
study = levers.load_study("oven", sys.argv[1])
try:
    with study.writing():
        study.tell(0, 7.0)
        print("inside", flush=True)
        sys.stdin.readline()
except StorageError as error:
    print("refused", flush=True)
else:
    print("kept", flush=True)
"""


@pytest.fixture
def storage(postgres_storage: str) -> Iterator[SqlStorage]:
    opened = SqlStorage(parse_url(postgres_storage))
    yield opened
    opened.close()


def new_study(storage: SqlStorage, name: str) -> Study:
    study = levers.create_study(name, {"heat": [1, 2, 3]}, tolerance=0.5, noise_sd=1.0, seed=1, storage=storage)
    study.ask(3)
    return study


def in_time(act: Callable[[], object]) -> None:
    """Do something that must not hang."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_a_stopped_worker_holds_its_study_for_seconds_and_nothing_else(
    storage: SqlStorage, postgres_storage: str
) -> None:
    study, other = new_study(storage, "oven"), new_study(storage, "farm")
    pipe = subprocess.PIPE
    arguments = [sys.executable, "-c", WORKER, postgres_storage, "4"]
    with subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdin is not None
            assert worker.stdout.readline() == "inside\n"
            os.kill(worker.pid, signal.SIGSTOP)
            in_time(lambda: other.tell(0, 1.0))
            in_time(storage.ping)
            # as many as there are connections, all waiting for the study that is held: looks have one of their own
            tellers = [threading.Thread(target=study.tell, args=(1, 2.0), daemon=True)]
            handles = [levers.load_study("oven", storage) for _ in range(14)]
            tellers += [threading.Thread(target=one.tell, args=(2, 3.0), daemon=True) for one in handles]
            for teller in tellers:
                teller.start()
            in_time(storage.ping)
            for teller in tellers:
                teller.join(SECONDS)
                assert not teller.is_alive()
            os.kill(worker.pid, signal.SIGCONT)
            worker.stdin.write("\n")
            worker.stdin.flush()
            assert worker.stdout.readline() == "refused\n"
        finally:
            worker.kill()
    again = levers.load_study("oven", storage)
    assert [again.trial(i).value for i in range(3)] == [None, 2.0, 3.0]


def restart(url: str) -> None:
    programs = postgres.find_programs()
    assert programs is not None
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    account = postgres._account()
    subprocess.run(
        [programs / "pg_ctl", "restart", "-D", row[0], "-m", "immediate", "-w", "-l", os.devnull],
        cwd="/",
        env=postgres.ENVIRONMENT,
        user=account and account.pw_uid,
        group=account and account.pw_gid,
        extra_groups=account and [],
        stdout=subprocess.DEVNULL,
        check=True,
    )


def test_a_server_that_is_started_again_is_found_again(storage: SqlStorage, postgres_storage: str) -> None:
    study = new_study(storage, "oven")
    restart(postgres_storage)
    study.tell(0, 1.0)

    def tell_and_restart() -> None:
        with study.writing():
            study.tell(1, 2.0)
            restart(postgres_storage)

    with pytest.raises(StorageError, match="does not answer"):
        tell_and_restart()
    study.tell(1, 2.5)
    assert [levers.load_study("oven", storage).trial(i).value for i in range(2)] == [1.0, 2.5]
    storage.ping()
