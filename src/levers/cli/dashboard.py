"""`levers dashboard`: the studies of a storage in a browser and over HTTP."""

import logging
import os
import re
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from levers.core.checks import check_choice
from levers.errors import InvalidSettingError
from levers.studies.storage import Storage, open_storage
from levers.studies.storage.choice import close_storages, default_storage

LOG_LEVELS = ("debug", "info", "warning", "error")


def dashboard(
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="STORAGE", help="sqlite:///file.db or postgresql+psycopg://...; LEVERS_STORAGE if not given."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; only a loopback one works without a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.")] = 8080,
    require_token: Annotated[
        bool, typer.Option("--require-token", help="Ask for a token on a loopback address too, as behind a proxy.")
    ] = False,
    certificate: Annotated[Path | None, typer.Option(help="A PEM file, to serve https.")] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's private key, a PEM file.")] = None,
    public_url: Annotated[
        str | None, typer.Option(help="How browsers call a proxy in front of it, such as https://lab.example.org.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info (every request), warning or error.")] = "warning",
) -> None:
    """Serve the dashboard and the HTTP API, until Ctrl-C.

    \b
    Examples:
      levers dashboard
      levers dashboard sqlite:///levers.db --port 8888
      levers token create --role write && levers dashboard --host 0.0.0.0
    """
    check_choice("log-level", log_level, LOG_LEVELS)
    if not 0 <= port <= 65535:
        raise InvalidSettingError(f"a port is 0 to 65535, not {port}")
    if (certificate is None) != (key is None):
        raise InvalidSettingError("https needs both --certificate and --key")
    if public_url is not None and not re.fullmatch(r"https?://[^/\s]+/?", public_url):
        raise InvalidSettingError(f"a public address looks like https://lab.example.org, not {public_url!r}")
    for file in (certificate, key):
        if file is not None and not file.is_file():
            raise InvalidSettingError(f"there is no file {file}")
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    address = import_serving().Address(host, port, certificate and str(certificate), key and str(key), public_url)
    if not address.is_loopback and certificate is None:
        typer.echo("note: without --certificate, tokens and outcomes travel in the clear", err=True)
    serve_storage(open_storage(url or default_storage()), address, needs_token=require_token)


def serve_storage(storage: Storage, address: Any, *, needs_token: bool = False, page: str = "") -> None:
    """Serve until Ctrl-C, and say where: the address of a page, when there is one to look at first."""
    serving = import_serving()
    service = serving.new_service(storage, address, needs_token=needs_token)
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
        from levers.web import serving
    except ModuleNotFoundError as error:
        raise InvalidSettingError(f"{error.name} is not installed; install levers[dashboard]") from None
    return serving
