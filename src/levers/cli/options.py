"""What the commands share: options, numbers as typed, opening a study, printing rows."""

import dataclasses
import json
import math
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import polars as pl
import typer
from typer.core import TyperCommand

from levers.cli.output import Format, console, rows_as_csv, rows_as_table
from levers.errors import InvalidSettingError, StudyError
from levers.studies.analysis.describe import several as several
from levers.studies.analysis.describe import when as when
from levers.studies.analysis.views import Status
from levers.studies.library import load_study
from levers.studies.sheets.cells import outcome_numbers
from levers.studies.state import Trial
from levers.studies.storage.registry import DEFAULT_STORAGE, VARIABLE
from levers.studies.study import Study

if TYPE_CHECKING:
    from levers.client import RemoteStudy

_NEGATIVE = re.compile(r"-[0-9.,][0-9.,eE+-]*")
_MINUS = "\u2212"


class CommandWithNumbers(TyperCommand):
    """A command whose arguments may be negative numbers. Whatever else begins with a dash has to be an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The minus of a number is spelt in a way that is no option; `outcome` reads both. All options take a value."""
        of_option = [False, *(arg.startswith("-") and "=" not in arg and not _NEGATIVE.fullmatch(arg) for arg in args)]
        given = [
            f"{_MINUS}{arg[1:]}" if _NEGATIVE.fullmatch(arg) and not taken else arg
            for arg, taken in zip(args, of_option, strict=False)
        ]
        parsed: list[str] = super().parse_args(ctx, given)
        return parsed


def trial_number(text: str) -> int:
    """A trial's number.

    >>> trial_number("x")
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: the trial must be a whole number, not 'x'
    """
    plain = text.strip().replace(_MINUS, "-")
    if not re.fullmatch(r"-?[0-9]{1,18}", plain):
        raise InvalidSettingError(f"the trial must be a whole number, not {plain!r}")
    return int(plain)


def outcome(text: str) -> float:
    """An outcome, read as in a sheet; nan is for a run that gave none.

    >>> outcome("1,5"), outcome("-2e3"), outcome("nan")
    (1.5, -2000.0, nan)
    """
    plain = text.strip().replace(_MINUS, "-")
    if plain.lower() == "nan":
        return math.nan
    values, faults = outcome_numbers(pl.Series([plain]), decimal_comma=False)
    if any(fault.places.size for fault in faults) and not math.isnan(values[0]):
        raise InvalidSettingError(next(fault.reason(0) for fault in faults if fault.places.size))
    if math.isnan(values[0]):
        raise InvalidSettingError(f"the outcome must be a number, not {plain!r}; `levers fail` reports a run without")
    return float(values[0])


Name = Annotated[str, typer.Argument(help="The study's name.", metavar="NAME", autocompletion=lambda: study_names())]
StorageOption = Annotated[
    str,
    typer.Option("--storage", envvar=VARIABLE, help="sqlite:///file.db or postgresql+psycopg://user@host/database."),
]
SheetOption = Annotated[Path | None, typer.Option("--sheet", help="A .csv, .tsv or .xlsx file.")]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print.")]
UrlOption = Annotated[
    str | None,
    typer.Option("--url", envvar="LEVERS_URL", help="A service that keeps the study, instead of a storage."),
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", envvar="LEVERS_TOKEN", help="The service's token; best in LEVERS_TOKEN, unseen."),
]
By = Annotated[str | None, typer.Option("--by", help="Who does this, for the log; your login name if not given.")]
DEFAULT = DEFAULT_STORAGE


def open_study(name: str, storage: str, by: str | None = None) -> Study:
    """A study that exists; a file that does not is not made by looking for it."""
    check_exists(name, storage)
    return load_study(name, storage, who=by)


def reach_study(context: typer.Context, name: str) -> "Study | RemoteStudy":
    """A study here, or the one that a service keeps, as the command's options say."""
    given = context.params
    url, by = given["url"], given.get("by")
    if url is None or (_typed(context, "storage") and not _typed(context, "url")):
        return open_study(name, given["storage"], by)  # what is typed counts more than a variable
    if _typed(context, "storage"):
        raise InvalidSettingError("give --url for a study that a service keeps, or --storage, and not both")
    if by is not None:
        raise InvalidSettingError("--by is for studies here; a service has the name from the token's note")
    from levers.client import Client

    return Client(url, given["token"] or None).study(name)


def at_url(context: typer.Context, *words: object) -> str:
    """Like `command`, with the service's address if that was typed."""
    return command(*words, *(("--url", context.params["url"]) if _typed(context, "url") else ()))


def _typed(context: typer.Context, option: str) -> bool:
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def check_exists(name: str, storage: str) -> None:
    """Refuse a SQLite file that is not there."""
    path = missing_file(storage)
    if path is not None:
        raise StudyError(
            f"there is no study {name!r}: {path} does not exist here; `levers create` makes one, "
            f"--storage or {VARIABLE} says where studies are"
        )


def missing_file(storage: str) -> str | None:
    """The file of a SQLite storage that does not exist; None when it does, or when the storage is no file."""
    from levers.studies.storage.sql import parse_url  # SQLAlchemy takes a while to import

    url = parse_url(storage)
    path = url.database if url.get_backend_name() == "sqlite" else None
    return path if path is not None and not Path(path).exists() else None


def study_names() -> list[str]:
    """Names for shell completion; silence when there is nothing to open."""
    from levers.errors import LeversError
    from levers.studies.library import list_studies
    from levers.studies.storage.registry import default_storage

    try:
        check_exists("", default_storage())
        return list_studies(default_storage())
    except LeversError:
        return []


def command(*words: object) -> str:
    """A command that can be pasted into a shell, for a hint.

    >>> command("ask", "line 3", "--again")
    "levers ask 'line 3' --again"
    """
    return shlex.join(["levers", *map(str, words)])


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


def say_rows(rows: Sequence[Any], output: Format, title: str, drop: Iterable[str] = (), nothing: str = "") -> None:
    """Print dataclass rows as asked. `drop` names columns to leave out of a table that is too wide."""
    if output is Format.json:
        say_json(list(rows))
    elif not rows:
        typer.echo(nothing or "nothing yet", err=output is Format.csv)
    elif output is Format.csv:
        typer.echo(rows_as_csv(rows))
    else:
        out = console()
        out.print(rows_as_table(rows, title, out.width, drop))


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A study in a list."""

    drop: ClassVar[tuple[str, ...]] = ("updated", "goal", "algorithm", "n_factors", "to_go", "n_complete", "state")
    """Columns that a narrow screen goes without, the least important first."""

    name: str
    state: str
    algorithm: str
    goal: str
    n_factors: int
    n_complete: int
    to_go: int | None
    updated: str

    @classmethod
    def of(cls, status: Status) -> "StudyRow":
        """From its status."""
        likely = status.to_go.likely
        return cls(
            status.name,
            status.state,
            status.algorithm,
            status.goal,
            status.n_factors,
            status.n_complete,
            likely,
            when(status.updated_at),
        )


def trial_row(trial: Trial, block: int) -> dict[str, Any]:
    """A trial as one flat record."""
    return {
        "trial": trial.number,
        "block": block,
        "state": trial.state.name,
        **trial.params,
        "outcome": trial.value,
    }
