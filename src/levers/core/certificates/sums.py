"""How often the sum of losses can exceed the tolerance, by dynamic programming over factors.

V_{K+1}(r) = 1{r > 1};  V_k(r) = sup_t { V_{k+1}(r) + [V_{k+1}(r + s_k t) - V_{k+1}(r)] h_{m_k - 1}(t) }.

All values are upper bounds. What happens between the points of the grid is bounded to second order in their distance,
so that few points do (docs/theory, section 3).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from levers.core.certificates.tails import CURVATURE, slippage_tail, tail_shape

Values: TypeAlias = NDArray[np.float64]
"""V at the points of the grid."""
Stake: TypeAlias = tuple[int, float]
"""What a factor may lose: the number of levels in play, and the standard error of their means."""


@dataclass(frozen=True)
class Tied:
    """What factors may lose that forbidden combinations tie together   (docs/theory/pooled.md, section 7).

    `parts` are the stakes of these factors one by one. `n_swaps` counts the changes of several factors at once that can
    be mistaken for the best setting, though a forbidden combination is between; `error` is the standard error of these.
    """

    parts: tuple[Stake, ...]
    n_swaps: int
    error: float

    @property
    def swaps(self) -> tuple[Stake, ...]:
        """The swaps as a stake of their own, if there are any."""
        return ((self.n_swaps + 1, self.error),) if self.n_swaps else ()


Stakes: TypeAlias = Sequence[Stake | Tied]
"""What may still be lost, factor by factor."""
_SMALLEST = 10.0  # standard errors over sqrt(levels) are told apart down to the largest one over this
_ALIKE = 1.006  # standard errors within this ratio are taken for the larger one
_FAR = 7.0  # gaps beyond this many standard errors are bounded by their tail times 1
_BLOCK = 8  # gaps over which increments are bounded together
_WIDEST = 0.5  # the widest cell, in standard errors, for which the bound is proven
_EITHER = 1.15  # tied factors lose at most so many times what the worse of their parts and their swaps would lose


def dp_bound(
    levels: Sequence[int], scale: float, cells: int | None = None, proven: bool = False, slope: float = 0.0
) -> float:
    """Bound the failure probability by dynamic programming over factors, tolerance 1   (docs/theory, section 3).

    With a slope, the least c is returned for which V_1(r) <= c exp(slope r) wherever that is below 1   (section 6).

    >>> round(dp_bound([2] * 10, scale=7.47), 3)
    0.098
    """
    grid = cells or grid_cells(scale, proven)
    value = np.zeros(grid + 1)
    stages: dict[int, _Stage] = {}
    for m in sorted(levels):
        if proven:
            value = _proven_value(value, m, math.sqrt(m) / scale)
        else:
            if m not in stages:
                stages[m] = _Stage(m, scale, grid)
            value = stages[m].before(value)
    return min(1.0, _least_envelope(value, slope, rounded_up=proven) if slope else float(value[0]))


def stakes_bound(stakes: Stakes, tolerance: float) -> float:
    """P(sum of losses > tolerance) for factors that each have a standard error of their own   (docs/theory, section 3).

    The same programme as `dp_bound`, V_1(0): a stake is how many levels are in play, and the standard error of each of
    their means. Standard errors that are nearly alike are taken for the largest of them, so that they share a step.

    Factors that are tied together make one step, c = 1.15 times the worse of the steps of their parts, one after the
    other, and that of their swaps   (docs/theory/pooled.md, section 7):

        V_k(r) = V_{k+1}(r) + c [max(V_parts(r), V_swaps(r)) - V_{k+1}(r)]

    >>> alike = [(2, math.sqrt(2) / 7.47)] * 10
    >>> round(stakes_bound(alike, 1.0), 3) == round(dp_bound([2] * 10, scale=7.47), 3)
    True
    >>> tied = Tied(((2, 0.2), (2, 0.2)), 1, 0.28)
    >>> stakes_bound([(2, 0.2)] * 2, 1.0) < stakes_bound([tied], 1.0) < stakes_bound([(3, 0.28)], 1.0)
    True
    """
    if not stakes:
        return 0.0
    every = [*separate(stakes), *(swap for one in tied(stakes) for swap in one.swaps)]
    least = max(error / math.sqrt(m) for m, error in every) / _SMALLEST

    def scale(m: int, error: float) -> float:
        return math.sqrt(m) * tolerance / max(error, least * math.sqrt(m))

    steps = _shared_steps([stake for stake in stakes if not isinstance(stake, Tied)], least)
    alone = [(m, error) for m, error, _ in steps]
    together = [stake for one in tied(stakes) for stake in (*one.parts, *one.swaps)]
    grid = grid_cells(max(scale(m, error) for m, error in (*alone, *together)), proven=False)
    value = np.zeros(grid + 1)
    for m, error, count in steps:
        stage = _Stage(m, scale(m, error), grid)
        for _ in range(count):
            value = stage.before(value)
    for group in tied(stakes):
        parts, swaps = (
            _after_all([_Stage(m, scale(m, error), grid) for m, error in some], value)
            for some in (group.parts, group.swaps)
        )
        worse = value + (_EITHER if group.swaps else 1.0) * (np.maximum(parts, swaps) - value)
        value = np.maximum.accumulate(worse)
    return min(1.0, float(value[0]))


def separate(stakes: Stakes) -> list[Stake]:
    """The stakes of all factors one by one, as if nothing tied them together.

    >>> separate([(2, 0.1), Tied(((3, 0.2), (2, 0.2)), 2, 0.3)])
    [(2, 0.1), (3, 0.2), (2, 0.2)]
    """
    return [part for stake in stakes for part in (stake.parts if isinstance(stake, Tied) else (stake,))]


def tied(stakes: Stakes) -> list[Tied]:
    """Those of factors that are tied together."""
    return [stake for stake in stakes if isinstance(stake, Tied)]


def is_finite(stakes: Stakes) -> bool:
    """Whether the runs determine everything that is at stake."""
    swaps = [swap for one in tied(stakes) for swap in one.swaps]
    return all(math.isfinite(error) for _, error in [*separate(stakes), *swaps])


def _after_all(stages: "Sequence[_Stage]", value: Values) -> Values:
    for stage in stages:
        value = stage.before(value)
    return value


def _shared_steps(stakes: Sequence[Stake], least: float) -> list[tuple[int, float, int]]:
    """Stakes with as many levels and nearly the same standard error together: levels, the largest error, how many.

    Errors over sqrt(levels) below the `least` are raised to it, so that one grid serves all.
    """
    raised = [(m, max(error, least * math.sqrt(m))) for m, error in stakes]
    steps: list[tuple[int, float, int]] = []
    for m, error in sorted(raised, key=lambda stake: (stake[0], -stake[1])):
        if steps and steps[-1][0] == m and error > steps[-1][1] / _ALIKE:
            steps[-1] = (m, steps[-1][1], steps[-1][2] + 1)
        else:
            steps.append((m, error, 1))
    return steps


def grid_cells(scale: float, proven: bool) -> int:
    """Cells of the grid: more where a standard error is small against the tolerance."""
    return min(200, max(100, int(4 * scale))) if proven else max(120, int(5 * scale))


def dp_work(levels: Sequence[int], scale: float, proven: bool) -> float:
    """About how many numbers `dp_bound` computes."""
    cells = grid_cells(scale, proven)
    gaps = [min(cells, _FAR * math.sqrt(m) / scale * cells) for m in levels]
    if proven:
        return sum(cells * g * g / 2 * max(m - 2, 0) for g, m in zip(gaps, levels, strict=True)) / 4
    return sum(cells * g for g in gaps)


class _Stage:
    """The step of the programme for a factor with m levels, V being bounded by lines between the points of a grid.

    It is made once for all factors with the same number of levels. `tail` bounds h from above on lines between gaps,
    `jump` is h at the gap that just fails (or at the last one), `falls` bounds by how much `tail` falls in a cell, over
    blocks. `tilt` and `sag` times increments of V bound by how much V can rise above the line between points.
    """

    def __init__(self, m: int, scale: float, grid: int) -> None:
        width = scale / (grid * math.sqrt(m))  # of a cell, in standard errors
        if width > _WIDEST:
            raise ValueError(f"{grid} cells are too few for a scale of {scale:g}")
        n_gaps = min(grid, int(_FAR / width) + 1)
        gaps = np.arange(n_gaps + 1, dtype=np.float64) * width
        exact, shape = slippage_tail(m - 1, gaps), tail_shape(m - 1)
        self.sag = CURVATURE * width**2 / 8
        self.tail = exact + np.where(gaps <= shape.bend + width, self.sag, 0.0)
        self.jump = exact[np.minimum(np.arange(grid, -1, -1), n_gaps)]
        self.tilt = shape.slope * width / 4
        self.bend = math.ceil(shape.bend / width) + 1
        self.falls = np.maximum.reduceat(self.tail[:-1] - self.tail[1:], np.arange(0, n_gaps, _BLOCK))
        # sliding windows over two buffers, a row for each gap: V after it, and the largest increments of blocks;
        # strides are set by hand, because numpy's own helper costs more than the few steps that a stage is made for
        self._after = np.ones(grid + 1 + max(n_gaps, self.bend))
        step = self._after.itemsize
        self._higher = as_strided(self._after, (n_gaps + 1, grid + 1), (step, step), writeable=False)
        self._rise = np.empty(self._higher.shape)
        self._largest = np.zeros(grid + 1 + _BLOCK * len(self.falls))
        n_blocks = len(self.falls)
        self._blocks = as_strided(self._largest, (n_blocks, grid + 1), (_BLOCK * step, step), writeable=False)

    def before(self, value: Values) -> Values:
        """V before this factor, from V after it."""
        last = len(value) - 1
        top = max(1.0, value[last])  # a bound above 1 is not cut, because that would lower the lines beside it
        self._after[: last + 1] = value
        self._after[last + 1 :] = top
        near = self._after[self.bend : self.bend + last].copy()
        self._after[last + 1 :] = value[last]
        np.subtract(self._higher, value, out=self._rise)
        self._rise *= self.tail[:, None]
        increments = value[1:] - value[:-1]
        inside = self._rise.max(axis=0) + self._inside_cells(increments)
        found = value + np.maximum(inside, (top - value) * self.jump)
        # between points: V is under the line between them, lifted at both ends by what it may rise above it
        lift = self.tilt * increments + self.sag * (near - value[:last])
        result = found.copy()
        result[:last] += lift
        np.maximum(result[1:], found[1:] + lift, out=result[1:])
        return np.maximum.accumulate(result)

    def _inside_cells(self, increments: Values) -> Values:
        """What a gap inside a cell may give more than one at its ends: a quarter of increment times fall, at most."""
        largest = self._largest[: len(increments)]
        largest[:] = increments
        for shift in (1, 2, 4):  # the largest of the next two, four, eight
            np.maximum(largest[:-shift], largest[shift:], out=largest[:-shift])
        bump: Values = (self._blocks * self.falls[:, None]).max(axis=0) / 4
        return bump


def _least_envelope(value: Values, slope: float, rounded_up: bool) -> float:
    """The least c with V(r) <= c exp(slope r)."""
    grid = len(value) - 1
    decay = np.exp(-slope * np.arange(grid + 1) / grid)
    if rounded_up:  # V at a point holds for all r down to the point before it
        return float(max(value[0], (value[1:] * decay[:-1]).max()))
    at_points = value * decay
    bump = np.diff(value) * decay[:-1] * slope / (4 * grid)
    return float((np.maximum(at_points[:-1], at_points[1:]) + bump).max())


def _proven_value(value: Values, m: int, step: float) -> Values:
    """V before a factor whose gaps may be unequal. V is read at the next higher point and h at the next lower one."""
    grid = len(value) - 1
    n_gaps = min(grid + 1, int(_FAR * step * grid) + 2)
    lower = np.arange(n_gaps) / (grid * step)  # gap i ends at cell i + 1 and begins at cell i
    padded = np.concatenate([value, np.ones(n_gaps)])
    rise = sliding_window_view(padded, n_gaps)[1 : grid + 2] - value[:, None]
    gain = proven_gain(rise, [slippage_tail(q, lower) for q in range(m - 1, 0, -1)])
    if n_gaps <= grid:  # some gaps inside, some beyond
        gain = gain + (1.0 - value) * slippage_tail(m - 1, np.array([n_gaps / (grid * step)]))
    return np.minimum(value + gain, 1.0)


def proven_gain(rise: Values, tails: Sequence[Values]) -> Values:
    """max over t_1 <= ... <= t_{m-1} of sum_i (g(t_i) - g(t_{i-1})) h_{m-i}(t_i), for every row g of `rise`.

    Holds for any gaps, not only equal ones: of the levels that are t_i or more behind there are m - i.
    """
    best = rise * tails[0]
    for tail in tails[1:]:
        following = np.empty_like(best)
        for b in range(rise.shape[1]):
            before = np.maximum((best[:, : b + 1] - rise[:, : b + 1] * tail[b]).max(axis=1), 0.0)
            following[:, b] = before + rise[:, b] * tail[b]
        best = np.maximum(best, following)
    widest: Values = best.max(axis=1)
    return widest
