"""The `levers` command."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from levers.algorithms.registry import ALGORITHMS
from levers.cli.compare import compare
from levers.cli.demo import demo
from levers.cli.plan import plan
from levers.errors import LeversError

app = typer.Typer(
    name="levers",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Find the best setting of every lever of a system in as few noisy experiments as provably possible.",
    epilog="Exit codes: 0 done, 2 wrong input (the message says what to change), 130 interrupted.",
)
app.command()(demo)
app.command()(plan)
app.command()(compare)


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
        sys.exit(2)


if __name__ == "__main__":
    main()
