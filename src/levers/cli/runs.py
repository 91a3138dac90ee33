"""`levers ask`, `tell`, `fail`, `correct`, `import`: runs out, outcomes in."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from levers.cli.options import FormatOption, Reached, SheetOption, command, on_study, outcome, say_json, trial_number
from levers.cli.output import Format
from levers.core.space import Level
from levers.errors import InvalidSettingError, ObservedLevelError, SurprisingOutcomesError, surprising
from levers.studies.analysis.describe import several
from levers.studies.run import AnyStudy
from levers.studies.sheets.cells import level_text
from levers.studies.space_text import parse_observed
from levers.studies.spec import LEAVE_ALONE
from levers.studies.state import Trial
from levers.studies.study import SurprisingOutcomeWarning

TrialArgument = Annotated[str | None, typer.Argument(metavar="TRIAL", help="The trial's number.")]
ValueArgument = Annotated[str | None, typer.Argument(metavar="VALUE", help="Its outcome; 1.5, 1,5 and -2e3 will do.")]


ObservedOption = Annotated[
    list[str] | None, typer.Option(help="The level that a lever took which was left alone: heat=low.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Store surprising outcomes without asking.")]
MOST_ASKED = 20
"""How many surprising outcomes are listed in a question."""
T = TypeVar("T")


@on_study()
def ask(
    at: Reached,
    n: Annotated[
        int | None, typer.Option("-n", help="How many runs; the study's block size if not given, or 1.")
    ] = None,
    sheet: SheetOption = None,
    again: Annotated[bool, typer.Option("--again", help="The open runs once more, instead of new ones.")] = False,
    worker: Annotated[str | None, typer.Option(help="Who makes the runs.")] = None,
    lease: Annotated[float | None, typer.Option(help="Hours after which they go to whoever asks next.")] = None,
    output: FormatOption = Format.table,
) -> None:
    """Get runs to make, as a sheet to fill in or on the screen. Their order is random on purpose: keep it.

    \b
    Examples:
      levers ask oven -n 24 --sheet runs.csv
      levers ask oven --again --sheet runs.xlsx
      levers ask oven --format json
      levers ask oven --url http://lab:8080
    """
    study, seconds = at.study, None if lease is None else 3600 * lease
    wanted = n if n is not None else study.spec.block_size or 1
    if sheet is not None and again:
        n_runs = study.open_sheet(sheet, n or None, worker=worker)
    elif sheet is not None:
        n_runs = study.ask_sheet(sheet, wanted, worker=worker, lease=seconds)
    else:
        due = study.running(worker)[: n or None] if again else study.ask(wanted, worker=worker, lease=seconds)
        n_runs = len(due)
        _show(study, due, output)
    if not n_runs:
        typer.echo(_nothing(at, again), err=True)
        return
    if sheet is not None:
        then = at.command("tell", "--sheet", sheet)
        typer.echo(f"wrote {several(n_runs, 'run', 'runs')} to {sheet}; fill in the column outcome, then: {then}")
        if study.spec.free:
            typer.echo(f"where a cell says {LEAVE_ALONE!r}, do not set that lever, and write the level that it took")
    if n_runs < wanted and not again:
        typer.echo(f"{n_runs:,} of {wanted:,}: {study.forecast().what_follows}", err=True)
    others = study.n_running - n_runs if sheet is not None else 0
    if others > 0:
        are = several(others, "other run is", "other runs are")
        typer.echo(f"{are} still out: {at.command('ask', '--again')} lists them", err=True)


def _show(study: AnyStudy, due: list[Trial], output: Format) -> None:
    """Runs on the screen: as the rows of a sheet, or as JSON."""
    blocks = [1 + trial.block for trial in due]
    if output is Format.json:
        rows = [
            {
                "trial": trial.number,
                "block": block,
                "state": trial.state.name,
                **trial.params,
                **({"free": list(trial.params.free)} if trial.params.free else {}),
                "outcome": trial.value,
            }
            for trial, block in zip(due, blocks, strict=True)
        ]
        say_json(rows)
    elif due:
        from levers.studies.sheets.write import sheet_text

        codes = [trial.params.codes for trial in due]
        text = sheet_text(study.space, trials=[trial.number for trial in due], blocks=blocks, codes=codes)
        typer.echo(text.rstrip("\n"))


def _nothing(at: Reached, again: bool) -> str:
    if again:
        return "no runs are open"
    if at.study.is_finished:
        return at.standing()
    are = several(len(at.study.running()), "run is", "runs are")
    then = at.study.forecast().what_follows
    return f"nothing to hand out: {are} out, and {then} ({at.command('ask', '--again')})"


@on_study(by=True)
def tell(
    at: Reached,
    trial: TrialArgument = None,
    value: ValueArgument = None,
    observed: ObservedOption = None,
    sheet: SheetOption = None,
    yes: YesOption = False,
) -> None:
    """Tell outcomes: one trial, or a filled-in sheet. A wrong row refuses the whole sheet; twice the same is fine.

    An outcome far from what the other runs lead one to expect is asked about; where nobody can be asked, it is refused
    with exit code 5 unless --yes is given.

    \b
    Examples:
      levers tell oven --sheet runs.csv
      levers tell oven 17 3.25
      levers tell oven 18 3.75 --observed heat=low
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        told = _told(sheet, trial, value, command("tell", at.name, "--sheet", "runs.csv"))
        if isinstance(told, tuple):
            taken = _taken(at.study, observed)
            try:
                _insisting(lambda insist: at.study.tell(*told, observed=taken, insist=insist), yes)
            except ObservedLevelError as error:
                free = (f"--observed {name}=LEVEL" for name in at.study.trial(told[0]).params.free)
                raise ObservedLevelError("; ".join([str(error), *([] if taken else free)])) from None
            typer.echo(f"trial {told[0]}: {told[1]:g}")
        else:
            _none_observed(observed)
            report = _insisting(lambda insist: at.study.tell_sheet(told, insist=insist), yes)
            new, empty = several(report.n_new, "new outcome", "new outcomes"), several(report.n_empty, "row", "rows")
            typer.echo(f"{new}, {report.n_known:,} known before, {empty} not run yet")
            if report.n_late:
                were = several(report.n_late, "row was", "rows were")
                typer.echo(f"{were} done by someone else first; left out")
    for warning in caught:
        if yes or not isinstance(warning.message, SurprisingOutcomeWarning):  # else it was asked about
            typer.echo(f"note: {warning.message}", err=True)
    typer.echo(at.standing())


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _insisting(act: Callable[[bool], T], yes: bool) -> T:
    """Do what stores outcomes. Surprising ones are stored if whoever sits there says so, or said `--yes` before."""
    if yes:
        return act(True)
    try:
        return act(False)
    except SurprisingOutcomesError as error:
        if not _is_terminal():
            listed = surprising(error.flags)
            refused = type(error)(f"{listed}; nothing was stored. If this is right, add --yes")
            refused.flags = error.flags
            raise refused from None
        for one in error.flags[:MOST_ASKED]:
            typer.echo(str(one), err=True)
        if len(error.flags) > MOST_ASKED:
            typer.echo(f"and {len(error.flags) - MOST_ASKED:,} more", err=True)
        if not typer.confirm("store it?" if len(error.flags) == 1 else "store them?", err=True):
            raise type(error)("nothing was stored, as you said") from None
    return act(True)


@on_study(by=True)
def fail(
    at: Reached,
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="The trial's number.")],
    reason: Annotated[str, typer.Option(help="Why there is no outcome.")] = "",
) -> None:
    """Say that a run gave no outcome; it will be asked for again.

    \b
    Example:
      levers fail oven 17 --reason "sample lost"
    """
    number = trial_number(trial)
    at.study.fail(number, reason)
    typer.echo(f"trial {number} failed; its run will be asked for again")


@on_study(by=True)
def correct(
    at: Reached,
    trial: TrialArgument = None,
    value: ValueArgument = None,
    reason: Annotated[str, typer.Option(help="Why; it is kept in the log.")] = "",
    observed: ObservedOption = None,
    sheet: SheetOption = None,
) -> None:
    """Correct outcomes that were told wrong. Decisions that rested on them are taken again, and the changes shown.

    \b
    Examples:
      levers correct oven 17 3.52 --reason "typo"
      levers correct oven --sheet corrected.csv --reason "scale was off"
    """
    told = _told(sheet, trial, value, command("correct", at.name, 17, 3.5, "--reason", "typo"))
    if isinstance(told, tuple):
        made = [at.study.correct(*told, reason, observed=_taken(at.study, observed))]
    else:
        _none_observed(observed)
        made = at.study.correct_sheet(told, reason)
    for correction in made[:20]:
        typer.echo(f"trial {correction.trial}: {correction.before:g} -> {correction.value:g}")
        for name, before, now in correction.observed:
            typer.echo(f"  {name} took {level_text(now)}, not {level_text(before)}")
    for line in made[-1].changes or ("no decision changes",):
        typer.echo(f"  {line}")
    typer.echo(at.standing())


@on_study(by=True)
def exclude(
    at: Reached,
    trials: Annotated[list[str], typer.Argument(metavar="TRIAL...", help="The trials' numbers.")],
    reason: Annotated[str, typer.Option(help="Why; it is kept in the log.")] = "",
) -> None:
    """Leave out outcomes that must not count. Decisions are taken again without them.

    The verdict says how it would read with them. `levers correct` brings an outcome back.

    \b
    Example:
      levers exclude oven 17 --reason "door was open"
    """
    made = at.study.exclude_many([trial_number(trial) for trial in trials], reason)
    for exclusion in made[:20]:
        typer.echo(f"trial {exclusion.trial}: {exclusion.value:g} does not count any more")
    for line in made[-1].changes or ("no decision changes",):
        typer.echo(f"  {line}")
    typer.echo(at.standing())


def _taken(study: AnyStudy, observed: list[str] | None) -> dict[str, Level] | None:
    """What levers took that a run left alone."""
    if not observed:
        return None
    return {name: level for text in observed for name, level in parse_observed(study.space, text).items()}


def _none_observed(observed: list[str] | None) -> None:
    if observed:
        raise InvalidSettingError("--observed is for one trial; in a sheet, write the level over `leave alone`")


def _told(sheet: Path | None, trial: str | None, value: str | None, example: str) -> Path | tuple[int, float]:
    """Outcomes as a sheet, or as one trial and its outcome."""
    if sheet is not None and trial is None:
        return sheet
    if sheet is None and trial is not None and value is not None:
        return trial_number(trial), outcome(value)
    raise InvalidSettingError(f"give a sheet or a trial and its outcome: {example}")


@on_study(by=True)
def import_past(
    at: Reached,
    sheet: Annotated[
        Path, typer.Argument(metavar="FILE", help="A .csv, .tsv or .xlsx file: a column for each lever, and outcome.")
    ],
    note: Annotated[str, typer.Option(help="Where the runs come from; it is kept in the log.")] = "",
    yes: YesOption = False,
) -> None:
    """Take in past runs that the study did not ask for. They count from the next decision on.

    The guarantee then rests on these runs having been set (not only watched), with the same noise, and not picked for
    their outcomes. The verdict says so. Outcomes that are far from the others are asked about as by `levers tell`.

    \b
    Example:
      levers import oven last-year.csv --note "trials of 2025"
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SurprisingOutcomeWarning)
        n = _insisting(lambda insist: at.study.import_sheet(sheet, note, insist=insist), yes)
    typer.echo(
        f"{several(n, 'past run is in; it counts', 'past runs are in; they count')} from the next decision on.\n"
        "The guarantee now rests on past runs having been set, with the same noise, and not picked for their outcomes."
    )
