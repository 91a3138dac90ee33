"""Trials, or the verdict, to a file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from levers.core.codec import to_json
from levers.errors import SheetError
from levers.studies.frames import trials_frame
from levers.studies.sheet_runs import block_numbers, sheet_columns
from levers.studies.sheets import write_sheet
from levers.studies.trials import TrialState

if TYPE_CHECKING:
    from levers.studies.study import Study


SUFFIXES = (".csv", ".tsv", ".xlsx", ".parquet", ".json")
"""How the name of an exported file may end."""


def export_study(study: "Study", path: str | os.PathLike[str]) -> None:
    """All trials that were handed out, as `export_trials` writes them; or the verdict, as .json for `levers.verify`."""
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise SheetError(f"cannot write {str(target)!r}: its name must end in {', '.join(SUFFIXES[:-1])} or .json")
    if not target.parent.is_dir():
        raise SheetError(f"cannot write {str(target)!r}: there is no folder {str(target.parent)!r}")
    if suffix != ".json":
        export_trials(study, target)
        return
    text = to_json(study.verdict()) + "\n"
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SheetError(f"cannot write {str(target)!r}: {error.strerror or error}") from error


def export_trials(study: "Study", path: str | os.PathLike[str]) -> None:
    """All trials that were handed out: .csv, .tsv or .xlsx as a sheet that `tell` and `import` read, or .parquet."""
    state = study.frozen()  # others may write meanwhile
    if Path(path).suffix.lower() == ".parquet":
        frame = trials_frame(state)
        blocks = pl.Series("block", block_numbers(state, frame["trial"].to_numpy()))
        try:
            frame.with_columns(blocks).write_parquet(Path(path))
        except OSError as error:
            raise SheetError(f"cannot write {str(path)!r}: {error.strerror or error}") from None
        return
    states = state.trials.state[: state.trials.n_trials]
    which = np.flatnonzero(states != TrialState.WAITING)
    values = np.full(len(which), np.nan)
    complete = states[which] == TrialState.COMPLETE
    for i, block in enumerate(state.blocks):
        here = complete & (state.trials.block[which] == i)
        values[here] = block.values[state.trials.row[which[here]]]
    names = np.array([s.name for s in TrialState])[states[which]].tolist()
    write_sheet(path, state.spec.space, **sheet_columns(state, which), outcomes=values, states=names)
