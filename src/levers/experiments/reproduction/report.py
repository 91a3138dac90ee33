"""The report of a reproduction: one HTML page that needs nothing else, and a Markdown page for the docs."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import polars as pl

from levers.errors import InvalidSettingError
from levers.experiments.reproduction.catalogue import SWEEPS
from levers.experiments.reproduction.claims import Claim
from levers.experiments.reproduction.figures import draw_figures, drawn
from levers.experiments.reproduction.markdown import markdown
from levers.experiments.reproduction.parts import write_whole
from levers.experiments.reproduction.report_parts import (
    ABOUT,
    CLAIMS_HEADER,
    READING,
    TITLE,
    again,
    amount,
    counted,
    made_with,
)
from levers.experiments.reproduction.run import Reproduction
from levers.experiments.reproduction.styles import in_order

FIGURES = Path("figures")
"""The folder of the figures, seen from the report."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fafafa; --rule: #cccccc; --soft: #5a5a5a; --head: #eeeeee;
  --good: #00664b; --bad: #a33c00; --part: #7a5200; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616; --rule: #444444; --soft: #b0b0b0;
  --head: #262626; --good: #4fd1a5; --bad: #ff9a5c; --part: #f0c050; } }
body { color: var(--ink); background: var(--paper); font: 16px/1.5 system-ui, sans-serif; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin-top: 3rem; border-bottom: 1px solid var(--rule); }
p, li, figcaption { max-width: 46rem; }
figure { margin: 1rem 0; }
svg { display: block; background: #ffffff; border-radius: 6px; padding: 8px; box-sizing: border-box;
  width: 100%; max-width: 54rem; height: auto; }
figcaption { margin-top: .5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--rule); padding: .3rem 1rem .3rem 0; text-align: left; vertical-align: top; }
thead th { background: var(--head); padding-left: .3rem; vertical-align: bottom; }
tbody th { font-weight: 600; }
.numbers td { white-space: nowrap; }
small { color: var(--soft); display: block; font-size: .78rem; font-weight: 400; }
.claims td, .claims th { min-width: 6rem; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.part { color: var(--part); font-weight: 600; }
pre { background: var(--head); padding: .8rem; border-radius: 6px; overflow-x: auto; font-size: .85rem; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # nothing is loaded or run, whatever a name says
_CLASSES = {"holds": "good", "does not hold": "bad", "holds only as released": "part"}


def write_report(reproduction: Reproduction, claims: Sequence[Claim], folder: str | Path) -> Path:
    """Write report.html, report.md and the figures that it links to; gives the path of report.html."""
    target = Path(folder)
    draw_figures(reproduction, target / FIGURES)
    drawings = {name: (target / FIGURES / f"{name}.svg").read_text("utf-8") for name in drawn(reproduction)}
    try:
        write_whole(target / "report.md", markdown(reproduction, claims, FIGURES).encode())
        write_whole(target / "report.html", html(reproduction, claims, drawings).encode())
    except OSError as error:
        raise InvalidSettingError(f"cannot write to {target}: {error.strerror or error}") from None
    return target / "report.html"


def html(reproduction: Reproduction, claims: Sequence[Claim], drawings: dict[str, str]) -> str:
    """The page, with the SVG drawings of the experiments in it."""
    summary = reproduction.summary
    made = "".join(f'<tr><th scope="row">{a}</th><td>{escape(b)}</td></tr>\n' for a, b in made_with(reproduction))
    sections = [
        _section(name, drawing, summary.filter(pl.col("experiment") == name)) for name, drawing in drawings.items()
    ]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{TITLE}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{TITLE}</h1>
<p>{ABOUT}</p>
<h2>Settings</h2>
<table>
<tbody>
{made}</tbody>
</table>
<h2>Claims of the paper</h2>
<p>{escape(counted(claims))}</p>
{_claims(claims) if claims else ""}
{"".join(sections) or "<p>There are no results.</p>"}
<h2>Run it again</h2>
<p>The same seed gives the same numbers, whatever the number of workers.</p>
<pre><code>{escape(again(reproduction))}</code></pre>
</body>
</html>
"""


def own_ids(drawing: str, name: str) -> str:
    """A drawing whose ids are its own, so that several may be on a page.

    >>> own_ids('<svg><g id="a"/><use xlink:href="#a" clip-path="url(#b)"/></svg>', "n")
    '<svg><g id="n-a"/><use xlink:href="#n-a" clip-path="url(#n-b)"/></svg>'
    """
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", drawing)


def _section(name: str, drawing: str, points: pl.DataFrame) -> str:
    sweep = SWEEPS[name]
    return f"""<h2 id="{name}">{escape(sweep.title)}</h2>
<figure>
{own_ids(drawing[drawing.index("<svg ") :].strip(), name)}
<figcaption>{escape(sweep.caption)} {READING}</figcaption>
</figure>
{_numbers(points, sweep.title, sweep.x_label)}
"""


def _claims(claims: Sequence[Claim]) -> str:
    rows = []
    for claim in claims:
        kind = _CLASSES.get(claim.verdict, "open")
        rows.append(
            f'<tr><td>{escape(claim.experiment)}</td><th scope="row">{escape(claim.name)}'
            f"<small>{escape(claim.sentence)}</small></th><td>{escape(claim.measured)}</td>"
            f'<td class="{kind}">{escape(claim.verdict)}</td><td>{escape(claim.why)}</td></tr>'
        )
    return _wide("claims", "claims", CLAIMS_HEADER, rows)


def _numbers(points: pl.DataFrame, title: str, x_label: str) -> str:
    contenders = in_order(points["contender"])
    rows = []
    for (panel, x), here in points.group_by("panel", "x", maintain_order=True):
        found = {
            row["contender"]: f"{amount(row['runs'], row['runs_se'])}<small>gap {row['gap']:.3f}</small>"
            f"<small>{row['failures']} of {row['n']} failed</small>"
            for row in here.iter_rows(named=True)
        }
        cells = "".join(f"<td>{found.get(contender, '')}</td>" for contender in contenders)
        rows.append(f'<tr><td>{escape(str(panel))}</td><th scope="row">{x:g}</th>{cells}</tr>')
    return _wide(title, "numbers", ("panel", x_label, *contenders), rows)


def _wide(title: str, kind: str, header: Sequence[str], rows: Sequence[str]) -> str:
    """A table that scrolls by itself, with a keyboard too."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="Table: {escape(title)}">\n<table class="{kind}">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table>\n</div>"
    )
