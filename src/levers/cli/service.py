"""`levers dashboard`, `storage`, `token`: the service and the storage behind it."""

import logging
import os
import re
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from levers.cli.options import (
    DEFAULT,
    LOOPBACK,
    FormatOption,
    HostOption,
    PortOption,
    RequireTokenOption,
    StorageOption,
    check_port,
    command,
    missing_file,
    say_rows,
)
from levers.cli.output import Format
from levers.core.validation import check_choice
from levers.errors import InvalidSettingError, StorageError, to_install
from levers.studies.analysis.describe import when
from levers.studies.library import close_storages, default_storage, open_storage
from levers.studies.storage.base import Storage
from levers.studies.storage.sessions import is_open
from levers.studies.storage.tokens import create_token, days_left, lifetime, revoke_token, rotate_token, why_not

LOG_LEVELS = ("debug", "info", "warning", "error")
_STORAGE = "sqlite:///file.db or postgresql+psycopg://...; LEVERS_STORAGE if not given."


def dashboard(
    url: Annotated[str | None, typer.Argument(metavar="STORAGE", help=_STORAGE)] = None,
    host: HostOption = LOOPBACK,
    port: PortOption = 8080,
    require_token: RequireTokenOption = False,
    certificate: Annotated[Path | None, typer.Option(help="A PEM file, to serve https.")] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's private key, a PEM file.")] = None,
    public_url: Annotated[
        str | None, typer.Option(help="How browsers call a proxy in front of it, such as https://lab.example.org.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="One more name that it answers to; the machine's own are known.")
    ] = None,
    trust_proxy: Annotated[
        list[str] | None,
        typer.Option(help="The address of a proxy on another machine, which says where requests come from."),
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info (every request), warning or error.")] = "warning",
    max_connections: Annotated[int, typer.Option(min=16, help="Connections of all clients together.")] = 1_000,
    max_sheet: Annotated[int, typer.Option(min=1, max=4096, help="MB that a sheet may have.")] = 64,
    max_json: Annotated[int, typer.Option(min=1, max=1024, help="MB that other requests may have.")] = 8,
    max_seconds: Annotated[int, typer.Option(min=1, help="Seconds that a plan or a new study may take.")] = 60,
) -> None:
    """Serve the dashboard and the HTTP API, until Ctrl-C.

    \b
    Examples:
      levers dashboard
      levers dashboard sqlite:///levers.db --port 8888
      levers token create --role write && levers dashboard --host 0.0.0.0
      levers dashboard --require-token --public-url https://lab.example.org
    """
    check_choice("log-level", log_level, LOG_LEVELS)
    check_port(port)
    if (certificate is None) != (key is None):
        raise InvalidSettingError("https needs both --certificate and --key")
    if public_url is not None and not re.fullmatch(r"https?://[^/\s]+/?", public_url):
        raise InvalidSettingError(f"a public address looks like https://lab.example.org, not {public_url!r}")
    for file in (certificate, key):
        if file is not None and not file.is_file():
            raise InvalidSettingError(f"there is no file {file}")
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    serving = import_serving()
    names, proxies = tuple(allow_host or ()), tuple(trust_proxy or ())
    serving.check_network(host, names, proxies)
    address = serving.Address(
        host, port, certificate and str(certificate), key and str(key), public_url, names, proxies
    )
    if not address.is_loopback and certificate is None:
        typer.echo("note: without --certificate, tokens and outcomes travel in the clear", err=True)
    limits = import_serving().Limits(
        connections=max_connections,
        body_bytes=max_sheet << 20,
        json_bytes=max_json << 20,
        computing_seconds=float(max_seconds),
    )
    serve_storage(open_storage(url or default_storage()), address, needs_token=require_token, limits=limits)


def serve_storage(
    storage: Storage, address: Any, *, needs_token: bool = False, page: str = "", limits: Any = None
) -> None:
    """Serve until Ctrl-C, and say where: the address of a page, when there is one to look at first."""
    serving = import_serving()
    service = serving.new_service(storage, address, needs_token=needs_token, limits=limits)
    serving.serve(service, address, lambda where: typer.echo(f"the dashboard is at {where}{page} (Ctrl-C ends it)"))
    typer.echo("ended; everything that was told is in the storage")
    if any(t is not threading.main_thread() and not t.daemon and t.is_alive() for t in threading.enumerate()):
        # somebody's long computation goes on in a thread that cannot be stopped, for an answer that nobody waits for
        close_storages()
        sys.stdout.flush()
        os._exit(0)


def import_serving() -> ModuleType:
    """The service's own libraries, which studies do without."""
    try:
        from levers.web import server
    except ModuleNotFoundError as error:
        raise InvalidSettingError(f"{error.name} is not installed: {to_install('dashboard')}") from None
    return server


_GROUP: dict[str, Any] = {"add_completion": False, "no_args_is_help": True, "rich_markup_mode": None}
storage_app = typer.Typer(help="Look after a storage: check, backup, restore, repair, upgrade.", **_GROUP)
token_app = typer.Typer(help="Tokens for the service.", **_GROUP)


@storage_app.callback()
def _storage() -> None:
    """Look after a storage."""


@storage_app.command()
def upgrade(url: Annotated[str | None, typer.Argument(metavar="URL", help=_STORAGE)] = None) -> None:
    """Bring a storage of an older version to this one's schema. Make a copy first, as with any upgrade.

    \b
    Example:
      levers storage upgrade sqlite:///levers.db
    """
    from levers.studies.storage.sql import upgrade_storage

    storage = url or default_storage()
    _check_there(storage, "there is no storage to upgrade")
    before, after = upgrade_storage(storage)
    typer.echo(f"schema {before or 'none'} -> {after}" if before != after else f"schema {after}: nothing to do")


def _check_there(storage: str, otherwise: str) -> None:
    """Looking into a storage does not make a file."""
    path = missing_file(storage)
    if path is not None:
        raise StorageError(f"{otherwise}: {path} does not exist here")


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token in a list; its secret is not kept anywhere."""

    id: str
    role: str
    study: str
    note: str
    created: str
    expires: str
    days_left: float | None
    revoked: str
    sessions: int


@token_app.command()
def create(
    role: Annotated[
        str, typer.Option(help="read: look; write: also ask, tell and correct; admin: also create and delete.")
    ],
    study: Annotated[str | None, typer.Option(help="For this study only.")] = None,
    note: Annotated[str, typer.Option(help="Whose it is: the log will say so, with the token's id.")] = "",
    expires: Annotated[str, typer.Option(help="How long it works: 30d, 12h, 2w, or never.")] = "90d",
    storage: StorageOption = DEFAULT,
) -> None:
    """Make a token. It is shown once; only a digest of it is kept. It works for 90 days if nothing else is said.

    \b
    Examples:
      levers token create --role write --note "bench 2"
      levers token create --role read --study oven --expires 30d
    """
    seconds = lifetime(expires)
    opened = open_storage(storage)
    _say_token(opened, create_token(opened, role, study, note, seconds=seconds))


def _say_token(storage: Storage, text: str) -> None:
    """Show a new token, once."""
    made = storage.token(text.split("_")[1])
    ends = "has no end" if made is None or made.expires_at is None else f"works until {when(made.expires_at)}"
    typer.echo(text)
    typer.echo(
        f"keep it: it is not shown again. It {ends}; `{command('token', 'revoke', text.split('_')[1])}` ends it.\n"
        "Use it as `Authorization: Bearer ...`, in LEVERS_TOKEN, or on the login page of the dashboard.",
        err=True,
    )


@token_app.command()
def rotate(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `levers token list` shows it.")],
    grace: Annotated[str, typer.Option(help="How long the old one still works: 0, 1h, 1d.")] = "0",
    expires: Annotated[
        str | None, typer.Option(help="How long the new one works: 30d, never; as long as the old one if not given.")
    ] = None,
    storage: StorageOption = DEFAULT,
) -> None:
    """Make a new token in place of another, for the same role, study and note. The old one ends at once, or later.

    \b
    Examples:
      levers token rotate 5f0c22d0a1b3
      levers token rotate 5f0c22d0a1b3 --grace 1d
    """
    _check_there(storage, "there are no tokens")
    left = 0.0 if grace.strip() == "0" else lifetime(grace)
    if left is None:
        raise InvalidSettingError("an old token that never ends is not rotated; give a time, such as 1d")
    for_how_long: dict[str, Any] = {} if expires is None else {"seconds": lifetime(expires)}
    opened = open_storage(storage)
    _say_token(opened, rotate_token(opened, token_id, grace=left, **for_how_long))
    typer.echo(f"the old one, {token_id}, {f'works for {grace} more' if left else 'works no more'}", err=True)


@token_app.command("list")
def list_tokens(storage: StorageOption = DEFAULT, output: FormatOption = Format.table) -> None:
    """List the tokens, also those that have ended: when each does, and how many browsers are logged in with it.

    \b
    Example:
      levers token list --format json
    """
    _check_there(storage, "there are no tokens")
    opened = open_storage(storage)
    names, rows, now = dict(opened.names()), [], time.time()
    sessions = Counter(session.token_id for session in opened.sessions() if is_open(session, now))
    for token in opened.tokens():
        study = "" if token.study is None else names.get(token.study, "?")
        revoked = "" if token.revoked_at is None else when(token.revoked_at)
        ends = "never" if token.expires_at is None else when(token.expires_at)
        left = days_left(token, now)
        n_open = sessions[token.id] if why_not(token, now) is None else 0
        made = when(token.created_at)
        left = None if left is None else max(round(left, 1), 0.0)
        rows.append(TokenRow(token.id, token.role, study, token.note, made, ends, left, revoked, n_open))
    drop = ("created", "sessions", "expires", "note")
    say_rows(rows, output, "Tokens", drop, "there are no tokens; `levers token create` makes one")


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
    _check_there(storage, "there are no tokens")
    revoke_token(open_storage(storage), token_id)
    typer.echo(f"revoked {token_id}")
