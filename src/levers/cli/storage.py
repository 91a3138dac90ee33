"""`levers storage check`, `backup`, `restore` and `repair`: looking after a whole storage."""

from pathlib import Path
from typing import Annotated

import typer

from levers.cli.service import _STORAGE, _check_there, storage_app
from levers.studies.library import default_storage

__all__ = ["storage_app"]

DAMAGED = 6
"""The exit code of a storage that is not as it was written, as of a study that is not."""
UNCHECKED = 2
"""The exit code where rows could not be looked at: something is to be done first, as after wrong input."""
_Url = Annotated[str | None, typer.Argument(metavar="STORAGE", help=_STORAGE)]


@storage_app.command()
def check(url: _Url = None) -> None:
    """Look at everything in a storage: pages, tables, every digest of every row. Others may go on writing to it.

    Exit code 6: something is not as it was written; 2: it is of an older version, and has to be upgraded first.

    \b
    Example:
      levers storage check sqlite:///levers.db
    """
    from levers.studies.storage.care.check import MOST_SHOWN, check_storage

    storage = url or default_storage()
    _check_there(storage, "there is no storage to check")
    report = check_storage(storage)
    for note in report.notes:
        typer.echo(f"note: {note}", err=True)
    for damage in report.damages[:MOST_SHOWN]:
        typer.echo(str(damage))
    if report.ok:
        typer.echo(_counted("as it was written", report.counts))
        return
    if report.unchecked:
        typer.echo(f"not checked: {report.unchecked}", err=True)
    if not report.damages:
        raise typer.Exit(UNCHECKED)
    more = len(report.damages) - MOST_SHOWN
    typer.echo(f"and {more:,} more" if more > 0 else "`levers storage repair` saves what can be read", err=True)
    raise typer.Exit(DAMAGED)


@storage_app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup: one SQLite file, of either database.")],
    url: _Url = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that exists.")] = False,
) -> None:
    """Copy a whole storage into one file, while others write to it: logs, answers and tokens. The copy is checked.

    \b
    Examples:
      levers storage backup saved.db
      levers storage backup saved.db postgresql+psycopg://ann@localhost/studies
    """
    from levers.studies.storage.care.backup import backup_storage

    storage = url or default_storage()
    _check_there(storage, "there is no storage to copy")
    report = backup_storage(storage, file, force=force)
    for note in report.notes:
        typer.echo(f"note: {note}", err=True)
    if report.unchecked:
        typer.echo(f"note: not checked: {report.unchecked}", err=True)
    typer.echo(_counted(f"copied to {file}", report.counts))


@storage_app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `levers storage backup` wrote.", exists=True)],
    url: _Url = None,
) -> None:
    """Bring a backup back into an empty storage of either database. That is also how a storage moves.

    \b
    Examples:
      levers storage restore saved.db sqlite:///levers.db
      levers storage restore saved.db postgresql+psycopg://ann@localhost/studies
    """
    from levers.studies.storage.care.backup import restore_storage

    report = restore_storage(file, url or default_storage())
    typer.echo(_counted(f"restored to {report.url}", report.counts))


@storage_app.command()
def repair(
    target: Annotated[str, typer.Argument(metavar="NEW", help="A new, empty storage for what can be saved.")],
    url: _Url = None,
    left_over: Annotated[
        Path, typer.Option(help="A .csv file for outcomes that came after a hole in a log, if there are any.")
    ] = Path("left-over.csv"),
) -> None:
    """Save what can be read of a damaged storage into a new one, and say what is gone. The damaged one stays.

    \b
    Example:
      levers storage repair sqlite:///saved.db sqlite:///levers.db
    """
    from levers.studies.storage.care.repair import repair_storage

    storage = url or default_storage()
    _check_there(storage, "there is no storage to repair")
    found = repair_storage(storage, target, left_over)
    for study in found.studies:
        typer.echo(str(study))
    typer.echo(f"tokens: {found.n_tokens} saved")
    for note in found.notes:
        typer.echo(f"note: {note}")
    if found.left_over is not None:
        typer.echo(f"what came after a hole is in {found.left_over}")
    if not found.is_whole:
        raise typer.Exit(DAMAGED)


def _counted(what: str, counts: dict[str, int]) -> str:
    """What was done, and on how much.

    >>> _counted("copied", {"studies": 1, "events": 3})
    'copied: 1 studies, 3 events'
    """
    listed = ", ".join(f"{n:,} {table}" for table, n in counts.items() if table != "storage")
    return f"{what}: {listed}" if listed else what
