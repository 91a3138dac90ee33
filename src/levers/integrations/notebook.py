"""Notebooks: how values look in a cell. `_repr_html_` of each of them calls `html_of`."""

import dataclasses
import itertools
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from levers.algorithms.base import Verdict
from levers.charts.drawings import charts_of
from levers.charts.html import LEVEL_HEADER, level_cells, style_sheet, table
from levers.charts.view import StudyView
from levers.core.outcome_scale import EVERY_SCALE
from levers.core.space import Space
from levers.experiments.compare import Comparison
from levers.experiments.plan import Plan
from levers.studies.analysis.describe import and_fresh, enough_words, promise, several
from levers.studies.analysis.views import Effects
from levers.studies.run import AnyStudy
from levers.studies.sheets.cells import level_text
from levers.studies.spec import LEAVE_ALONE

MOST_ROWS = 200
"""The most rows of a table in a cell."""
CHARTS = ("effects", "forecast")
"""What is drawn of a study."""
_DARK = ':root[data-theme="dark"]'
_STYLE = """
.levers { color: var(--c-ink); font-family: system-ui, sans-serif; max-width: 60rem; }
.levers table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.levers th, .levers td { text-align: left; padding: .15rem 1rem .15rem 0; border-bottom: 1px solid var(--c-grid); }
.levers .doubt { border-left: .3rem solid var(--c-now); padding-left: .6rem; }
"""
_numbers = itertools.count()


def html_of(value: Any) -> str:
    """A value for a notebook.

    >>> html_of(Space.of({"heat": ["low", "high"]})).count("<td>")
    2
    """
    for kind, show in _SHOWN.items():
        if isinstance(value, kind):
            return f'<div class="levers"><style>{_style()}</style>\n{show(value)}\n</div>'
    return f"<pre>{escape(repr(value))}</pre>"


def _style() -> str:
    """The looks of charts, dark where the notebook's own theme is."""
    return style_sheet().replace(_DARK, f'body[data-jp-theme-light="false"] .levers, {_DARK}') + _STYLE


def _rows(header: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    more = f"<p>{len(rows) - MOST_ROWS:,} more rows.</p>" if len(rows) > MOST_ROWS else ""
    return table(header, rows[:MOST_ROWS]) + more


def _space(space: Space) -> str:
    rows = [(f.name, ", ".join(level_text(level) for level in f.levels)) for f in space.factors]
    settings = f"<p>{several(space.n_factors, 'lever', 'levers')}, {space.n_assignments:,} settings.</p>"
    return settings + _rows(["lever", "levels"], rows)


def _number(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return "-" if value is None else "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if value < 10**15 else f"10^{len(str(value)) - 1}"
    return f"{value + 0.0:.4g}" if isinstance(value, float) else level_text(value)


def _fields(value: Any) -> str:
    """The plain fields of a dataclass, in words."""
    named = ((f.name.replace("_", " "), getattr(value, f.name)) for f in dataclasses.fields(value))
    rows = [
        (name, ", ".join(map(_number, found)) if isinstance(found, tuple) else _number(found))
        for name, found in named
        if found is not None and not (isinstance(found, tuple) and any(map(dataclasses.is_dataclass, found)))
    ]
    return _rows(["", ""], rows)


def _plan(plan: Plan) -> str:
    found, said = _fields(plan), EVERY_SCALE[plan.scale].said
    budgets = [
        (
            f"{row.runs:,}",
            *("nothing" if one is None else said(one, ".3g") for one in (row.typical_tolerance, row.tolerance)),
            "-" if row.loss is None else said(row.loss, ".3g"),
        )
        for row in plan.budgets
    ]
    heads = ["runs", "certified within, typically", "if they aim for certainty", "typical loss"]
    return found + (_rows(heads, budgets) if budgets else "")


def _effects(rows: Effects) -> str:
    return _rows(LEVEL_HEADER, level_cells(rows, ".3g"))


def _verdict(verdict: Verdict) -> str:
    setting = verdict.assignment
    names = setting.space.names
    levels = [(name, level_text(setting[name]) if name in setting else f"({LEAVE_ALONE})") for name in names]
    doubts = "".join(f"<li>{escape(doubt.text)}</li>" for doubt in verdict.doubts)
    against = f'<div class="doubt"><strong>In doubt</strong><ul>{doubts}</ul></div>' if doubts else ""
    enough = enough_words(verdict)
    also = "" if enough is None else f"<p>{escape(enough[0].upper() + enough[1:])}.</p>"
    rests_on = "".join(f"<li>{escape(one.text)}</li>" for one in verdict.provisos)
    said = f"<p><strong>{escape(verdict.promise)}</strong>, after {several(verdict.n_runs, 'run', 'runs')}.</p>"
    return f"{against}{_rows(['lever', 'level'], levels)}{said}{also}<ul>{rests_on}</ul>"


def _study(study: AnyStudy) -> str:
    view = StudyView(study.name, study.frozen())
    best, status, spec = view.best, view.status, view.state.spec
    doubts = "".join(f"<li>{escape(doubt.text)}</li>" for doubt in status.doubts)
    said = [
        f"<p><strong>{escape(study.name)}</strong>: {status.state}, {several(status.n_complete, 'run', 'runs')}"
        f"{and_fresh(status.n_fresh)}"
        f"{'' if view.is_finished else f', {escape(str(status.to_go))}'}.</p>",
        f'<div class="doubt"><strong>In doubt</strong><ul>{doubts}</ul></div>' if doubts else "",
    ]
    if best is not None:
        within, unclaimed = best.said()
        sure = f"{100 * (1 - spec.failure_prob):g} %"
        words = promise(within, sure, view.is_finished, bool(doubts), best.compared_with, unclaimed)
        said.append(f"<p>{escape(words[0].upper() + words[1:])}.</p>")
    return "\n".join([*said, *(_own_ids(_both(pair)) for pair in charts_of(view, CHARTS))])


def _both(pair: Any) -> str:
    wide, narrow = pair
    return f'<div class="charts">{wide.svg}{narrow.svg}</div><p>{escape(wide.facts.caption)}</p>'


def _own_ids(drawing: str) -> str:
    """A drawing whose ids are its own: a notebook has many cells on one page."""
    number = next(_numbers)
    ids = "|".join(re.escape(one) for one in re.findall(r'\bid="([^"]+)"', drawing))
    return re.sub(rf'(?<=["#\s])({ids})(?=["\s)])', rf"n{number}-\1", drawing) if ids else drawing


_SHOWN: dict[type, Any] = {
    Space: _space,
    Plan: _plan,
    Verdict: _verdict,
    Effects: _effects,
    AnyStudy: _study,
    Comparison: _fields,
}
"""How each kind of value is shown."""
