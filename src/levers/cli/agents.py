"""`levers mcp`: studies for agents."""

import sys
from types import ModuleType
from typing import Annotated

import typer

from levers.cli.options import (
    DEFAULT,
    LOOPBACK,
    By,
    HostOption,
    PortOption,
    RequireTokenOption,
    StorageOption,
    check_port,
)
from levers.core.validation import check_choice
from levers.errors import InvalidSettingError
from levers.studies.library import open_storage
from levers.studies.storage.tokens import ROLES
from levers.studies.study import login_name


def mcp(
    storage: StorageOption = DEFAULT,
    role: Annotated[
        str | None,
        typer.Option(help="What the agent may do over stdio: read, write, or admin (default), which may also create."),
    ] = None,
    by: By = None,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP, until Ctrl-C, in place of stdio.")] = False,
    host: HostOption = LOOPBACK,
    port: PortOption = 8081,
    require_token: RequireTokenOption = False,
) -> None:
    """Let an agent plan and run studies: a server of the Model Context Protocol, over stdio or HTTP.

    Over stdio the agent's program starts it, and it acts as you. Over HTTP roles are those of tokens, as for the
    dashboard. Agents cannot delete studies. docs/agents.md says how to add it to an agent.

    \b
    Examples:
      levers mcp --storage sqlite:////home/ann/levers.db
      levers mcp --role read
      levers token create --role write --note "agent 1" && levers mcp --http --require-token
    """
    if http:
        if role is not None or by is not None:
            raise InvalidSettingError("--role and --by are for stdio; over HTTP the tokens say who may do what")
        check_port(port)
        _serve_http(storage, host, port, require_token)
        return
    if require_token:
        raise InvalidSettingError("--require-token is for --http; over stdio --role says what the agent may do")
    check_choice("role", role or ROLES[-1], ROLES)
    agents = import_agents()
    if sys.stdin.isatty():
        typer.echo("waiting for an agent's program on standard input; see docs/agents.md", err=True)
    agents.serve_stdio(open_storage(storage), by or f"{login_name()} (agent)", role or ROLES[-1])


def _serve_http(storage: str, host: str, port: int, require_token: bool) -> None:
    agents = import_agents()
    from levers.web.server import Address, new_service, serve

    address = Address(host, port)
    if not address.is_loopback:
        typer.echo("note: tokens and outcomes travel in the clear; put a proxy with https in front", err=True)
    service = new_service(open_storage(storage), address, needs_token=require_token)

    def say(where: str) -> None:
        typer.echo(f"agents find it at {where}{agents.PATH} (Ctrl-C ends it)")

    serve(service, address, say, agents.agents_app)
    typer.echo("ended; everything that was told is in the storage")


def import_agents() -> ModuleType:
    """The server and its libraries, which studies do without."""
    from levers.integrations import mcp

    return mcp
