"""`levers ask`, `tell`, `fail`, `correct`, `import`: runs out, outcomes in."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levers.cli.options import (
    DEFAULT,
    By,
    FormatOption,
    Name,
    SheetOption,
    StorageOption,
    TokenOption,
    UrlOption,
    at_url,
    command,
    outcome,
    reach_study,
    say_json,
    several,
    trial_number,
    trial_row,
)
from levers.cli.output import Format
from levers.errors import InvalidSettingError, LeversError, SheetError
from levers.studies.events import Numbers, numbers
from levers.studies.sheets.read import read_sheet
from levers.studies.sheets.runs import (
    block_numbers,
    check_target,
    correct_sheet,
    import_sheet,
    is_of_study,
    runs_text,
    write_runs,
)
from levers.studies.sheets.write import sheet_text
from levers.studies.study import NoOutcomeWarning, Study

if TYPE_CHECKING:
    from levers.client import RemoteStudy


def ask(
    context: typer.Context,
    name: Name,
    n: Annotated[
        int | None, typer.Option("-n", help="How many runs; the study's block size if not given, or 1.")
    ] = None,
    sheet: SheetOption = None,
    again: Annotated[bool, typer.Option("--again", help="The open runs once more, instead of new ones.")] = False,
    worker: Annotated[str | None, typer.Option(help="Who makes the runs.")] = None,
    lease: Annotated[float | None, typer.Option(help="Hours after which they go to whoever asks next.")] = None,
    storage: StorageOption = DEFAULT,
    url: UrlOption = None,
    token: TokenOption = None,
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
    study = reach_study(context, name)
    if not isinstance(study, Study):
        _ask_there(context, study, n, sheet, again, worker, None if lease is None else 3600 * lease, output)
        return
    if sheet is not None:  # whatever may be wrong with it is found before any run is handed out
        if sheet.exists():
            _check_overwritable(study, sheet)
        check_target(study, sheet)
    wanted = n if n is not None else study.spec.block_size or 1
    if again:
        due = numbers([t.number for t in study.running(worker)][: n or None])
    else:
        due = study.ask_numbers(wanted, worker=worker, lease=None if lease is None else 3600 * lease)
    if not due.size:
        if output is Format.json and sheet is None:
            say_json([])
        typer.echo(_nothing(context, study, again), err=True)
        return
    if sheet is not None:
        _write(study, due, sheet)
    elif output is Format.json:
        blocks = block_numbers(study.state, due).tolist()
        say_json([trial_row(study.trial(t), block) for t, block in zip(due.tolist(), blocks, strict=True)])
    else:
        typer.echo(runs_text(study, due).rstrip("\n"))
    if len(due) < wanted and not again:
        typer.echo(f"{len(due)} of {wanted}: what comes next depends on the outcomes of this block", err=True)
    others = study.status().n_running - len(due)
    if sheet is not None and others > 0:
        are = several(others, "other run is", "other runs are")
        typer.echo(f"{are} still out: {command('ask', name, '--again')} lists them", err=True)


def _ask_there(
    context: typer.Context,
    study: "RemoteStudy",
    n: int | None,
    sheet: Path | None,
    again: bool,
    worker: str | None,
    lease: float | None,
    output: Format,
) -> None:
    """The same from a service."""
    if sheet is not None:
        n_runs = (
            study.open_sheet(sheet, worker=worker) if again else study.ask_sheet(sheet, n, worker=worker, lease=lease)
        )
        then = at_url(context, "tell", study.name, "--sheet", sheet)
        wrote = f"wrote {several(n_runs, 'run', 'runs')} to {sheet}; fill in the column outcome, then: {then}"
        typer.echo(wrote if n_runs else _nothing(context, study, again), err=not n_runs)
        return
    size = study.spec.block_size
    due = study.running(worker)[: n or None] if again else study.ask(n or size or 1, worker=worker, lease=lease)
    blocks = [1 + (trial.block if size is None else trial.number // size) for trial in due]
    if output is Format.json:
        say_json([trial_row(trial, block) for trial, block in zip(due, blocks, strict=True)])
    elif due:
        codes = [trial.params.codes for trial in due]
        text = sheet_text(study.space, trials=[trial.number for trial in due], blocks=blocks, codes=codes)
        typer.echo(text.rstrip("\n"))
    if not due:
        typer.echo(_nothing(context, study, again), err=True)


def _write(study: Study, due: Numbers, sheet: Path) -> None:
    try:
        write_runs(study, due, sheet)
    except (LeversError, OSError) as error:
        retry = command("ask", study.name, "--again", "--sheet", sheet)
        raise SheetError(f"{error}; the runs are out: {retry}") from error
    then = command("tell", study.name, "--sheet", sheet)
    typer.echo(f"wrote {several(len(due), 'run', 'runs')} to {sheet}; fill in the column outcome, then: {then}")


def _check_overwritable(study: Study, path: Path) -> None:
    """Refuse to lose what somebody typed, and files that are something else."""
    try:
        sheet = read_sheet(path, study.space)
    except SheetError as error:
        if str(error).startswith("cannot read"):
            raise _foreign(path) from None
        raise _filled_in(study, path) from None  # a typo, which `tell` explains
    if not is_of_study(study, sheet):
        raise _foreign(path)
    assert sheet.trials is not None  # read_sheet needs them unless told otherwise
    typed = zip(sheet.trials[sheet.filled].tolist(), sheet.outcomes[sheet.filled].tolist(), strict=True)
    if any(study.trial(number).value != value for number, value in typed):
        raise _filled_in(study, path)


def _foreign(path: Path) -> SheetError:
    return SheetError(f"{path} is there already and is no run sheet of this study; choose another file")


def _filled_in(study: Study, path: Path) -> SheetError:
    first = command("tell", study.name, "--sheet", path)
    return SheetError(f"{path} has outcomes in it; `{first}` first, or choose another file")


def _nothing(context: typer.Context, study: "Study | RemoteStudy", again: bool) -> str:
    if again:
        return "no runs are open"
    if study.is_finished:
        return f"the study is finished: {at_url(context, 'verdict', study.name)}"
    are = several(len(study.running()), "run is", "runs are")
    listing = at_url(context, "ask", study.name, "--again")
    return f"nothing to hand out: {are} out, and what comes next depends on them ({listing})"


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
