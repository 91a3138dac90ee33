"""What the study commands share: options, opening a study, printing rows."""

import dataclasses
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from levers.cli.render import Format, console, rows_as_csv, rows_as_table
from levers.errors import StudyError
from levers.studies.managing import load_study
from levers.studies.storage.choice import DEFAULT_STORAGE, VARIABLE
from levers.studies.study import Study

Name = Annotated[str, typer.Argument(help="The study's name.", metavar="NAME", autocompletion=lambda: study_names())]
StorageOption = Annotated[
    str,
    typer.Option("--storage", envvar=VARIABLE, help="sqlite:///file.db or postgresql+psycopg://user@host/database."),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print.")]
By = Annotated[str | None, typer.Option("--by", help="Who does this, for the log; your login name if not given.")]
DEFAULT = DEFAULT_STORAGE


def open_study(name: str, storage: str, by: str | None = None) -> Study:
    """A study that exists; a file that does not is not made by looking for it."""
    check_exists(name, storage)
    return load_study(name, storage, who=by)


def check_exists(name: str, storage: str) -> None:
    """Refuse a SQLite file that is not there."""
    path = storage.removeprefix("sqlite:///") if storage.startswith("sqlite:///") else None
    if path and not Path(path).exists():
        raise StudyError(
            f"there is no study {name!r}: {path} does not exist here; `levers create` makes one, "
            f"--storage or {VARIABLE} says where studies are"
        )


def study_names() -> list[str]:
    """Names for shell completion; silence when there is nothing to open."""
    from levers.errors import LeversError
    from levers.studies.managing import list_studies
    from levers.studies.storage.choice import default_storage

    try:
        check_exists("", default_storage())
        return list_studies(default_storage())
    except LeversError:
        return []


def plain(value: Any) -> Any:
    """Values that JSON can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def say_json(value: Any) -> None:
    """Print as JSON."""
    typer.echo(json.dumps(plain(value), indent=2, allow_nan=False))


def say_rows(rows: Sequence[Any], output: Format, title: str) -> None:
    """Print dataclass rows as asked."""
    if output is Format.json:
        say_json(list(rows))
    elif not rows:
        typer.echo("nothing yet")
    elif output is Format.csv:
        typer.echo(rows_as_csv(rows))
    else:
        console().print(rows_as_table(rows, title))


def when(seconds: float) -> str:
    """A moment, in UTC.

    >>> when(0.0)
    '1970-01-01 00:00:00Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
