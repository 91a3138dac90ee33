"""Changes that many threads make to one study, kept in as few transactions as possible.

A transaction ends when the disk has it, which takes longer than the change itself. While one is under way others wait;
what has gathered by its end goes into the next one, all at once.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from levers.errors import LeversError, StorageError
from levers.studies.study import Study, UndecidedError

T = TypeVar("T")
MOST = 256
"""Changes that one transaction takes, and threads that wait for a decision."""
MOMENT = 0.25
"""Seconds in which most decisions are taken: whoever is one too many to wait for it stays as long."""


class _Change(Generic[T]):
    """A change that a thread waits for; `completes` says that a round was complete with it.

    One that `overtakes` needs the decision that follows from what it does itself.
    """

    def __init__(self, act: Callable[[], T]) -> None:
        self.act = act
        self.woken = threading.Event()
        self.is_done = False
        self.completes = False
        self.overtakes = False
        self.answer: T | None = None
        self.error: BaseException | None = None

    def result(self) -> T:
        if self.error is not None:
            raise self.error
        return cast(T, self.answer)


class _PartlyWrittenError(Exception):
    """A change failed after it had written something, so the transaction cannot be kept."""


class GroupCommit:
    """The way to change a study from many threads of one process. Each change is kept or refused on its own.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> [trial.number for trial in GroupCommit(study).do(lambda: study.ask(2))]
    [0, 1]
    """

    def __init__(self, study: Study, *, most_waiting: int = MOST) -> None:
        self.study = study
        self._may_wait = threading.BoundedSemaphore(most_waiting)
        self._waiting: deque[_Change[object]] = deque()
        self._is_served = False
        self._lock = threading.Lock()

    def do(self, act: Callable[[], T]) -> T:
        """Make a change; returns what `act` returns, or raises what it raises, once it is kept.

        What has to wait for a decision is done again when that is taken. It is taken by the thread that needs it, while
        others go on. When as many as may wait for it do, and go on doing so, others are told with the UndecidedError.
        """
        while True:
            change = self._done(act)
            if isinstance(change.error, UndecidedError):
                if change.overtakes:  # what it did was taken back, so there is nothing to decide before it
                    return self.study.apart(act)
                if not self._may_wait.acquire(timeout=MOMENT):
                    raise change.error
                try:
                    self.study.decide(patient=True)
                finally:
                    self._may_wait.release()
                continue
            if change.completes:
                self.study.decide_quietly()
            return change.result()

    def _done(self, act: Callable[[], T]) -> _Change[T]:
        change = _Change(act)
        with self._lock:
            self._waiting.append(cast(_Change[object], change))
            is_mine, self._is_served = not self._is_served, True
        if not is_mine:
            change.woken.wait()  # it was done by whoever has the turn, or the turn is ours now
        if not change.is_done:
            self._take_turn()
        return change

    def _take_turn(self) -> None:
        """Serve what is waiting; then wake those who were served, and one who was not, to go on."""
        with self._lock:
            changes = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST))]
        try:
            self._serve(changes)
        finally:
            with self._lock:
                self._is_served = bool(self._waiting)
                woken = changes + ([self._waiting[0]] if self._waiting else [])
            for change in woken:
                change.woken.set()

    def _serve(self, changes: list[_Change[object]]) -> None:
        """Do all in one transaction; where that cannot be, in one each."""
        try:
            self._all_at_once(changes)
        except StorageError as error:
            for change in changes:  # nobody knows what was kept, so doing it again is for those who have a key
                change.error = error
        except Exception:
            for change in changes:
                self._alone(change)
        except BaseException as error:  # the thread is being ended: others must not wait for it for ever
            for change in changes:
                change.error = error
            raise
        finally:
            for change in changes:
                change.is_done = True

    def _all_at_once(self, changes: list[_Change[object]]) -> None:
        with self.study.writing(defers=True, decides=False) as transaction:
            for change in changes:
                before, was_undecided = transaction.n_written, transaction.state.is_undecided
                try:
                    change.answer = change.act()
                except StorageError:
                    raise
                except LeversError as error:
                    if transaction.n_written != before:
                        raise _PartlyWrittenError from error
                    change.error = error
                change.completes = transaction.state.is_undecided and not was_undecided

    def _alone(self, change: _Change[object]) -> None:
        change.answer, change.error, change.completes = None, None, False
        was_undecided = True
        try:
            with self.study.writing(defers=True, decides=False) as transaction:
                was_undecided = transaction.state.is_undecided
                change.answer = change.act()
                change.completes = transaction.state.is_undecided and not was_undecided
        except BaseException as error:
            change.error, change.overtakes = error, not was_undecided
