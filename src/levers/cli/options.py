"""What the commands share: options, numbers as typed, opening a study, printing rows."""

import dataclasses
import functools
import inspect
import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from levers.algorithms.base import Remark
from levers.cli.output import Format, console, rows_as_csv, rows_as_table
from levers.core.space import Level, Space
from levers.core.validation import visible
from levers.errors import InvalidSettingError, StudyError
from levers.studies.analysis.describe import several
from levers.studies.library import (
    DEFAULT_STORAGE,
    VARIABLE,
    copy_study,
    create_study,
    delete_study,
    load_study,
    merge_study,
)
from levers.studies.settings import settings_of
from levers.studies.sheets.cells import typed_number
from levers.studies.study import Study

if TYPE_CHECKING:
    from levers.client import Client, RemoteStudy

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
    if text.strip().lower() == "nan":
        return math.nan
    return typed_number(text, hint="; `levers fail` reports a run without")


Name = Annotated[str, typer.Argument(help="The study's name.", metavar="NAME", autocompletion=lambda: study_names())]
StorageOption = Annotated[
    str,
    typer.Option("--storage", envvar=VARIABLE, help="sqlite:///file.db or postgresql+psycopg://user@host/database."),
]
SheetOption = Annotated[Path | None, typer.Option("--sheet", help="A .csv, .tsv or .xlsx file.")]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print.")]
UrlOption = Annotated[
    str | None, typer.Option("--url", envvar="LEVERS_URL", help="A service that keeps the study, instead of a storage.")
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", envvar="LEVERS_TOKEN", help="The service's token; best in LEVERS_TOKEN, unseen."),
]
By = Annotated[str | None, typer.Option("--by", help="Who does this, for the log; your login name if not given.")]
HostOption = Annotated[str, typer.Option(help="The address to listen on; only a loopback one works without a token.")]
PortOption = Annotated[int, typer.Option(help="The port; 0 takes a free one.")]
RequireTokenOption = Annotated[
    bool, typer.Option("--require-token", help="Ask for a token on a loopback address too, as behind a proxy.")
]
DEFAULT = DEFAULT_STORAGE
LOOPBACK = "127.0.0.1"
"""Where a service listens if not said otherwise: nobody else can reach it there."""
PATIENCE = 10.0
"""For how many seconds a command tries a service that does not answer: somebody waits, and a restart takes less."""
_PLACE = {"storage": (StorageOption, DEFAULT), "url": (UrlOption, None), "token": (TokenOption, None)}
"""Options that say where a study is."""

Command = Callable[..., None]


def with_settings(face: str) -> Callable[[Command], Command]:
    """A command with an option for each setting of a study; they come as keyword arguments."""

    def decorate(command: Command) -> Command:
        made = {}
        for setting in settings_of(face):
            if setting.kind not in ("combinations", "groups", "names"):  # which the command line spells in its own way
                default = setting.default
                kind = setting.type if default is not None else setting.type | None
                names = (f"--{setting.name.replace('_', '-')}", *setting.flags)
                made[setting.name] = (Annotated[kind, typer.Option(*names, help=setting.help)], default)
        return _with_options(command, made)

    return decorate


def on_study(*, by: bool = False) -> Callable[[Command], Command]:
    """A command about one study, which gets it as its first argument: from a storage, or from a service.

    It has options that say where the study is and, with `by`, who changes it.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def reach(context: typer.Context, name: str, **given: Any) -> None:
            own = {key: value for key, value in given.items() if key not in (*_PLACE, "by")}
            command(Reached(context, name), **own)

        named = {"context": (typer.Context, Parameter.empty), "name": (Name, Parameter.empty)}
        return _with_options(reach, {**_PLACE, **({"by": (By, None)} if by else {})}, named)

    return decorate


def _with_options(command: Command, more: Mapping[str, Any], first: Mapping[str, Any] | None = None) -> Command:
    """The command with these options behind its own (the format stays last), and others instead of its first argument.

    Typer makes a command's options from its signature.
    """
    own = list(inspect.signature(command).parameters.values())
    own = [one for one in own[0 if first is None else 1 :] if one.kind is not Parameter.VAR_KEYWORD]
    made = [
        [Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind) for name, (kind, default) in some]
        for some in ((first or {}).items(), more.items())
    ]
    last = [one for one in own if one.name in ("storage", "output")]
    all_of_them = [*made[0], *(one for one in own if one not in last), *made[1], *last]
    command.__signature__ = Signature(  # type: ignore[attr-defined]
        [one.replace(kind=Parameter.KEYWORD_ONLY) for one in all_of_them]
    )
    return command


class Reached:
    """The study that a command is about, and how the command was called."""

    def __init__(self, context: typer.Context, name: str) -> None:
        self.context = context
        self.name = name
        self.studies = studies_in(context)
        by = context.params.get("by")
        if isinstance(self.studies, StudiesHere):
            self.study: Study | RemoteStudy = open_study(name, self.studies.storage, by)
        elif by is not None:
            raise InvalidSettingError("--by is for studies here; a service has the name from the token's note")
        else:
            self.study = self.studies.study(name)

    def command(self, *words: object) -> str:
        """Another command about it."""
        return command_there(self.context, words[0], self.name, *words[1:])

    def standing(self) -> str:
        """Where the study stands after a change, and what to do next, in a line for each."""
        found = self.study.status()
        if found.state == "running":
            return f"{several(found.n_complete, 'outcome', 'outcomes')} so far; {found.to_go}"
        if found.state == "confirming":
            to_go = f"{several(found.to_go.now, 'fresh run', 'fresh runs')} to go: {self.command('ask')}"
            return "\n".join([*doubt_lines(found.doubts), f"confirming the verdict, {to_go}"])
        if found.state == "finished":
            how = "finished in doubt" if found.doubts else "finished"
            return "\n".join([*doubt_lines(found.doubts), f"{how}: {self.command('verdict')}"])
        return "\n".join([*doubt_lines(found.doubts), f"in doubt, and not finished: {self.command('verdict')}"])


def doubt_lines(doubts: Sequence[Remark]) -> list[str]:
    """What speaks against a verdict, a line each."""
    return [f"IN DOUBT: {visible(doubt.text)}" for doubt in doubts]


def service(context: typer.Context) -> "Client | None":
    """The service that a command's options name, or None for a storage. What is typed counts more than a variable."""
    url = context.params["url"]
    if url is None or (was_typed(context, "storage") and not was_typed(context, "url")):
        return None
    if was_typed(context, "storage"):
        raise InvalidSettingError("give --url for a study that a service keeps, or --storage, and not both")
    from levers.client import Client

    return Client(url, context.params["token"] or None, patience=PATIENCE)


@dataclasses.dataclass(frozen=True)
class StudiesHere:
    """The studies of a storage, with the verbs of a `Client`, so that a command says each of them once."""

    storage: str

    def create_study(self, name: str, space: Space | Mapping[str, Sequence[Level]], **settings: Any) -> Study:
        """Begin a study."""
        return create_study(name, space, storage=self.storage, **settings)

    def copy_study(self, name: str, new_name: str) -> Study:
        """Copy a study with its whole log, under another name."""
        return copy_study(name, new_name, self.storage)

    def merge_study(
        self, name: str, new_name: str, factors: Sequence[str], *, budget: int | None = None, seed: int | None = None
    ) -> Study:
        """Begin a study in which some levers of another are studied as one."""
        return merge_study(name, new_name, factors, self.storage, budget=budget, seed=seed)

    def delete_study(self, name: str) -> None:
        """Remove a study and everything that was told to it."""
        delete_study(name, self.storage)


def studies_in(context: typer.Context) -> "StudiesHere | Client":
    """The studies that a command is about: those of a service, or of a storage."""
    client = service(context)
    return StudiesHere(context.params["storage"]) if client is None else client


def kept_in(study: "Study | RemoteStudy") -> str:
    """Where a study is: its storage as it was typed, or the service's address."""
    return study.storage.url if isinstance(study, Study) else str(study.address)


def open_study(name: str, storage: str, by: str | None = None) -> Study:
    """A study that exists; a file that does not is not made by looking for it."""
    check_exists(name, storage)
    return load_study(name, storage, who=by)


def was_typed(context: typer.Context, option: str) -> bool:
    """Whether somebody typed this option of a command, by its name in Python."""
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
    if re.fullmatch(r"sqlite:///[\w./-]+", storage) and not os.path.exists(storage.removeprefix("sqlite:///")):
        return storage.removeprefix("sqlite:///")  # the usual case, without SQLAlchemy
    if not storage.startswith("sqlite"):
        return None
    from levers.studies.storage.sql import parse_url  # SQLAlchemy takes a while to import

    url = parse_url(storage)
    path = url.database if url.get_backend_name() == "sqlite" else None
    return path if path is not None and not Path(path).exists() else None


def check_port(port: int) -> None:
    """Refuse what is no port, before anything is opened.

    >>> check_port(8080)
    """
    if not 0 <= port <= 65535:
        raise InvalidSettingError(f"a port is 0 to 65535, not {port}")


def study_names() -> list[str]:
    """Names for shell completion; silence when there is nothing to open."""
    from levers.errors import LeversError
    from levers.studies.library import default_storage, list_studies

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


def command_there(context: typer.Context, *words: object) -> str:
    """A command for a hint, about what this one is about: with the service's address if that was typed."""
    return command(*words, *(("--url", context.params["url"]) if was_typed(context, "url") else ()))


def say_json(value: Any) -> None:
    """Print as JSON, dataclasses too."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False, default=dataclasses.asdict))


def say_rows(
    rows: Sequence[Any],
    output: Format,
    title: str,
    drop: Iterable[str] = (),
    nothing: str = "",
    never: Iterable[str] = (),
) -> None:
    """Print dataclass rows as asked. `drop` names columns to leave out of a table that is too wide, `never` of all."""
    if output is Format.json:
        say_json(list(rows))
    elif not rows:
        typer.echo(nothing or "nothing yet", err=output is Format.csv)
    elif output is Format.csv:
        typer.echo(rows_as_csv(rows))
    else:
        out = console()
        out.print(rows_as_table(rows, title, out.width, drop, never))
