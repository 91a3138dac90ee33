"""`levers ask`, `tell`, `fail`, `correct`, `import`: runs out, outcomes in."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from levers.cli.common import DEFAULT, By, FormatOption, Name, StorageOption, open_study, say_json
from levers.cli.render import Format
from levers.cli.rows import trial_row
from levers.errors import InvalidSettingError, LeversError, SheetError
from levers.studies.events import numbers
from levers.studies.sheet_runs import import_sheet, runs_text, tell_sheet, write_runs
from levers.studies.sheets import read_sheet
from levers.studies.study import NoOutcomeWarning, Study

SheetOption = Annotated[Path | None, typer.Option("--sheet", help="A .csv, .tsv or .xlsx file.")]
TrialArgument = Annotated[int | None, typer.Argument(metavar="[TRIAL]", help="The trial's number.")]


def ask(
    name: Name,
    n: Annotated[
        int | None, typer.Option("-n", help="How many runs; the study's block size if not given, or 1.")
    ] = None,
    sheet: SheetOption = None,
    again: Annotated[bool, typer.Option("--again", help="The open runs once more, instead of new ones.")] = False,
    worker: Annotated[str | None, typer.Option(help="Who makes the runs.")] = None,
    lease: Annotated[float | None, typer.Option(help="Hours after which they go to whoever asks next.")] = None,
    storage: StorageOption = DEFAULT,
    output: FormatOption = Format.table,
) -> None:
    """Get runs to make, as a sheet to fill in or on the screen. Their order is random on purpose: keep it.

    \b
    Examples:
      levers ask oven -n 24 --sheet runs.csv
      levers ask oven --again --sheet runs.xlsx
      levers ask oven --format json
    """
    study = open_study(name, storage)
    if sheet is not None and sheet.exists() and _has_outcomes(study, sheet):
        raise SheetError(
            f"{sheet} has outcomes in it; `levers tell {name} --sheet {sheet}` first, or choose another file"
        )
    wanted = n if n is not None else study.spec.block_size or 1
    if again:
        due = numbers([t.number for t in study.running(worker)][: n or None])
    else:
        due = study.ask_numbers(wanted, worker=worker, lease=None if lease is None else 3600 * lease)
    if not due.size:
        typer.echo(_nothing(study, again), err=True)
        return
    if sheet is not None:
        write_runs(study, due, sheet)
        typer.echo(
            f"wrote {len(due)} runs to {sheet}; fill in the column outcome, then: levers tell {name} --sheet {sheet}"
        )
    elif output is Format.json:
        say_json([trial_row(study.trial(int(t))) for t in due])
    else:
        typer.echo(runs_text(study, due).rstrip("\n"))
    if len(due) < wanted and not again:
        typer.echo(f"{len(due)} of {wanted}: what comes next depends on the outcomes of this block", err=True)


def tell(
    name: Name,
    trial: TrialArgument = None,
    value: Annotated[float | None, typer.Argument(metavar="[VALUE]", help="Its outcome.")] = None,
    sheet: SheetOption = None,
    storage: StorageOption = DEFAULT,
    by: By = None,
) -> None:
    """Tell outcomes: one trial, or a filled-in sheet. A wrong row refuses the whole sheet; twice the same is fine.

    \b
    Examples:
      levers tell oven --sheet runs.csv
      levers tell oven 17 3.25
    """
    study = open_study(name, storage, by)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoOutcomeWarning)
        if sheet is not None and trial is None:
            report = tell_sheet(study, sheet)
            typer.echo(f"{report.n_new} new outcomes, {report.n_known} known before, {report.n_empty} rows not run yet")
        elif sheet is None and trial is not None and value is not None:
            study.tell(trial, value)
            typer.echo(f"trial {trial}: {value:g}")
        else:
            raise InvalidSettingError(f"give a sheet or a trial and its outcome: levers tell {name} --sheet runs.csv")
    for warning in caught:
        typer.echo(f"note: {warning.message}", err=True)
    typer.echo(_standing(study))


def fail(
    name: Name,
    trial: Annotated[int, typer.Argument(help="The trial's number.")],
    reason: Annotated[str, typer.Option(help="Why there is no outcome.")] = "",
    storage: StorageOption = DEFAULT,
    by: By = None,
) -> None:
    """Say that a run gave no outcome; it will be asked for again.

    \b
    Example:
      levers fail oven 17 --reason "sample lost"
    """
    open_study(name, storage, by).fail(trial, reason)
    typer.echo(f"trial {trial} failed; its run will be asked for again")


def correct(
    name: Name,
    trial: TrialArgument = None,
    value: Annotated[float | None, typer.Argument(metavar="[VALUE]", help="Its right outcome.")] = None,
    reason: Annotated[str, typer.Option(help="Why; it is kept in the log.")] = "",
    sheet: SheetOption = None,
    storage: StorageOption = DEFAULT,
    by: By = None,
) -> None:
    """Correct outcomes that were told wrong. Decisions that rested on them are taken again, and the changes shown.

    \b
    Examples:
      levers correct oven 17 3.52 --reason "typo"
      levers correct oven --sheet corrected.csv --reason "scale was off"
    """
    study = open_study(name, storage, by)
    if sheet is not None and trial is None:
        wanted = _different(study, sheet)
    elif sheet is None and trial is not None and value is not None:
        wanted = {trial: value}
    else:
        raise InvalidSettingError(
            f"give a sheet or a trial and its outcome: levers correct {name} 17 3.5 --reason typo"
        )
    made = study.correct_many(wanted, reason)
    for correction in made[:20]:
        typer.echo(f"trial {correction.trial}: {correction.before:g} -> {correction.value:g}")
    for line in made[-1].changes or ("no decision changes",):
        typer.echo(f"  {line}")
    typer.echo(_standing(study))


def import_past(
    name: Name,
    sheet: Annotated[Path, typer.Argument(help="A .csv, .tsv or .xlsx file: a column for each factor, and outcome.")],
    note: Annotated[str, typer.Option(help="Where the runs come from; it is kept in the log.")] = "",
    storage: StorageOption = DEFAULT,
    by: By = None,
) -> None:
    """Take in past runs that the study did not ask for. They count from the next decision on.

    The guarantee then rests on these runs having been set (not only watched), with the same noise, and not picked for
    their outcomes. The verdict says so.

    \b
    Example:
      levers import oven last-year.csv --note "trials of 2025"
    """
    n = import_sheet(open_study(name, storage, by), sheet, note)
    typer.echo(
        f"{n} past runs are in; they count from the next decision on.\n"
        "The guarantee now rests on them having been set, with the same noise, and not picked for their outcomes."
    )


def _different(study: Study, path: Path) -> dict[int, float]:
    """The outcomes of a sheet that are not those that were told."""
    sheet = read_sheet(path, study.space)
    assert sheet.trials is not None  # read_sheet needs them unless told otherwise
    given = dict(zip(sheet.trials[sheet.filled].tolist(), sheet.outcomes[sheet.filled].tolist(), strict=True))
    found = {number: value for number, value in given.items() if study.trial(number).value != value}
    if not found:
        raise SheetError("every outcome of this sheet is the one that is known; there is nothing to correct")
    return found


def _has_outcomes(study: Study, path: Path) -> bool:
    """Whether overwriting a sheet would lose what somebody typed."""
    try:
        sheet = read_sheet(path, study.space)
    except LeversError:
        return True
    assert sheet.trials is not None  # read_sheet needs them unless told otherwise
    typed = zip(sheet.trials[sheet.filled].tolist(), sheet.outcomes[sheet.filled].tolist(), strict=True)
    n = study.state.trials.n_trials
    return any(not (0 <= number < n) or study.trial(number).value != value for number, value in typed)


def _nothing(study: Study, again: bool) -> str:
    if again:
        return "no runs are open"
    if study.is_finished:
        return f"the study is finished: levers verdict {study.name}"
    n = len(study.running())
    return (
        f"nothing to hand out: {n} runs are out, and what comes next depends on them (levers ask {study.name} --again)"
    )


def _standing(study: Study) -> str:
    if study.is_finished:
        return f"finished: levers verdict {study.name}"
    return f"{study.status().n_complete} outcomes so far; {study.forecast()}"
