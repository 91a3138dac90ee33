"""Trials as tables and files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from levers.core.codec import to_json
from levers.core.space import FREE, Level
from levers.errors import InvalidSettingError, SheetError, to_install
from levers.studies.events import Numbers, Values
from levers.studies.sheets.cells import printed
from levers.studies.sheets.files import target_of, whole_file
from levers.studies.sheets.runs import had_codes, sheet_columns, trial_codes
from levers.studies.sheets.write import write_sheet
from levers.studies.state import StudyState, TrialState

if TYPE_CHECKING:
    from levers.studies.study import Study


def trials_frame(state: StudyState) -> pl.DataFrame:
    """One row per trial: number, block, stage, state, a column for each factor, outcome, worker, times.

    A lever that was left alone has no level there; the column `observed:heat` says which one it took.
    """
    table, n = state.trials, state.trials.n_trials
    blocks = table.block[:n]
    codes, outcome = trial_codes(state, np.arange(n)), trial_outcomes(state, np.arange(n))
    complete = table.state[:n] == TrialState.COMPLETE
    had = had_codes(state, np.arange(n)) if state.spec.free else codes
    names = np.array([s.name for s in TrialState])
    stages = np.array([block.batch.stage for block in state.blocks] or [""])
    workers = pl.Series([lease.worker for lease in state.leases] or [""], dtype=pl.String)
    lease = pl.Series(np.maximum(table.lease[:n], 0))
    asked = np.array([lease.at for lease in state.leases] or [np.nan])
    never = table.lease[:n] < 0
    columns: dict[str, pl.Series] = {
        "trial": pl.Series(np.arange(n)),
        "block": pl.Series(state.block_numbers(np.arange(n))),
        "stage": pl.Series(stages[blocks], dtype=pl.String),
        "state": pl.Series(names[table.state[:n]], dtype=pl.String),
    }
    for k, factor in enumerate(state.spec.space.factors):
        columns[factor.name] = level_column(factor.levels, codes[:, k])
        if factor.name in state.spec.free:
            alone = complete & (codes[:, k] == FREE)
            columns[f"observed:{factor.name}"] = level_column(factor.levels, np.where(alone, had[:, k], FREE))
    columns |= {
        "outcome": pl.Series(outcome).fill_nan(None),
        "worker": workers.gather(lease).set(pl.Series(never), None),
        "asked_at": _times(np.where(never, np.nan, asked[np.maximum(table.lease[:n], 0)])),
        "told_at": _times(np.where(complete, table.told_at[:n], np.nan)),
    }
    return pl.DataFrame(columns)


def frame_as_csv(frame: pl.DataFrame) -> str:
    """A table as CSV text in which no spreadsheet takes a name, a level or a worker for a formula.

    >>> print(frame_as_csv(pl.DataFrame({"=x": ["-5", "@y"], "n": [-5, None]})), end="")
    '=x,n
    -5,-5
    '@y,
    """
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    safe = {name: pl.Series([None if text is None else printed(text) for text in frame[name]]) for name in texts}
    made = frame.with_columns([column.cast(pl.String).alias(name) for name, column in safe.items()])
    return made.rename({name: printed(name) for name in frame.columns}).write_csv()


def trial_outcomes(state: StudyState, trials: Numbers) -> Values:
    """The outcomes of trials, NaN for those that have none."""
    outcomes = np.concatenate([np.zeros(0), *(block.values for block in state.blocks)])[state.rows_of(trials)]
    return np.where(state.trials.state[trials] == TrialState.COMPLETE, outcomes, np.nan)


def as_pandas(frame: pl.DataFrame) -> Any:
    """The same as a pandas frame, without the Arrow library that polars' own way would need.

    Columns keep their kind, also where there are no rows: times are times, and a number that is missing is NaN.

    >>> as_pandas(pl.DataFrame({"heat": ["low", None], "n": [1, 2], "outcome": [1.5, None]})).dtypes["n"]
    dtype('int64')
    """
    try:
        import pandas
    except ModuleNotFoundError:
        raise InvalidSettingError(
            f"pandas is not installed: {to_install('pandas')}, or take the polars frame"
        ) from None
    columns = {}
    for name, column in frame.to_dict().items():
        if isinstance(column.dtype, pl.Datetime):
            stamps = pandas.Series(column.dt.replace_time_zone(None).to_numpy())
            zone = column.dtype.time_zone
            columns[name] = stamps if zone is None else stamps.dt.tz_localize(zone)
        elif column.dtype == pl.String:
            columns[name] = pandas.Series(column.to_list(), dtype=object)
        else:
            columns[name] = pandas.Series(column.to_numpy())
    return pandas.DataFrame(columns)


def level_column(levels: tuple[Level, ...], codes: "np.ndarray[tuple[int], np.dtype[np.int16]]") -> pl.Series:
    """A factor's levels by position, null where it has none (FREE): as numbers when all are numbers, else as text."""
    kinds = {type(level) for level in levels}
    if len(kinds) > 1:
        levels = tuple(map(float if kinds <= {int, float} else str, levels))
    return pl.Series([*levels, None]).gather(pl.Series(np.where(codes == FREE, len(levels), codes)))


def _times(seconds: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> pl.Series:
    whole = pl.Series(seconds).fill_nan(None) * 1_000_000
    return whole.cast(pl.Int64).cast(pl.Datetime("us", "UTC"))


SUFFIXES = (".csv", ".tsv", ".xlsx", ".parquet", ".json")
"""How the name of an exported file may end."""


def export_study(study: "Study", path: str | os.PathLike[str]) -> None:
    """All trials that were handed out, as `export_trials` writes them; or the verdict, as .json for `levers.verify`."""
    target, suffix = target_of(path, SUFFIXES, SheetError)
    if suffix != ".json":
        export_trials(study, target)
        return
    text = to_json(study.verdict()) + "\n"
    with whole_file(target, SheetError) as file:
        file.write(text.encode())


def export_trials(study: "Study", path: str | os.PathLike[str]) -> None:
    """All trials that were handed out: .csv, .tsv or .xlsx as a sheet that `tell` and `import` read, or .parquet."""
    state = study.frozen()  # others may write meanwhile
    if Path(path).suffix.lower() == ".parquet":
        with whole_file(Path(path), SheetError) as file:
            trials_frame(state).write_parquet(file)
        return
    states = state.trials.state[: state.trials.n_trials]
    which = np.flatnonzero(states != TrialState.WAITING)
    values = trial_outcomes(state, which)
    names = np.array([s.name for s in TrialState])[states[which]].tolist()
    write_sheet(path, state.spec.space, **sheet_columns(state, which, values, names, study.name))
