"""Axes of the figures: runs over many orders of magnitude, gaps with zero on the axis, points as ticks."""

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter
from numpy.typing import NDArray

LARGE_SPREAD = 10.0
"""Largest over smallest mean runs from which on the axis is logarithmic."""

_GAP_TICKS = (0.5, 1.0, 0.1, 2.0, 5.0, 0.2, 0.05, 0.01, 10.0, 20.0, 50.0, 100.0)


def short(value: float, _: object = None) -> str:
    """A number of runs on an axis.

    >>> short(500), short(2500), short(40_000), short(3e7)
    ('500', '2.5k', '40k', '30M')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def scale_runs(axes: Axes, points: pl.DataFrame) -> None:
    """Logarithmic if the lines are far apart. An error bar that would reach down to zero leaves the axes."""
    runs = points["runs"].to_numpy()
    errors = points["runs_se"].fill_null(0.0).to_numpy()
    limits = points["limit"].drop_nulls().to_list()
    lowest = min([*np.maximum(runs - errors, runs / 4), *limits])
    highest = max([*(runs + errors), *limits])
    axes.yaxis.set_major_formatter(short)
    if lowest <= 0 or highest < LARGE_SPREAD * lowest:
        axes.set_ylim(0, 1.08 * max(highest, 1.0))
        return
    axes.set_yscale("log", nonpositive="clip")
    decades = math.log10(highest / lowest)
    margin = 10 ** (0.05 * decades)
    axes.set_ylim(lowest / margin, highest * margin)
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if decades < 2 else (1.0,), numticks=12))
    axes.yaxis.set_minor_locator(LogLocator(10, subs=range(2, 10), numticks=12))
    axes.yaxis.set_major_formatter(short)  # a change of scale has put back the usual one
    axes.yaxis.set_minor_formatter(NullFormatter())


def scale_gap(axes: Axes, points: pl.DataFrame, tolerance: float) -> None:
    """The square root of the gap: small gaps can be told apart, zero stays on the axis, and so does the tolerance."""
    errors = points["gap_se"].fill_null(0.0).to_numpy()
    top = 1.15 * max(tolerance, float(np.max(points["gap"].to_numpy() + errors)))
    axes.set_yscale("function", functions=(_root, _square))
    axes.set_ylim(-0.004 * top, top)
    axes.yaxis.set_major_locator(FixedLocator(gap_ticks(top)))
    axes.yaxis.set_minor_locator(FixedLocator([]))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def gap_ticks(top: float, apart: float = 0.13) -> list[float]:
    """Round gaps, none so near to another that their labels would touch.

    >>> gap_ticks(0.575), gap_ticks(20.0)
    ([0.0, 0.01, 0.1, 0.2, 0.5], [0.0, 0.5, 2.0, 5.0, 10.0, 20.0])
    """
    ticks = [0.0]
    for tick in _GAP_TICKS:
        if tick <= top and all(abs(math.sqrt(tick / top) - math.sqrt(other / top)) >= apart for other in ticks):
            ticks.append(tick)
    return sorted(ticks)


def scale_x(axes: Axes, xs: Sequence[float], most: int) -> None:
    """Ticks at the points, thinned from the right where there are too many to be read."""
    step = -(-len(xs) // most)
    axes.set_xticks(xs[::-1][::step], [f"{x:g}" for x in xs[::-1][::step]])
    margin = 0.07 * (xs[-1] - xs[0]) or 0.6
    axes.set_xlim(xs[0] - margin, xs[-1] + margin)


def _root(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sign(values) * np.sqrt(np.abs(values))


def _square(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sign(values) * np.square(values)
