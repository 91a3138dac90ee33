"""A picture as one HTML page that needs nothing else: the drawing, what it says in words, and its data."""

from collections.abc import Sequence
from html import escape

from levers.studies.plots.facts import Facts

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fafafa; --rule: #cccccc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616; --rule: #444444; } }
body { color: var(--ink); background: var(--paper); font: 16px/1.5 system-ui, sans-serif; max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.3rem; }
figure { margin: 0 0 2rem; }
svg { display: block; background: #ffffff; border-radius: 6px; padding: 8px; box-sizing: border-box;
  width: 100%; height: auto; }
figcaption { margin-top: .5rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--rule); padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
"""
# nothing can be loaded or run, whatever a name says; large pictures hold an image of their own
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def html_page(facts: Facts, drawing: str) -> str:
    """The page, with the SVG drawing in it."""
    title = escape(facts.title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<figure>
{drawing[drawing.index("<svg ") :].strip()}
<figcaption>{escape(facts.caption)}</figcaption>
</figure>
{table(facts.header, facts.rows)}
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
