"""`levers trials`, `export`: every run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levers.cli.common import DEFAULT, FormatOption, Name, StorageOption, open_study
from levers.cli.render import Format, as_table, console, level_text, table_width
from levers.errors import InvalidSettingError
from levers.studies.sheet_runs import block_numbers
from levers.studies.trials import TrialState

if TYPE_CHECKING:
    import polars

MOST_ROWS = 50


def trials(
    name: Name,
    state: Annotated[str | None, typer.Option(help="Only those in this state, for example running.")] = None,
    storage: StorageOption = DEFAULT,
    output: FormatOption = Format.table,
) -> None:
    """List the trials.

    \b
    Example:
      levers trials oven --state running --format csv
    """
    import polars as pl

    study = open_study(name, storage)
    frame = study.trials_dataframe()
    frame = frame.with_columns(pl.Series("block", block_numbers(study.state, frame["trial"].to_numpy())))
    if state is not None:
        known = [s.name for s in TrialState]
        if state.upper() not in known:
            raise InvalidSettingError(f"there is no state {state!r}; states are {', '.join(known)}")
        frame = frame.filter(frame["state"] == state.upper())
    if output is Format.json:
        typer.echo(frame.write_json())
    elif output is Format.csv:
        typer.echo(frame.write_csv().rstrip("\n"))
    else:
        _print(frame, study.space.names)


def _print(frame: "polars.DataFrame", factors: tuple[str, ...]) -> None:
    """A table of the first trials, with as many factors as the screen is wide enough for."""
    out, first = console(), frame.head(MOST_ROWS)
    columns = {name: [level_text(value) for value in first[name]] for name in ("trial", "block", "state")}
    outcome = ["-" if value is None else f"{value:.6g}" for value in first["outcome"]]
    shown: dict[str, list[str]] = {}
    for factor in factors:
        tried = {**shown, factor: [level_text(value) for value in first[factor]]}
        if table_width({**columns, **tried, "outcome": outcome}) > out.width:
            break
        shown = tried
    title = f"{frame.height} trials"
    if frame.height > MOST_ROWS:
        title += f", the first {MOST_ROWS} shown"
    if len(shown) < len(factors):
        title += f", {len(factors) - len(shown)} of {len(factors)} factors left out"
    complete = frame.height <= MOST_ROWS and len(shown) == len(factors)
    typer.echo(title if complete else f"{title}; --format csv has all")
    out.print(as_table({**columns, **shown, "outcome": outcome}, {"state", *shown}))


def export(
    name: Name,
    output: Annotated[Path, typer.Option("-o", "--output", help="A .csv, .xlsx, .parquet or .json file.")],
    storage: StorageOption = DEFAULT,
) -> None:
    """Write everything that was run to a file; .json is the whole verdict, for `levers.verify`.

    \b
    Examples:
      levers export oven -o trials.csv
      levers export oven -o verdict.json
    """
    from levers.studies.exporting import export_study

    export_study(open_study(name, storage), output)
    typer.echo(f"wrote {output}")
