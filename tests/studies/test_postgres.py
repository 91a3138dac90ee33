"""The PostgreSQL server that other tests run against."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import sqlalchemy

from harness import postgres
from levers.errors import StorageError


def ask(url: str, question: str) -> str:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return str(row[0])


def answers(url: str) -> bool:
    try:
        return ask(url, "SELECT 1") == "1"
    except psycopg.OperationalError:
        return False


def becomes_true(condition: Callable[[], bool], seconds: float = 60) -> bool:
    """Wait for another process; the limit is only there so that a failure ends."""
    end = time.monotonic() + seconds
    while not (done := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return done


def interrupt(seen: dict[str, str]) -> None:
    with postgres.running_postgres() as url:
        seen.update(url=url, data=ask(url, "SHOW data_directory"))
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("setting", "value"),
    [("listen_addresses", "127.0.0.1"), ("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on")],
)
def test_listens_on_loopback_only_and_keeps_what_is_committed(postgres_url: str, setting: str, value: str) -> None:
    assert ask(postgres_url, f"SHOW {setting}") == value


def test_each_storage_is_an_empty_database_that_is_dropped_with_its_connections(postgres_url: str) -> None:
    with postgres.new_database(postgres_url) as first, postgres.new_database(postgres_url) as second:
        assert len({postgres_url, first, second}) == 3
        assert ask(first, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0"
        forgotten = psycopg.connect(first.replace("+psycopg", ""))
    with forgotten, pytest.raises(psycopg.OperationalError):
        forgotten.execute("SELECT 1")
    assert ask(postgres_url, "SELECT count(*) FROM pg_database WHERE datname LIKE 'levers\\_%'") == "0"


def test_the_url_is_one_for_sqlalchemy(postgres_storage: str) -> None:
    engine = sqlalchemy.create_engine(postgres_storage)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE seen AS SELECT 1 AS n"))
    engine.dispose()
    assert ask(postgres_storage, "SELECT n FROM seen") == "1"


def test_the_server_and_its_folder_go_with_the_block_whatever_ends_it() -> None:
    seen: dict[str, str] = {}
    with pytest.raises(KeyboardInterrupt):
        interrupt(seen)
    assert not Path(seen["data"]).parent.exists()
    assert becomes_true(lambda: not answers(seen["url"]))


def test_the_server_goes_when_its_owner_is_killed() -> None:
    script = (
        "import time\n"
        "from harness.postgres import running_postgres\n"
        "with running_postgres() as url:\n"
        "    print(url, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        url = owner.stdout.readline().strip()
        data = Path(ask(url, "SHOW data_directory"))
        owner.kill()
    assert becomes_true(lambda: not data.parent.exists() and not answers(url))


def test_says_what_to_install_when_the_programs_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    assert not postgres.postgres_available()
    with pytest.raises(StorageError, match="apt-get install postgresql"), postgres.running_postgres():
        pass


def test_takes_the_newest_version_that_is_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    for version, programs in [("9.6", postgres.PROGRAMS), ("15", postgres.PROGRAMS), ("16", ["pg_ctl"])]:
        (tmp_path / version / "bin").mkdir(parents=True)
        for name in programs:
            (tmp_path / version / "bin" / name).touch()
    assert postgres.find_programs() == tmp_path / "15" / "bin"


def test_shows_the_log_when_the_server_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_free_port", lambda: 99_999)
    with pytest.raises(StorageError, match="99999"), postgres.running_postgres():
        pass


def test_names_the_folder_that_cannot_be_used(tmp_path: Path) -> None:
    place = tmp_path / "closed"
    place.mkdir()
    place.chmod(0o500 if os.geteuid() else 0o700)  # root's own folder is closed to the user postgres
    with pytest.raises((StorageError, PermissionError), match="closed"), postgres.running_postgres(place):
        pass
    assert not list(place.iterdir())
