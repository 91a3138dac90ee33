"""The state of a study: a fold over its events. Nothing here decides anything, and nothing here has a clock."""

import heapq
from collections import deque
from copy import copy
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np

from levers.algorithms.base import Batch, Progress, Remark
from levers.core.model.choices import Choices
from levers.core.space import Assignment, Codes, Factor, Level, with_taken
from levers.errors import StudyError
from levers.studies import events
from levers.studies.events import Imported, Numbers, Record, Values
from levers.studies.spec import StudySpec


class TrialState(IntEnum):
    """What can become of a trial.

    A row of the design whose trial failed or went stale gets a new trial, so that the design stays balanced.
    """

    WAITING = 0
    """Not handed out yet."""
    RUNNING = 1
    """With a worker, until its deadline if it has one."""
    COMPLETE = 2
    """Its outcome counts."""
    FAIL = 3
    """The run gave no outcome."""
    STALE = 4
    """The deadline passed. A late outcome is still taken, if it is the first for its row."""
    ABANDONED = 5
    """No longer needed: another trial of the same row was told first, or the block was designed again."""
    EXCLUDED = 6
    """Its outcome was told, and somebody said why it must not count."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: what to set, and what came of it. `block` counts from 0; see `StudyState.block_numbers`.

    `params.free` are the levers to leave alone; `observed` has the level that each of them took, once it was told.
    """

    number: int
    params: Assignment
    block: int
    stage: str
    state: TrialState
    value: float | None = None
    worker: str | None = None
    asked_at: float | None = None
    deadline: float | None = None
    told_at: float | None = None
    observed: Assignment | None = None


class TrialTable:
    """One entry a trial, in arrays that grow at the end.

    >>> table = TrialTable()
    >>> table.grow(block=0, rows=np.arange(3))
    >>> table.n_trials, TrialState(table.state[2]).name
    (3, 'WAITING')
    """

    columns = ("state", "block", "row", "lease", "told_at")

    def __init__(self) -> None:
        self.n_trials = 0
        self.state = np.zeros(0, dtype=np.uint8)
        self.block = np.zeros(0, dtype=np.int32)
        self.row = np.zeros(0, dtype=np.int64)
        self.lease = np.zeros(0, dtype=np.int32)
        self.told_at = np.zeros(0, dtype=np.float64)

    def grow(self, block: int, rows: Numbers) -> None:
        """Add waiting trials for rows of a block."""
        begin, end = self.n_trials, self.n_trials + len(rows)
        if end > len(self.state):
            for name in self.columns:
                old = getattr(self, name)
                new = np.zeros(max(end, 2 * len(old), 64), dtype=old.dtype)
                new[:begin] = old[:begin]
                setattr(self, name, new)
        self.state[begin:end] = TrialState.WAITING
        self.block[begin:end] = block
        self.row[begin:end] = rows
        self.lease[begin:end] = -1
        self.told_at[begin:end] = np.nan
        self.n_trials = end

    def copy(self) -> "TrialTable":
        """The same entries in arrays of their own."""
        twin = TrialTable()
        twin.n_trials = self.n_trials
        for name in self.columns:
            setattr(twin, name, getattr(self, name)[: self.n_trials].copy())
        return twin


OPEN, AS_DESIGNED, AS_RUN, SET_ASIDE = "open", "as designed", "as run", "set aside"
"""How a block's runs are used. `AS_RUN`: as evidence only; the decision it was designed on has been corrected."""
CONFIRMING, CONFIRMATION = "confirming", "confirmation"
"""The same of fresh runs that confirm a verdict: awaited, and over. They are compared with it and never fitted."""
APART = (SET_ASIDE, CONFIRMING, CONFIRMATION)
"""The roles of blocks that no decision rests on."""


@dataclass(slots=True)
class Block:
    """A block of designed runs: the outcome of each row, and the trial that holds it.

    `observed` has the levels of each row as it was run, FREE where that is not known yet; None where everything is set.
    """

    batch: Batch
    first: int
    values: Values
    holders: Numbers
    n_missing: int
    role: str = OPEN
    observed: Codes | None = None

    @property
    def n_runs(self) -> int:
        """How many rows."""
        return len(self.values)

    @property
    def told_order(self) -> Numbers:
        """Which rows have an outcome."""
        return np.flatnonzero(~np.isnan(self.values))

    def told_rows(self) -> tuple[Codes, Values]:
        """The rows that have an outcome, as level positions, and their outcomes.

        What was left to nature is written as `core.space.with_taken` does.
        """
        done = ~np.isnan(self.values)
        codes = self.batch.codes[done]
        return codes if self.observed is None else with_taken(codes, self.observed[done]), self.values[done]

    def set_rows(self) -> tuple[Codes, Values]:
        """Those of them in which every lever was set: what additive fits and checks rest on."""
        done = self.set_order
        return self.batch.codes[done], self.values[done]

    @property
    def set_order(self) -> Numbers:
        """Which rows have an outcome and set every lever."""
        done = self.told_order
        return done if self.observed is None else done[(self.batch.codes[done] >= 0).all(axis=1)]

    @property
    def as_run(self) -> Batch:
        """The batch of a complete block, with the levels that nature took."""
        return self.batch if self.observed is None else self.batch.observed(self.observed)

    def copy(self) -> "Block":
        """A block that stays as it is when this one goes on."""
        observed = None if self.observed is None else self.observed.copy()
        return replace(self, values=self.values.copy(), holders=self.holders.copy(), observed=observed)


@dataclass(frozen=True, slots=True)
class Lease:
    """One handing out of trials."""

    worker: str
    at: float
    deadline: float | None


@dataclass(frozen=True, slots=True)
class Correction:
    """A corrected outcome, with who, when and why, and what it changed.

    `observed` has the levers whose level was corrected too, each with the level before and the one now.
    """

    trial: int
    before: float
    value: float
    reason: str
    who: str
    at: float
    changes: tuple[str, ...] = ()
    observed: tuple[tuple[str, Level, Level], ...] = ()


@dataclass(frozen=True, slots=True)
class Exclusion:
    """An outcome that does not count, with who, when and why, and what that changed."""

    trial: int
    value: float
    reason: str
    who: str
    at: float
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody did to the study as a whole, and why: ended it, or changed what is asked for."""

    text: str
    reason: str
    who: str
    at: float
    n_runs: int


_LISTS = (
    "known",
    "leases",
    "again",
    "expiring",
    "corrections",
    "past",
    "past_used",
    "exclusions",
    "checked_runs",
    "checked_ends",
    "restatements",
)


@dataclass(slots=True)
class StudyState:
    """Everything that follows from the log up to `seq`."""

    seq: int = 0
    head: str = ""
    """The digest of event `seq`, which says that all events up to it are the same. Set by whoever reads the log."""
    spec_: StudySpec | None = None
    created_at: float = 0.0
    updated_at: float = 0.0
    blocks: list[Block] = field(default_factory=list)
    known: list[Any] = field(default_factory=list)
    """What the algorithm knew before each block, and now."""
    trials: TrialTable = field(default_factory=TrialTable)
    leases: list[Lease] = field(default_factory=list)
    again: deque[int] = field(default_factory=deque)
    fresh: int = 0
    expiring: list[tuple[float, int, tuple[int, ...]]] = field(default_factory=list)
    corrections: list[Correction] = field(default_factory=list)
    past: list[Imported] = field(default_factory=list)
    past_used: list[int] = field(default_factory=list)
    """How many imports were in `known`, entry by entry."""
    n_failed: int = 0
    exclusions: list[Exclusion] = field(default_factory=list)
    doubts: tuple[Remark, ...] | None = None
    """What the last checks found; None while nothing was checked."""
    checked_runs: list[int] = field(default_factory=list)
    """Runs that counted at each look at which the checks were made."""
    checked_ends: list[int] = field(default_factory=list)
    """The same of the looks at which the algorithm had ended; the same runs, or fewer, are not a further end."""
    ended: Note | None = None
    """Who ended the study, and why; None while nobody did."""
    restatements: list[Note] = field(default_factory=list)
    restated: int = 0
    """How many blocks came before what is asked for was last changed."""
    excluded_last: bool = False
    """Whether the latest change of an outcome was that it counts no more: a revision belongs to that."""

    @property
    def spec(self) -> StudySpec:
        """What is asked for."""
        if self.spec_ is None:
            raise StudyError("the log does not begin with the creation of a study")
        return self.spec_

    @property
    def progress(self) -> Progress:
        """What the algorithm's state says of itself."""
        return self.spec.solver.progress(self.known[-1]) if self.known else Progress()

    @property
    def choices(self) -> Choices:
        """The levers as the algorithm chooses among them, and what its additive fit is made of."""
        return self.spec.choices(self.progress.by_parts)

    @property
    def fitted(self) -> tuple[Factor, ...]:
        """The factors of that fit."""
        return self.spec.fitted(self.progress.by_parts)

    @property
    def n_past_used(self) -> int:
        """How many imports are in what is known now."""
        return self.past_used[-1] if self.past_used else 0

    @property
    def open_block(self) -> Block | None:
        """The block whose outcomes are awaited; None when the study is finished."""
        return self.blocks[-1] if self.blocks and self.blocks[-1].role == OPEN else None

    @property
    def confirming_block(self) -> Block | None:
        """The fresh runs that are awaited to confirm the verdict; None where there are none."""
        return self.blocks[-1] if self.blocks and self.blocks[-1].role == CONFIRMING else None

    @property
    def awaited_block(self) -> Block | None:
        """The block that `ask` hands out and `tell` takes: the open one, or the fresh runs of a confirmation."""
        return self.open_block or self.confirming_block

    @property
    def n_designed(self) -> int:
        """How many blocks there are up to the last one that the algorithm designed."""
        return max((i + 1 for i, block in enumerate(self.blocks) if block.role not in APART[1:]), default=0)

    @property
    def is_undecided(self) -> bool:
        """Whether the awaited block has all its outcomes, and what follows from them was not decided yet."""
        block = self.awaited_block
        return block is not None and not block.n_missing

    @property
    def n_free(self) -> int | None:
        """How many runs wait to be handed out, or a few more; None at the end.

        Runs to be made again are counted as they stand in line, where some may be over already.
        """
        block = self.open_block
        return None if block is None else len(self.again) + block.first + block.n_runs - self.fresh

    @property
    def is_held(self) -> bool:
        """Whether the algorithm has ended on outcomes that the checks contradict, and nobody has answered yet."""
        return self.awaited_block is None and bool(self.doubts) and self.ended is None

    @property
    def counted(self) -> list[Block]:
        """The blocks whose outcomes count."""
        return [block for block in self.blocks if block.role not in APART]

    @property
    def n_complete(self) -> int:
        """Outcomes that count."""
        return sum(block.n_runs - block.n_missing for block in self.counted)

    @property
    def n_fresh(self) -> int:
        """Outcomes of fresh runs, which confirm a verdict and which nothing else rests on."""
        fresh = [block for block in self.blocks if block.role in (CONFIRMING, CONFIRMATION)]
        return sum(block.n_runs - int(np.isnan(block.values).sum()) for block in fresh)

    @property
    def n_closed(self) -> int:
        """Those of them that decisions rest on: of blocks that are not under way."""
        return sum(block.n_runs - block.n_missing for block in self.counted if block.role != OPEN)

    @property
    def n_looks(self) -> int:
        """At how many looks the outcomes have been checked, with one at what there is now."""
        if not self.checked_runs:
            return max(sum(block.role != OPEN for block in self.blocks), 1)
        return len(self.checked_runs) + (self.n_closed not in self.checked_runs)

    @property
    def n_ends(self) -> int:
        """At how many ends the outcomes have been checked, with this one; 0 while runs are awaited."""
        if self.open_block is not None:
            return 0
        return len(self.checked_ends) + (self.n_closed > max(self.checked_ends, default=0))

    def block_numbers(self, trials: Numbers) -> Numbers:
        """The block of trials as people count it, from 1: runs that are made together, on one day or sheet.

        With a block size s these are trials 0 to s - 1, s to 2 s - 1, and so on, so a run that is asked for again is in
        the block in which it is made. Without one, all runs of a round are one block.
        """
        size = self.spec.block_size
        return 1 + (self.trials.block[trials].astype(np.int64) if size is None else trials // size)

    def rows_of(self, trials: Numbers) -> Numbers:
        """Where the rows of some trials are when all blocks are put one below the other."""
        begins = np.cumsum([0, *(block.n_runs for block in self.blocks)])
        found: Numbers = begins[self.trials.block[trials]] + self.trials.row[trials]
        return found

    def copy(self) -> "StudyState":
        """The same state, which stays as it is when this one goes on: for looking at it while others write."""
        twin = replace(self, blocks=[block.copy() for block in self.blocks], trials=self.trials.copy())
        for name in _LISTS:
            setattr(twin, name, copy(getattr(self, name)))
        return twin

    def apply(self, record: Record) -> None:
        """Take in the next event."""
        if record.seq != self.seq + 1:
            raise StudyError(f"event {record.seq} came after event {self.seq}; the log has a gap")
        event = record.event
        match event:
            case events.Told():
                self._told(event, record.at)
            case events.Asked():
                self._asked(event, record.at)
            case events.Renewed():
                self._renewed(event)
            case events.Decided():
                self._decided(event)
            case events.Opened():
                self._opened(event.batch)
            case events.Failed():
                self._again(event.trials, TrialState.FAIL)
                self.n_failed += len(event.trials)
            case events.Expired():
                self._again(event.trials, TrialState.STALE)
            case events.Corrected():
                self._corrected(event, record)
            case events.Revised():
                self._revised(event)
            case Imported():
                self.past.append(event)
            case events.Checked():
                self.doubts = event.doubts
                if event.n_runs in self.checked_runs:  # a look at the same runs once more, and the latest one
                    self.checked_runs.remove(event.n_runs)
                self.checked_runs.append(event.n_runs)
                if self.open_block is None and event.n_runs > max(self.checked_ends, default=0):
                    self.checked_ends.append(event.n_runs)
            case events.Excluded():
                self._excluded(event, record)
            case events.Finished():
                self._finished(event, record)
            case events.Continued():
                self.known[-1] = event.state
                self.ended = None
            case events.Restated():
                self._restated(event, record)
            case events.ConfirmationOpened():
                self._opened(event.batch, CONFIRMING)
            case events.ConfirmationClosed():
                self._confirmed()
            case events.Created():
                self.spec_, self.created_at = event.spec, record.at
        self.seq, self.updated_at = record.seq, record.at

    def _opened(self, batch: Batch, role: str = OPEN) -> None:
        n, first = batch.n_runs, self.trials.n_trials
        self.trials.grow(len(self.blocks), np.arange(n))
        self.fresh = first
        self.again.clear()
        holders = np.arange(first, first + n)
        observed = None if batch.is_global else batch.codes.copy()
        self.blocks.append(Block(batch, first, np.full(n, np.nan), holders, n, role, observed))

    def _confirmed(self) -> None:
        """End a confirmation: what the algorithm knows is the same after it as before."""
        self._abandon(self.blocks[-1])
        self.blocks[-1].role = CONFIRMATION
        self.known.append(self.known[-1])
        self.past_used.append(self.past_used[-1])

    def _asked(self, event: events.Asked, at: float) -> None:
        lease = len(self.leases)
        self.leases.append(Lease(event.worker, at, event.deadline))
        # whoever asks first expires what is over, so these leases hold nothing any more
        while self.expiring and self.expiring[0][0] <= at:
            heapq.heappop(self.expiring)
        if event.deadline is not None:
            heapq.heappush(self.expiring, (event.deadline, lease, tuple(event.trials.tolist())))
        self.trials.state[event.trials] = TrialState.RUNNING
        self.trials.lease[event.trials] = lease
        block = self.blocks[-1]
        new = event.trials[event.trials < block.first + block.n_runs]
        if new.size:
            self.fresh = int(new.max()) + 1
        self._forget_again()

    def _renewed(self, event: events.Renewed) -> None:
        """Each lease goes on as a new one, so that the entry with the old deadline holds nothing any more."""
        held = self.trials.lease[event.trials]
        for old in np.unique(held).tolist():
            lease, trials = len(self.leases), event.trials[held == old]
            self.leases.append(replace(self.leases[old], deadline=event.deadline))
            self.trials.lease[trials] = lease
            heapq.heappush(self.expiring, (event.deadline, lease, tuple(trials.tolist())))

    def _forget_again(self) -> None:
        while self.again and self.trials.state[self.again[0]] != TrialState.WAITING:
            self.again.popleft()

    def _told(self, event: events.Told, at: float) -> None:
        block = self.blocks[-1]
        rows = self.trials.row[event.trials]
        block.values[rows] = event.values
        if event.observed is not None and block.observed is not None:
            block.observed[rows] = self.spec.contract(event.observed)
        holders = block.holders[rows]
        others = holders[holders != event.trials]
        self.trials.state[others] = TrialState.ABANDONED
        block.holders[rows] = event.trials
        block.n_missing -= len(rows)
        self.trials.state[event.trials] = TrialState.COMPLETE
        self.trials.told_at[event.trials] = at
        if others.size:
            self._forget_again()

    def _again(self, which: Numbers, state: TrialState) -> None:
        block, first = self.blocks[-1], self.trials.n_trials
        rows = self.trials.row[which]
        self.trials.state[which] = state
        self.trials.grow(len(self.blocks) - 1, rows)
        new = np.arange(first, first + len(rows))
        block.holders[rows] = new
        self.again.extend(new.tolist())

    def _decided(self, event: events.Decided) -> None:
        self.known.append(event.state)
        self.past_used.append(event.past)
        if self.blocks:
            self.blocks[-1].role = AS_DESIGNED

    def _corrected(self, event: events.Corrected, record: Record) -> None:
        block, row = self.blocks[self.trials.block[event.trial]], self.trials.row[event.trial]
        block.values[row] = event.value
        observed: tuple[tuple[str, Level, Level], ...] = ()
        if event.observed is not None and block.observed is not None:
            before = self.spec.expand(block.observed[row : row + 1])[0].tolist()
            block.observed[row] = self.spec.contract(np.array([event.observed], dtype=np.int16))[0]
            pairs = zip(self.spec.space.factors, before, event.observed, strict=True)
            observed = tuple((f.name, f.levels[was], f.levels[now]) for f, was, now in pairs if was != now)
        if self.trials.state[event.trial] == TrialState.EXCLUDED:  # which counts again, so nobody need run it once more
            if block.holders[row] != event.trial:
                self.trials.state[block.holders[row]] = TrialState.ABANDONED
                block.holders[row] = event.trial
                self._forget_again()
            self.trials.state[event.trial] = TrialState.COMPLETE
            block.n_missing -= 1
            self.exclusions = [one for one in self.exclusions if one.trial != event.trial]
        self.excluded_last = False
        made = Correction(event.trial, event.before, event.value, event.reason, record.who, record.at)
        self.corrections.append(replace(made, observed=observed))

    def _revised(self, event: events.Revised) -> None:
        self.known[event.first + 1 :] = event.states
        # a block that the correction closed brings in whatever imports were waiting for it
        used = self.past_used[event.first + 1 :][: len(event.states)]
        used += [len(self.past)] * (len(event.states) - len(used))
        self.past_used[event.first + 1 :] = used
        for block, role in zip(self.blocks[event.first :], event.roles, strict=True):
            if block.role in (OPEN, CONFIRMING) and role != block.role:
                self._abandon(block)
            block.role = role
        if self.excluded_last:
            self.exclusions[-1] = replace(self.exclusions[-1], changes=event.changes)
        else:
            self.corrections[-1] = replace(self.corrections[-1], changes=event.changes)

    def _excluded(self, event: events.Excluded, record: Record) -> None:
        block, row = self.blocks[self.trials.block[event.trial]], self.trials.row[event.trial]
        block.values[row] = np.nan
        block.n_missing += 1
        if block.role in (OPEN, CONFIRMING):
            self._again(events.numbers(event.trial), TrialState.EXCLUDED)
        self.trials.state[event.trial] = TrialState.EXCLUDED
        self.exclusions.append(Exclusion(event.trial, event.before, event.reason, record.who, record.at))
        self.excluded_last = True

    def _finished(self, event: events.Finished, record: Record) -> None:
        if event.state is not None:
            self._close(event.state)
        self.ended = Note("ended", event.reason, record.who, record.at, self.n_complete)

    def _restated(self, event: events.Restated, record: Record) -> None:
        self.spec_ = event.spec
        self._close(event.state)
        for block in self.counted:
            block.role = AS_RUN
        self.restated, self.ended = len(self.blocks), None
        text = "; ".join(event.changes)
        self.restatements.append(Note(text, event.reason, record.who, record.at, self.n_complete))

    def _close(self, known: Any) -> None:
        """Put what is known now in place, and give up what is left of the open block: its outcomes are in that."""
        block = self.open_block
        if block is None:
            self.known[-1], self.past_used[-1] = known, len(self.past)
            return
        self._abandon(block)
        block.role = AS_RUN
        self.known.append(known)
        self.past_used.append(len(self.past))

    def _abandon(self, block: Block) -> None:
        """Give up what is left of a block."""
        left = self.trials.state[block.first : self.trials.n_trials]
        unfinished = (left == TrialState.WAITING) | (left == TrialState.RUNNING)
        left[unfinished] = TrialState.ABANDONED
        self.again.clear()
