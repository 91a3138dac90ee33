"""Results as tables, JSON or CSV."""

import csv
import dataclasses
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from levers.algorithms.base import Verdict
from levers.cli.terminal import Terminal
from levers.core.outcome_scale import EVERY_SCALE
from levers.core.space import FREE
from levers.core.validation import visible
from levers.studies.analysis.describe import TIED_BELOW_ZERO, chance, matter_words, why_below_zero
from levers.studies.analysis.views import EffectRow
from levers.studies.sheets.cells import level_text, printed
from levers.studies.spec import LEAVE_ALONE

if TYPE_CHECKING:  # what draws tables takes a while to import, and most commands print lines, JSON or CSV
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_GAP = 3  # between two columns of a table


class Format(StrEnum):
    """How results are printed."""

    table = "table"
    json = "json"
    csv = "csv"


def console() -> "Console":
    """Standard output; wide enough for the tables where it is not a terminal."""
    from rich.console import Console

    found = Console(file=sys.stdout.raw if isinstance(sys.stdout, Terminal) else None)
    return found if found.is_terminal else Console(width=120)


def rows_as_csv(rows: Sequence[Any]) -> str:
    """Rows as CSV with a header: dataclasses, or mappings of columns to values.

    A dataclass in a row gets a column for each of its fields. Of a list of things in a row, as of doubts, the cell has
    their texts. No spreadsheet takes a text in it for a formula.
    """
    flat = [_flat(row if isinstance(row, Mapping) else dataclasses.asdict(row)) for row in rows]
    flat = [{key: printed(value) if isinstance(value, str) else value for key, value in row.items()} for row in flat]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(flat[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue().rstrip("\n")


def rows_as_table(
    rows: Sequence[Any], title: str, width: int, drop: Iterable[str] = (), never: Iterable[str] = ()
) -> "Table":
    """Dataclass rows as a table for people; where it is too wide, the columns of `drop` go, the first one first.

    Those of `never` are for programs only.
    """
    names = [field.name for field in dataclasses.fields(rows[0]) if field.name not in tuple(never)]
    columns = {name: [cell(getattr(row, name)) for row in rows] for name in names}
    texts = {name for name in names if any(isinstance(getattr(row, name), str) for row in rows)}
    for name in drop:
        if table_width(columns) <= width:
            break
        del columns[name]
    return as_table(columns, texts, title)


def as_table(columns: Mapping[str, Sequence[str]], to_the_left: Iterable[str], title: str | None = None) -> "Table":
    """Columns of texts as a table. Nothing in them is markup: a name such as [red] is shown as it is."""
    from rich.text import Text

    titled = None if title is None else Text(title)
    table = _empty_table(titled, pad_edge=False)
    left = set(to_the_left)
    for name in columns:
        if name in left:
            table.add_column(Text(visible(name)), overflow="fold")
        else:
            table.add_column(Text(visible(name)), justify="right", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*(Text(visible(text)) for text in row))
    return table


def table_width(columns: Mapping[str, Sequence[str]]) -> int:
    """How wide a table is that nobody squeezes.

    >>> table_width({"heat": ["low", "medium"], "n": ["1", "2"]})
    12
    """
    widest = (max(map(_width, (name, *texts))) for name, texts in columns.items())
    return sum(width + _GAP for width in widest) - 1


def _empty_table(title: "Text | str | None", pad_edge: bool = True) -> "Table":
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=pad_edge)


def print_verdict(
    out: "Console", verdict: Verdict, effects: Sequence[EffectRow] = (), parts: Sequence[EffectRow] = ()
) -> None:
    """Each factor's chosen level, whether it matters, and what the other levels lose.

    A verdict on levers that were studied as one has no losses of its own: they are those of `effects`, and levers that
    are one factor there get a line of their own, for their combinations. What each of them loses by itself is in
    `parts`.
    """
    from rich.text import Text

    by_itself, losses = _losses_by_factor(parts), _losses(verdict, effects)
    in_percent = EVERY_SCALE[verdict.scale].is_log
    every = [row for rows in losses.values() for row in rows]
    table = _empty_table("The best setting found")
    losing = "estimated loss at the other levels"
    losing += " (ordinary 95 % interval)" if any(row.span for row in every) else ""
    styles = {"lever": "", "set to": "bold", "matters": "", losing: "dim"}
    for name, style in styles.items():
        table.add_column(name, style=style, overflow="fold")
    for k, factor in enumerate(verdict.assignment.space.factors):
        chosen = verdict.assignment.codes[k]
        others = _others(losses.pop(factor.name, by_itself.get(factor.name, [])), in_percent)
        others = f"among its levels, {others}" if chosen == FREE and others else others
        p_value = verdict.p_values[k] if verdict.p_values else None
        matters = matter_words(verdict, factor.name) or "yes"
        if verdict.parents is None:  # it was not looked for
            matters = "not looked for" if p_value is None else f"not looked for ({chance(p_value)})"
        level = LEAVE_ALONE if chosen == FREE else level_text(factor.levels[chosen])
        table.add_row(*(Text(visible(text)) for text in (factor.name, level, matters, others)))
    for name, rows in losses.items():  # what is left are levers that were studied as one
        level = next((row.level for row in rows if row.is_chosen), "")
        table.add_row(*(Text(visible(text)) for text in (name, level, "", _others(rows, in_percent))))
    out.print(table)
    any_negative = any(_loss(row.loss, in_percent).startswith("-") for row in every if not row.is_chosen)
    if any_negative and (why := why_below_zero(verdict)):
        out.print(f"{why[0].upper()}{why[1:]}: so a small negative loss can appear.\n")
    if any(_loss(row.loss, in_percent).startswith("-") for rows in by_itself.values() for row in rows):
        out.print(f"{TIED_BELOW_ZERO[0].upper()}{TIED_BELOW_ZERO[1:]}.\n")


class _LevelLoss(NamedTuple):
    """What a level loses, if it is known, with its ordinary interval, if it has one."""

    level: str
    loss: float | None
    span: tuple[float, float] | None
    is_chosen: bool


def _losses(verdict: Verdict, effects: Sequence[EffectRow]) -> dict[str, list[_LevelLoss]]:
    """What each level of each factor loses: as the verdict says, else as the rows of effects do."""
    if verdict.effects:
        found: dict[str, list[_LevelLoss]] = {}
        for k, factor in enumerate(verdict.assignment.space.factors):
            spans = verdict.usual_intervals[k] if verdict.usual_intervals else (None,) * factor.n_levels
            found[factor.name] = [
                _LevelLoss(level_text(level), verdict.effects[k][i], spans[i], i == verdict.assignment.codes[k])
                for i, level in enumerate(factor.levels)
            ]
        return found
    return _losses_by_factor(effects)


def _losses_by_factor(effects: Sequence[EffectRow]) -> dict[str, list[_LevelLoss]]:
    found: dict[str, list[_LevelLoss]] = {}
    for row in effects:
        span = None if row.usual_low is None or row.usual_high is None else (row.usual_low, row.usual_high)
        loss = _LevelLoss(level_text(row.level), row.loss, span, row.standing == "chosen")
        found.setdefault(row.factor, []).append(loss)
    return found


def _others(rows: Iterable[_LevelLoss], in_percent: bool) -> str:
    """What the levels that were not chosen lose, on one line."""
    shown = []
    for row in rows:
        if row.is_chosen or row.loss is None:
            continue
        text = f"{row.level}: {_loss(row.loss, in_percent)}"
        if row.span is not None:
            text += f" ({_loss(row.span[0], in_percent)} to {_loss(row.span[1], in_percent)})"
        shown.append(text)
    return "  ".join(shown)


def cell(value: object) -> str:
    """A value in a table for people: numbers are rounded.

    >>> [cell(value) for value in (None, 1234.56, 0.123456, 12345, True)]
    ['-', '1,234.6', '0.123', '12,345', 'true']
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return level_text(value)
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else visible(str(value))


def _width(text: str) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, text.splitlines()), default=0)


def _loss(loss: float | None, in_percent: bool) -> str:
    """A loss with two digits behind the point, or in percent with one; never -0.00."""
    if loss is None:
        return ""
    return f"{round(100 * loss, 1) + 0.0:.1f} %" if in_percent else f"{round(loss, 2) + 0.0:.2f}"


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{name}_{key}": item for key, item in value.items()}
        else:
            found[name] = _plain(value) if isinstance(value, list | tuple) else value
    return found


def _plain(items: Sequence[Any]) -> str:
    """A list as one text: of what says something in words, its words.

    >>> _plain(["heat", 3]), _plain([{"kind": "order", "text": "outcomes drift"}])
    ('heat; 3', 'outcomes drift')
    """
    return "; ".join(str(one["text"] if isinstance(one, Mapping) and "text" in one else one) for one in items)
