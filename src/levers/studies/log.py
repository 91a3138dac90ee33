"""One study's log with the state folded over it: read on, write under the lock, snapshot now and then."""

import heapq
import io
import json
import logging
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from levers.core.codec import from_json, to_json
from levers.errors import DamagedLogError
from levers.studies.events import Checked, Created, Event, Imported, Opened, Record
from levers.studies.state import Block, Correction, Exclusion, Lease, Note, StudyState, TrialState, TrialTable
from levers.studies.storage.base import (
    Answer,
    Header,
    Snapshot,
    Storage,
    Stored,
    Writing,
    chained,
    decoded,
    encoded,
)

FORMAT = 3
EVERY = 1000
GROWTH = 0.2
_logger = logging.getLogger("levers")


def freeze(state: StudyState) -> bytes:
    """The state as bytes."""
    n = state.trials.n_trials
    arrays = {name: getattr(state.trials, name)[:n] for name in TrialTable.columns}
    for i, block in enumerate(state.blocks):
        arrays |= {f"values{i}": block.values, f"holders{i}": block.holders}
        if block.observed is not None:
            arrays[f"observed{i}"] = block.observed
    header = {
        "format": FORMAT,
        "seq": state.seq,
        "head": state.head,
        "times": [state.created_at, state.updated_at],
        "spec": to_json(Created(state.spec)),
        "known": [to_json(known) for known in state.known],
        "batches": [to_json(Opened(block.batch)) for block in state.blocks],
        "blocks": [[block.first, block.n_missing, block.role] for block in state.blocks],
        "leases": [[lease.worker, lease.at, lease.deadline] for lease in state.leases],
        "again": list(state.again),
        "fresh": state.fresh,
        "corrections": [asdict(c) for c in state.corrections],
        "past": [to_json(past) for past in state.past],
        "past_used": state.past_used,
        "n_failed": state.n_failed,
        "exclusions": [asdict(e) for e in state.exclusions],
        "doubts": None if state.doubts is None else to_json(Checked(state.doubts, 0)),
        "checked_runs": state.checked_runs,
        "checked_ends": state.checked_ends,
        "ended": state.ended and asdict(state.ended),
        "restatements": [asdict(note) for note in state.restatements],
        "restated": state.restated,
        "excluded_last": state.excluded_last,
    }
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)
    return zlib.compress(buffer.getvalue(), 1)


def thaw(data: bytes) -> StudyState | None:
    """The state again; None when another version wrote it, in which case the log tells."""
    with np.load(io.BytesIO(zlib.decompress(data)), allow_pickle=False) as arrays:
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FORMAT:
            return None
        table = TrialTable()
        table.n_trials = len(arrays["state"])
        for name in TrialTable.columns:
            setattr(table, name, arrays[name])
        blocks = [
            Block(
                from_json(batch, Opened).batch,
                first,
                arrays[f"values{i}"],
                arrays[f"holders{i}"],
                missing,
                role,
                arrays.get(f"observed{i}"),
            )
            for i, (batch, (first, missing, role)) in enumerate(zip(header["batches"], header["blocks"], strict=True))
        ]
    state = StudyState(
        seq=header["seq"],
        head=header["head"],
        spec_=from_json(header["spec"], Created).spec,
        created_at=header["times"][0],
        updated_at=header["times"][1],
        blocks=blocks,
        known=[from_json(text, object) for text in header["known"]],
        trials=table,
        leases=[Lease(*lease) for lease in header["leases"]],
        again=deque(header["again"]),
        fresh=header["fresh"],
        corrections=[_correction(c) for c in header["corrections"]],
        past=[from_json(text, Imported) for text in header["past"]],
        past_used=header["past_used"],
        n_failed=header["n_failed"],
        exclusions=[Exclusion(**{**e, "changes": tuple(e["changes"])}) for e in header["exclusions"]],
        doubts=None if header["doubts"] is None else from_json(header["doubts"], Checked).doubts,
        checked_runs=header["checked_runs"],
        checked_ends=header["checked_ends"],
        ended=header["ended"] and Note(**header["ended"]),
        restatements=[Note(**note) for note in header["restatements"]],
        restated=header["restated"],
        excluded_last=header["excluded_last"],
    )
    _restore_deadlines(state)
    return state


def _correction(saved: dict[str, Any]) -> Correction:
    observed = tuple((name, before, now) for name, before, now in saved.get("observed", ()))
    return Correction(**{**saved, "changes": tuple(saved["changes"]), "observed": observed})


def _restore_deadlines(state: StudyState) -> None:
    """Leases that still hold a running trial."""
    n = state.trials.n_trials
    running = np.flatnonzero(state.trials.state[:n] == TrialState.RUNNING)
    by_lease: dict[int, list[int]] = {}
    for trial, lease in zip(running.tolist(), state.trials.lease[running].tolist(), strict=True):
        by_lease.setdefault(lease, []).append(trial)
    for lease, trials in by_lease.items():
        deadline = state.leases[lease].deadline
        if deadline is not None:
            heapq.heappush(state.expiring, (deadline, lease, tuple(trials)))


KEEP_ANSWERS = 7 * 86400.0
"""Seconds for which the answer to a request with a key is kept; it may be kept longer."""


class _Source(Protocol):
    """A log as one can read it: under its lock, or without."""

    def header(self) -> Header:
        """Where it ends."""

    def read(self, after: int) -> list[Stored]:
        """The records after event number `after`."""


@dataclass(frozen=True, slots=True)
class _Unlocked:
    """A log that others may write to meanwhile."""

    storage: Storage
    study: int

    def header(self) -> Header:
        return self.storage.header(self.study)

    def read(self, after: int) -> list[Stored]:
        return self.storage.read(self.study, after)


class StudyLog:
    """The state of a study, kept up with its log.

    The state knows the digest of the event that it stands at. If the log in the storage has another event there, or
    ends before it, the storage was rolled back or replaced: then the state is dropped, and made again from what is
    there now. The clock is an argument, so that tests decide what time it is.
    """

    def __init__(self, storage: Storage, study: int, clock: Callable[[], float] = time.time) -> None:
        self.storage = storage
        self.study = study
        self.clock = clock
        self._state = StudyState()
        self._snapshot_seq = 0
        self._loaded = False
        self._transaction: Transaction | None = None
        self._writer = 0
        self._of_thread = threading.local()
        self.completed_at = 0
        """The event with which a round became complete through this log, so that others need not be waited for."""

    @property
    def is_mine(self) -> bool:
        """Whether this thread is inside a transaction or a draft, which others join."""
        return self._draft is not None or (self._transaction is not None and self._writer == threading.get_ident())

    @property
    def _draft(self) -> "Draft | None":
        found: Draft | None = getattr(self._of_thread, "draft", None)
        return found

    @property
    def folded(self) -> StudyState:
        """The state as of the last look, without looking again."""
        if self._draft is not None:
            return self._draft.state
        return self._state if self._loaded else self.current()

    @property
    def last_seen(self) -> StudyState | None:
        """The state as of the last look, None before the first. Another thread may be changing it."""
        return self._state if self._loaded else None

    def current(self) -> StudyState:
        """The state as of now."""
        if self._draft is not None:
            return self._draft.state
        if self._transaction is not None:  # nobody else can write now, and a second connection might not be free
            return self._state
        if not self._loaded:
            self._load()
        else:
            self._catch_up(_Unlocked(self.storage, self.study))
        return self._state

    @contextmanager
    def writing(self, who: str) -> Iterator["Transaction"]:
        """Lock the log; what the transaction writes is kept when the outermost block ends without an error.

        Inside such a block the same transaction is handed out again, so that several changes can be kept together.
        """
        joined = self._draft or self._transaction
        if joined is not None:
            with joined.held_by(who):
                yield joined
            return
        if not self._loaded:
            self._load()
        try:
            with self.storage.writing(self.study) as writing:
                self._writer = threading.get_ident()
                self._catch_up(writing)
                transaction = self._transaction = Transaction(self._state, writing, who, self.clock())
                yield transaction
                # in proportion to what there is, so that a long study does not pay more for its snapshots
                due = self._snapshot_seq + max(EVERY, GROWTH * self._state.trials.n_trials)
                if transaction.n_written and self._state.seq >= due:
                    writing.save_snapshot(Snapshot.of(self._state.seq, self._state.head, freeze(self._state)))
                    writing.forget_answers(transaction.now - KEEP_ANSWERS)
                    self._snapshot_seq = self._state.seq
        except BaseException:
            if self._transaction is None or self._transaction.n_written:  # the state may hold what was not kept
                self._forget()
            raise
        finally:
            self._transaction = None

    def new_draft(self, who: str) -> "Draft":
        """A transaction that is worked out without the lock, on a copy of the state as of now."""
        return Draft(self, self.current().copy(), who)

    @contextmanager
    def working_on(self, draft: "Draft") -> Iterator[None]:
        """Inside, whatever this thread changes goes into the draft."""
        self._of_thread.draft = draft
        try:
            yield
        finally:
            self._of_thread.draft = None

    def keep(self, draft: "Draft", who: str) -> bool:
        """Keep what was drafted, if nothing else happened meanwhile; says whether it did. Nothing needs no lock."""
        if draft.is_empty:
            return True
        with self.writing(who) as transaction:
            if not transaction.takes(draft):
                return False
            self._state = draft.state
            return True

    def _load(self) -> None:
        """From the last snapshot, if it belongs to this log, and the events after it."""
        source = _Unlocked(self.storage, self.study)
        found = self.storage.snapshot(self.study)
        state = None if found is None else _usable(found)
        if state is not None:
            try:
                self._begin_with(state, source)
            except DamagedLogError:  # it is of another log, or of this one before it was cut; the log tells
                state = None
        if state is None:
            self._begin_with(StudyState(head=source.header().origin), source)

    def _begin_with(self, state: StudyState, source: _Source) -> None:
        self._state, self._snapshot_seq = state, state.seq
        self._fold(source)
        self._loaded = True

    def _forget(self) -> None:
        self._state, self._loaded, self._snapshot_seq = StudyState(), False, 0

    def _catch_up(self, source: _Source) -> None:
        """Read on from where the state stands; if the log there is another one, begin again with its first event."""
        stood_at = self._state.seq
        try:
            self._fold(source)
        except DamagedLogError:
            self._forget()
            self._begin_with(StudyState(head=source.header().origin), source)
            _logger.warning(
                "study %s: the log is not the one that was read before: event %d is another, or gone. The storage was "
                "rolled back, restored or replaced. Everything was read again, up to event %d",
                self.study,
                stood_at,
                self._state.seq,
            )

    def _fold(self, source: _Source) -> None:
        """Take in what came since; a DamagedLogError if it does not continue what the state was folded from."""
        state = self._state
        while True:
            header = source.header()
            if (header.n_events, header.head) == (state.seq, state.head):
                if header.last != state.head:
                    raise DamagedLogError(
                        state.seq, f"event {state.seq}, the last that was written, is gone or another"
                    )
                return
            stored = source.read(state.seq) if header.n_events > state.seq else []
            check_follows(state.seq, state.head, stored)
            for one, record in zip(stored, decoded(stored), strict=True):
                state.apply(record)
                state.head = one.digest
            if not stored or state.seq <= header.n_events:
                check_end(header, state.seq, state.head)
                return
            # somebody wrote between the two looks: look again


def check_follows(seq: int, head: str, stored: Sequence[Stored]) -> None:
    """Refuse records that do not continue a chain which stands at event `seq`, whose digest is `head`."""
    for one in stored:
        if one.seq != seq + 1:
            raise DamagedLogError(seq + 1, f"event {one.seq} came after event {seq}; the log has a gap")
        if one.digest != one.digest_after(head):
            raise DamagedLogError(one.seq, f"event {one.seq} of the log, or one before it, is not as it was written")
        seq, head = one.seq, one.digest


def check_end(header: Header, seq: int, head: str) -> None:
    """Refuse a log that ends at event `seq`, with digest `head`, where its storage says that it ends elsewhere."""
    if seq < header.n_events:
        raise DamagedLogError(seq + 1, f"the log ends at event {seq}, and {header.n_events} were written")
    if seq > header.n_events or head != header.head:
        raise DamagedLogError(0, f"the storage says that another log than this one ends at event {header.n_events}")


def check_chain(header: Header, stored: Sequence[Stored]) -> None:
    """Refuse a whole log that is not as it was written.

    >>> from dataclasses import replace
    >>> from levers.studies.storage.base import new_log
    >>> one = new_log("oven", [Stored(1, 10.0, "ann", "Created", "{}")])
    >>> header = Header("oven", 10.0, 1, one[0].digest, one[0].digest)
    >>> check_chain(header, one)
    >>> check_chain(replace(header, name="stove"), one)
    Traceback (most recent call last):
    levers.errors.DamagedLogError: event 1 of the log, or one before it, is not as it was written; ...
    """
    check_follows(0, header.origin, stored)
    check_end(header, stored[-1].seq if stored else 0, stored[-1].digest if stored else header.origin)


def _usable(snapshot: Snapshot) -> StudyState | None:
    """A snapshot's state; None when it cannot be read, because the log tells everything anyway."""
    if not snapshot.is_whole:
        return None
    try:
        state = thaw(snapshot.data)
    except Exception:  # whatever damaged bytes do to zlib, zip, JSON and arrays
        return None
    return state if state is not None and (state.seq, state.head) == (snapshot.seq, snapshot.head) else None


class Transaction:
    """Writes events at the end of a locked log, and folds each into the state as it goes."""

    def __init__(self, state: StudyState, writing: Writing, who: str, now: float) -> None:
        self.state = state
        self.now = now
        self.n_written = 0
        self.defers = False
        """Whether whoever opened it does what has to wait for a decision again, after that was taken without a lock."""
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
        stored = chained(encoded(records), self.state.head)
        self._writing.append(stored)
        for one, record in zip(stored, records, strict=True):
            self.state.apply(record)
            self.state.head = one.digest
        self.n_written += len(records)

    def answer(self, key: str) -> Answer | None:
        """What was answered to a request with this key."""
        return self._writing.answer(key)

    def keep_answer(self, key: str, request: str, answer: str) -> None:
        """Keep an answer together with what was written."""
        self._writing.keep_answer(Answer(key, self.now, request, answer))

    def take_long(self) -> None:
        """Say that what follows is worked out with the lock, for minutes if it has to be."""
        self._writing.take_long()

    def takes(self, draft: "Draft") -> bool:
        """Take over what was drafted, unless the log has gone on since, or one of its requests was answered."""
        added = draft.added
        is_same = (self.state.seq, self.state.head) == draft.begun_at and not self.n_written
        if not is_same or any(map(self.answer, added.answered)):
            return False
        self._writing.append(added.records)
        for answer in added.answered.values():
            self._writing.keep_answer(answer)
        self.state, self.n_written = draft.state, draft.n_written
        return True


class Draft(Transaction):
    """A transaction on a copy of the state, which nothing waits for: what it wrote is kept later, or dropped."""

    def __init__(self, log: StudyLog, state: StudyState, who: str) -> None:
        self.added = _Added(log)
        self.begun_at = (state.seq, state.head)
        super().__init__(state, self.added, who, log.clock())

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to keep: it was found that nothing had to be done."""
        return not self.n_written and not self.added.answered


class _Added:
    """What a draft wrote, in place of a storage."""

    def __init__(self, log: StudyLog) -> None:
        self._log = log
        self.records: list[Stored] = []
        self.answered: dict[str, Answer] = {}

    def header(self) -> Header:
        return self._log.storage.header(self._log.study)

    def read(self, after: int) -> list[Stored]:
        return []

    def append(self, records: Sequence[Stored]) -> None:
        self.records.extend(records)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Snapshots are made when it is kept."""

    def answer(self, key: str) -> Answer | None:
        if key in self.answered:
            return self.answered[key]
        with self._log.storage.writing(self._log.study) as writing:  # for a moment
            return writing.answer(key)

    def keep_answer(self, answer: Answer) -> None:
        self.answered[answer.key] = answer

    def forget_answers(self, before: float) -> None:
        """Old ones are dropped when it is kept."""

    def take_long(self) -> None:
        """Nothing waits for it."""
