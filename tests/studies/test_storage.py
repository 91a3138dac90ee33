"""Every storage keeps the contract; and what only databases do."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

import levers
from levers.errors import StorageError
from levers.studies.library import open_storage
from levers.studies.storage.base import Storage
from levers.studies.storage.memory import MemoryStorage
from levers.studies.storage.schema import SCHEMA, VERSION_TABLE, configuration, metadata
from levers.studies.storage.sql import SqlStorage, parse_url
from levers.testing.storages import StorageContract


class TestMemory(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return MemoryStorage()

    @pytest.fixture
    def reopened(self, storage: Storage) -> Callable[[], Storage]:
        return lambda: storage


class _Database(StorageContract):
    @pytest.fixture
    def storage(self, url: str) -> Iterator[Storage]:
        opened = SqlStorage(parse_url(url))
        yield opened
        opened.close()

    @pytest.fixture
    def reopened(self, url: str) -> Iterator[Callable[[], Storage]]:
        opened: list[SqlStorage] = []

        def again() -> Storage:
            opened.append(SqlStorage(parse_url(url)))
            return opened[-1]

        yield again
        for one in opened:
            one.close()

    def test_tables_are_those_that_the_migrations_make(self, storage: Storage, url: str) -> None:
        engine = create_engine(parse_url(url))
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            assert compare_metadata(context, metadata) == []
        engine.dispose()

    def test_a_storage_of_a_newer_version_is_refused(self, storage: Storage, url: str) -> None:
        engine = create_engine(parse_url(url))
        with engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
        engine.dispose()
        with pytest.raises(StorageError, match="install a newer levers"):
            SqlStorage(parse_url(url))


class TestSqlite(_Database):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/levers.db"

    def test_what_was_told_survives_power_loss(self, storage: SqlStorage) -> None:
        with storage._engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


class TestPostgres(_Database):
    @pytest.fixture
    def url(self, postgres_storage: str) -> str:
        return postgres_storage

    def test_what_was_told_survives_power_loss(self, storage: SqlStorage) -> None:
        with storage._engine.connect() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
            assert connection.exec_driver_sql("SHOW fsync").scalar() == "on"


def test_the_schema_is_the_last_migration() -> None:
    assert ScriptDirectory.from_config(configuration()).get_current_head() == SCHEMA


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("levers.db", "is not a storage"),
        ("mysql://x/y", "there is no storage 'mysql'"),
        ("sqlite://", "needs a file"),
        ("sqlite:////no/such/folder/levers.db", "does not answer"),
        ("postgresql://nobody:secret@127.0.0.1:1/none", "does not answer"),
    ],
)
def test_a_storage_that_cannot_be_opened_says_why(url: str, message: str) -> None:
    with pytest.raises(StorageError, match=message) as caught:
        open_storage(url)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "levers.db"
    path.write_text("not a database, only a text that is long enough to be looked at" * 20)
    with pytest.raises(StorageError, match="not a database"):
        open_storage(f"sqlite:///{path}")


def test_a_database_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE studies (x INTEGER)")
    other.commit()
    other.close()
    with pytest.raises(StorageError, match="already has a table"):
        open_storage(f"sqlite:///{path}")


def test_a_study_moves_between_storages(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    study = levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=3, storage=url)
    study.tell(study.ask()[0], 1.5)
    copied = levers.copy_study("oven", "oven 2", url, f"sqlite:///{tmp_path}/b.db")
    assert copied.status().n_complete == 1
    assert levers.list_studies(f"sqlite:///{tmp_path}/b.db") == ["oven 2"]
    levers.delete_study("oven", url)
    assert levers.list_studies(url) == []
