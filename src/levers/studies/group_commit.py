"""Changes that many threads make to one study, kept in as few transactions as possible.

A transaction ends when the disk has it, which takes longer than the change itself. While one is under way others wait;
what has gathered by its end goes into the next one, all at once.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from levers.errors import LeversError, StorageError
from levers.studies.study import Study

T = TypeVar("T")
MOST = 256
"""Changes that one transaction takes."""


class _Wish(Generic[T]):
    """A change that a thread waits for."""

    def __init__(self, act: Callable[[], T]) -> None:
        self.act = act
        self.woken = threading.Event()
        self.is_done = False
        self.answer: T | None = None
        self.error: BaseException | None = None

    def result(self) -> T:
        if self.error is not None:
            raise self.error
        return cast(T, self.answer)


class _SpoiledError(Exception):
    """A change failed after it had written something, so the transaction cannot be kept."""


class Together:
    """The way to change a study from many threads of one process. Each change is kept or refused on its own.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> [trial.number for trial in Together(study).do(lambda: study.ask(2))]
    [0, 1]
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self._waiting: deque[_Wish[object]] = deque()
        self._is_served = False
        self._lock = threading.Lock()

    def do(self, act: Callable[[], T]) -> T:
        """Make a change; returns what `act` returns, or raises what it raises, once it is kept."""
        wish = _Wish(act)
        with self._lock:
            self._waiting.append(cast(_Wish[object], wish))
            is_mine, self._is_served = not self._is_served, True
        if not is_mine:
            wish.woken.wait()  # it was done by whoever has the turn, or the turn is ours now
        if not wish.is_done:
            self._take_turn()
        return wish.result()

    def _take_turn(self) -> None:
        """Serve what is waiting; then wake those who were served, and one who was not, to go on."""
        with self._lock:
            wishes = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST))]
        try:
            self._serve(wishes)
        finally:
            with self._lock:
                self._is_served = bool(self._waiting)
                woken = wishes + ([self._waiting[0]] if self._waiting else [])
            for wish in woken:
                wish.woken.set()

    def _serve(self, wishes: list[_Wish[object]]) -> None:
        """Do all in one transaction; where that cannot be, in one each."""
        try:
            self._all_at_once(wishes)
        except StorageError as error:
            for wish in wishes:  # nobody knows what was kept, so doing it again is for those who have a key
                wish.error = error
        except Exception:
            for wish in wishes:
                self._alone(wish)
        except BaseException as error:  # the thread is being ended: others must not wait for it for ever
            for wish in wishes:
                wish.error = error
            raise
        finally:
            for wish in wishes:
                wish.is_done = True

    def _all_at_once(self, wishes: list[_Wish[object]]) -> None:
        with self.study.writing() as pen:
            for wish in wishes:
                before = pen.n_written
                try:
                    wish.answer = wish.act()
                except StorageError:
                    raise
                except LeversError as error:
                    if pen.n_written != before:
                        raise _SpoiledError from error
                    wish.error = error

    def _alone(self, wish: _Wish[object]) -> None:
        wish.answer = wish.error = None
        try:
            with self.study.writing():
                wish.answer = wish.act()
        except BaseException as error:
            wish.error = error
