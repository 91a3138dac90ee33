"""Trials to a file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from levers.errors import SheetError
from levers.studies.sheet_runs import sheet_columns
from levers.studies.sheets import write_sheet
from levers.studies.trials import TrialState

if TYPE_CHECKING:
    from levers.studies.study import Study


def export_trials(study: "Study", path: str | os.PathLike[str]) -> None:
    """All trials that were handed out: .csv, .tsv or .xlsx as a sheet that `tell` and `import` read, or .parquet."""
    if Path(path).suffix.lower() == ".parquet":
        try:
            study.trials_dataframe().write_parquet(Path(path))
        except OSError as error:
            raise SheetError(f"cannot write {path}: {error}") from None
        return
    state = study.state
    states = state.trials.state[: state.trials.n_trials]
    which = np.flatnonzero(states != TrialState.WAITING)
    values = np.full(len(which), np.nan)
    complete = states[which] == TrialState.COMPLETE
    for i, block in enumerate(state.blocks):
        here = complete & (state.trials.block[which] == i)
        values[here] = block.values[state.trials.row[which[here]]]
    names = np.array([s.name for s in TrialState])[states[which]].tolist()
    write_sheet(path, state.spec.space, **sheet_columns(state, which), outcomes=values, states=names)
