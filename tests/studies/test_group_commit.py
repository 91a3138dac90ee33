"""Changes by many threads: each is kept or refused on its own, however they share transactions."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import levers
from levers.errors import StorageError, TrialError
from levers.studies.group_commit import GroupCommit
from levers.studies.state import TrialState
from levers.studies.storage.base import Writing
from levers.studies.storage.memory import MemoryStorage
from levers.studies.study import Study


class Counting(MemoryStorage):
    """Counts transactions, and can be made to fail when one is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.n_transactions = 0
        self.fail_next = False

    @contextmanager
    def writing(self, study: int) -> "Iterator[Writing]":  # type: ignore[override]
        self.n_transactions += 1
        with super().writing(study) as writing:
            yield writing
            if self.fail_next:
                self.fail_next = False
                raise StorageError("disk full")


def new_study(storage: "str | MemoryStorage") -> Study:
    return levers.create_study("oven", {"a": [1, 2, 3], "b": [1, 2, 3]}, tolerance=0.2, seed=1, storage=storage)


def all_at_once(acts: list[Callable[[], object]], together: GroupCommit) -> list[object]:
    """Every act in a thread of its own, all waiting while the study is busy with something else."""
    results: list[object] = [None] * len(acts)
    busy, go_on = threading.Event(), threading.Event()

    def first() -> None:
        busy.set()
        assert go_on.wait(10)

    def one(i: int) -> None:
        try:
            results[i] = together.do(acts[i])
        except Exception as error:
            results[i] = error

    blocker = threading.Thread(target=lambda: together.do(first))
    blocker.start()
    assert busy.wait(10)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(acts))]
    for thread in threads:
        thread.start()
    while len(together._waiting) < len(acts):
        pass
    go_on.set()
    for thread in (blocker, *threads):
        thread.join(10)
        assert not thread.is_alive()
    return results


def test_what_waits_goes_into_one_transaction() -> None:
    storage = Counting()
    study = new_study(storage)
    together = GroupCommit(study)
    before = storage.n_transactions
    results = all_at_once([lambda: study.ask()[0].number for _ in range(8)], together)
    assert sorted(str(result) for result in results) == [str(i) for i in range(8)]
    assert storage.n_transactions - before == 2


def test_each_is_logged_in_its_own_name() -> None:
    storage = Counting()
    study = new_study(storage)
    all_at_once([lambda who=who: study.by(who).ask() for who in ("ann", "bob", "cid")], GroupCommit(study))  # type: ignore[misc]
    assert sorted(record.who for record in storage.read(study.id, 0)[-3:]) == ["ann", "bob", "cid"]


def test_a_refused_change_does_not_take_others_with_it() -> None:
    storage = Counting()
    study = new_study(storage)
    a, b = study.ask(2)

    def spoiled() -> None:
        study.tell(b, 7.0)
        study.fail(b)  # refused after something was written: nothing of this may be kept

    results = all_at_once(
        [lambda: study.tell(99, 1.0), spoiled, lambda: study.tell(a, 3.0), lambda: study.ask()[0].number],
        GroupCommit(study),
    )
    assert isinstance(results[0], TrialError)
    assert isinstance(results[1], TrialError)
    assert results[2:] == [None, 2]
    assert study.trial(a.number).value == 3.0
    assert study.trial(b.number).state is TrialState.RUNNING
    fresh = levers.load_study("oven", storage)
    assert fresh.status() == study.status()


def test_a_storage_that_fails_is_reported_to_all_who_wait() -> None:
    storage = Counting()
    study = new_study(storage)
    trials = study.ask(4)
    together = GroupCommit(study)

    def break_storage() -> None:
        storage.fail_next = True

    acts: list[Callable[[], object]] = [lambda t=t: study.tell(t, 1.0) for t in trials]  # type: ignore[misc]
    results = all_at_once([*acts, break_storage], together)
    assert [str(result) for result in results] == ["disk full"] * 5
    assert study.status().n_complete == 0
    for act in acts:
        together.do(act)
    assert levers.load_study("oven", storage).status().n_complete == 4


def test_many_threads_on_a_file_neither_lose_nor_double(tmp_path: Path) -> None:
    study = new_study(f"sqlite:///{tmp_path}/a.db")
    together = GroupCommit(study)
    told: dict[int, float] = {}

    def work(worker: int) -> None:
        for _ in range(12):
            for trial in together.do(lambda: study.by(f"w{worker}").ask()):
                together.do(lambda trial=trial: study.tell(trial, trial.number / 8))  # type: ignore[misc]
                assert trial.number not in told
                told[trial.number] = trial.number / 8

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = levers.load_study("oven", study.storage)
    assert again.status().n_complete == len(told) > 50
    assert all(again.trial(number).value == value for number, value in told.items())


def test_a_wrong_change_does_not_make_the_study_read_its_log_again() -> None:
    study = new_study(MemoryStorage())
    study.ask()
    state = study.state
    with pytest.raises(TrialError):
        study.tell(99, 1.0)
    assert study.state is state
