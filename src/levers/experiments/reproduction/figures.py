"""The paper's figures from a reproduction: runs above, average gap below, one column for each panel."""

from pathlib import Path

import polars as pl

from levers.errors import InvalidSettingError
from levers.experiments.reproduction.catalogue import SWEEPS
from levers.experiments.reproduction.parts import write_whole
from levers.experiments.reproduction.run import Reproduction
from levers.experiments.reproduction.styles import in_order

LIMIT_LABELS = {"hardness": "settings to try"}
"""What the dotted line is, where it is not the limit of balanced designs."""


def draw_figures(reproduction: Reproduction, folder: str | Path) -> list[Path]:
    """One figure for each experiment that has results, as PNG and SVG. The same results give the same SVG bytes."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InvalidSettingError("figures need matplotlib; install it with: pip install 'levers[figures]'") from error
    from levers.experiments.reproduction.drawing import Labels, rendered

    target, summary = Path(folder), reproduction.summary
    try:
        target.mkdir(parents=True, exist_ok=True)
        paths = []
        for name in drawn(reproduction):
            points = summary.filter(pl.col("experiment") == name)
            limit = LIMIT_LABELS.get(name, "limit of balanced designs")
            files = rendered(points, Labels(SWEEPS[name].x_label, limit, alt_text(name, points)))
            for suffix, content in files.items():
                paths.append(target / f"{name}{suffix}")
                write_whole(paths[-1], content)
    except OSError as error:
        raise InvalidSettingError(f"cannot write to {target}: {error.strerror or error}") from None
    return paths


def drawn(reproduction: Reproduction) -> list[str]:
    """The experiments that there are results of, in the order of the report."""
    found = set(reproduction.runs["experiment"])
    return [name for name in reproduction.names if name in found]


def alt_text(name: str, points: pl.DataFrame) -> str:
    """A figure in words, for who cannot see it.

    >>> points = pl.DataFrame({"panel": ["K = 4", "K = 4"], "contender": ["cfs", "cfs"], "runs": [90.0, 1200.0]})
    >>> alt_text("elimination", points)
    'Whole assignments as arms: successive elimination. Mean runs and mean gap against parents of the outcome; panels:
    K = 4. Mean runs: cfs 90 to 1,200.'
    """
    sweep = SWEEPS[name]
    panels = "; ".join(points["panel"].unique(maintain_order=True))
    spans = []
    for contender in in_order(points["contender"]):
        runs = points.filter(pl.col("contender") == contender)["runs"].to_list()
        low, high = f"{min(runs):,.0f}", f"{max(runs):,.0f}"
        spans.append(f"{contender} {low if low == high else f'{low} to {high}'}")
    what = f"{sweep.title}. Mean runs and mean gap against {sweep.x_label}; panels: {panels}."
    return f"{what} Mean runs: {'; '.join(spans)}."
