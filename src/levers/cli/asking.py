"""`levers ask`: runs out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levers.cli.common import (
    DEFAULT,
    FormatOption,
    Name,
    SheetOption,
    StorageOption,
    TokenOption,
    UrlOption,
    at_url,
    command,
    reach_study,
    say_json,
    several,
)
from levers.cli.render import Format
from levers.cli.rows import trial_row
from levers.errors import LeversError, SheetError
from levers.studies.events import Numbers, numbers
from levers.studies.sheet_runs import block_numbers, check_target, is_of_study, runs_text, write_runs
from levers.studies.sheets import read_sheet, sheet_text
from levers.studies.study import Study

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
