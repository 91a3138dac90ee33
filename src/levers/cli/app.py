"""The `levers` command."""

import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from levers.algorithms.registry import described
from levers.cli.options import CommandWithNumbers
from levers.cli.research import compare, demo, plan, reproduce
from levers.cli.results import effects, export, forecast, log, plot, status, trials, verdict
from levers.cli.runs import ask, correct, fail, import_past, tell
from levers.cli.service import dashboard, storage_app, token_app
from levers.cli.studies import copy, create, delete, merge, studies
from levers.errors import LeversError, NotFinishedError

app = typer.Typer(
    name="levers",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Find the best setting of every lever of a system in as few noisy experiments as provably possible.",
    epilog="Exit codes: 0 done, 2 wrong input (the message says what to change), 3 not finished yet, 130 interrupted.",
)
app.command()(demo)
app.command()(plan)
app.command()(compare)
app.command()(reproduce)
app.command()(create)
app.command()(studies)
app.command()(ask)
for with_numbers in (tell, fail, correct):
    app.command(cls=CommandWithNumbers)(with_numbers)
app.command("import")(import_past)
for command in (status, effects, forecast, verdict, trials, log, export, plot, copy, merge, delete):
    app.command()(command)
app.command()(dashboard)
app.add_typer(token_app, name="token")
app.add_typer(storage_app, name="storage")


@app.command()
def algorithms() -> None:
    """List the algorithms by name."""
    for name, text in described():
        typer.echo(f"{name:26} {text}")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"levers {version('levers')}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; wrong input ends in one line on standard error and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name that the terminal has no letters for must not end in a traceback
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except LeversError as error:
        _say(str(error))
        sys.exit(3 if isinstance(error, NotFinishedError) else 2)
    except OSError as error:  # a full disk, a file that may not be written: not a bug
        _say((error.strerror or str(error)) + ("" if error.filename is None else f": {error.filename}"))
        _give_up_output()
        sys.exit(2)


def _say(message: str) -> None:
    typer.echo(f"error: {message}", err=True)


def _give_up_output() -> None:
    """Forget what standard output could not take, or Python tries again at exit and complains in its own words."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
