"""Small designs whose factors are nearly orthogonal, found by swapping entries inside columns."""

import itertools
from collections.abc import Sequence

import numpy as np

from levers.core.space import Codes

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
        alike += _coincidences(best[:, k], sizes[k])
    for _ in range(sweeps):
        before = best.copy()
        for k in range(n_factors):
            alike -= _coincidences(best[:, k], sizes[k])
            best[:, k] = _improved_column(best[:, k], sizes[k], alike, rounds)
            alike += _coincidences(best[:, k], sizes[k])
        if (best == before).all():
            break
    return best


def _coincidences(column: Codes, m: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.equal(column[:, None], column[None, :]).astype(np.float32) * np.float32(m)


def _improved_column(
    column: Codes, m: int, alike: np.ndarray[tuple[int, int], np.dtype[np.float32]], rounds: int | None
) -> Codes:
    n = len(column)
    run = np.arange(n)
    unit = np.eye(m, dtype=np.float32)
    own = alike.diagonal().copy()
    load = alike @ unit[column]
    cost = float(load[run, column].sum(dtype=np.float64))
    many = max(1, n // 6)
    n_tried = min(n, max(8, n // 8))
    for _ in itertools.count() if rounds is None else range(rounds):
        stay = load[run, column] - own
        # the runs with most to gain; stable sorts, because ties broken by the processor would change the design
        tried = np.argsort(load.min(axis=1) - stay, kind="stable")[:n_tried]
        change = load[tried][:, column] + load[:, column[tried]].T
        change -= stay[tried, None] + stay[None, :] + 2 * alike[tried]
        change[column[tried, None] == column[None, :]] = 0
        partner = change.argmin(axis=1)
        gain = change[np.arange(n_tried), partner]
        trial, n_swaps = column.copy(), 0
        free = np.ones(n, dtype=bool)
        for i in np.argsort(gain, kind="stable"):
            a, b = tried[i], partner[i]
            if gain[i] >= -_GAIN or n_swaps == many:
                break
            if free[a] and free[b]:
                free[a] = free[b] = False
                trial[a], trial[b] = column[b], column[a]
                n_swaps += 1
        if n_swaps == 0:
            return column
        new_load = alike @ unit[trial]
        new_cost = float(new_load[run, trial].sum(dtype=np.float64))
        if new_cost < cost - _GAIN:
            column, load, cost = trial, new_load, new_cost
        elif many == 1:
            return column
        many = max(1, many // 2)
    return column
