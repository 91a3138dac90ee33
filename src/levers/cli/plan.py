"""`levers plan`: how many runs a study takes, before the first one."""

import dataclasses
import json
import re
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from levers.cli.render import console
from levers.errors import InvalidSettingError
from levers.experiments.planning import Plan
from levers.experiments.planning import plan as make_plan

_ROWS = {
    "one_shot_runs": "one balanced design that settles everything",
    "worst_case_runs": "the adaptive solver, at most",
    "runs_if_nothing_matters": "about, if no factor matters",
    "runs_if_few_matter": "about, if a few factors matter",
    "modl_runs": "the paper's method (MODL), if nothing can be eliminated",
    "one_at_a_time_runs": "one factor at a time, with the same precision",
    "full_factorial": "every setting once",
    "necessary_runs": "limit of any balanced fixed-size design",
    "lower_bound": "limit of any method, on its worst effects",
}


def parse_levels(text: str) -> list[int]:
    """`4x10` is ten factors of four levels; parts are joined by commas.

    >>> parse_levels("4x3,2,5x2")
    [4, 4, 4, 2, 5, 5]
    """
    sizes: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:x(\d+))?\s*", part)
        if not match:
            raise InvalidSettingError(f"levels must look like 4x10 or 3,4,5 or 4x3,2, not {text!r}")
        sizes += [int(match[1])] * int(match[2] or 1)
    return sizes


def plan(
    levels: Annotated[str, typer.Option(help="Levels of each factor: 4x10, or 3,4,5, or a mix.")],
    tolerance: Annotated[float | None, typer.Option(help="How far from the best is good enough.")] = None,
    failure_prob: Annotated[float, typer.Option(help="How often the answer may be worse than that.")] = 0.1,
    noise_sd: Annotated[float, typer.Option(help="Standard deviation of the noise.")] = 1.0,
    max_parents: Annotated[int | None, typer.Option(help="At most so many factors matter.")] = None,
    min_effect: Annotated[float | None, typer.Option(help="A factor that matters moves the outcome so much.")] = None,
    budget: Annotated[int | None, typer.Option(help="Runs available, instead of a tolerance.")] = None,
    certificate: Annotated[str, typer.Option(help="slippage, proven or subgaussian.")] = "slippage",
    output: Annotated[str, typer.Option("--format", help="table or json.")] = "table",
) -> None:
    """Say how many runs a study takes, what each assumption buys, and how far from the limits that is.

    \b
    Examples:
      levers plan --levels 4x10 --tolerance .5 --noise-sd 1
      levers plan --levels 3,4,5,2 --budget 200
      levers plan --levels 5x30 --tolerance .5 --max-parents 4 --format json
    """
    if output not in ("table", "json"):
        raise InvalidSettingError(f"--format must be table or json, not {output!r}")
    found = make_plan(
        parse_levels(levels),
        tolerance=tolerance,
        failure_prob=failure_prob,
        noise_sd=noise_sd,
        max_parents=max_parents,
        min_effect=min_effect,
        budget=budget,
        certificate=certificate,
    )
    if output == "json":
        typer.echo(json.dumps(dataclasses.asdict(found), indent=2))
    else:
        _print(found)


def _print(found: Plan) -> None:
    out = console()
    out.print(
        f"[bold]{found.n_factors} factors[/bold], within {found.tolerance:.3g} of the best with probability "
        f"{1 - found.failure_prob:.0%}, noise sd {found.noise_sd:g}\n"
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("runs", justify="right", style="bold")
    table.add_column("what for")
    for name, text in _ROWS.items():
        value = getattr(found, name)
        if value is not None:
            table.add_row(f"{value:,}" if value < 10**15 else f"10^{len(str(value)) - 1}", text)
    out.print(table)
    trade = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    trade.add_column("tolerance", justify="right")
    trade.add_column("runs of one design", justify="right", style="bold")
    for row in found.trade_off:
        trade.add_row(f"{row.tolerance:.3g}", f"{row.runs:,}")
    out.print(trade)
    if found.over_lower_bound is None:
        return
    ratio = "" if found.over_necessary is None else f"{found.over_necessary:.2f} times the balanced limit and "
    out.print(f"One design takes {ratio}{found.over_lower_bound:.1f} times the limit of any method.")
