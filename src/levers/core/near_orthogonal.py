"""Small designs whose factors are nearly orthogonal, found by swapping entries inside columns."""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from levers.core.space import Codes

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]
_GAIN = 1e-2  # smallest improvement worth a swap, in units where a perfect pair of levels counts 0


def swap_improved(rows: Codes, sizes: Sequence[int], sweeps: int = 1, rounds: int | None = None) -> Codes:
    """Swap entries inside columns until factors are about as orthogonal as they can be; level counts stay.

    The criterion is sum_{k<l} m_k m_l ||N_kl||^2, the squared pair counts: least when all pairs of levels are equally
    often. With C = sum_l m_l 1{x_l(a) = x_l(b)} over the other columns, swapping runs a and b of a column changes it by
    T[a, x_b] + T[b, x_a] - T[a, x_a] - T[b, x_b] + C_aa + C_bb - 2 C_ab, T = C E. Only the runs with most to gain are
    tried; many swaps are made at once and kept only if the criterion falls. `rounds` limits the tries per column.

    >>> rng = np.random.default_rng(0)
    >>> start = np.stack([rng.permutation(np.arange(36) % 3) for _ in range(8)], axis=1).astype(np.int16)
    >>> better = swap_improved(start, [3] * 8)
    >>> bool((np.sort(better, axis=0) == np.sort(start, axis=0)).all())
    True
    """
    best = rows.copy()
    n, n_factors = best.shape
    alike = np.zeros((n, n), dtype=np.float32)
    for k in range(n_factors):
        alike += _together(best[:, k], sizes[k])
    for _ in range(sweeps):
        before = best.copy()
        for k in range(n_factors):
            alike -= _together(best[:, k], sizes[k])
            best[:, k] = _improved_column(best[:, k], sizes[k], alike, rounds)
            alike += _together(best[:, k], sizes[k])
        if (best == before).all():
            break
    return best


def _together(column: Codes, m: int) -> Matrix:
    """m for each pair of runs at the same level, else 0."""
    weighted = np.eye(m, dtype=np.float32) * np.float32(m)
    same: Matrix = weighted[:, column][column]
    return same


def _improved_column(column: Codes, m: int, alike: Matrix, rounds: int | None) -> Codes:
    """All numbers are whole and below 2^24, so single precision is exact, in whatever order sums are taken."""
    n = len(column)
    run = np.arange(n)
    unit = np.eye(m, dtype=np.float32)
    own = alike[0, 0]  # a run is like itself in all other columns
    load = unit[:, column] @ alike  # a row for each level
    cost = float(load[column, run].sum(dtype=np.float64))
    many = max(1, n // 6)
    n_tried = min(n, max(8, n // 8))
    for _ in itertools.count() if rounds is None else range(rounds):
        stay = load[column, run] - own
        # the runs with most to gain; stable sorts, because ties broken by the processor would change the design
        tried = np.argsort(load.min(axis=0) - stay, kind="stable")[:n_tried]
        # two runs of one level would gain nothing: 2 (own - alike) is never below 0
        change = load[:, tried].T[:, column] + load[column[tried]]
        change -= stay + 2 * alike[tried]
        partner = change.argmin(axis=1)
        gain = change[np.arange(n_tried), partner] - stay[tried]
        moved = _swaps(tried.tolist(), partner.tolist(), gain, many)
        if not moved:
            return column
        trial = column.copy()
        trial[moved] = column[[b for a, b in zip(moved[::2], moved[1::2], strict=True) for b in (b, a)]]
        new_load = load + (unit[:, trial[moved]] - unit[:, column[moved]]) @ alike[moved]
        new_cost = float(new_load[trial, run].sum(dtype=np.float64))
        if new_cost < cost - _GAIN:
            column, load, cost = trial, new_load, new_cost
        elif many == 1:
            return column
        many = max(1, many // 2)
    return column


def _swaps(tried: list[int], partners: list[int], gain: NDArray[np.float32], most: int) -> list[int]:
    """The best swaps that do not touch a run twice, as a flat list of pairs."""
    taken: set[int] = set()
    moved: list[int] = []
    gains = gain.tolist()
    for i in np.argsort(gain, kind="stable").tolist():
        a, b = tried[i], partners[i]
        if gains[i] >= -_GAIN or len(moved) == 2 * most:
            break
        if a not in taken and b not in taken:
            taken |= {a, b}
            moved += [a, b]
    return moved
