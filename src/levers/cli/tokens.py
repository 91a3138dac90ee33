"""`levers token`: who may do what over the network."""

from dataclasses import dataclass
from typing import Annotated

import typer

from levers.cli.common import DEFAULT, FormatOption, StorageOption, command, missing_file, say_rows, when
from levers.cli.render import Format
from levers.errors import StorageError
from levers.studies.storage import Storage, open_storage
from levers.studies.tokens import create_token, revoke_token

token_app = typer.Typer(no_args_is_help=True, help="Tokens for the service.", rich_markup_mode=None)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token in a list; its secret is not kept anywhere."""

    id: str
    role: str
    study: str
    note: str
    created: str
    revoked: str


@token_app.command()
def create(
    role: Annotated[
        str, typer.Option(help="read: look; write: also ask, tell and correct; admin: also create and delete.")
    ],
    study: Annotated[str | None, typer.Option(help="For this study only.")] = None,
    note: Annotated[str, typer.Option(help="Whose it is: the log will say so.")] = "",
    storage: StorageOption = DEFAULT,
) -> None:
    """Make a token. It is shown once; only a digest of it is kept.

    \b
    Examples:
      levers token create --role write --note "bench 2"
      levers token create --role read --study oven
    """
    text = create_token(open_storage(storage), role, study, note)
    typer.echo(text)
    typer.echo(
        f"keep it: it is not shown again. `{command('token', 'revoke', text.split('_')[1])}` ends it.\n"
        "Use it as `Authorization: Bearer ...`, in LEVERS_TOKEN, or on the login page of the dashboard.",
        err=True,
    )


@token_app.command("list")
def list_tokens(storage: StorageOption = DEFAULT, output: FormatOption = Format.table) -> None:
    """List the tokens, also those that were revoked.

    \b
    Example:
      levers token list --format json
    """
    opened = _existing(storage)
    names = dict(opened.names())
    rows = [
        TokenRow(
            token.id,
            token.role,
            "" if token.study is None else names.get(token.study, "?"),
            token.note,
            when(token.created_at),
            "" if token.revoked_at is None else when(token.revoked_at),
        )
        for token in opened.tokens()
    ]
    say_rows(rows, output, "Tokens", ("note", "created"), "there are no tokens; `levers token create` makes one")


@token_app.command()
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `levers token list` shows it.")],
    storage: StorageOption = DEFAULT,
) -> None:
    """Let a token open nothing any more, from the next request on.

    \b
    Example:
      levers token revoke 5f0c22d0a1b3
    """
    revoke_token(_existing(storage), token_id)
    typer.echo(f"revoked {token_id}")


def _existing(storage: str) -> Storage:
    """A storage that is there; looking for tokens does not make a file."""
    path = missing_file(storage)
    if path is not None:
        raise StorageError(f"there are no tokens: {path} does not exist here")
    return open_storage(storage)
