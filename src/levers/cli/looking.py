"""`levers status`, `effects`, `forecast`, `verdict`, `trials`, `export`, `plot`: what a study says."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from levers.algorithms.base import Verdict
from levers.cli.common import DEFAULT, FormatOption, Name, StorageOption, open_study, plain, say_json, say_rows, when
from levers.cli.render import Format, console, verdict_table
from levers.core.codec import to_json
from levers.errors import InvalidSettingError, NotFinishedError
from levers.studies.study import Study
from levers.studies.trials import TrialState


def status(name: Name, storage: StorageOption = DEFAULT, output: FormatOption = Format.table) -> None:
    """Where a study stands: runs made, runs to go, the leading setting, corrections.

    \b
    Example:
      levers status oven
    """
    study = open_study(name, storage)
    found, best = study.status(), study.best()
    if output is Format.json:
        say_json({**plain(found), "best": None if best is None else {**plain(best), "params": dict(best.params)}})
        return
    if output is Format.csv:
        say_rows([found], output, "")
        return
    typer.echo(f"{found.name}: {found.state}, {found.stage}, {found.goal} with {found.algorithm}")
    typer.echo(f"  {found.n_complete} outcomes, {found.n_running} runs out, {found.n_waiting} waiting in this block")
    if found.n_failed or found.n_stale:
        typer.echo(f"  {found.n_failed} failed and {found.n_stale} stale runs, asked for again")
    if found.n_past:
        typer.echo(f"  {found.n_past} imported runs")
    typer.echo("  no runs to go" if study.is_finished else f"  {found.to_go}")
    if best is not None:
        typer.echo(f"  leading: {', '.join(f'{factor}={level}' for factor, level in best.params.items())}")
        if best.within is not None:
            sure = 1 - study.spec.failure_prob
            typer.echo(f"  within {best.within:.3g} of the best with probability {sure:.0%}, at whatever time you look")
        if best.predicted is not None:
            typer.echo(f"  mean outcome there: {best.predicted:.4g} ({best.low:.4g} to {best.high:.4g})")
    for correction in study.state.corrections[-5:]:
        typer.echo(
            f"  corrected {when(correction.at)} by {correction.who}: trial {correction.trial} "
            f"{correction.before:g} -> {correction.value:g} ({correction.reason})"
        )


def effects(name: Name, storage: StorageOption = DEFAULT, output: FormatOption = Format.table) -> None:
    """What each level loses against the leading one, with intervals that all hold at once.

    \b
    Example:
      levers effects oven --format csv
    """
    say_rows(open_study(name, storage).effects(), output, "Loss against the leading level")


def forecast(name: Name, storage: StorageOption = DEFAULT, output: FormatOption = Format.table) -> None:
    """How many runs are still to go.

    \b
    Example:
      levers forecast oven
    """
    found = open_study(name, storage).forecast()
    if output is Format.table:
        typer.echo(str(found))
    else:
        say_rows([found], output, "")


def verdict(name: Name, storage: StorageOption = DEFAULT, output: FormatOption = Format.table) -> None:
    """The answer and its guarantee. Exit code 3 while the study is not finished.

    \b
    Example:
      levers verdict oven --format json
    """
    study = open_study(name, storage)
    if not study.is_finished:
        raise NotFinishedError(f"{name!r} is not finished: {study.forecast()}; levers status {name}")
    found = study.verdict()
    if output is Format.table:
        _print_verdict(study, found)
    elif output is Format.csv:
        say_rows(study.effects(), output, "")
    else:
        say_json(
            {
                "assignment": dict(study.best_params),
                "tolerance": found.tolerance,
                "failure_prob": found.failure_prob,
                "guarantee": found.guarantee,
                "certificate": found.certificate,
                "noise": found.noise,
                "goal": found.goal,
                "algorithm": found.algorithm,
                "parents": found.parents,
                "n_runs": found.n_runs,
                "runs_by_stage": dict(found.runs_by_stage),
                "effects": study.effects(),
            }
        )


def _print_verdict(study: Study, found: Verdict) -> None:
    out = console()
    out.print(verdict_table(found))
    set_to = ", ".join(f"{factor}={level}" for factor, level in study.best_params.items())
    typer.echo(f"Set {set_to}.")
    typer.echo(
        f"Within {found.tolerance:.3g} of the best with probability at least {1 - found.failure_prob:.0%}: "
        f"{found.guarantee}."
    )
    stages = ", ".join(f"{n} {stage}" for stage, n in found.runs_by_stage)
    typer.echo(f"Runs: {found.n_runs} ({stages}).")


def trials(
    name: Name,
    state: Annotated[str | None, typer.Option(help="Only those in this state, for example running.")] = None,
    storage: StorageOption = DEFAULT,
    output: FormatOption = Format.table,
) -> None:
    """List the trials.

    \b
    Example:
      levers trials oven --state running --format csv
    """
    frame = open_study(name, storage).trials_dataframe()
    if state is not None:
        known = [s.name for s in TrialState]
        if state.upper() not in known:
            raise InvalidSettingError(f"there is no state {state!r}; states are {', '.join(known)}")
        frame = frame.filter(frame["state"] == state.upper())
    if output is Format.json:
        typer.echo(frame.write_json())
    elif output is Format.csv:
        typer.echo(frame.write_csv().rstrip("\n"))
    else:
        from levers.cli.render import frame_as_table

        console().print(frame_as_table(frame, most=50))


def export(
    name: Name,
    output: Annotated[Path, typer.Option("-o", "--output", help="A .csv, .xlsx, .parquet or .json file.")],
    storage: StorageOption = DEFAULT,
) -> None:
    """Write everything that was run to a file; .json is the whole verdict, for `levers.verify`.

    \b
    Examples:
      levers export oven -o trials.csv
      levers export oven -o verdict.json
    """
    from levers.studies.exporting import export_trials

    study = open_study(name, storage)
    if output.suffix.lower() == ".json":
        output.write_text(to_json(study.verdict()) + "\n", encoding="utf-8")
    else:
        export_trials(study, output)
    typer.echo(f"wrote {output}")


def plot(
    name: Name,
    kind: Annotated[str, typer.Argument(help="effects, history, elimination or forecast.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .png, .svg or .html file.")],
    storage: StorageOption = DEFAULT,
) -> None:
    """Draw a picture of a study.

    \b
    Examples:
      levers plot oven effects -o effects.png
      levers plot oven elimination -o elimination.html
    """
    from levers.studies.plots import save_plot

    save_plot(open_study(name, storage), kind, output)
    typer.echo(f"wrote {output}", file=sys.stdout)
