"""The `levers` command: which commands there are, and where. A command's module is imported when the command runs."""

import os
import sys
from importlib import import_module
from typing import Annotated, Any, TextIO, cast

import typer
from typer.core import TyperGroup

from levers.cli.terminal import Terminal, spelt
from levers.errors import DamagedLogError, LeversError, NotFinishedError, SurprisingOutcomesError

COMMANDS = {
    "demo": ("research:demo", "Study a simulated injection-moulding line with 12 levers, from start to verdict."),
    "plan": (
        "research:plan",
        "Say what the runs that you can make will do, or how many it takes to be close enough to the best.",
    ),
    "compare": (
        "research:compare",
        "Compare algorithms on the same random worlds of the paper, or on a world from a file.",
    ),
    "reproduce": ("research:reproduce", "Run the paper's experiments, draw its figures, and check what its text says."),
    "create": ("studies:create", "Begin a study."),
    "studies": ("studies:studies", "List the studies."),
    "run": ("run:run", "Tune a command: run what the study asks for, tell it, and end with the verdict."),
    "ask": (
        "runs:ask",
        "Get runs to make, as a sheet to fill in or on the screen. Their order is random on purpose: keep it.",
    ),
    "tell": (
        "runs:tell",
        "Tell outcomes: one trial, or a filled-in sheet. A wrong row refuses the whole sheet; twice the same is fine.",
    ),
    "fail": ("runs:fail", "Say that a run gave no outcome; it will be asked for again."),
    "correct": (
        "runs:correct",
        "Correct outcomes that were told wrong. Decisions that rested on them are taken again, and the changes shown.",
    ),
    "exclude": (
        "runs:exclude",
        "Leave out outcomes that must not count. Decisions are taken again without them.",
    ),
    "import": (
        "runs:import_past",
        "Take in past runs that the study did not ask for. They count from the next decision on.",
    ),
    "status": ("results:status", "Where a study stands: runs made, runs to go, the leading setting, corrections."),
    "effects": (
        "results:effects",
        "What each level loses against the leading one, with intervals that all hold at once.",
    ),
    "forecast": ("results:forecast", "How many runs are still to go, and what is certified if the study stops now."),
    "verdict": ("results:verdict", "The answer and its guarantee. Exit code 3: not finished; 4: in doubt."),
    "finish": ("course:finish", "End a study now: the verdict, with what is certified by the runs made so far."),
    "continue": ("course:go_on", "Go on with a study that has come to its end: one more round of runs."),
    "confirm": (
        "course:confirm",
        "Confirm a verdict by fresh runs at its setting, and at the baseline if the study has one.",
    ),
    "restate": (
        "course:restate",
        "Change what is asked for, or known, under way; all runs so far count under the new terms.",
    ),
    "trials": ("results:trials", "List the trials."),
    "verify": (
        "results:verify",
        "Recompute a study from its log alone, and say whether all of it is as it was written. Exit code 6: it is not.",
    ),
    "log": ("results:log", "Every event of a study: who did what, and when. Nothing is ever removed from it."),
    "export": (
        "results:export",
        "Write everything that was run to a file; .json is the whole verdict, for `levers.verify`.",
    ),
    "plot": ("results:plot", "Draw a picture of a study."),
    "report": ("results:report", "Write a study's report: one page that needs no other file, to send, print and keep."),
    "copy": ("studies:copy", "Copy a study with its whole log, under another name or to another storage."),
    "merge": (
        "studies:merge",
        "Go on with levers that influence each other studied as one: a new study, with the runs so far as evidence.",
    ),
    "delete": ("studies:delete", "Remove a study and everything that was told to it."),
    "dashboard": ("service:dashboard", "Serve the dashboard and the HTTP API, until Ctrl-C."),
    "mcp": (
        "agents:mcp",
        "Let an agent plan and run studies: a server of the Model Context Protocol, over stdio or HTTP.",
    ),
    "algorithms": ("research:algorithms", "List the algorithms by name."),
    "schema": (
        "schema:schema",
        "Print the JSON Schema of a space file, of a run sheet, or of a new study.",
    ),
    "journal": ("journal:journal_app", "What workers on this machine have measured and not told yet."),
    "token": ("service:token_app", "Tokens for the service."),
    "storage": ("storage:storage_app", "Look after a storage: check, backup, restore, repair, upgrade."),
}
"""Each command's module and function, and its line in `levers --help`, in the order in which they are listed."""

EXIT_CODES: dict[type[LeversError], int] = {NotFinishedError: 3, SurprisingOutcomesError: 5, DamagedLogError: 6}
"""Exit codes of errors that are not wrong input, which is 2."""

WITH_NUMBERS = ("tell", "fail", "correct")
"""Commands whose arguments may be negative numbers."""


def load_command(name: str) -> Any:
    """A command with its options, from its module."""
    module, function = COMMANDS[name][0].split(":")
    found = getattr(import_module(f"levers.cli.{module}"), function)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    from levers.cli.options import CommandWithNumbers  # which every command's module has imported

    single.command(name, cls=CommandWithNumbers if name in WITH_NUMBERS else None)(found)
    return typer.main.get_command(single)


OPTIONS = {"forbidden": "forbid", "merged": "merge"}
"""Parameters of commands for settings that have other names in Python, as errors have them in `field`."""


def options_for(command: Any, field: str | None) -> str:
    """How a command spells the option for a setting; nothing if it has none, or spells it as Python does.

    >>> options_for(load_command("plan"), "block_size"), options_for(load_command("plan"), "tolerance")
    ('--block-size or --per-day', '')
    """
    wanted = OPTIONS.get(field or "", field)
    options: list[str] = next(
        (one.opts for one in command.params if one.name == wanted and one.opts[0].startswith("-")), []
    )
    return "" if options == [f"--{field}"] else " or ".join(options)


class LazyGroup(TyperGroup):
    """Commands that are known by name and help line, and loaded when one of them is called."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error about a setting gets a note with its option: the message has Python's name."""
        try:
            return super().invoke(ctx)
        except LeversError as error:
            if ctx.invoked_subcommand and (option := options_for(load_command(ctx.invoked_subcommand), error.field)):
                error.add_note(option)
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments begin with."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else load_command(name), rest


app = typer.Typer(
    name="levers",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Find the best setting of every lever of a system in as few noisy experiments as provably possible.",
    epilog="Exit codes: 0 done, 2 wrong input (the message says what to change), 3 not finished yet, 4 in doubt, "
    "5 surprising outcomes that were not stored, 6 a log that is not as it was written, 130 interrupted.",
)


def _listed() -> None:
    """Stands for a command in the list of all."""


for _name, (_, _help) in COMMANDS.items():
    app.command(_name, help=_help)(_listed)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"levers {version('levers')}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")]


@app.callback()
def _root(_: Version = False) -> None:
    pass


def main() -> None:
    """Run the command line; wrong input ends in one line on standard error and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name that the terminal has no letters for must not end in a traceback
            stream.reconfigure(errors="backslashreplace")
    if sys.stdout is not None and sys.stdout.isatty():
        sys.stdout = cast(TextIO, Terminal(sys.stdout))
    try:
        app()
    except LeversError as error:
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        typer.echo(f"error: {spelt(f'{error}{notes}')}", err=True)
        sys.exit(next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 2))
    except OSError as error:  # a full disk, a file that may not be written: not a bug
        where = "" if error.filename is None else f": {error.filename}"
        typer.echo(f"error: {error.strerror or error}{where}", err=True)
        _give_up_output()
        sys.exit(2)


def _give_up_output() -> None:
    """Forget what standard output could not take, or Python tries again at exit and complains in its own words."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
