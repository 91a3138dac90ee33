"""The log is a chain: whatever is changed, removed or rolled back in the storage is noticed."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

import levers
from levers.core.codec import from_json, to_json
from levers.errors import StorageError, StudyError, TrialError
from levers.studies.events import Told
from levers.studies.library import open_storage
from levers.studies.log import freeze
from levers.studies.storage.memory import MemoryStorage
from levers.studies.storage.sql import SqlStorage, parse_url
from levers.studies.study import Study

SPACE: dict[str, list[Any]] = {"heat": ["low", "mid", "high"], "speed": [1, 2]}
Sql = Callable[..., list[Any]]
Fresh = Callable[[Study], Study]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/levers.db"
    found: str = request.getfixturevalue("postgres_storage")
    return found


@pytest.fixture
def sql(url: str) -> Iterator[Sql]:
    """Somebody with a database client."""
    engine = sa.create_engine(parse_url(url))

    def execute(statement: str, **values: object) -> list[Any]:
        with engine.begin() as connection:
            found = connection.execute(sa.text(statement), values)
            return list(found.all()) if found.returns_rows else []

    yield execute
    engine.dispose()


@pytest.fixture
def fresh(url: str) -> Iterator[Fresh]:
    """The same study as another process opens it."""
    opened: list[SqlStorage] = []

    def again(study: Study) -> Study:
        opened.append(SqlStorage(parse_url(url)))
        return Study(study.name, opened[-1], study.id)

    yield again
    for storage in opened:
        storage.close()


@pytest.fixture
def study(url: str) -> Iterator[Study]:
    """A study in a process of its own kind: it opened the storage for itself, and keeps what it has read."""
    opened = SqlStorage(parse_url(url))
    yield new(opened)
    opened.close()


def new(storage: Any, name: str = "oven", **given: Any) -> Study:
    settings = {"tolerance": 0.4, "noise_sd": 1.0, "seed": 4} | given
    return levers.create_study(name, SPACE, storage=storage, who="ann", **settings)


def tell(study: Study, n: int) -> None:
    trials = study.ask(n)
    study.tell_many([(t, 2.0 * (t.params["heat"] == "mid") + 0.1 * (t.number % 7)) for t in trials])


def finish(study: Study) -> levers.Verdict:
    while not study.is_finished:
        tell(study, 1000)
    return study.verdict()


def backup(sql: Sql) -> Callable[[], None]:
    """Keep every row as it is now; what is returned puts them back, as a restored backup or a lagging replica would."""
    tables = ("studies", "events", "snapshots", "answers")
    kept = {table: [dict(row._mapping) for row in sql(f"SELECT * FROM {table}")] for table in tables}

    def restore() -> None:
        for table in reversed(tables):
            sql(f"DELETE FROM {table}")
        for table, rows in kept.items():
            for row in rows:
                sql(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(f':{name}' for name in row)})", **row)

    return restore


def test_a_storage_that_was_rolled_back_under_a_live_process_goes_on(study: Study, fresh: Fresh, sql: Sql) -> None:
    tell(study, 3)
    restore = backup(sql)
    tell(study, 4)
    restore()
    assert study.status().n_complete == 3  # noticed by a reader
    tell(study, 2)
    assert fresh(study).status().n_complete == 5
    assert finish(study).assignment["heat"] == "mid"
    assert fresh(study).verdict() == study.verdict()


def test_a_writer_notices_a_roll_back_before_it_writes(study: Study, fresh: Fresh, sql: Sql) -> None:
    tell(study, 3)
    restore = backup(sql)
    late = study.ask(2)
    tell(study, 4)
    restore()
    with pytest.raises(TrialError, match=f"trial {late[0].number} was not asked for yet"):
        study.tell(late[0], 1.0)  # which the storage does not know as handed out any more
    assert study.status().n_complete == 3
    assert fresh(study).status().n_complete == 3


def test_outcomes_of_trials_that_are_gone_are_refused_by_name(study: Study, fresh: Fresh, sql: Sql) -> None:
    restore, was = backup(sql), study.state.seq
    tell(study, 1000)
    trial = study.ask()[0]
    restore()
    with pytest.raises(TrialError, match=f"there is no trial {trial.number}"):
        study.tell(trial, 1.0)
    assert fresh(study).state.seq == was


def test_an_outcome_is_not_stored_under_another_row(study: Study, fresh: Fresh, sql: Sql) -> None:
    """The same number can be another run once a storage was rolled back, and the round designed on other outcomes."""
    restore = backup(sql)
    tell(study, 1000)
    held = study.ask(1000)
    restore()
    other = fresh(study)
    while other.state.trials.n_trials <= held[-1].number:
        other.tell_many([(trial, 9.0 * (trial.params["heat"] == "low")) for trial in other.ask(1000)])
    other.ask(1000)
    moved = next(one for one in held if other.trial(one.number).params != one.params)
    with pytest.raises(TrialError, match=f"trial {moved.number} is another run than the one that was handed out"):
        study.tell(moved, 1.0)
    assert other.trial(moved.number).value is None


def test_a_log_that_others_wrote_after_a_roll_back_is_read_anew(study: Study, fresh: Fresh, sql: Sql) -> None:
    tell(study, 3)
    restore, other = backup(sql), fresh(study)
    tell(study, 4)
    restore()
    other.tell(other.ask()[0], 1.0)
    other.tell(other.ask()[0], 1.5)  # as many events as there were, and others
    assert study.state.seq == other.state.seq
    assert study.state.head == other.state.head
    assert study.status().n_complete == 5


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_an_older_copy_of_the_file_restored_under_a_live_process(study: Study, fresh: Fresh, tmp_path: Path) -> None:
    tell(study, 3)
    with closing(sqlite3.connect(tmp_path / "levers.db")) as live, closing(sqlite3.connect(tmp_path / "c.db")) as copy:
        live.backup(copy)
        tell(study, 4)
        copy.backup(live)
    tell(study, 2)
    assert fresh(study).status().n_complete == 5
    finish(study)
    assert fresh(study).verdict() == study.verdict()


def test_outcomes_that_were_changed_by_hand_leave_no_verdict(study: Study, fresh: Fresh, sql: Sql) -> None:
    finish(study)
    seq, data = sql("SELECT seq, data FROM events WHERE kind = 'Told' ORDER BY seq LIMIT 1")[0]
    told = from_json(data, Told)
    sql(
        "UPDATE events SET data = :d WHERE seq = :n",
        n=seq,
        d=to_json(replace(told, values=np.full_like(told.values, -5))),
    )
    with pytest.raises(StudyError, match=f"event {seq} of the log, or one before it, is not as it was written"):
        fresh(study).verdict()


@pytest.mark.parametrize("where", ["middle", "end"])
def test_events_that_were_deleted_are_missed(study: Study, fresh: Fresh, sql: Sql, where: str) -> None:
    for _ in range(4):
        tell(study, 2)
    last = study.state.seq
    sql("DELETE FROM events WHERE seq >= :n", n=last - 2) if where == "end" else sql("DELETE FROM events WHERE seq = 5")
    expected = f"ends at event {last - 3}, and {last} were written" if where == "end" else "event 6 came after event 4"
    with pytest.raises(StudyError, match=expected):
        fresh(study).status()
    if where == "end":  # also by a process that has read them, before it writes or says anything
        for act in (study.status, lambda: study.ask(1)):
            with pytest.raises(StudyError, match=expected):
                act()
        assert sql("SELECT max(seq) FROM events")[0][0] == last - 3


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_doctored_snapshot_does_not_override_the_log(
    study: Study, fresh: Fresh, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levers.studies.log.EVERY", 1)
    monkeypatch.setattr("levers.studies.log.GROWTH", 0.0)
    tell(study, 5)
    doctored = study.frozen()
    doctored.blocks[-1].values[:] = -5.0
    doctored.blocks[-1].n_missing = 0
    sql("UPDATE snapshots SET data = :d WHERE study_id = :s", d=freeze(doctored), s=study.id)
    assert fresh(study).status().n_complete == 5
    assert np.nanmin(fresh(study).state.blocks[-1].values) >= 0


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_snapshot_of_another_log_is_dropped(
    study: Study, fresh: Fresh, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levers.studies.log.EVERY", 1)
    monkeypatch.setattr("levers.studies.log.GROWTH", 0.0)
    tell(study, 5)
    other = new(study.storage, "farm", seed=9)
    tell(other, 3)
    sql("DELETE FROM snapshots WHERE study_id = :s", s=study.id)
    sql("UPDATE snapshots SET study_id = :s WHERE study_id = :o", s=study.id, o=other.id)
    assert fresh(study).state.spec.seed == 4
    assert fresh(study).status().n_complete == 5


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("change", ["name = 'stove'", "created_at = created_at + 1", "n_events = 2", "head = 'x'"])
def test_the_row_of_a_study_that_was_edited(study: Study, fresh: Fresh, sql: Sql, change: str) -> None:
    tell(study, 2)
    sql(f"UPDATE studies SET {change}")
    with pytest.raises(StudyError, match=r"not as it was written|another log than this one"):
        fresh(study).status()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_an_answer_that_was_changed_is_not_given(study: Study, fresh: Fresh, sql: Sql) -> None:
    assert study.once("k1", "ask", lambda: "trial 3") == "trial 3"
    sql("UPDATE answers SET answer = 'trial 4'")
    with pytest.raises(StudyError, match="the answer that is kept for the key 'k1' is not the one that was given"):
        fresh(study).once("k1", "ask", lambda: "trial 5")


def test_a_damaged_study_is_not_copied(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/levers.db"
    finish(new(url))
    copied = levers.copy_study("oven", "oven 2", url)
    assert copied.state.head != levers.load_study("oven", url).state.head
    assert copied.verdict().assignment == levers.load_study("oven", url).verdict().assignment
    with closing(sqlite3.connect(tmp_path / "levers.db")) as connection:
        connection.execute("UPDATE events SET who = 'bob' WHERE seq = 3 AND study_id = 1")
        connection.commit()
    with pytest.raises(StudyError, match="event 3 of the log"):
        levers.copy_study("oven", "oven 3", url)
    assert levers.list_studies(url) == ["oven", "oven 2"]


def test_a_storage_that_was_written_before_is_told_what_it_lacks() -> None:
    class Before:
        url = "before"

    with pytest.raises(StorageError, match="Before is no storage for this version: it has no 'header'"):
        open_storage(Before())  # type: ignore[arg-type]
    assert open_storage(MemoryStorage()).url == "memory"


def test_old_storages_become_chains(postgres_storage: str, tmp_path: Path) -> None:
    """Both databases get the same digests from the same rows, and a storage is upgraded once."""
    from levers.studies.storage.schema import SCHEMA, configuration
    from levers.studies.storage.sql import new_engine, upgrade_storage

    sample = Path(__file__).parents[1] / "old_studies" / "0.2.dev3.db"
    shutil.copy(sample, tmp_path / "old.db")
    target = new_engine(parse_url(postgres_storage))
    source = sqlite3.connect(sample)
    with target.begin() as connection:
        from alembic import command

        command.upgrade(configuration(connection), "0002")
        for table, n in (("studies", 3), ("events", 6), ("answers", 5), ("tokens", 7)):
            rows = source.execute(f"SELECT * FROM {table}").fetchall()
            marks = ", ".join("%s" for _ in range(n))
            for row in rows:
                connection.exec_driver_sql(f"INSERT INTO {table} VALUES ({marks})", row)
        connection.exec_driver_sql("SELECT setval('studies_id_seq', 100)")
    source.close()
    target.dispose()
    heads = []
    for url in (f"sqlite:///{tmp_path}/old.db", postgres_storage):
        with pytest.raises(StorageError, match="levers storage upgrade"):
            SqlStorage(parse_url(url))
        assert upgrade_storage(url) == ("0002", SCHEMA)
        opened = SqlStorage(parse_url(url))
        heads.append({name: Study(name, opened, study).state.head for study, name in opened.names()})
        assert len(opened.tokens()) == 2
        assert opened.revoke_token(opened.tokens()[0].id, 5.0)
        opened.close()
    assert heads[0] == heads[1]
    assert len(set(heads[0].values())) == 6
