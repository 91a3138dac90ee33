"""`levers reproduce`: every experiment of the paper."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from levers.cli.render import console
from levers.experiments.reproduction.checking import check_claims
from levers.experiments.reproduction.report import write_report
from levers.experiments.reproduction.run import ALL, all_tasks
from levers.experiments.reproduction.run import reproduce as run_experiments
from levers.experiments.reproduction.sweep import Task
from levers.progress import progress_bar


def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            help="all, parents, elimination, support, degree, misspecification or hardness.", metavar="WHAT"
        ),
    ] = ALL,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for results.")] = Path("reproduction"),
    size: Annotated[
        str, typer.Option(help="smoke (seconds), notebook (20 worlds x 5) or paper (20 x 50).")
    ] = "notebook",
    workers: Annotated[int, typer.Option(help="Processes on this machine.")] = 2,
    scheduler: Annotated[str | None, typer.Option(help="A dask scheduler, for example tcp://127.0.0.1:8786.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same tables, byte for byte.")] = 0,
) -> None:
    """Run the paper's experiments, draw its figures, and check what its text says.

    Stop it whenever you like; the same command goes on where it was.

    \b
    Examples:
      levers reproduce all --size smoke -o results
      levers reproduce parents --size paper --workers 8 -o results
      levers reproduce all --size paper --scheduler tcp://127.0.0.1:8786 -o results
    """
    _, tasks = all_tasks(what, size, seed)
    with progress_bar("tasks", len(tasks)) as advance:
        shown = 0

        def on_task(task: Task, done: int, of: int) -> None:
            nonlocal shown
            advance(done - shown, task.sweep)
            shown = done

        found = run_experiments(
            what, output, size=size, seed=seed, workers=workers, scheduler=scheduler, on_task=on_task
        )
    claims = check_claims(found)
    report = write_report(found, claims, output)
    out = console()
    for claim in claims:
        colour = {"holds": "green", "does not hold": "red"}.get(claim.verdict, "yellow")
        out.print(Text.assemble((f"{claim.verdict:22}", colour), f" {claim.name}: {claim.measured}"))
    out.print(Text(f"\n{found.runs.height:,} runs of studies in {found.seconds:.0f} s; report: {report}"))
