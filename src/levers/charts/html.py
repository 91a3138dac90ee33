"""HTML pages that need no other file: for a picture, for the report of a study, and for that of a reproduction."""

from collections.abc import Sequence
from functools import lru_cache
from html import escape
from pathlib import Path


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
