"""HTML pages that need no other file: for a picture, for the report of a study, and for that of a reproduction."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from html import escape
from html.parser import HTMLParser
from pathlib import Path

from levers.core.outcome_scale import EVERY_SCALE
from levers.studies.analysis.views import EffectRow
from levers.studies.sheets.cells import level_text

LEVEL_HEADER = ("lever", "level", "runs", "loss", "all at once", "alone, 95 %", "standing")
"""What the columns of a table of levels are called; `level_cells` makes its rows."""


@lru_cache(maxsize=1)
def style_sheet() -> str:
    """The looks of the charts on a page: light, dark and on paper.

    >>> "prefers-color-scheme: dark" in style_sheet()
    True
    """
    return Path(__file__).with_name("charts.css").read_text("utf-8")


def html_page(title: str, style: str, policy: str, body: str) -> str:
    """A page that needs no other file. The policy keeps it from loading or running anything, whatever a name says."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{body}
</body>
</html>
"""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table.

    >>> print(table(["level"], [["<b>"]]))
    <table>
    <thead><tr><th scope="col">level</th></tr></thead>
    <tbody>
    <tr><td>&lt;b&gt;</td></tr>
    </tbody>
    </table>
    """
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def level_cells(rows: Iterable[EffectRow], span_digits: str = ".4g") -> list[tuple[str, ...]]:
    """A row of texts for each level, below `LEVEL_HEADER`.

    >>> level_cells([EffectRow("heat", "low", 8, 0.5, 0.25, None, "in play", None)])
    [('heat', 'low', '8', '0.5', '-', '-', 'in play')]
    """
    return [
        (
            row.factor,
            level_text(row.level),
            f"{row.n_runs:,}",
            "-" if row.loss is None else EVERY_SCALE[row.scale].said(row.loss),
            _span(row.low, row.high, row.scale, span_digits),
            _span(row.usual_low, row.usual_high, row.scale, span_digits),
            row.standing,
        )
        for row in rows
    ]


PARTS_WORDS = "Levers that forbidden combinations tie together, each by itself: their effects add up."
"""What stands above a table of them."""
PART_HEADER = tuple(name for name in LEVEL_HEADER if name != "all at once")
"""The columns for levels of levers that are tied together, each by itself; `part_cells` makes the rows."""


def part_cells(rows: Iterable[EffectRow]) -> list[tuple[str, ...]]:
    """The same rows below `PART_HEADER`: what holds for all levels at once is said of combinations only."""
    at = LEVEL_HEADER.index("all at once")
    return [(*cells[:at], *cells[at + 1 :]) for cells in level_cells(rows)]


def _span(low: float | None, high: float | None, scale: str, digits: str) -> str:
    said = EVERY_SCALE[scale].said
    return "-" if low is None or high is None else f"{said(low, digits)} to {said(high, digits)}"


def page_text(page: str) -> str:
    """What stands on a page, as plain text for those who cannot see it: headings, lists and tables, no drawings.

    What is folded away is left out: long lists of runs.

    >>> print(page_text(html_page("Oven", "p {}", "", "<p>It is <b>hot</b>.</p>" + table(["level"], [["high"]]))))
    # Oven
    <BLANKLINE>
    It is hot.
    <BLANKLINE>
    level
    high
    """
    reader = _PageReader()
    reader.feed(page)
    reader.close()
    return "\n".join(reader.lines).strip()


_UNREAD = ("head", "svg", "style", "script", "details")
_STARTS = {"h1": "# ", "h2": "## ", "li": "- "}
_LINES = (*_STARTS, "p", "tr", "figcaption")


class _PageReader(HTMLParser):
    """Makes lines of a page's blocks: cells of a row are apart by a bar, blocks by an empty line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._line: list[str] = []
        self._unread = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNREAD:
            self._unread += 1
        elif tag in _LINES:
            self._line = [_STARTS.get(tag, "")]
        elif tag in ("td", "th") and len(self._line) > 1:
            self._line.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNREAD:
            self._unread -= 1
        elif tag in _LINES:
            text = " ".join("".join(self._line).split())
            self._line = []
            if text not in ("", "-"):
                self.lines.append(text)
            if tag in ("h1", "h2", "p", "figcaption"):
                self.lines.append("")
        elif tag in ("ul", "table"):
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if not self._unread:
            self._line.append(data)
