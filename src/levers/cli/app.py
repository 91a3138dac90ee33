"""The `levers` command."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from levers.algorithms.registry import ALGORITHMS
from levers.cli.compare import compare
from levers.cli.demo import demo
from levers.cli.looking import effects, export, forecast, plot, status, trials, verdict
from levers.cli.plan import plan
from levers.cli.reproduce import reproduce
from levers.cli.runs import ask, correct, fail, import_past, tell
from levers.cli.storages import storage_app
from levers.cli.studies import copy, create, delete, studies
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
for command in (create, studies, ask, fail, status, effects, forecast, verdict, trials, export, plot, copy, delete):
    app.command()(command)
_NEGATIVE = {"ignore_unknown_options": True}  # an outcome may be negative, which is not an option
app.command(context_settings=_NEGATIVE)(tell)
app.command(context_settings=_NEGATIVE)(correct)
app.command("import")(import_past)
app.add_typer(storage_app, name="storage")


@app.command()
def algorithms() -> None:
    """List the algorithms by name."""
    for name, cls in ALGORITHMS.items():
        typer.echo(f"{name:26} {(cls.__doc__ or '').splitlines()[0]}")


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
    try:
        app()
    except LeversError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(3 if isinstance(error, NotFinishedError) else 2)


if __name__ == "__main__":
    main()
