"""`levers tell`, `fail`, `correct`, `import`: outcomes in."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levers.cli.common import (
    DEFAULT,
    By,
    Name,
    SheetOption,
    StorageOption,
    TokenOption,
    UrlOption,
    at_url,
    command,
    reach_study,
    several,
)
from levers.cli.numbers import outcome, trial_number
from levers.errors import InvalidSettingError
from levers.studies.sheet_runs import correct_sheet, import_sheet
from levers.studies.study import NoOutcomeWarning, Study

if TYPE_CHECKING:
    from levers.client import RemoteStudy

TrialArgument = Annotated[str | None, typer.Argument(metavar="TRIAL", help="The trial's number.")]
ValueArgument = Annotated[str | None, typer.Argument(metavar="VALUE", help="Its outcome; 1.5, 1,5 and -2e3 will do.")]


def tell(
    context: typer.Context,
    name: Name,
    trial: TrialArgument = None,
    value: ValueArgument = None,
    sheet: SheetOption = None,
    storage: StorageOption = DEFAULT,
    url: UrlOption = None,
    token: TokenOption = None,
    by: By = None,
) -> None:
    """Tell outcomes: one trial, or a filled-in sheet. A wrong row refuses the whole sheet; twice the same is fine.

    \b
    Examples:
      levers tell oven --sheet runs.csv
      levers tell oven 17 3.25
    """
    study = reach_study(context, name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoOutcomeWarning)
        if sheet is not None and trial is None:
            report = study.tell_sheet(sheet)
            typer.echo(f"{report.n_new} new outcomes, {report.n_known} known before, {report.n_empty} rows not run yet")
            if report.n_late:
                were = several(report.n_late, "row was", "rows were")
                typer.echo(f"{were} done by someone else first; left out")
        elif sheet is None and trial is not None and value is not None:
            number, y = trial_number(trial), outcome(value)
            study.tell(number, y)
            typer.echo(f"trial {number}: {y:g}")
        else:
            example = command("tell", name, "--sheet", "runs.csv")
            raise InvalidSettingError(f"give a sheet or a trial and its outcome: {example}")
    for warning in caught:
        typer.echo(f"note: {warning.message}", err=True)
    typer.echo(_standing(context, study))


def fail(
    context: typer.Context,
    name: Name,
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="The trial's number.")],
    reason: Annotated[str, typer.Option(help="Why there is no outcome.")] = "",
    storage: StorageOption = DEFAULT,
    url: UrlOption = None,
    token: TokenOption = None,
    by: By = None,
) -> None:
    """Say that a run gave no outcome; it will be asked for again.

    \b
    Example:
      levers fail oven 17 --reason "sample lost"
    """
    number = trial_number(trial)
    reach_study(context, name).fail(number, reason)
    typer.echo(f"trial {number} failed; its run will be asked for again")


def correct(
    context: typer.Context,
    name: Name,
    trial: TrialArgument = None,
    value: ValueArgument = None,
    reason: Annotated[str, typer.Option(help="Why; it is kept in the log.")] = "",
    sheet: SheetOption = None,
    storage: StorageOption = DEFAULT,
    url: UrlOption = None,
    token: TokenOption = None,
    by: By = None,
) -> None:
    """Correct outcomes that were told wrong. Decisions that rested on them are taken again, and the changes shown.

    \b
    Examples:
      levers correct oven 17 3.52 --reason "typo"
      levers correct oven --sheet corrected.csv --reason "scale was off"
    """
    study = reach_study(context, name)
    if sheet is not None and trial is None:
        made = correct_sheet(study, sheet, reason) if isinstance(study, Study) else study.correct_sheet(sheet, reason)
    elif sheet is None and trial is not None and value is not None:
        made = [study.correct(trial_number(trial), outcome(value), reason)]
    else:
        example = command("correct", name, 17, 3.5, "--reason", "typo")
        raise InvalidSettingError(f"give a sheet or a trial and its outcome: {example}")
    for correction in made[:20]:
        typer.echo(f"trial {correction.trial}: {correction.before:g} -> {correction.value:g}")
    for line in made[-1].changes or ("no decision changes",):
        typer.echo(f"  {line}")
    typer.echo(_standing(context, study))


def import_past(
    context: typer.Context,
    name: Name,
    sheet: Annotated[
        Path, typer.Argument(metavar="FILE", help="A .csv, .tsv or .xlsx file: a column for each factor, and outcome.")
    ],
    note: Annotated[str, typer.Option(help="Where the runs come from; it is kept in the log.")] = "",
    storage: StorageOption = DEFAULT,
    url: UrlOption = None,
    token: TokenOption = None,
    by: By = None,
) -> None:
    """Take in past runs that the study did not ask for. They count from the next decision on.

    The guarantee then rests on these runs having been set (not only watched), with the same noise, and not picked for
    their outcomes. The verdict says so.

    \b
    Example:
      levers import oven last-year.csv --note "trials of 2025"
    """
    study = reach_study(context, name)
    n = import_sheet(study, sheet, note) if isinstance(study, Study) else study.import_sheet(sheet, note)
    typer.echo(
        f"{n} past runs are in; they count from the next decision on.\n"
        "The guarantee now rests on them having been set, with the same noise, and not picked for their outcomes."
    )


def _standing(context: typer.Context, study: "Study | RemoteStudy") -> str:
    found = study.status()
    if found.state == "finished":
        return f"finished: {at_url(context, 'verdict', study.name)}"
    return f"{found.n_complete} outcomes so far; {found.to_go}"
