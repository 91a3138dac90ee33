"""The report of a reproduction: one HTML page that needs nothing else, and a Markdown page for the docs."""

import platform
import re
from collections.abc import Callable, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from levers.charts.html import html_page
from levers.errors import InvalidSettingError
from levers.reproduction.evidence import DOES_NOT, HOLDS, UNDECIDED, Claim
from levers.reproduction.figures import alt_text, draw_figures, drawn, experiment_of, figures, in_order
from levers.reproduction.results import write_whole
from levers.reproduction.run import ALL, Reproduction
from levers.reproduction.sweeps import GAUSSIAN, SWEEPS, WORLDS_AND_REPEATS, experiments

TITLE = "Additive Causal Bandits with Unknown Graph: the experiments, run again"
ABOUT = (
    "The experiments of the paper of that name (Malek, Aglietti, Chiappa, ICML 2023), run with the package levers. "
    "Each method sets or watches the levers of random worlds until it can name a setting that is, with probability "
    "0.9, within 0.5 of the best one. Counted are the runs it takes, and how far from the best its setting truly is: "
    "its gap. cfs is the method of levers, modl the paper's, the rest is there to compare."
)
JUDGED = (
    "A claim holds, or does not, where chance explains the contrary with probability 0.01 at most, worlds being the "
    "independent units; it is undecided otherwise, and the last column gives the difference that the claim takes to be "
    "above 0, and about how many worlds would decide it. Which sentence of the paper is checked where is listed in "
    "docs/reproduction/sentences.md, how in docs/decisions/0029."
)
READING = (
    "Means over worlds and repeats. Errors are one standard error, with worlds as the independent units. In figures "
    "the points of a place stand a little side by side, so that equal ones can be seen."
)
CLAIMS_HEADER = ("experiment", "claim", "measured", "verdict", "why")
"""The columns of the table of claims."""
FIGURES = Path("figures")
"""The folder of the figures, relative to the report."""
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
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page's content security policy: nothing is loaded or run, whatever a name contains."""
_CLASSES = {HOLDS: "good", DOES_NOT: "bad", UNDECIDED: "part"}  # the CSS class of each verdict


def write_report(reproduction: Reproduction, claims: Sequence[Claim], folder: str | Path) -> Path:
    """Write report.html, report.md and the figures that it links to; gives the path of report.html."""
    target = Path(folder)
    draw_figures(reproduction, target / FIGURES)
    drawings = {name: (target / FIGURES / f"{name}.svg").read_text("utf-8") for name in figures(reproduction)}
    try:
        write_whole(target / "report.md", markdown(reproduction, claims, FIGURES).encode())
        write_whole(target / "report.html", html(reproduction, claims, drawings).encode())
    except OSError as error:
        raise InvalidSettingError(f"cannot write to {target}: {error.strerror or error}") from None
    return target / "report.html"


def markdown(reproduction: Reproduction, claims: Sequence[Claim], folder: Path) -> str:
    """The page. `folder` is that of the PNG files, seen from the page."""
    settings, summary = reproduction.settings, reproduction.summary
    how = f"Size {settings.size}, seed {settings.seed}, {settings.noise} noise"
    made = f"{how}; each point: {worlds_and_repeats(reproduction)}."
    first = [f"# {TITLE}", ABOUT, f"{plain_text(made)} {READING}"]
    parts = [*first, "## Claims of the paper", f"{plain_text(counted(claims))} {JUDGED}"]
    if claims:
        cells = [(c.experiment, f"{c.name}: {c.sentence}", c.measured, c.verdict, c.why) for c in claims]
        parts.append(table(CLAIMS_HEADER, cells))
    shown = figures(reproduction)
    for name in drawn(reproduction):
        sweep, points = SWEEPS[name], summary.filter(pl.col("experiment") == name)
        parts.append(f"## {sweep.title}")
        own = [figure for figure in shown if experiment_of(figure) == name]
        alts = {figure: plain_text(alt_text(figure, shown[figure])) for figure in own}
        parts += [f"![{alt}]({(folder / f'{figure}.png').as_posix()})" for figure, alt in alts.items()]
        parts.append(f"{sweep.caption} {plain_text(runs_at_points(points))}")
        for title, cell in CELLS.items():
            header, rows = by_contender(points, sweep.x_label, cell)
            if any(any(row[2:]) for row in rows):
                parts += [f"{title}:", table(header, rows)]
    return "\n\n".join([*parts, "## Run it again", f"```sh\n{again(reproduction)}\n```"]) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, with everything in it taken as plain text.

    >>> print(table(["a|b"], [["<i>"]]))
    | a\\|b |
    |---|
    | &lt;i> |
    """
    first, *others = ["| " + " | ".join(plain_text(cell) for cell in line) + " |" for line in [header, *rows]]
    return "\n".join([first, "|---" * len(header) + "|", *others])


def plain_text(text: str) -> str:
    """A text on one line in which nothing is markup.

    >>> plain_text("a_b & [c](d)\\n<e>")
    'a\\\\_b &amp; \\\\[c\\\\](d) &lt;e>'
    """
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", line)


def html(reproduction: Reproduction, claims: Sequence[Claim], drawings: dict[str, str]) -> str:
    """The page, with the SVG drawings of the experiments in it."""
    summary = reproduction.summary
    made = "".join(f'<tr><th scope="row">{a}</th><td>{escape(b)}</td></tr>\n' for a, b in made_with(reproduction))
    shown = figures(reproduction)
    sections = [
        _section(name, {figure: drawings[figure] for figure in shown if experiment_of(figure) == name}, summary)
        for name in drawn(reproduction)
    ]
    body = f"""<p>{ABOUT}</p>
<h2>Settings</h2>
<table>
<tbody>
{made}</tbody>
</table>
<h2>Claims of the paper</h2>
<p>{escape(counted(claims))} {JUDGED}</p>
{_claims(claims) if claims else ""}
{"".join(sections) or "<p>There are no results.</p>"}
<h2>Run it again</h2>
<p>The same seed gives the same numbers, whatever the number of workers.</p>
<pre><code>{escape(again(reproduction))}</code></pre>"""
    return html_page(TITLE, _STYLE, _POLICY, body)


def _section(name: str, drawings: dict[str, str], summary: pl.DataFrame) -> str:
    sweep, points = SWEEPS[name], summary.filter(pl.col("experiment") == name)
    drawn_here = "\n".join(
        own_ids(drawing[drawing.index("<svg ") :].strip(), figure) for figure, drawing in drawings.items()
    )
    return f"""<h2 id="{name}">{escape(sweep.title)}</h2>
<figure>
{drawn_here}
<figcaption>{escape(sweep.caption)} {escape(runs_at_points(points))} {READING}</figcaption>
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
    def cell(row: dict[str, Any]) -> str:
        gap = f"<small>gap {row['gap']:.3f}</small><small>{row['failures']} of {row['n']} failed</small>"
        exact = parents_exact(row)
        parents = f"<small>parents exact: {exact}</small>" if exact else ""
        return amount(row["runs"], row["runs_se"]) + gap + parents

    header, lines = by_contender(points, x_label, cell)
    rows = [
        f'<tr><td>{escape(panel)}</td><th scope="row">{x}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for panel, x, *cells in lines
    ]
    return _wide(title, "numbers", header, rows)


def _wide(title: str, kind: str, header: Sequence[str], rows: Sequence[str]) -> str:
    """A table that scrolls by itself, with a keyboard too."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="Table: {escape(title)}">\n<table class="{kind}">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table>\n</div>"
    )


def own_ids(drawing: str, name: str) -> str:
    """A drawing whose ids are its own, so that several may be on a page.

    >>> own_ids('<svg><g id="a"/><use xlink:href="#a" clip-path="url(#b)"/></svg>', "n")
    '<svg><g id="n-a"/><use xlink:href="#n-a" clip-path="url(#n-b)"/></svg>'
    """
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", drawing)


def worlds_and_repeats(reproduction: Reproduction) -> str:
    """How many worlds and repeats there are at most."""
    n_worlds, n_repeats = WORLDS_AND_REPEATS[reproduction.settings.size]
    return f"{n_worlds} worlds x {n_repeats} repeats, fewer where a section says so"


def runs_at_points(points: pl.DataFrame) -> str:
    """How many runs each contender has at a point: counted in the results, not taken from the plan.

    >>> points = pl.DataFrame({"panel": ["p", "p", "q"], "contender": ["modl", "cfs", "modl"], "n": [1000, 40, 200]})
    >>> runs_at_points(points)
    'Runs at each point of p: 1,000 of modl, 40 of cfs; of q: 200 of modl.'
    """
    said: dict[str, list[str]] = {}
    for (panel,), here in points.group_by("panel", maintain_order=True):
        by_n: dict[int, list[str]] = {}
        most = dict(here.group_by("contender", maintain_order=True).agg(pl.col("n").max()).iter_rows())
        for contender in in_order(most):
            by_n.setdefault(most[contender], []).append(contender)
        counts = ", ".join(f"{n:,} of {', '.join(who)}" for n, who in sorted(by_n.items(), reverse=True))
        said.setdefault(counts, []).append(str(panel))
    if len(said) == 1:
        return f"Runs at each point: {next(iter(said))}."
    return f"Runs at each point {'; '.join(f'of {_and(panels)}: {counts}' for counts, panels in said.items())}."


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)


def made_with(reproduction: Reproduction) -> list[tuple[str, str]]:
    """The settings of a session, with what differs from one machine to the next."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("levers", "numpy", "scipy", "polars"))
    return [
        ("size", reproduction.settings.size),
        ("each point", worlds_and_repeats(reproduction)),
        ("seed", str(reproduction.settings.seed)),
        ("noise", reproduction.settings.noise),
        ("versions", f"{packages}, Python {platform.python_version()}"),
        ("tasks", f"{reproduction.n_tasks}, of which {reproduction.n_resumed} were there already"),
        ("time", f"{reproduction.seconds:,.1f} s in this session"),
    ]


def again(reproduction: Reproduction) -> str:
    """The commands that make the same results."""
    names, settings = reproduction.names, reproduction.settings
    whats = (ALL,) if names == experiments(settings.noise) else names
    noise = "" if settings.noise == GAUSSIAN else f" --noise {settings.noise}"
    options = f"--size {settings.size} --seed {settings.seed}{noise} -o results"
    return "\n".join(f"levers reproduce {what} {options}" for what in whats)


def counted(claims: Sequence[Claim]) -> str:
    """How many claims got which verdict."""
    verdicts = [claim.verdict for claim in claims]
    parts = [f"{verdict}: {verdicts.count(verdict)}" for verdict in dict.fromkeys(verdicts)]
    return f"{len(claims)} claims. {'; '.join(parts)}." if claims else "No claims were checked."


def by_contender(
    points: pl.DataFrame, x_label: str, cell: Callable[[dict[str, Any]], str]
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table with a column for each contender, and a row for each panel and point."""
    contenders = in_order(points["contender"])
    rows = []
    for (panel, x), here in points.group_by("panel", "x", maintain_order=True):
        cells = {row["contender"]: cell(row) for row in here.iter_rows(named=True)}
        rows.append([str(panel), f"{x:g}", *(cells.get(contender, "") for contender in contenders)])
    return ["panel", x_label, *contenders], rows


def parents_exact(row: dict[str, Any]) -> str:
    """The share of runs that name exactly the true parents, if the method names any.

    >>> parents_exact({"parents_exact": 0.985}), parents_exact({"parents_exact": None})
    ('98.5 %', '')
    """
    share = row["parents_exact"]
    return "" if share is None else f"{100 * share:.1f} %"


def amount(mean: float, error: float | None) -> str:
    """A number of runs with its standard error.

    >>> amount(1532.4, 118.2), amount(7.25, None)
    ('1,532 ± 118', '7.2')
    """
    digits = 0 if mean >= 100 else 1
    return f"{mean:,.{digits}f}" + ("" if error is None else f" ± {error:,.{digits}f}")


CELLS: dict[str, Callable[[dict[str, Any]], str]] = {
    "Mean runs": lambda row: amount(row["runs"], row["runs_se"]),
    "Mean gaps, and failures": lambda row: f"{row['gap']:.4f} ({row['failures']} of {row['n']})",
    "Runs that name exactly the true parents": parents_exact,
}
"""The tables of an experiment on the Markdown page, with what is in their cells."""
