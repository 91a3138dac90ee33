"""`levers storage`: the storage itself."""

from typing import Annotated

import typer

from levers.cli.common import missing_file
from levers.errors import StorageError
from levers.studies.storage.choice import default_storage

storage_app = typer.Typer(no_args_is_help=True, help="Look after a storage.", rich_markup_mode=None)
Url = Annotated[
    str | None,
    typer.Argument(metavar="URL", help="sqlite:///file.db or postgresql+psycopg://...; LEVERS_STORAGE if not given."),
]


@storage_app.command()
def upgrade(url: Url = None) -> None:
    """Bring a storage of an older version to this one's schema. Make a copy first, as with any upgrade.

    \b
    Example:
      levers storage upgrade sqlite:///levers.db
    """
    from levers.studies.storage.sql import upgrade_storage

    storage = url or default_storage()
    path = missing_file(storage)
    if path is not None:
        raise StorageError(f"there is no storage to upgrade: {path} does not exist here")
    before, after = upgrade_storage(storage)
    typer.echo(f"schema {before or 'none'} -> {after}" if before != after else f"schema {after}: nothing to do")
