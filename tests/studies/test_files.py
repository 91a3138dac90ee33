"""The file behind a storage goes, is replaced, may not be written, or lies on a network share."""

import ctypes
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import levers
from levers.errors import StorageError
from levers.studies.storage.shares import file_system, trouble
from levers.studies.storage.sql import SqlStorage, parse_url
from levers.studies.study import Study

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "levers.db"


def new_study(file: Path, name: str = "oven") -> Study:
    storage = SqlStorage(parse_url(f"sqlite:///{file}"))
    return levers.create_study(name, {"heat": [1, 2, 3]}, tolerance=0.5, noise_sd=1.0, seed=1, storage=storage)


def n_told(file: Path) -> int:
    storage = SqlStorage(parse_url(f"sqlite:///{file}"))
    try:
        return levers.load_study("oven", storage).status().n_complete
    finally:
        storage.close()


def test_an_outcome_is_not_acknowledged_into_a_deleted_file(file: Path) -> None:
    study = new_study(file)
    first, second = study.ask(2)
    study.tell(first, 1.0)
    file.unlink()
    for _ in range(2):  # and no new file is made at its place
        with pytest.raises(StorageError, match=r"deleted or moved|not there any more"):
            study.tell(second, 2.0)
    with pytest.raises(StorageError, match="not there any more"):
        study.status()
    assert not file.exists()
    study.storage.close()


def test_a_file_that_was_moved_has_everything_and_goes_on_when_it_is_back(file: Path) -> None:
    study = new_study(file)
    trials = study.ask(3)
    study.tell(trials[0], 1.0)
    elsewhere = file.with_name("elsewhere.db")
    file.rename(elsewhere)
    with pytest.raises(StorageError, match="deleted or moved"):
        study.tell(trials[1], 2.0)
    copy = file.with_name("copy.db")
    shutil.copy(elsewhere, copy)  # without the log that stayed behind
    assert n_told(copy) == 1
    elsewhere.rename(file)
    study.tell(trials[1], 2.0)
    study.tell(trials[2], 3.0)
    study.storage.close()
    assert n_told(file) == 3


def test_a_file_that_was_replaced_is_noticed_and_the_new_one_is_left_whole(file: Path) -> None:
    study = new_study(file)
    trials = study.ask(3)
    study.tell(trials[0], 1.0)
    study.storage.close()
    backup = file.with_name("backup.db")
    shutil.copy(file, backup)
    study.tell(trials[1], 2.0)
    os.replace(backup, file)
    for side in ("-wal", "-shm"):
        Path(f"{file}{side}").unlink(missing_ok=True)
    other = levers.load_study("oven", SqlStorage(parse_url(f"sqlite:///{file}")))  # another process would
    other.tell(trials[2], 5.0)
    with pytest.raises(StorageError, match="another file is at"):
        study.tell(trials[2], 3.0)
    study.storage.close()  # which must not take the log of the new file along
    assert n_told(file) == 2
    other.storage.close()
    assert n_told(file) == 2


def test_another_storage_at_the_same_address_gets_no_outcomes(file: Path) -> None:
    study = new_study(file)
    trial = study.ask()[0]
    study.storage.close()
    other = new_study(file.with_name("other.db"), "another study of the same number")
    other.ask(3)
    other.storage.close()
    os.replace(file.with_name("other.db"), file)
    for _ in range(2):
        with pytest.raises(StorageError, match="another storage than the one that was opened"):
            study.tell(trial, 1.0)
    study.storage.close()
    assert levers.load_study("another study of the same number", f"sqlite:///{file}").status().n_complete == 0


@pytest.mark.parametrize("side", ["-wal", "-shm"])
def test_what_lies_beside_the_file_is_missed_too_and_nothing_is_lost(file: Path, side: str) -> None:
    study = new_study(file)
    trials = study.ask(3)
    study.tell(trials[0], 1.0)
    Path(f"{file}{side}").unlink()
    with pytest.raises(StorageError, match=f"{side}, which holds the latest changes, was deleted"):
        study.tell(trials[1], 2.0)
    study.tell(trials[1], 2.0)
    study.storage.close()
    assert n_told(file) == 2


def test_a_deletion_while_a_change_is_made_is_noticed_before_it_is_acknowledged(file: Path) -> None:
    study = new_study(file)
    trial = study.ask()[0]

    def tell_and_delete() -> None:
        with study.writing():
            study.tell(trial, 1.0)
            file.unlink()

    with pytest.raises(StorageError, match="deleted or moved"):
        tell_and_delete()


def obey_permissions() -> None:
    """Root may write everywhere; without this capability, which the next program does not get, it may not."""
    if os.geteuid() == 0 and ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) != 0:
        os._exit(77)


COMMANDS = """
import contextlib, io, json, sys
from levers.cli.app import main
found = []
for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    found.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(found))
"""


def commands(url: str, *lines: str) -> list[tuple[int, str, str]]:
    """Commands in a process that may not write everything: exit codes, and what each printed."""
    arguments = json.dumps([[*line.split(), "--storage", url] for line in lines])
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, arguments],
        preexec_fn=obey_permissions,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "in use"])
def test_a_file_that_may_not_be_written_can_be_read(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, is_open: bool
) -> None:
    file, out = tmp_path / "levers.db", tmp_path_factory.mktemp("exported")
    study = new_study(file)
    while not study.is_finished:
        study.tell_many([(trial, float(trial.number % 2)) for trial in study.ask(50)])
    if not is_open:
        study.storage.close()
    for one in tmp_path.iterdir():
        one.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        looks = (
            "studies",
            "status oven",
            "effects oven",
            "verdict oven",
            "log oven",
            f"export oven -o {out}/trials.csv",
        )
        *looked, refused = commands(f"sqlite:///{file}", *looks, "continue oven")
        assert [(look, err) for look, (code, _, err) in zip(looks, looked, strict=True) if code] == []
        assert "oven" in looked[0][1]
        assert refused[0] == 2
        assert "can only be read here" in refused[2]
        assert refused[2].count("\n") == 1
        assert {one.name for one in tmp_path.iterdir()} <= {"levers.db", "levers.db-wal", "levers.db-shm"}
    finally:
        tmp_path.chmod(0o755)
        study.storage.close()


def test_a_log_that_cannot_be_read_without_writing_beside_it_is_said(tmp_path: Path) -> None:
    file = tmp_path / "levers.db"
    study = new_study(file)
    copied = tmp_path / "closed"
    copied.mkdir()
    for name in ("levers.db", "levers.db-wal"):
        shutil.copy(tmp_path / name, copied / name)
        (copied / name).chmod(0o444)
    copied.chmod(0o555)
    ((code, _, err),) = commands(f"sqlite:///{copied}/levers.db", "studies")
    copied.chmod(0o755)
    study.storage.close()
    assert code == 2
    assert "copy both files to a folder of yours" in err


def test_a_reader_of_a_file_that_others_change_sees_the_changes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = new_study(file)
    trials = study.ask(2)
    study.storage.close()
    monkeypatch.setattr("levers.studies.storage.sqlite_file.read_only_reason", lambda path: "because a test says so")
    reader = levers.load_study("oven", SqlStorage(parse_url(f"sqlite:///{file}")))
    assert reader.status().n_complete == 0
    with sqlite3.connect(file) as other:  # as another process would: it comes and goes
        row = other.execute("SELECT max(seq) FROM events").fetchone()
    other.close()
    monkeypatch.undo()
    study.tell(trials[0], 1.0)
    study.storage.close()
    assert row == (study.state.seq - 1,)
    assert reader.status().n_complete == 1


MOUNTS = """/dev/sda / ext4 rw 0 0
server:/export /home nfs4 rw 0 0
/dev/sdb /home/ann/my\\040disk xfs rw 0 0
host:/ /mnt/far fuse.sshfs rw 0 0
//nas/lab /lab cifs rw 0 0
thing /odd weirdfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind", "is_share"),
    [
        ("/var/levers.db", "ext4", False),
        ("/home/bob/levers.db", "nfs4", True),
        ("/home/ann/my disk/levers.db", "xfs", False),
        ("/mnt/far/levers.db", "fuse.sshfs", True),
        ("/lab/levers.db", "cifs", True),
        ("/labels/levers.db", "ext4", False),
        ("/odd/levers.db", "weirdfs", False),
    ],
)
def test_network_shares_are_known_by_their_file_system(tmp_path: Path, path: str, kind: str, is_share: bool) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert file_system(path, str(mounts)) == kind
    assert (trouble(path, str(mounts)) is not None) == is_share


def test_a_share_is_warned_of_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levers.studies.storage.shares.file_system", lambda *_: "nfs")
    with pytest.warns(UserWarning, match="network share"):
        SqlStorage(parse_url(f"sqlite:///{file}")).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SqlStorage(parse_url(f"sqlite:///{file}")).close()


def test_a_file_system_without_locks_is_noticed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levers.studies.storage.shares.file_system", lambda *_: "weirdfs")
    assert trouble(str(file)) is None
    monkeypatch.setattr("fcntl.flock", lambda *_: None)  # a lock that locks nobody out
    assert "has no locks" in str(trouble(str(file)))
