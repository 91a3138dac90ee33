"""What a last round saves that leaves out levels far behind, in runs   (docs/theory/pooled.md, section 10)."""

from bisect import bisect_right

LEAST_DONE = 0.65
"""The share of all runs that must have been made before levels are left out,"""
LEAST_COVERED = 0.5
"""and the one down to which the table goes, for rounds that turn out to be too short."""
TAIL_COVERED = 3e-4
"""Gaps that are mistaken less often than this are not covered by the table."""
LEAST_FAILURE_PROB = 0.01
"""Promises smaller than this rest on gaps beyond the table, and are certified without it."""
_SIZES = (3, 4, 5, 6, 8, 10)
_DONE = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
_SHARES = (
    (0.960, 0.960, 0.970, 0.960, 0.960, 0.980, 0.980, 0.985, 1.000, 1.000, 1.000),
    (0.940, 0.910, 0.920, 0.915, 0.925, 0.935, 0.945, 0.980, 0.985, 0.995, 1.000),
    (0.970, 0.900, 0.890, 0.885, 0.885, 0.910, 0.935, 0.945, 0.970, 1.000, 1.000),
    (0.970, 0.905, 0.870, 0.850, 0.865, 0.890, 0.905, 0.920, 0.950, 0.985, 1.000),
    (0.960, 0.885, 0.860, 0.845, 0.830, 0.840, 0.870, 0.905, 0.935, 0.975, 1.000),
    (0.960, 0.880, 0.840, 0.800, 0.810, 0.825, 0.850, 0.875, 0.920, 0.970, 1.000),
)
"""By levels, and by the share of the runs done before: what simulation gives, and up to 0.03 more."""


def share_of_runs(n_levels: int, done: float) -> float:
    """The share of the runs of a plain study with which one that is thinned after a share `done` errs as seldom.

    The chance H(t) that the leader of all runs is wrong, where the best of m levels is t standard errors ahead of all
    others, is at most h_{m-1}(t / sqrt s). The shares s are a table, from simulation (`benchmarks/thinning.py`), with
    lines between its points.

    >>> share_of_runs(2, 0.7), share_of_runs(6, 0.4), share_of_runs(6, 0.7) < share_of_runs(4, 0.7) < 1
    (1.0, 1.0, True)
    """
    if n_levels < _SIZES[0] or done < LEAST_COVERED:
        return 1.0
    row = _SHARES[bisect_right(_SIZES, n_levels) - 1]
    at = min(bisect_right(_DONE, done), len(_DONE) - 1)
    weight = (done - _DONE[at - 1]) / (_DONE[at] - _DONE[at - 1])
    return row[at - 1] + weight * (row[at] - row[at - 1])
