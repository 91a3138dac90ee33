"""Results as tables, JSON or CSV."""

import csv
import dataclasses
import io
import json
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from levers.algorithms.base import Verdict

if TYPE_CHECKING:
    import polars


class Format(StrEnum):
    """How results are printed."""

    table = "table"
    json = "json"
    csv = "csv"


def console() -> Console:
    """Standard output; wide enough for the tables where it is not a terminal."""
    found = Console()
    return found if found.is_terminal else Console(width=120)


def rows_as_json(rows: Sequence[Any]) -> str:
    """Dataclass rows as a JSON array."""
    return json.dumps([dataclasses.asdict(row) for row in rows], indent=2)


def rows_as_csv(rows: Sequence[Any]) -> str:
    """Dataclass rows as CSV with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in dataclasses.fields(rows[0])], lineterminator="\n")
    writer.writeheader()
    writer.writerows(dataclasses.asdict(row) for row in rows)
    return text.getvalue().rstrip("\n")


def rows_as_table(rows: Sequence[Any], title: str) -> Table:
    """Dataclass rows as a table for people: numbers rounded and to the right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for field in dataclasses.fields(rows[0]):
        table.add_column(field.name, justify="left" if field.name == "algorithm" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(value) for value in dataclasses.astuple(row)))
    return table


def frame_as_table(frame: "polars.DataFrame", most: int) -> Table:
    """The first rows of a frame for people, and how many more there are."""
    left = max(frame.height - most, 0)
    title = f"{frame.height} rows" + (f", the first {most} shown; --format csv has all" if left else "")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in frame.columns:
        table.add_column(escape(name))
    for row in frame.head(most).iter_rows():
        table.add_row(
            *(
                escape(value.strftime("%Y-%m-%d %H:%M") if isinstance(value, datetime) else _cell(value))
                for value in row
            )
        )
    return table


def verdict_table(verdict: Verdict) -> Table:
    """Each factor's chosen level, whether it matters, and what the other levels lose."""
    table = Table(title="The best setting found", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("factor")
    table.add_column("set to", style="bold")
    table.add_column("matters")
    table.add_column("estimated loss at the other levels", style="dim")
    found = set(verdict.parents or ())
    for k, factor in enumerate(verdict.assignment.space.factors):
        chosen = verdict.assignment.codes[k]
        losses = verdict.effects[k] if verdict.effects else ()
        others = [
            f"{factor.levels[i]}: {loss:.2f}" for i, loss in enumerate(losses) if i != chosen and loss is not None
        ]
        matters = "yes" if factor.name in found else "no sign of it"
        table.add_row(factor.name, str(factor.levels[chosen]), matters, "  ".join(others))
    return table


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
