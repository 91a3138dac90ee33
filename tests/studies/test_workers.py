"""Nothing that a worker measured is lost: journals, storages that are away, leases that are renewed."""

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import levers
from levers.cli.app import app
from levers.errors import (
    BusyWorkerError,
    FailedRunError,
    LateOutcomeError,
    NoSuchTrialError,
    StudyError,
    TrialError,
    UnreachableError,
)
from levers.studies.library import load_study, open_storage
from levers.studies.log import freeze, thaw
from levers.studies.state import TrialState
from levers.studies.storage.care.backup import backup_storage, restore_storage
from levers.studies.storage.memory import MemoryStorage
from levers.studies.storage.sql import SqlStorage, parse_url
from levers.studies.study import Study
from levers.studies.workers.heartbeat import Heartbeat
from levers.studies.workers.journal import Journal, Outcome, Owner, journals
from levers.studies.workers.names import worker_name
from levers.studies.workers.worker import Worker, send

SPACE: dict[str, list[int]] = {"heat": [0, 1, 2], "speed": [0, 1]}
SETTINGS: dict[str, Any] = {"tolerance": 0.5, "noise_sd": 0.5, "seed": 3}
OWNER = Owner("sqlite:////x.db", "oven", 1.5, "ann")


def line(run: levers.Assignment) -> float:
    return float(run.codes[0]) + 0.1 * float(run.codes[1])


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/levers.db"


class Away(SqlStorage):
    """A storage that does not answer while `away`; or does what is asked, and the answer is lost on the way."""

    away = False
    loses_answers = False

    @contextmanager
    def writing(self, study: int) -> Iterator[Any]:
        self._check()
        with super().writing(study) as writing:
            yield writing
        if self.loses_answers:
            self.away, self.loses_answers = True, False
            self._check()

    def read(self, study: int, after: int) -> list[Any]:
        self._check()
        return super().read(study, after)

    def _check(self) -> None:
        if self.away:
            raise UnreachableError("the storage does not answer")


# what is written down, and read again


def test_a_journal_has_what_is_not_told(tmp_path: Path) -> None:
    with Journal.open(OWNER, tmp_path) as journal:
        for i in range(4):
            journal.keep(Outcome(i, 0.1 * i, {"heat": "low"} if i == 2 else None, at=10.0 + i))
        journal.keep(Outcome(9, failed="door was open", at=20.0))
        journal.told(0)
        journal.reject(1, "was told another")
        mode = os.stat(journal.path or "").st_mode
    assert mode & 0o077 == 0, "others on the machine cannot read it"
    [found] = journals(tmp_path)
    assert found.owner == OWNER
    assert list(found.unsent.values()) == [
        Outcome(2, 0.2, {"heat": "low"}, at=12.0),
        Outcome(3, 3 * 0.1, at=13.0),
        Outcome(9, failed="door was open", at=20.0),
    ]
    assert found.rejected == {1: Outcome(1, 0.1, at=11.0, rejected="was told another")}
    with Journal.open(OWNER, tmp_path) as journal:
        for trial in (1, 2, 3, 9):
            journal.drop(trial)
    assert list(tmp_path.iterdir()) == [], "a journal with nothing in it is removed"


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_line_that_was_cut_off_is_left_out_and_the_next_is_whole(tmp_path: Path, cut: int) -> None:
    with Journal.open(OWNER, tmp_path) as journal:
        journal.keep(Outcome(1, 1.5, at=10.0))
        journal.keep(Outcome(2, 2.5, at=11.0))
    path = tmp_path / OWNER.file_name
    path.write_bytes(path.read_bytes()[:-cut])
    with Journal.open(OWNER, tmp_path) as journal:
        assert list(journal.unsent) == [1]
        journal.keep(Outcome(3, 3.5, at=12.0))
    [found] = journals(tmp_path)
    assert (list(found.unsent), found.n_unreadable) == ([1, 3], 0)


def test_a_damaged_line_in_the_middle_is_counted_and_kept(tmp_path: Path) -> None:
    with Journal.open(OWNER, tmp_path) as journal:
        journal.keep(Outcome(1, 1.5, at=10.0))
        journal.keep(Outcome(2, 2.5, at=11.0))
    path = tmp_path / OWNER.file_name
    path.write_bytes(path.read_bytes().replace(b'"trial": 1', b'"trial: 1'))
    with Journal.open(OWNER, tmp_path) as journal:
        assert (list(journal.unsent), journal.n_unreadable) == ([2], 1)
        journal.told(2)
    assert path.exists(), "somebody may want to look at what cannot be read"


def test_a_long_journal_is_emptied_when_everything_is_told(tmp_path: Path) -> None:
    with Journal.open(OWNER, tmp_path) as journal:
        for i in range(5000):
            journal._write({"told": i})
        journal.keep(Outcome(1, 1.5, at=10.0))
        journal.told(1)
        assert (tmp_path / OWNER.file_name).stat().st_size < 500
        journal.keep(Outcome(2, 2.5, at=10.0))
    assert [list(found.unsent) for found in journals(tmp_path)] == [[2]]


def test_no_secret_is_in_a_journal(tmp_path: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path}/x.db")
    study = levers.create_study("oven", SPACE, storage=storage, **SETTINGS)
    address = parse_url("postgresql+psycopg://ann:secret@127.0.0.1/x").render_as_string(hide_password=True)
    study.storage.url = address
    assert "secret" not in str(study.address)
    assert levers.Client("http://127.0.0.1:8080", "very-secret").study("oven").address == "http://127.0.0.1:8080"


# names and locks


def test_two_workers_of_one_name_are_refused_and_others_get_names_of_their_own(database: str) -> None:
    study = levers.create_study("oven", SPACE, storage=database, **SETTINGS)
    with Worker.open(study, "ann"):
        with pytest.raises(BusyWorkerError, match="'ann' is at work on 'oven' here"):
            study.optimize(line, worker="ann")
        with Worker.open(study) as first, Worker.open(study) as second:
            assert [first.name, second.name] == [worker_name(), f"{worker_name()}-2"]
            assert first.ask(1)[0].number != second.ask(1)[0].number
    with Worker.open(study, "ann") as again:
        assert again.name == "ann"


def test_without_a_folder_for_journals_the_work_goes_on(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LEVERS_JOURNAL", str(tmp_path / "file" / "journals"))
    with caplog.at_level(logging.WARNING, "levers"):
        assert levers.optimize(line, SPACE, name="oven", storage=database, **SETTINGS)
    [said] = [record.getMessage() for record in caplog.records]
    assert "cannot be written: Not a directory" in said
    assert "LEVERS_JOURNAL names another folder" in said


def test_a_full_disk_is_said_once_and_the_work_goes_on(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    study = levers.create_study("oven", SPACE, storage=database, **SETTINGS)
    worker = Worker.open(study, "ann")

    def full(_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with caplog.at_level(logging.WARNING, "levers"), worker:
        monkeypatch.setattr("levers.studies.workers.journal.os.fsync", full)
        for trial in worker.ask(3):
            worker.measured(trial, 1.0)
    assert study.status().n_complete == 3
    [said] = [record.getMessage() for record in caplog.records]
    assert "No space left" in said


# outcomes that a worker left behind

KILLED = textwrap.dedent("""
    import os, signal, sys
    from pathlib import Path
    import levers
    from levers.studies.study import Study

    database, notes, at = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    told, tell = [], Study.tell_many

    def dies(self, outcomes, **more):
        told.append(outcomes)
        if len(told) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return tell(self, outcomes, **more)

    def line(run):
        with notes.open("a") as file:
            file.write(f"{run.codes}\\n")
        return float(run.codes[0]) + 0.1 * float(run.codes[1])

    Study.tell_many = dies
    levers.optimize(line, {"heat": [0, 1, 2], "speed": [0, 1]}, tolerance=0.5, noise_sd=0.5, seed=3,
                    name="oven", storage=database)
""")


def test_what_was_measured_before_a_kill_is_told_by_the_next(database: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    # killed between the journal and the study
    process = subprocess.run([sys.executable, "-c", KILLED, database, notes, "4"], check=False)
    assert process.returncode == -signal.SIGKILL
    [found] = journals()
    assert len(found.unsent) == 1
    n_measured = len(notes.read_text().splitlines())
    study = load_study("oven", database)
    assert (n_measured, study.status().n_complete) == (4, 3)
    calls = []

    def counted(run: levers.Assignment) -> float:
        calls.append(run)
        return line(run)

    verdict = levers.optimize(counted, SPACE, name="oven", storage=database, **SETTINGS)
    assert verdict.n_runs == n_measured + len(calls), "nothing was measured twice, and nothing is missing"
    assert verdict == levers.create_study("oven", SPACE, **SETTINGS).optimize(line)
    assert journals() == []


def test_what_a_worker_of_another_name_left_is_told_too(database: str) -> None:
    study = levers.create_study("oven", SPACE, storage=database, **SETTINGS)
    trial = study.ask(worker="ann")[0]
    with Worker.open(study, "ann") as worker:
        worker.left.clear()
        worker.journal.keep(Outcome(trial.number, 1.25))
        worker.study = levers.create_study("elsewhere", SPACE, **SETTINGS)  # so that the end does not tell it
        worker.journal.unsent.clear()
        worker.journal.n_unreadable = 1
    with Worker.open(study, "bob"):
        assert study.trial(trial.number).value == 1.25
    assert [found.unsent for found in journals()] == []


def test_outcomes_for_a_study_that_was_deleted_are_not_told_to_the_next_of_that_name(database: str) -> None:
    study = levers.create_study("oven", SPACE, storage=database, **SETTINGS)
    assert study.address is not None
    owner = Owner(study.address, "oven", study.status().created_at, worker_name())
    with Journal.open(owner) as journal:
        journal.keep(Outcome(study.ask()[0].number, 99.0, at=10.0))
    levers.delete_study("oven", database)
    study = levers.create_study("oven", SPACE, storage=database, **SETTINGS)
    with Worker.open(study):
        assert study.status().n_complete == 0
    assert [list(found.unsent) for found in journals()] == [[0]]
    result = run("journal", "send")
    assert result.exit_code != 0
    assert "is another study now" in str(result.exception)


def test_what_is_told_again_late_or_wrong(database: str, caplog: pytest.LogCaptureFixture) -> None:
    study = levers.create_study("oven", SPACE, storage=database, **SETTINGS)
    same, other, late, failed = (trial.number for trial in study.ask(4, worker="ann", lease=1e-3))
    study.tell_many({same: 1.0, other: 2.0})
    time.sleep(0.01)
    again = study.ask(2)  # the two that were late, under new numbers
    study.tell_many([(trial, 3.0) for trial in again])
    assert study.address is not None
    with Journal.open(Owner(study.address, "oven", study.status().created_at, "ann")) as journal:
        for trial, value in ((same, 1.0), (other, 2.5), (late, 3.5), (999, 1.0)):
            journal.keep(Outcome(trial, value, at=10.0))
        journal.keep(Outcome(failed, failed="door was open", at=10.0))
    with caplog.at_level(logging.WARNING, "levers"), Worker.open(study, "ann"):
        pass
    assert study.status().n_complete == 4
    [found] = journals()
    assert found.unsent == {}
    assert set(found.rejected) == {other, 999}
    assert "told 2 already, not 2.5" in str(found.rejected[other].rejected)
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert f"trial {other}: 2.5 was not taken" in said
    listed = run("journal", "list", "oven", "--format", "json")
    assert {row["trial"] for row in json.loads(listed.output)} == {other, 999}
    assert run("journal", "drop", "oven", "--yes").output == "2 outcomes are forgotten\n"
    assert run("journal", "list").output == "everything is told\n"


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_the_command_tells_what_is_left(database: str) -> None:
    study = levers.create_study("oven", SPACE, storage=database, **SETTINGS)
    trials = study.ask(3, worker="ann")
    assert study.address is not None
    owner = Owner(study.address, "oven", study.status().created_at, "ann")
    with Journal.open(owner) as journal:
        for trial in trials:
            journal.keep(Outcome(trial.number, 1.5, at=10.0))
        busy = run("journal", "send", "oven")
        assert "is at work and tells it itself" in str(busy.exception)
    listed = run("journal", "list", "--format", "csv").output.splitlines()
    assert len(listed) == 4
    assert listed[1].startswith(f"oven,ann,{trials[0].number},1.5,1970-01-01 00:00:10Z,to be told,")
    assert run("journal", "send", "elsewhere").output == "0 outcomes are told\n"
    assert run("journal", "send").output == "3 outcomes are told\n"
    assert study.status().n_complete == 3
    assert "nothing of 'oven'" in str(run("journal", "drop", "oven", "--yes").exception)


# a storage that is away


def test_a_storage_that_is_away_for_a_while(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    storage = Away(parse_url(f"sqlite:///{tmp_path}/levers.db"))
    study = levers.create_study("oven", SPACE, storage=storage, **SETTINGS)
    calls = []

    def counted(run: levers.Assignment) -> float:
        calls.append(run)
        if len(calls) in (5, 9):
            storage.away = True
            threading.Timer(0.3, lambda: setattr(storage, "away", False)).start()
        elif len(calls) == 12:
            storage.loses_answers = True  # of the telling
            threading.Timer(0.3, lambda: setattr(storage, "away", False)).start()
        return line(run)

    with caplog.at_level(logging.WARNING, "levers"):
        verdict = study.optimize(counted, patience=60.0)
    assert verdict == levers.create_study("oven", SPACE, **SETTINGS).optimize(line)
    assert verdict is not None
    assert verdict.n_runs == len(calls)
    said = [record.getMessage() for record in caplog.records]
    assert len([text for text in said if "trying again for 60 s" in text]) == 3
    assert len([text for text in said if "answers again" in text]) == 3
    storage.close()


def test_a_storage_that_goes_away_when_the_last_run_was_told(tmp_path: Path) -> None:
    storage = Away(parse_url(f"sqlite:///{tmp_path}/levers.db"))
    study = levers.create_study("oven", SPACE, storage=storage, **SETTINGS)

    def last(run: levers.Assignment) -> float:
        storage.loses_answers = True
        threading.Timer(0.3, lambda: setattr(storage, "away", False)).start()
        return line(run)

    assert study.optimize(last, n_runs=1, patience=60.0) is None
    assert study.status().n_complete == 1
    storage.close()


def test_runs_whose_handing_out_was_not_answered_are_found(tmp_path: Path) -> None:
    storage = Away(parse_url(f"sqlite:///{tmp_path}/levers.db"))
    study = levers.create_study("oven", SPACE, storage=storage, **SETTINGS)
    with Worker.open(study, "ann") as worker:
        storage.loses_answers = True
        assert worker.ask(2) == []
        assert worker.is_away
        storage.away = False
        worker.pause()
        assert [trial.number for trial in worker.ask(2)] == [0, 1]
    storage.close()


def test_patience_ends_and_says_what_is_unsent(tmp_path: Path) -> None:
    storage = Away(parse_url(f"sqlite:///{tmp_path}/levers.db"))
    study = levers.create_study("oven", SPACE, storage=storage, **SETTINGS)
    calls = []

    def breaks(run: levers.Assignment) -> float:
        calls.append(run)
        storage.away = len(calls) == 4
        return line(run)

    with pytest.raises(UnreachableError) as caught:
        study.optimize(breaks, patience=0.3)
    [note] = caught.value.__notes__
    [found] = journals()
    assert "1 outcome is not told yet (trials 3)" in note
    assert str(found.path) in note
    assert "levers journal send" in note
    storage.away = False
    assert run("journal", "send").output == "1 outcome is told\n"
    assert study.status().n_complete == 4
    storage.close()


def test_runs_in_hand_go_on_while_the_storage_is_away(tmp_path: Path) -> None:
    storage = Away(parse_url(f"sqlite:///{tmp_path}/levers.db"))
    study = levers.create_study("oven", SPACE, storage=storage, **SETTINGS)
    study.ask(6, worker="ann")
    made: list[int] = []

    def breaks(run: levers.Assignment) -> float:
        made.append(len(made))
        storage.away = True
        return line(run)

    with pytest.raises(UnreachableError):
        study.optimize(breaks, worker="ann", patience=0.3)
    [found] = journals()
    assert len(made) == len(found.unsent) == 6
    storage.close()


def test_what_is_refused_is_not_tried_again(database: str) -> None:
    levers.create_study("oven", SPACE, storage=database, **SETTINGS)
    study = load_study("oven", database)
    levers.delete_study("oven", database)
    with pytest.raises(StudyError, match="was deleted"):
        study.optimize(line, patience=1e6)


# failures


def test_a_function_says_that_a_run_failed(database: str) -> None:
    study = levers.create_study("oven", SPACE, storage=database, **SETTINGS)
    calls = []

    def sometimes(run: levers.Assignment) -> float:
        calls.append(run)
        if len(calls) % 3 == 0:
            raise FailedRunError("door was open")
        return line(run)

    verdict = study.optimize(sometimes)
    assert verdict is not None
    assert study.status().n_failed == len(calls) // 3
    assert [entry.what for entry in study.log() if "door was open" in entry.what]

    def never(run: levers.Assignment) -> float:
        raise FailedRunError("no power")

    def breaks(run: levers.Assignment) -> float:
        raise ValueError("first\x1b\nsecond " + "x" * 9_000)

    study = levers.create_study("broken", SPACE, storage=database, **SETTINGS)
    with pytest.raises(ValueError, match="second"):
        study.optimize(breaks)
    [what] = [entry.what for entry in study.log() if "failed" in entry.what]
    assert "ValueError: first? second xxx" in what
    assert len(what) < 3_000
    study = levers.create_study("line", SPACE, storage=database, **SETTINGS)
    with pytest.raises(StudyError, match=r"the last 3 runs gave no outcome.*no power"):
        study.optimize(never, max_failures=3)
    assert study.status().n_failed == 3


# leases


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def at_clock(clock: Callable[[], float]) -> Study:
    storage = MemoryStorage()
    made = levers.create_study("oven", SPACE, storage=storage, **SETTINGS)
    return Study("oven", storage, made.id, clock=clock)


def test_a_lease_that_is_renewed_lasts_longer() -> None:
    clock = Clock()
    study = at_clock(clock)
    slow, gone = study.ask(2, worker="ann", lease=60)
    asked_at = slow.asked_at
    clock.now += 50
    assert study.renew([slow], lease=60) == [slow.number]
    assert study.trial(slow.number).deadline == 1110.0
    assert (study.trial(slow.number).worker, study.trial(slow.number).asked_at) == ("ann", asked_at)
    clock.now += 20
    others = study.ask(2, worker="bob", lease=60)
    assert TrialState(study.trial(gone.number).state) is TrialState.STALE
    assert TrialState(study.trial(slow.number).state) is TrialState.RUNNING
    assert study.renew([slow, gone, others[0]], lease=60) == [slow.number, others[0].number]
    assert study.renew([gone], lease=60) == []
    twin = thaw(freeze(study.frozen()))
    assert twin is not None
    assert sorted(deadline for deadline, _, _ in twin.expiring) == [1130.0, 1130.0, 1130.0]
    clock.now = 1129.0
    study.tell(others[0], 1.0)
    assert [t.number for t in study.ask(1, worker="bob")] not in ([slow.number], [gone.number])
    clock.now = 1131.0
    study.ask(1, worker="eve")
    assert TrialState(study.trial(slow.number).state) is TrialState.STALE
    assert "renewed 2 trials until 1970-01-01 00:18:50Z" in [entry.what for entry in study.log()]
    with pytest.raises(NoSuchTrialError, match="there is no trial 999"):
        study.renew([999], lease=60)
    study.tell(slow, 2.0)  # late, and the first for its row
    assert study.trial(slow.number).value == 2.0


def test_a_heartbeat_renews_at_half_of_the_lease_and_forgets_what_is_lost() -> None:
    clock, renewed = Clock(), []

    def renew(trials: list[int]) -> list[int]:
        renewed.append((clock.now, trials))
        return [trial for trial in trials if trial != 2]

    heart = Heartbeat(renew, 60.0, clock)
    heart.held = {1: 1000.0, 2: 1010.0}
    for second in range(0, 600, 10):
        clock.now = 1000.0 + second
        heart.beat()
        if second == 100:
            heart.release(1)
    assert renewed == [(1030.0, [1, 2]), (1060.0, [1]), (1090.0, [1])]


def test_a_slow_run_stays_with_its_worker_and_that_of_a_dead_one_does_not(database: str) -> None:
    study = levers.create_study("oven", SPACE, storage=database, **SETTINGS)
    other = load_study("oven", database)
    lease, taken = 0.6, []

    def slow(run: levers.Assignment) -> float:
        until = time.monotonic() + 4 * lease
        while time.monotonic() < until:
            taken.extend(other.ask(1, worker="bob", lease=600))
            time.sleep(lease / 8)
        return line(run)

    with Worker.open(study, "dead", lease=lease) as dead:
        [lost] = dead.ask(1)
        assert dead._heart is not None
        dead._heart.stop()  # as a kill would
        assert study.optimize(slow, worker="ann", lease=lease, n_runs=1) is None
    rows = [(trial.block, study.state.trials.row[trial.number]) for trial in taken]
    assert (lost.block, study.state.trials.row[lost.number]) in rows, "its lease was over, so its run went to bob"
    [mine] = [t.number for t in map(study.trial, range(3)) if t.worker == "ann"]
    assert study.trial(mine).state is TrialState.COMPLETE
    assert (study.trial(mine).block, study.state.trials.row[mine]) not in rows
    n_renewed = sum(record.kind == "Renewed" for record in study.storage.read(study.id, 0))
    assert 3 <= n_renewed <= 12


def test_a_trial_that_is_not_needed_any_more_is_late_not_wrong() -> None:
    clock = Clock()
    study = at_clock(clock)
    [first] = study.ask(1, lease=1)
    clock.now += 2
    [second] = study.ask(1)
    study.tell(second, 1.0)
    with pytest.raises(LateOutcomeError, match="did the same run"):
        study.tell(first, 2.0)
    with pytest.raises(TrialError) as caught:
        study.tell(second, 2.0)
    assert not isinstance(caught.value, LateOutcomeError)


def test_what_was_refused_stays_when_its_number_is_told_of_again(tmp_path: Path) -> None:
    with Journal.open(Owner("sqlite:////x.db", "oven", 1.0, "ann"), tmp_path) as journal:
        journal.keep(Outcome(8, 1.0, codes=(0, 1)))
        journal.reject(8, "it is another run now")
        journal.keep(Outcome(8, 2.0))
        journal.told(8)
        assert list(journal.rejected) == [8]
    (again,) = journals(tmp_path)
    assert (again.unsent, again.rejected[8].value, again.rejected[8].codes) == ({}, 1.0, (0, 1))


def test_an_outcome_of_another_run_is_not_stored_under_its_number(tmp_path: Path) -> None:
    study = levers.create_study("oven", {"a": [1, 2, 3], "b": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=1)
    asked, other = study.ask(2)
    assert asked.params != other.params
    with Journal.open(Owner("memory", "oven", 1.0, "ann"), tmp_path) as journal:
        journal.keep(Outcome(asked.number, 777.0, codes=other.params.codes))  # as after a rollback
        journal.keep(Outcome(other.number, 1.0, codes=other.params.codes))
        refused = send(study, journal)
        assert "another run than the one that was handed out" in str(refused[asked.number])
        assert list(journal.rejected) == [asked.number]
    assert study.trial(asked.number).value is None
    assert study.trial(other.number).value == 1.0


def test_a_function_goes_on_when_a_backup_is_restored_under_it(tmp_path: Path) -> None:
    url, n_runs = f"sqlite:///{tmp_path}/levers.db", 0
    study = levers.create_study("oven", {"a": [1, 2, 3], "b": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=1, storage=url)

    def measure(params: Any) -> float:
        nonlocal n_runs
        n_runs += 1
        if n_runs == 3:
            backup_storage(url, tmp_path / "saved.db")
        if n_runs == 6:
            for side in ("", "-wal", "-shm"):
                (tmp_path / f"levers.db{side}").unlink(missing_ok=True)
            restore_storage(tmp_path / "saved.db", url)
        return float(params["a"])

    study.optimize(measure, lease=1.0)  # runs that the backup has out come back after it
    assert levers.load_study("oven", url).is_finished


def test_a_heartbeat_that_waits_for_a_service_does_not_hold_up_the_end() -> None:
    begun, ended = threading.Event(), threading.Event()

    def renew(trials: list[int]) -> list[int]:
        begun.set()
        ended.wait(60)
        return trials

    heart = Heartbeat(renew, lease=0.01)
    heart.hold([1])
    assert begun.wait(30)
    heart.stop()  # returns, though the renewal has not
    assert not ended.is_set()
    ended.set()
