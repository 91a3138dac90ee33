"""How a change of a study goes to PostgreSQL: in two ways there, with a lock that writes nothing, and guarded."""

from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

import levers
from levers.errors import UnreachableError
from levers.studies.storage import round_trips
from levers.studies.storage.sql import SqlStorage
from levers.studies.study import Study


def new_study(url: str) -> Study:
    return levers.create_study("oven", {"heat": [1, 2, 3]}, tolerance=0.5, noise_sd=1.0, seed=1, storage=url)


def server(url: str) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)


def end_all_connections(url: str) -> None:
    with server(url) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_an_ask_and_a_tell_are_two_ways_to_the_server_each(
    postgres_storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = new_study(postgres_storage)
    study.tell(study.ask()[0], 1.0)
    sent: list[str] = []
    execute = psycopg.ClientCursor.execute

    def noted(cursor: Any, query: Any, *rest: Any) -> Any:
        sent.append(query)
        return execute(cursor, query, *rest)

    monkeypatch.setattr(psycopg.ClientCursor, "execute", noted)

    def note(*given: object) -> None:
        sent.append(str(given[2]))

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        study.tell(study.ask()[0], 2.0)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    assert [query.split()[0] for query in sent] == ["BEGIN;", "EXECUTE", "BEGIN;", "EXECUTE"]
    assert [query.endswith("COMMIT") for query in sent] == [False, True, False, True]


def test_the_lock_of_a_study_writes_nothing(postgres_storage: str) -> None:
    study = new_study(postgres_storage)
    storage = study.storage
    assert isinstance(storage, SqlStorage)
    with storage.writing(study.id) as writing:
        assert writing.connection.execute(sa.text("SELECT pg_current_xact_id_if_assigned()")).scalar() is None


def test_what_others_wrote_comes_with_the_lock_also_to_a_handle_that_lags_behind(postgres_storage: str) -> None:
    ours, theirs = new_study(postgres_storage), levers.load_study("oven", postgres_storage)
    behind = levers.load_study("oven", ours.storage)
    behind.ask()
    for trial in theirs.ask(2):
        theirs.tell(trial, 1.0)
    assert ours.ask()[0].number == 3
    assert behind.ask()[0].number == 4
    assert behind.verify().ok


def test_nothing_is_kept_if_somebody_writes_without_waiting_for_the_lock(postgres_storage: str) -> None:
    study = new_study(postgres_storage)
    study.ask(2)
    before = study.storage.header(study.id)

    def tell_while_another_moves_the_end() -> None:
        with study.writing(), server(postgres_storage) as other:
            study.tell(0, 1.0)
            other.execute("UPDATE studies SET n_events = n_events + 1")

    with pytest.raises(UnreachableError, match="did not wait for its lock"):
        tell_while_another_moves_the_end()
    with server(postgres_storage) as other:
        other.execute("UPDATE studies SET n_events = n_events - 1")
    assert study.storage.header(study.id) == before
    study.tell(0, 1.0)
    assert study.verify().ok


def test_an_answer_is_not_kept_either(postgres_storage: str) -> None:
    study = new_study(postgres_storage)

    def move_the_end() -> str:
        with server(postgres_storage) as other:
            other.execute("UPDATE studies SET n_events = 0")
        return "done"

    with pytest.raises(UnreachableError, match="did not wait for its lock"):
        study.once("key", "nothing", move_the_end)
    with server(postgres_storage) as other:
        assert other.execute("SELECT count(*) FROM answers").fetchone() == (0,)


def test_a_connection_that_ended_in_the_pool_is_not_used(postgres_storage: str) -> None:
    study = new_study(postgres_storage)
    trial = study.ask()[0]
    end_all_connections(postgres_storage)
    study.tell(trial, 1.0)
    end_all_connections(postgres_storage)
    assert study.status().n_complete == 1


def test_a_connection_that_nobody_used_for_long_is_asked_first(
    postgres_storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = new_study(postgres_storage)
    trial = study.ask()[0]
    monkeypatch.setattr(round_trips, "TRUSTED_SECONDS", 0.0)
    monkeypatch.setattr(round_trips, "_is_silent", lambda opened: True)  # as a network that says nothing
    end_all_connections(postgres_storage)
    study.tell(trial, 1.0)
    assert study.status().n_complete == 1


def test_a_connection_that_ends_inside_a_change_is_an_error_and_nothing_is_kept(postgres_storage: str) -> None:
    study = new_study(postgres_storage)
    trial = study.ask()[0]

    def tell_and_be_ended() -> None:
        with study.writing():
            study.tell(trial, 1.0)
            end_all_connections(postgres_storage)

    with pytest.raises(UnreachableError):
        tell_and_be_ended()
    assert study.status().n_complete == 0
    study.tell(trial, 1.0)
    assert study.status().n_complete == 1


def test_texts_of_all_kinds_arrive_as_they_were_sent(postgres_storage: str) -> None:
    words = "it's 100 %s, \\'; COMMIT; {\"a\"} \u2019\U0001f600"
    study = new_study(postgres_storage)
    study.fail(study.ask()[0], words)
    key = words.encode("ascii", "ignore").decode()
    assert study.once(key, words, lambda: words) == words
    again = levers.load_study("oven", postgres_storage)
    assert again.verify().ok
    assert words in again.log()[-1].what
    assert again.once(key, words, lambda: "another") == words
