"""Combinations of tied factors exchanged, run by run, for allowed ones that make the whole design more precise.

Where some combinations are forbidden, no design has all levels equally often and independent of each other, and making
a balanced design allowed by any exchange loses up to half of what the runs could say. Here the design is improved by
exchanges (Fedorov's, one group of factors at a time) as to the mean variance of differences between levels, all runs so
far included.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from levers.core.designs.allowed import Combinations
from levers.core.model.level_index import Numbers, contrast_basis, offsets
from levers.core.space import Codes

_SWEEPS = 4
_MOST_WORK = 4e9
"""Multiplications in all sweeps, from which on the rest of the runs stays as it is: about a second or two."""
_GAIN = 1e-6
"""The share of the criterion that an exchange must gain."""
_ALIKE = 1e-9
"""Of exchanges that gain the same up to this share the first one is made, and not the one that rounding likes."""
_FAINT = 0.01
"""Information on every contrast to begin with, so that exchanges can be reckoned where runs determine too little. Much
less of it would leave gains to rounding, and designs to the processor."""


def exchanged_rows(
    rows: Codes,
    sizes: Sequence[int],
    groups: Sequence[Combinations],
    information: Numbers,
    rng: np.random.Generator,
) -> Codes:
    """The rows, levels of all parts, after exchanges of the groups' combinations for others that can be run.

    With u = (1, x) for a run, x its contrasts, and M = sum u u^T plus the information of earlier runs on x, the mean
    variance is tr(W M^-1), W having each part's contrasts of levels in play over m (m - 1). Without the run, D = M^-1;
    with v in its place the criterion falls by |W^(1/2) D v|^2 / (1 + v^T D v), and the v is taken for which this is the
    most.

    >>> every = np.array([[0, 0], [0, 1], [1, 0]], dtype=np.int16)
    >>> group = Combinations((0, 1), every, np.arange(3))
    >>> rows = np.repeat(every, [10, 1, 1], axis=0)
    >>> better = exchanged_rows(rows, (2, 2), [group], np.zeros((4, 4)), np.random.default_rng(0))
    >>> np.bincount(2 * better[:, 0] + better[:, 1]).tolist()
    [5, 4, 3]
    """
    starts = offsets(sizes)
    basis, weight = _contrasts(sizes, rows, groups)
    coded = np.concatenate([np.ones((len(rows), 1)), basis[rows + starts[:-1]].sum(axis=1)], axis=1)
    earlier = np.zeros((coded.shape[1], coded.shape[1]))
    earlier[1:, 1:] = basis.T @ information @ basis + _FAINT * np.eye(coded.shape[1] - 1)
    candidates = [_coded(group, basis, starts) for group in groups]
    at = [_numbers_of(rows, group) for group in groups]
    rows = rows.copy()
    left = int(_MOST_WORK / max(2 * sum(map(len, candidates)) * coded.shape[1] ** 2, 1))
    for _ in range(_SWEEPS):
        covariance = np.linalg.inv(coded.T @ coded + earlier)  # anew in every sweep: updates lose digits
        spread = float(np.trace(weight @ covariance @ weight.T))
        changed = False
        due, left = rng.permutation(len(rows)).tolist()[:left], left - len(rows)
        for i in due:
            for group, coding, number in zip(groups, candidates, at, strict=True):
                here = covariance @ coded[i]
                own = 1.0 - float(coded[i] @ here)
                if own <= _ALIKE:  # nothing else determines what this run does
                    continue
                without = covariance + np.outer(here, here) / own
                others = coded[i] - np.concatenate([[0.0], coding[number[i]]])
                moved = others + np.concatenate([np.zeros((len(coding), 1)), coding], axis=1)
                ahead = moved @ without
                gain = ((ahead @ weight.T) ** 2).sum(axis=1) / (1.0 + (ahead * moved).sum(axis=1))
                chosen = int((gain >= (1 - _ALIKE) * gain.max()).argmax())
                if gain[chosen] - gain[number[i]] <= _GAIN * spread:
                    continue
                covariance = without - np.outer(ahead[chosen], ahead[chosen]) / (
                    1.0 + float(ahead[chosen] @ moved[chosen])
                )
                coded[i], number[i], changed = moved[chosen], chosen, True
                rows[i, list(group.columns)] = group.table[chosen]
        if not changed or left <= 0:
            break
    return rows


def _contrasts(sizes: Sequence[int], rows: Codes, groups: Sequence[Combinations]) -> tuple[Numbers, Numbers]:
    """An orthonormal basis of the contrasts of every part, a row for each level; and the square root of W, by columns
    for the constant and these contrasts, of levels in play alone."""
    starts, in_play = offsets(sizes), [np.unique(column) for column in rows.T]
    for group in groups:
        for column, levels in zip(group.columns, group.table.T, strict=True):
            in_play[column] = np.unique(levels)
    n_contrasts = sum(sizes) - len(sizes)
    basis, wanted, first = np.zeros((sum(sizes), n_contrasts)), [], 0
    for k, m in enumerate(sizes):
        own = contrast_basis(m)
        basis[starts[k] : starts[k + 1], first : first + m - 1] = own
        u = len(in_play[k])
        if u > 1:
            part = np.zeros((u - 1, 1 + n_contrasts))
            part[:, 1 + first : first + m] = contrast_basis(u).T @ own[in_play[k]] / np.sqrt(u * (u - 1))
            wanted.append(part)
        first += m - 1
    return basis, np.concatenate(wanted) if wanted else np.zeros((1, 1 + n_contrasts))


def _coded(group: Combinations, basis: Numbers, starts: NDArray[np.int64]) -> Numbers:
    """The contrasts of every combination of a group."""
    coded: Numbers = basis[group.table + starts[list(group.columns)]].sum(axis=1)
    return coded


def _numbers_of(rows: Codes, group: Combinations) -> NDArray[np.int64]:
    """Which combination of a group each row has."""
    same = (rows[:, None, list(group.columns)] == group.table[None]).all(axis=2)
    return np.asarray(same.argmax(axis=1), dtype=np.int64)
