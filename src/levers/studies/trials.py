"""Trials: rows of the design that were handed out, and what became of them."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from levers.core.space import Assignment


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


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: what to set, and what came of it."""

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

    def grow(self, block: int, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
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
