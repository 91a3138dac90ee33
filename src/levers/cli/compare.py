"""`levers compare`: algorithms on the same random worlds."""

import os
from typing import Annotated

import typer

from levers.cli.render import Format, console, rows_as_csv, rows_as_json, rows_as_table
from levers.core.schedules import SCHEDULES
from levers.errors import InvalidSettingError
from levers.experiments.comparison import DEFAULT_ALGORITHMS, Comparison, run_tasks, summarise
from levers.progress import progress_bar


def parse_range(text: str) -> tuple[int, int]:
    """`3-6` or `4` as a pair of whole numbers.

    >>> parse_range("3-6"), parse_range("4")
    ((3, 6), (4, 4))
    """
    low, _, high = text.partition("-")
    try:
        return int(low), int(high or low)
    except ValueError:
        raise InvalidSettingError(f"levels must look like 3-6 or 4, not {text!r}") from None


def compare(
    factors: Annotated[int, typer.Option(help="Number of factors (K).")] = 10,
    parents: Annotated[int, typer.Option(help="How many of them influence the outcome (P_Y).")] = 3,
    levels: Annotated[str, typer.Option(help="Levels per factor, a range like 3-6 or one number.")] = "3-6",
    tolerance: Annotated[float, typer.Option(help="How far from the best is good enough (eps).")] = 0.5,
    failure_prob: Annotated[float, typer.Option(help="How often the answer may be worse than that (delta).")] = 0.1,
    noise_sd: Annotated[float, typer.Option(help="Standard deviation of the noise.")] = 1.0,
    worlds: Annotated[int, typer.Option(help="Number of random worlds.")] = 20,
    repeats: Annotated[int, typer.Option(help="Runs of each algorithm on each world.")] = 5,
    algorithms: Annotated[str, typer.Option(help="Names, separated by commas.")] = ",".join(DEFAULT_ALGORITHMS),
    known_parents: Annotated[
        bool, typer.Option("--known-parents", help="Tell the algorithms the number of parents.")
    ] = False,
    known_min_effect: Annotated[
        bool, typer.Option("--known-min-effect", help="Tell the algorithms the least range of a parent's effects.")
    ] = False,
    schedule: Annotated[str, typer.Option(help=f"MODL's widths: {', '.join(SCHEDULES)}.")] = SCHEDULES[0],
    degree: Annotated[float, typer.Option(help="Expected degree of the causal graph.")] = 3.0,
    interaction: Annotated[float, typer.Option(help="Strength of interactions that break additivity (alpha).")] = 0.0,
    min_effect: Annotated[float, typer.Option(help="Least range of every parent's effects.")] = 0.0,
    max_in_degree: Annotated[int, typer.Option(help="Cap on the causes of a factor; -1 for none.")] = 6,
    workers: Annotated[int, typer.Option(help="Processes; 0 for one per core.")] = 0,
    seed: Annotated[int, typer.Option(help="Same seed, same numbers.")] = 0,
    output: Annotated[Format, typer.Option("--format", help="How to print the result.")] = Format.table,
) -> None:
    """Compare algorithms on the same random worlds of the paper.

    \b
    Examples:
      levers compare --factors 10 --parents 3
      levers compare --algorithms modl,successive-elimination --factors 4 --parents 2 --format csv
      levers compare --schedule proof --factors 5 --parents 2 --min-effect 0.5
    """
    plan = Comparison(
        n_factors=factors,
        n_parents=parents,
        levels=parse_range(levels),
        tolerance=tolerance,
        failure_prob=failure_prob,
        noise_sd=noise_sd,
        n_worlds=worlds,
        n_repeats=repeats,
        algorithms=tuple(name.strip() for name in algorithms.split(",") if name.strip()),
        known_parents=known_parents,
        known_min_effect=known_min_effect,
        schedule=schedule,
        degree=degree,
        interaction=interaction,
        min_effect=min_effect,
        max_in_degree=None if max_in_degree < 0 else max_in_degree,
        seed=seed,
    )
    records = []
    with progress_bar("studies", len(plan.tasks()) * len(plan.algorithms)) as advance:
        for batch in run_tasks(plan, workers or os.cpu_count() or 1):
            records += batch
            advance(len(batch), f"world {batch[0].world + 1} of {worlds}")
    summaries = summarise(plan.algorithms, records)
    if output is Format.table:
        out = console()
        title = f"{factors} factors, {parents} parents, {worlds} worlds x {repeats}"
        out.print(rows_as_table(summaries, title, out.width))
    else:
        typer.echo(rows_as_json(summaries) if output is Format.json else rows_as_csv(summaries))
