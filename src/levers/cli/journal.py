"""`levers journal`: what workers on this machine have measured and not told yet."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from levers.cli.options import FormatOption, TokenOption, command, open_study, say_rows
from levers.cli.output import Format
from levers.errors import BusyWorkerError, InvalidSettingError, JournalError, StudyError
from levers.studies.analysis.describe import several, when
from levers.studies.workers.journal import Journal, Outcome, Owner, journal_folder, journals
from levers.studies.workers.worker import send as send_journal

if TYPE_CHECKING:
    from levers.studies.run import AnyStudy

journal_app = typer.Typer(
    name="journal",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="What workers on this machine have measured and not told yet.",
)
StudyArgument = Annotated[str | None, typer.Argument(metavar="NAME", help="Only of this study.")]
WhereOption = Annotated[
    str | None,
    typer.Option("--storage", help="The study's storage, where the journal does not have it whole (a password)."),
]


@dataclass(frozen=True, slots=True)
class Row:
    """An outcome that is not told."""

    study: str
    worker: str
    trial: int
    outcome: str
    measured: str
    standing: str
    address: str

    @classmethod
    def of(cls, owner: Owner, one: Outcome) -> "Row":
        """From a journal."""
        outcome = repr(one.value) if one.value is not None else f"failed: {one.failed}"
        standing = "to be told" if one.rejected is None else f"refused: {one.rejected}"
        return cls(owner.study, owner.worker, one.trial, outcome, when(one.at), standing, owner.address)


@journal_app.command("list")
def show(name: StudyArgument = None, output: FormatOption = Format.table) -> None:
    """List what is not told, and what a study refused.

    \b
    Example:
      levers journal list
    """
    rows = [Row.of(owner, one) for owner, found in _journals(name) for one in _outcomes(found)]
    say_rows(rows, output, f"Not told, in {journal_folder()}", ("address", "worker", "measured"), "everything is told")


@journal_app.command()
def send(name: StudyArgument = None, storage: WhereOption = None, token: TokenOption = None) -> None:
    """Tell what is not told. What a study refuses is said, and stays in the journal.

    \b
    Examples:
      levers journal send
      levers journal send oven --storage postgresql+psycopg://user:secret@host/database
    """
    n_told = n_left = 0
    for owner, _ in _journals(name):
        with _held(owner) as journal:
            n = len(journal.unsent)
            if not n:
                continue
            refused = send_journal(_study_of(owner, storage, token), journal)
            n_told += n - len(refused)
            for trial, error in refused.items():
                typer.echo(f"{owner.study}: trial {trial} was refused: {error}", err=True)
            n_left += len(refused)
    typer.echo(f"{several(n_told, 'outcome is', 'outcomes are')} told")
    if n_left:
        refused_words = several(n_left, "outcome was", "outcomes were")
        typer.echo(f"{refused_words} refused; look, then: {command('journal', 'drop', name or 'NAME')}", err=True)
        raise typer.Exit(2)


@journal_app.command()
def drop(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The study.")],
    trial: Annotated[list[int] | None, typer.Option(help="Only this trial; may be given more than once.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Forget outcomes that are not told, or were refused. There is no way back.

    \b
    Example:
      levers journal drop oven --trial 17
    """
    found = [
        (owner, one) for owner, kept in _journals(name) for one in _outcomes(kept) if not trial or one.trial in trial
    ]
    if not found:
        raise StudyError(f"nothing of {name!r} is in the journal; {command('journal', 'list')}")
    if not yes and not typer.confirm(f"forget {several(len(found), 'outcome', 'outcomes')} of {name!r}, for good?"):
        raise typer.Exit(1)
    for owner, one in found:
        with _held(owner) as journal:
            journal.drop(one.trial)
    typer.echo(f"{several(len(found), 'outcome is', 'outcomes are')} forgotten")


def _journals(name: str | None) -> list[tuple[Owner, Journal]]:
    found = [(one.owner, one) for one in journals() if one.owner is not None and name in (None, one.owner.study)]
    for owner, one in found:
        if one.n_unreadable:
            typer.echo(
                f"{several(one.n_unreadable, 'line', 'lines')} of {one.path} ({owner.study}) cannot be read", err=True
            )
    return found


def _outcomes(journal: Journal) -> list[Outcome]:
    return [*journal.unsent.values(), *journal.rejected.values()]


@contextmanager
def _held(owner: Owner) -> Iterator[Journal]:
    """A journal that no worker has now."""
    try:
        with Journal.open(owner) as journal:
            yield journal
    except BusyWorkerError:
        raise BusyWorkerError(f"worker {owner.worker!r} of {owner.study!r} is at work and tells it itself") from None


def _study_of(owner: Owner, storage: str | None, token: str | None) -> "AnyStudy":
    """The study that a journal is about, if it is still the same one."""
    study: AnyStudy
    if storage is None and owner.address.startswith(("http://", "https://")):
        from levers.client import Client

        study = Client(owner.address, token or None).study(owner.study)
    elif storage is None and ":***@" in owner.address:
        raise InvalidSettingError(f"a journal has no password: give --storage for {owner.address}")
    else:
        study = open_study(owner.study, storage or owner.address)
    if study.status().created_at != owner.created_at:
        raise JournalError(
            f"{owner.study!r} in {owner.address} is another study now than the one that was measured for; "
            f"{command('journal', 'drop', owner.study)} forgets its outcomes"
        )
    return study
