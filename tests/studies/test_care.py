"""`levers storage check`, `backup`, `restore` and `repair`, on both databases and on damaged files."""

import csv
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

import levers
from harness.tampering import build_storage, dump, edit_rows, flip_bits, verified_studies
from levers.cli.app import app
from levers.core.codec import to_json
from levers.errors import StorageError
from levers.studies.library import load_study, open_storage
from levers.studies.storage.care.backup import backup_storage, restore_storage
from levers.studies.storage.care.check import check_storage
from levers.studies.storage.care.repair import repair_storage
from levers.studies.storage.sessions import start_session
from levers.studies.storage.sql import SqlStorage, parse_url

OLD = Path(__file__).parents[1] / "old_studies"
BEFORE_CHAINS = ("0.1.0", "0.2.dev1", "0.2.dev2", "0.2.dev3")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("built") / "levers.db"
    build_storage(path)
    return path


@pytest.fixture
def file(built: Path, tmp_path: Path) -> Path:
    path = tmp_path / "levers.db"
    shutil.copyfile(built, path)
    return path


@pytest.fixture
def closing() -> Iterator[list[SqlStorage]]:
    opened: list[SqlStorage] = []
    yield opened
    for one in opened:
        one.close()


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def damages(path: Path) -> list[str]:
    return [str(damage) for damage in check_storage(f"sqlite:///{path}").damages]


def rows_of(url: str, closing: list[SqlStorage]) -> list[tuple[object, ...]]:
    """Everything that a storage keeps, in either database."""
    storage = SqlStorage(parse_url(url))
    closing.append(storage)
    found: list[tuple[object, ...]] = [(token.id, token.row_digest) for token in storage.tokens()]
    for study, name in storage.names():
        found += [(study, name, storage.header(study)), *map(astuple, storage.read(study, 0))]
        kept = storage.snapshot(study)
        found.append((study, kept and kept.digest))
        with storage.writing(study) as writing:
            found += [(study, key, writing.answer(key)) for key in ("k-1", "k-4")]
    return found


class TestCheck:
    def test_honest_storages_are_not_accused(self, file: Path, tmp_path: Path) -> None:
        assert damages(file) == []
        for old in sorted(OLD.glob("*.db")):
            shutil.copyfile(old, tmp_path / old.name)
            url = f"sqlite:///{tmp_path / old.name}"
            if old.stem in BEFORE_CHAINS:
                assert check_storage(url).unchecked.endswith("then its rows can be checked")
            done = CliRunner().invoke(app, ["storage", "upgrade", url])
            assert done.exit_code == 0, done.output
            assert damages(tmp_path / old.name) == []

    def test_a_file_that_others_write_to_is_not_accused(self, file: Path) -> None:
        study = load_study("line", SqlStorage(parse_url(f"sqlite:///{file}")))
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                for trial in study.ask(1):
                    study.fail(trial, "again")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(5):
                assert damages(file) == []
        finally:
            stop.set()
            writer.join()
            study.storage.close()

    def test_flips_and_edits_are_noticed_without_a_traceback(self, built: Path) -> None:
        flips = flip_bits(built, 150, seed=5, looks=2)
        edits = edit_rows(built, 60, seed=5)
        for found in (flips, edits):
            assert (found.missed, found.tracebacks) == ([], [])
        assert flips.found["noticed by storage check"] > 30
        assert edits.found["noticed by storage check"] + edits.found["noticed by verify"] == 60

    @pytest.mark.parametrize(
        ("statement", "said"),
        [
            ("UPDATE events SET who = 'eve' WHERE seq = 5 AND study_id = 1", "study 'oven', event 5"),
            ("DELETE FROM events WHERE seq = 4 AND study_id = 1", "events 4 to 4 are gone"),
            ("DELETE FROM events WHERE study_id = 1 AND seq > 10", "the log ends at event 10"),
            ("DELETE FROM studies WHERE name = 'line'", "a study is gone"),
            ("DELETE FROM tokens WHERE role = 'admin'", "a token is gone"),
            ("UPDATE tokens SET role = 'admin' WHERE role = 'write'", "a token is gone, was added"),
            ("DELETE FROM answers WHERE key = 'k-4'", "an answer that was kept is gone"),
            ("CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END", "trigger t of events is not one"),
            ("DROP INDEX ix_studies_name", "ix_studies_name of studies is missing"),
            ("DELETE FROM sqlite_sequence", "the next id follows 0"),
            ("UPDATE levers_schema SET version_num = '0002'", "has tables of a later one"),
            ("UPDATE events SET data = replace(data, 'shape', 'shap*') WHERE kind = 'Opened'", "cannot be read"),
        ],
    )
    def test_what_is_wrong_is_named(self, file: Path, statement: str, said: str) -> None:
        change(file, statement)
        assert any(said in one for one in damages(file)), damages(file)

    def test_a_session_that_somebody_changed_is_named_and_no_backup_has_one(self, file: Path, tmp_path: Path) -> None:
        storage = SqlStorage(parse_url(f"sqlite:///{file}"))
        token = next(one for one in storage.tokens() if one.revoked_at is None)
        start_session(storage, token, time.time())
        storage.close()
        assert damages(file) == []
        assert backup_storage(f"sqlite:///{file}", tmp_path / "backup.db").counts["sessions"] == 0
        change(file, "UPDATE sessions SET expires_at = expires_at + 1e6")
        assert any("a session is not as it was written" in one for one in damages(file))

    def test_a_copy_without_its_log_says_how_to_copy(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path}/levers.db"
        storage = SqlStorage(parse_url(url))
        levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=1, storage=storage)
        shutil.copyfile(tmp_path / "levers.db", tmp_path / "copy.db")  # the study is in levers.db-wal
        assert "`levers storage backup` makes whole copies" in "".join(damages(tmp_path / "copy.db"))
        backup_storage(url, tmp_path / "backup.db")
        assert damages(tmp_path / "backup.db") == []
        assert levers.list_studies(f"sqlite:///{tmp_path}/backup.db") == ["oven"]
        storage.close()

    def test_the_command_says_so_by_its_exit_code(self, file: Path) -> None:
        runner, url = CliRunner(), f"sqlite:///{file}"
        done = runner.invoke(app, ["storage", "check", url])
        assert (done.exit_code, done.stdout[:17]) == (0, "as it was written")
        change(file, "UPDATE events SET at = at + 1 WHERE seq = 2")
        done = runner.invoke(app, ["storage", "check", url])
        assert done.exit_code == 6
        assert "study 'oven', event 2: it, or one before it, is not as it was written" in done.stdout

    def test_an_older_storage_is_not_said_to_be_as_it_was_written(self, tmp_path: Path) -> None:
        older = tmp_path / "older.db"
        shutil.copyfile(OLD / "0.2.dev2.db", older)
        change(older, "DELETE FROM events WHERE seq = 5")  # which nothing there can tell
        done = CliRunner().invoke(app, ["storage", "check", f"sqlite:///{older}"])
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith("not checked: its schema is 0002; `levers storage upgrade` first")
        assert not check_storage(f"sqlite:///{older}").ok
        done = CliRunner().invoke(app, ["storage", "backup", str(tmp_path / "copy.db"), f"sqlite:///{older}"])
        assert (done.exit_code, "not checked" in done.stderr) == (0, True)  # before it is upgraded

    @pytest.mark.parametrize("content", [b"", b"x" * 50, b"SQLite format 3\0", b"SQLite format 3\0" + bytes(9000)])
    def test_any_bytes_give_an_answer(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "levers.db").write_bytes(content)
        assert damages(tmp_path / "levers.db")


class TestBackup:
    def test_a_storage_moves_to_postgresql_and_back(
        self, file: Path, tmp_path: Path, postgres_storage: str, closing: list[SqlStorage]
    ) -> None:
        first = f"sqlite:///{file}"
        backup_storage(first, tmp_path / "one.db")
        assert restore_storage(tmp_path / "one.db", postgres_storage).ok
        backup_storage(postgres_storage, tmp_path / "two.db")
        last = f"sqlite:///{tmp_path}/three.db"
        assert restore_storage(tmp_path / "two.db", last).ok
        before = rows_of(first, closing)
        assert before == rows_of(postgres_storage, closing) == rows_of(last, closing)
        verdicts = [to_json(load_study("oven", open_storage(url)).verdict()) for url in (first, postgres_storage, last)]
        assert len(set(verdicts)) == 1
        ids = [
            levers.create_study("new", {"a": [1, 2]}, tolerance=1.0, noise_sd=1.0, storage=url).id
            for url in (first, postgres_storage, last)
        ]
        assert len(set(ids)) == 1
        assert check_storage(postgres_storage).ok

    def test_what_is_there_is_not_written_over(self, file: Path, tmp_path: Path) -> None:
        url, saved = f"sqlite:///{file}", tmp_path / "saved.db"
        backup_storage(url, saved)
        with pytest.raises(StorageError, match="exists already"):
            backup_storage(url, saved)
        backup_storage(url, saved, force=True)
        with pytest.raises(StorageError, match="the storage itself"):
            backup_storage(url, file, force=True)
        with pytest.raises(StorageError, match="is not empty: it has studies"):
            restore_storage(saved, url)
        assert sorted(one.name for one in tmp_path.iterdir()) == ["levers.db", "saved.db"]

    def test_a_damaged_storage_gives_no_backup(self, file: Path, tmp_path: Path) -> None:
        change(file, "UPDATE events SET who = 'eve' WHERE seq = 5")
        with pytest.raises(StorageError, match="is damaged, so no backup was made"):
            backup_storage(f"sqlite:///{file}", tmp_path / "saved.db")
        shutil.copyfile(file, tmp_path / "saved.db")
        with pytest.raises(StorageError, match="nothing was restored"):
            restore_storage(tmp_path / "saved.db", f"sqlite:///{tmp_path}/again.db")
        assert not (tmp_path / "again.db").exists()

    def test_a_backup_of_an_older_version_is_restored(self, tmp_path: Path) -> None:
        backup_storage(f"sqlite:///{OLD / '0.2.dev1.db'}", tmp_path / "saved.db")
        assert restore_storage(tmp_path / "saved.db", f"sqlite:///{tmp_path}/new.db").ok

    def test_while_others_write_it_is_whole(self, file: Path, tmp_path: Path) -> None:
        worker = (
            "import levers, sys\n"
            "study = levers.load_study('line', sys.argv[1])\n"
            "print('go', flush=True)\n"
            "while True:\n"
            "    for trial in study.ask(1): study.fail(trial, 'again')\n"
        )
        url = f"sqlite:///{file}"
        with subprocess.Popen([sys.executable, "-c", worker, url], stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                process.stdout.readline()
                for i in range(3):
                    assert backup_storage(url, tmp_path / f"{i}.db").ok
            finally:
                process.kill()


class TestRepair:
    def test_a_whole_storage_stays_the_same(self, file: Path, tmp_path: Path, closing: list[SqlStorage]) -> None:
        saved = f"sqlite:///{tmp_path}/saved.db"
        found = repair_storage(f"sqlite:///{file}", saved, tmp_path / "left.csv")
        assert found.is_whole
        assert (found.n_tokens, found.left_over) == (3, None)
        assert check_storage(saved).ok
        before, after = (
            [row for row in rows_of(url, closing) if len(row) != 2 or isinstance(row[0], str)]
            for url in (f"sqlite:///{file}", saved)
        )
        assert before == after  # apart from snapshots, which are made again

    def test_a_study_is_kept_up_to_the_hole_and_the_rest_is_in_a_table(self, file: Path, tmp_path: Path) -> None:
        change(file, "DELETE FROM events WHERE study_id = 1 AND seq = 9", "DELETE FROM tokens WHERE role = 'read'")
        saved = f"sqlite:///{tmp_path}/saved.db"
        found = repair_storage(f"sqlite:///{file}", saved, tmp_path / "left.csv")
        oven = found.studies[0]
        assert (oven.n_saved, oven.missing) == (8, (9,))
        assert oven.left_over == tuple(range(10, oven.n_written + 1))
        assert not found.is_whole
        assert any("tokens: some are gone or changed, so none was kept" in note for note in found.notes)
        with (tmp_path / "left.csv").open() as table:
            rows = list(csv.DictReader(table))
        assert {row["study"] for row in rows} == {"oven"}
        assert all(float(row["outcome"]) < 100 for row in rows if row["kind"] == "Told")
        assert check_storage(saved).ok
        assert verified_studies(f"{tmp_path}/saved.db")
        study = load_study("oven", saved)
        assert study.state.seq == 8
        assert study.ask()  # it goes on from there

    def test_one_bad_page_does_not_take_the_others_along(self, tmp_path: Path) -> None:
        path = tmp_path / "levers.db"
        storage = SqlStorage(parse_url(f"sqlite:///{path}"))
        for i in range(6):
            study = levers.create_study(f"s{i}", {"a": [1, 2]}, tolerance=0.5, noise_sd=1.0, seed=i, storage=storage)
            for trial in study.ask(8):
                study.tell(trial, 1.0)
        storage.close()
        whole, content = dump(str(path)), bytearray(path.read_bytes())
        leaves = [
            at for at in range(4096, len(content), 4096) if content[at] == 13 and b"Told" in content[at : at + 4096]
        ]
        content[leaves[1] : leaves[1] + 4096] = bytes(4096)
        content[:16] = b"nothing of that."
        path.write_bytes(content)
        assert damages(path)
        saved = f"sqlite:///{tmp_path}/saved.db"
        found = repair_storage(f"sqlite:///{path}", saved, tmp_path / "left.csv")
        assert check_storage(saved).ok
        n_events = sum(row[0] == "events" for row in whole)
        n_read = sum(one.n_saved + len(one.left_over) for one in found.studies)
        assert n_events - 60 < n_read < n_events
        assert len(found.studies) == 6

    @pytest.mark.parametrize(
        ("statement", "said"),
        [
            ("UPDATE studies SET name = 'stove' WHERE name = 'oven'", "'stove'"),
            ("UPDATE studies SET created_at = 5 WHERE name = 'oven'", "'oven'"),
            ("DELETE FROM studies WHERE name = 'oven'", "'recovered 1'"),
            ("UPDATE events SET digest = 'x' WHERE study_id = 1 AND seq = 7", "'oven'"),
        ],
    )
    def test_what_is_not_an_event_costs_no_event(self, file: Path, tmp_path: Path, statement: str, said: str) -> None:
        change(file, statement)
        saved = f"sqlite:///{tmp_path}/saved.db"
        found = repair_storage(f"sqlite:///{file}", saved, tmp_path / "left.csv")
        assert said in str(found.studies[0])
        assert all(one.n_saved == one.n_written for one in found.studies)
        assert check_storage(saved).ok

    def test_on_postgresql(self, file: Path, tmp_path: Path, postgres_storage: str) -> None:
        backup_storage(f"sqlite:///{file}", tmp_path / "one.db")
        restore_storage(tmp_path / "one.db", postgres_storage)
        engine = sa.create_engine(postgres_storage)
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE events SET who = 'eve' WHERE study_id = 1 AND seq = 6"))
        engine.dispose()
        assert [str(one) for one in check_storage(postgres_storage).damages] == [
            "study 'oven', event 6: it, or one before it, is not as it was written"
        ]
        saved = f"sqlite:///{tmp_path}/saved.db"
        found = repair_storage(postgres_storage, saved, tmp_path / "left.csv")
        assert (found.studies[0].n_saved, found.studies[0].missing) == (5, (6,))
        assert check_storage(saved).ok

    def test_an_older_version_has_no_digests_to_go_by(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError, match="`levers storage upgrade` that first"):
            repair_storage(f"sqlite:///{OLD / '0.2.dev1.db'}", f"sqlite:///{tmp_path}/a.db", tmp_path / "left.csv")

    def test_the_command_says_what_is_gone(self, file: Path, tmp_path: Path) -> None:
        change(file, "DELETE FROM events WHERE study_id = 1 AND seq = 9")
        left = str(tmp_path / "left.csv")
        arguments = ["storage", "repair", f"sqlite:///{tmp_path}/saved.db", f"sqlite:///{file}", "--left-over", left]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 6
        assert "study 'oven': 8 of" in done.stdout
        assert f"what came after a hole is in {left}" in done.stdout
