"""A design that takes long holds up nobody: neither other studies, nor outcomes, nor requests that were answered."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import levers
from levers.algorithms.cfs.solver import Cfs
from levers.core.codec import to_json
from levers.errors import StorageError
from levers.studies.events import Decided
from levers.studies.group_commit import GroupCommit
from levers.studies.storage.sql import SqlStorage, parse_url
from levers.studies.study import Study
from levers.studies.transitions import revision

SECONDS = 60
"""So that a failure ends; nothing here takes that long."""


class SlowSolver:
    """Decisions on the lever `slow` wait until they may go on."""

    def __init__(self) -> None:
        self.is_asked, self.may_go_on = threading.Event(), threading.Event()
        self.n_decisions = 0

    def wait(self, solver: Cfs) -> None:
        if solver.space.names[0] == "slow":
            self.n_decisions += 1
            self.is_asked.set()
            assert self.may_go_on.wait(SECONDS)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowSolver]:
    found, tell_block = SlowSolver(), Cfs.tell_block

    def waiting(self: Cfs, *arguments: Any) -> Any:
        found.wait(self)
        return tell_block(self, *arguments)

    monkeypatch.setattr(Cfs, "tell_block", waiting)
    monkeypatch.setattr("levers.studies.study.QUICK_TRIALS", -1)  # as in large studies, which are known to take long
    yield found
    found.may_go_on.set()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_storage"))
    return f"sqlite:///{tmp_path}/levers.db"


@pytest.fixture
def storage(url: str) -> Iterator[SqlStorage]:
    opened = SqlStorage(parse_url(url))
    yield opened
    opened.close()


def new_study(storage: SqlStorage | None, lever: str = "slow", name: str = "oven") -> Study:
    factors = {lever: [1, 2, 3], "time": [10, 20]}
    return levers.create_study(name, factors, tolerance=0.5, noise_sd=1.0, seed=3, storage=storage, who="ann")


def outcome(trial: int) -> float:
    return 0.1 * ((7 * trial) % 13)


def all_but_one(study: Study) -> int:
    """Tell a whole round apart from one trial, which is returned."""
    *rest, last = (trial.number for trial in study.ask(10_000))
    study.tell_many([(trial, outcome(trial)) for trial in rest])
    return last


def in_thread(act: Callable[[], object]) -> "Future[object]":
    pool = ThreadPoolExecutor(1)
    found = pool.submit(act)
    pool.shutdown(wait=False)
    return found


def in_daemon(act: Callable[[], object]) -> "Future[object]":
    """Like `in_thread`, on a thread that the process does not wait for, in case that it never ends."""
    found: Future[object] = Future()

    def work() -> None:
        try:
            found.set_result(act())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return found


def test_other_studies_and_the_outcome_itself_do_not_wait(storage: SqlStorage, url: str, slow: SlowSolver) -> None:
    study, other = new_study(storage), new_study(storage, "heat", "farm")
    last, mine = all_but_one(study), other.ask()[0]
    told = in_thread(lambda: study.tell(last, outcome(last)))
    assert slow.is_asked.wait(SECONDS)
    in_thread(lambda: other.tell(mine, 1.5)).result(SECONDS)
    elsewhere = SqlStorage(parse_url(url))  # as another process sees it
    seen = levers.load_study("oven", elsewhere)
    assert seen.trial(last).value == outcome(last)
    assert (seen.is_finished, seen.is_held, seen.status().state) == (False, False, "running")
    seen.effects(), seen.forecast(), seen.best()
    assert in_thread(lambda: seen.tell_many([(last, outcome(last))])).result(SECONDS) == 0
    elsewhere.close()
    assert not told.done()
    slow.may_go_on.set()
    told.result(SECONDS)
    assert len(study.ask()) == 1
    assert slow.n_decisions == 1


def test_many_threads_of_a_service_go_on_too(storage: SqlStorage, slow: SlowSolver) -> None:
    study = new_study(storage)
    last, together = all_but_one(study), GroupCommit(study)

    def tell() -> str:
        return study.once("k-1", "tell", lambda: str(study.tell_many([(last, outcome(last))])))

    told = in_thread(lambda: together.do(tell))
    assert slow.is_asked.wait(SECONDS)
    asked = [in_thread(lambda: together.do(lambda: study.ask()[0].number)) for _ in range(3)]
    # the same request again is answered, since what it did is kept
    assert in_thread(lambda: together.do(tell)).result(SECONDS) == "1"
    assert not any(one.done() for one in (told, *asked))
    slow.may_go_on.set()
    assert told.result(SECONDS) == "1"
    assert len({one.result(SECONDS) for one in asked}) == 3
    assert slow.n_decisions == 1


def test_after_a_crash_before_the_decision_whoever_asks_next_decides(
    storage: SqlStorage, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = new_study(None, "heat")
    while not plain.is_finished:
        plain.tell_many([(trial, outcome(trial.number)) for trial in plain.ask(10_000)])
    study = new_study(storage, "heat")
    monkeypatch.setattr("levers.studies.study.PATIENCE", 0.0)
    monkeypatch.setattr(Study, "decide_quietly", lambda _: None)  # the process ends here, each time
    opened = []
    for _ in range(50):
        opened.append(SqlStorage(parse_url(url)))
        study = levers.load_study("oven", opened[-1])
        trials = study.ask(10_000)
        if not trials:
            break
        assert not study.is_finished
        study.tell_many([(trial, outcome(trial.number)) for trial in trials])
        assert study.state.is_undecided
        assert study.verify().ok
    assert to_json(study.verdict()) == to_json(plain.verdict())
    for one in opened:
        one.close()


def test_a_correction_that_is_overtaken_is_worked_out_again(storage: SqlStorage, slow: SlowSolver) -> None:
    slow.may_go_on.set()
    study = new_study(storage)
    study.tell(last := all_but_one(study), outcome(last))
    first = study.ask()[0]
    slow.may_go_on.clear()
    slow.is_asked.clear()
    corrected = in_thread(lambda: study.correct(0, 1.25, "misread"))
    assert slow.is_asked.wait(SECONDS)
    in_thread(lambda: study.tell(first, 0.5)).result(SECONDS)
    slow.may_go_on.set()
    corrected.result(SECONDS)
    again = levers.load_study("oven", storage)
    assert [(one.trial, one.value) for one in again.corrections()] == [(0, 1.25)]
    assert again.trial(first.number).value == 0.5
    assert again.status() == study.status()


def test_past_runs_that_come_before_the_decision_count_in_it(
    storage: SqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = new_study(storage, "heat")
    with monkeypatch.context() as patch:
        patch.setattr(Study, "decide_quietly", lambda _: None)
        last = all_but_one(study)
        study.tell(last, outcome(last))
        study.import_runs([{"heat": 1, "time": 10}], [0.5], "last year")
    study.ask()
    assert study.state.n_past_used == 1
    assert study.verify().ok


def test_two_processes_that_design_the_same_round_keep_one(storage: SqlStorage, url: str, slow: SlowSolver) -> None:
    study = new_study(storage)
    last = all_but_one(study)
    told = in_thread(lambda: study.tell(last, outcome(last)))
    assert slow.is_asked.wait(SECONDS)
    elsewhere = SqlStorage(parse_url(url))
    other = levers.load_study("oven", elsewhere)
    asked = in_thread(lambda: other.ask()[0].number)
    while slow.n_decisions < 2:  # it waits for the first a while, and then designs too
        assert not asked.done()
    slow.may_go_on.set()
    told.result(SECONDS)
    assert asked.result(SECONDS) == study.state.blocks[-1].first
    kinds = [record.kind for record in storage.read(study.id, 0)]
    assert kinds.count(Decided.__name__) == 2
    elsewhere.close()


def test_a_change_that_was_overtaken_may_hold_the_lock_for_longer_than_others(
    postgres_storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends other changes that do nothing for half a second; the limit is back after it."""
    plain = SqlStorage(parse_url(postgres_storage))
    prepared = new_study(plain, "heat")
    prepared.tell(last := all_but_one(prepared), outcome(last))
    monkeypatch.setattr("levers.studies.study.DRAFTS", 0)
    storage = SqlStorage(parse_url(f"{postgres_storage}?options=-c%20idle_in_transaction_session_timeout%3D500ms"))
    study = levers.load_study("oven", storage)

    def slowly(*given: Any) -> Any:
        time.sleep(1.5)
        return revision(*given)

    with monkeypatch.context() as patch:
        patch.setattr("levers.studies.study.revision", slowly)
        assert study.correct(0, 1.25, "misread").value == 1.25
    with pytest.raises(StorageError), study.writing():
        time.sleep(1.5)
    assert prepared.trial(0).value == 1.25
    storage.close()
    plain.close()


@pytest.mark.parametrize("together", [False, True])
def test_an_act_that_tells_the_last_outcome_and_asks_comes_to_an_end(storage: SqlStorage, together: bool) -> None:
    study = new_study(storage, "heat")
    last = all_but_one(study)

    def both() -> str:
        study.tell(last, outcome(last))
        return str(study.ask()[0].number)

    def once() -> str:
        return study.once("k-1", "both", both)

    asked = in_daemon(lambda: GroupCommit(study).do(once) if together else once()).result(SECONDS)
    assert asked == str(study.state.blocks[-1].first)
    assert (study.trial(last).value, study.once("k-1", "both", both)) == (outcome(last), asked)
    assert study.verify().ok


def test_a_change_without_a_key_that_completes_a_round_and_asks_comes_to_an_end(storage: SqlStorage) -> None:
    study = new_study(storage, "heat")
    last = all_but_one(study)

    def both() -> int:
        study.tell(last, outcome(last))
        return study.ask()[0].number

    assert in_daemon(lambda: GroupCommit(study).do(both)).result(SECONDS) == study.state.blocks[-1].first
