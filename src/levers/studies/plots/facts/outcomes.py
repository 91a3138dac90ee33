"""Every outcome in the order of telling, as arrays."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from levers.studies.events import Numbers
from levers.studies.fold import SET_ASIDE, StudyState
from levers.studies.trials import TrialState


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Outcomes as they came: trial, block and value of each, and whether it was set aside.

    `starts` says where a block begins; its last entry is where the last one ends.
    """

    trials: Numbers
    blocks: NDArray[np.int32]
    values: NDArray[np.float64]
    aside: NDArray[np.bool_]
    starts: list[int]

    @classmethod
    def of(cls, state: StudyState) -> "Outcomes":
        """Sorted by block first, since blocks follow each other even where clocks of several machines do not agree."""
        table = state.trials
        done = np.flatnonzero(table.state[: table.n_trials] == TrialState.COMPLETE)
        done = done[np.lexsort((done, table.told_at[done], table.block[done]))]
        blocks = table.block[done]
        flat = np.concatenate([np.zeros(0), *(block.values for block in state.blocks)])
        begins = np.cumsum([0, *(block.n_runs for block in state.blocks)])
        aside = np.isin(blocks, [i for i, block in enumerate(state.blocks) if block.role == SET_ASIDE])
        starts = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(done)]
        return cls(done, blocks, flat[begins[blocks] + table.row[done]], aside, starts if len(done) else [0])

    @property
    def n_outcomes(self) -> int:
        """How many."""
        return len(self.values)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First and past-last outcome of each block."""
        return list(pairwise(self.starts))

    @property
    def means(self) -> list[float]:
        """The mean of each block."""
        return [float(self.values[begin:end].mean()) for begin, end in self.spans]
