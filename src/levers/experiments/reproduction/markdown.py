"""The report as Markdown: only what the results say, so that the same results give the same bytes anywhere."""

import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from levers.experiments.reproduction.catalogue import SWEEPS
from levers.experiments.reproduction.claims import Claim
from levers.experiments.reproduction.figures import alt_text, drawn
from levers.experiments.reproduction.report_parts import (
    ABOUT,
    CLAIMS_HEADER,
    READING,
    TITLE,
    again,
    amount,
    counted,
    worlds_and_repeats,
)
from levers.experiments.reproduction.run import Reproduction
from levers.experiments.reproduction.styles import in_order


def markdown(reproduction: Reproduction, claims: Sequence[Claim], figures: Path) -> str:
    """The page. `figures` is the folder of the PNG files, seen from the page."""
    settings, summary = reproduction.settings, reproduction.summary
    made = f"Size {settings.size}, seed {settings.seed}; each point: {worlds_and_repeats(reproduction)}."
    parts = [
        f"# {TITLE}",
        ABOUT,
        f"{plain_text(made)} {READING}",
        "## Claims of the paper",
        plain_text(counted(claims)),
    ]
    if claims:
        parts.append(table(CLAIMS_HEADER, [_cells(claim) for claim in claims]))
    for name in drawn(reproduction):
        sweep, points = SWEEPS[name], summary.filter(pl.col("experiment") == name)
        image = f"![{plain_text(alt_text(name, points))}]({(figures / f'{name}.png').as_posix()})"
        header, rows = mean_runs(points, sweep.x_label)
        parts += [f"## {sweep.title}", image, sweep.caption, "Mean runs:", table(header, rows)]
    return "\n\n".join([*parts, "## Run it again", f"```python\n{again(reproduction)}\n```"]) + "\n"


def mean_runs(points: pl.DataFrame, x_label: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table with a column for each contender, and a row for each panel and point."""
    contenders = in_order(points["contender"])
    rows = []
    for (panel, x), here in points.group_by("panel", "x", maintain_order=True):
        found = {row["contender"]: amount(row["runs"], row["runs_se"]) for row in here.iter_rows(named=True)}
        rows.append([str(panel), f"{x:g}", *(found.get(contender, "") for contender in contenders)])
    return ["panel", x_label, *contenders], rows


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, with everything in it taken as plain text.

    >>> print(table(["a|b"], [["<i>"]]))
    | a\\|b |
    |---|
    | &lt;i> |
    """
    lines = [header, *rows]
    drawn_lines = ["| " + " | ".join(plain_text(cell) for cell in line) + " |" for line in lines]
    return "\n".join([drawn_lines[0], "|---" * len(header) + "|", *drawn_lines[1:]])


def plain_text(text: str) -> str:
    """A text on one line in which nothing is markup.

    >>> plain_text("a_b & [c](d)\\n<e>")
    'a\\\\_b &amp; \\\\[c\\\\](d) &lt;e>'
    """
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", line)


def _cells(claim: Claim) -> tuple[str, ...]:
    return (claim.experiment, f"{claim.name}: {claim.sentence}", claim.measured, claim.verdict, claim.why)
