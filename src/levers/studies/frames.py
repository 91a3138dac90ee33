"""Trials as tables."""

from typing import Any

import numpy as np
import polars as pl

from levers.core.space import Level
from levers.errors import InvalidSettingError
from levers.studies.fold import StudyState
from levers.studies.trials import TrialState


def trials_frame(state: StudyState) -> pl.DataFrame:
    """One row per trial: number, block, stage, state, a column for each factor, outcome, worker, times."""
    table, n = state.trials, state.trials.n_trials
    blocks, rows = table.block[:n], table.row[:n]
    codes = np.empty((n, state.spec.space.n_factors), dtype=np.int16)
    outcome = np.full(n, np.nan)
    for i, block in enumerate(state.blocks):
        here = blocks == i
        codes[here] = state.spec.merging.expand(block.batch.codes)[rows[here]]
        outcome[here] = block.values[rows[here]]
    complete = table.state[:n] == TrialState.COMPLETE
    outcome[~complete] = np.nan
    names = np.array([s.name for s in TrialState])
    stages = np.array([block.batch.stage for block in state.blocks] or [""])
    workers = pl.Series([lease.worker for lease in state.leases] or [""], dtype=pl.String)
    lease = pl.Series(np.maximum(table.lease[:n], 0))
    asked = np.array([lease.at for lease in state.leases] or [np.nan])
    never = table.lease[:n] < 0
    told_at = np.where(complete, table.told_at[:n], np.nan)
    columns: dict[str, pl.Series] = {
        "trial": pl.Series(np.arange(n)),
        "block": pl.Series(blocks + 1),
        "stage": pl.Series(stages[blocks], dtype=pl.String),
        "state": pl.Series(names[table.state[:n]], dtype=pl.String),
    }
    for k, factor in enumerate(state.spec.space.factors):
        columns[factor.name] = level_column(factor.levels, codes[:, k])
    columns |= {
        "outcome": pl.Series(outcome).fill_nan(None),
        "worker": workers.gather(lease).set(pl.Series(never), None),
        "asked_at": _times(np.where(never, np.nan, asked[np.maximum(table.lease[:n], 0)])),
        "told_at": _times(told_at),
    }
    return pl.DataFrame(columns)


def as_pandas(frame: pl.DataFrame) -> Any:
    """The same as a pandas frame, without the Arrow library that polars' own way would need."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise InvalidSettingError("pandas is not installed; install it, or take the polars frame") from None
    return pandas.DataFrame(frame.to_dict(as_series=False))


def level_column(levels: tuple[Level, ...], codes: "np.ndarray[tuple[int], np.dtype[np.int16]]") -> pl.Series:
    """A factor's levels by position: as numbers when all are numbers, else as text."""
    kinds = {type(level) for level in levels}
    if len(kinds) == 1:
        return pl.Series(list(levels)).gather(pl.Series(codes))
    if kinds <= {int, float}:
        return pl.Series([float(level) for level in levels]).gather(pl.Series(codes))
    return pl.Series([str(level) for level in levels]).gather(pl.Series(codes))


def _times(seconds: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> pl.Series:
    whole = pl.Series(seconds).fill_nan(None) * 1_000_000
    return whole.cast(pl.Int64).cast(pl.Datetime("us", "UTC"))
