"""One study's log with the state folded over it: read on, write under the lock, snapshot now and then."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from levers.studies.events import Event, Record
from levers.studies.fold import StudyState
from levers.studies.snapshots import freeze, is_due, thaw
from levers.studies.storage.base import Answer, Storage, Stored, Writing

KEEP_ANSWERS = 7 * 86400.0
"""Seconds for which the answer to a request with a key is kept; it may be kept longer."""


class StudyLog:
    """The state of a study, kept up with its log.

    The clock is an argument, so that tests decide what time it is.
    """

    def __init__(self, storage: Storage, study: int, clock: Callable[[], float] = time.time) -> None:
        self.storage = storage
        self.study = study
        self.clock = clock
        self._state = StudyState()
        self._snapshot_seq = 0
        self._loaded = False
        self._pen: Pen | None = None

    @property
    def folded(self) -> StudyState:
        """The state as of the last look, without looking again."""
        return self._state if self._loaded else self.current()

    def current(self) -> StudyState:
        """The state as of now."""
        if self._pen is not None:  # nobody else can write now, and a second connection might not be free
            return self._state
        if not self._loaded:
            self._load()
        self._fold(self.storage.read(self.study, self._state.seq))
        return self._state

    @contextmanager
    def writing(self, who: str) -> Iterator["Pen"]:
        """Lock the log; what the pen writes is kept when the outermost block ends without an error.

        Inside such a block the same pen is handed out again, so that several changes can be kept together.
        """
        if self._pen is not None:
            with self._pen.held_by(who):
                yield self._pen
            return
        if not self._loaded:
            self._load()
        try:
            with self.storage.writing(self.study) as writing:
                self._fold(writing.read(self._state.seq))
                pen = self._pen = Pen(self._state, writing, who, self.clock())
                yield pen
                if pen.n_written and is_due(self._state, self._snapshot_seq):
                    writing.save_snapshot(self._state.seq, freeze(self._state))
                    writing.forget_answers(pen.now - KEEP_ANSWERS)
                    self._snapshot_seq = self._state.seq
        except BaseException:
            if self._pen is None or self._pen.n_written:  # the state may hold what was not kept
                self._state, self._loaded, self._snapshot_seq = StudyState(), False, 0
            raise
        finally:
            self._pen = None

    def _load(self) -> None:
        self._loaded = True
        found = self.storage.snapshot(self.study)
        state = None if found is None else _usable(*found)
        self._state = state or StudyState()
        self._snapshot_seq = self._state.seq
        self._fold(self.storage.read(self.study, self._state.seq))

    def _fold(self, stored: Sequence[Stored]) -> None:
        for record in stored:
            self._state.apply(record.record())


def _usable(seq: int, data: bytes) -> StudyState | None:
    """A snapshot's state; None when it cannot be read, because the log tells everything anyway."""
    try:
        state = thaw(data)
    except Exception:  # whatever damaged bytes do to zlib, zip, JSON and arrays
        return None
    return state if state is not None and state.seq == seq else None


class Pen:
    """Writes events at the end of a locked log, and folds each into the state as it goes."""

    def __init__(self, state: StudyState, writing: Writing, who: str, now: float) -> None:
        self.state = state
        self.now = now
        self.n_written = 0
        self._writing = writing
        self._who = who

    @contextmanager
    def held_by(self, who: str) -> Iterator[None]:
        """Write in another name for a while."""
        before, self._who = self._who, who
        try:
            yield
        finally:
            self._who = before

    def write(self, *happened: Event) -> None:
        """Add events."""
        records = [Record(self.state.seq + i + 1, self.now, self._who, event) for i, event in enumerate(happened)]
        self._writing.append([Stored.of(record) for record in records])
        for record in records:
            self.state.apply(record)
        self.n_written += len(records)

    def answer(self, key: str) -> Answer | None:
        """What was answered to a request with this key."""
        return self._writing.answer(key)

    def keep_answer(self, key: str, request: str, answer: str) -> None:
        """Keep an answer together with what was written."""
        self._writing.keep_answer(Answer(key, self.now, request, answer))
