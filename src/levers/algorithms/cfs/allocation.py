"""Which levels to run next when the setting recommended at the end is all that counts.

Runs go where they lower the expected opportunity cost most: the loss, by the posterior, of recommending the leader when
another level is better. Every run sets all factors, so each factor is allocated by itself, and the columns are put
together at random. No guarantee rests on any of it (docs/decisions/0021).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from levers.core.designs.search import swap_improved
from levers.core.model.choices import Choices
from levers.core.model.posterior import Posterior
from levers.core.space import Codes

_STEPS = 60
"""Steps in which the runs left are allocated: one run each, or so many at a time that these steps are enough."""


_ROUNDS = 12
"""Rounds of swaps that bring a block's columns together."""


def leaders_of(choices: Choices, found: Posterior) -> tuple[int, ...]:
    """The level of each factor with the largest posterior mean."""
    return tuple(int(np.argmax(values)) for values in choices.values(found.mean))


def allocated_shares(choices: Choices, found: Posterior, n_left: int) -> list[NDArray[np.float64]]:
    """For each factor the share of the next `n_left` runs that each of its levels gets.

    With leader i and rival j, d_ij ahead by the posterior with standard deviation s_ij, the opportunity cost of j is
    E[(theta_j - theta_i)^+], whose derivative by the variance is phi(d/s) / (2 s). A run at a level with precision N
    lowers its variance by 1 / N^2 sigma^2: each run goes to the level with the largest product, the leader's being
    the sum over its rivals   (Chick, He and Chen's expected opportunity cost, levels taken as independent).

    >>> rival = Posterior(np.array([1.0, 0.9, -3.0]), 0.04 * np.eye(3), 1.0, 1.0)
    >>> [share] = allocated_shares(Choices((3,)), rival, 20)
    >>> bool(share[2] == 0.0), bool(abs(share[0] - share[1]) <= 0.1)
    (True, True)
    """
    n_factors, most = len(choices.n_levels), max(choices.n_levels)
    mean = np.full((n_factors, most), -np.inf)
    precision = np.ones((n_factors, most))
    for k, (places, values) in enumerate(zip(choices.places, choices.values(found.mean), strict=True)):
        m = len(values)
        mean[k, :m] = values
        precision[k, :m] = 1.0 / _own_variances(found.covariance, places)
    row = np.arange(n_factors)
    leader = mean.argmax(axis=1)
    behind = mean[row, leader][:, None] - mean
    given = np.zeros((n_factors, most))
    at_once = max(1, math.ceil(n_left / _STEPS))
    rival = np.isfinite(behind)
    rival[row, leader] = False
    behind = np.where(rival, behind, 0.0)
    for _ in range(math.ceil(n_left / at_once)):
        spread = np.sqrt(1.0 / precision[row, leader][:, None] + 1.0 / precision)
        weight = np.where(rival, np.exp(-0.5 * (behind / spread) ** 2) / spread, 0.0)
        gain = weight / precision**2
        gain[row, leader] = weight.sum(axis=1) / precision[row, leader] ** 2
        chosen = gain.argmax(axis=1)
        precision[row, chosen] += at_once / found.noise_sd**2
        given[row, chosen] += at_once
    return [given[k, :m] / given[k, :m].sum() for k, m in enumerate(choices.n_levels)]


def _own_variances(covariance: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """About the variance of each level alone: what all levels of a factor share says nothing about its choice."""
    n_parts, m = places.shape[1], len(places)
    joint = np.zeros((m, m))
    for a in range(n_parts):
        for b in range(n_parts):
            joint += covariance[np.ix_(places[:, a], places[:, b])]
    if m == 1:
        return np.maximum(np.diagonal(joint), 1e-300)
    mean = joint.mean(axis=1)
    own = (np.diagonal(joint) - 2 * mean + joint.mean()) * m / (m - 1)
    return np.asarray(np.maximum(own, 1e-12 * np.diagonal(joint).max() + 1e-300))


def complementary_rows(rows: Codes, choices: Choices, information: NDArray[np.float64]) -> Codes:
    """The rows with entries swapped inside columns, so that they make up for what earlier runs left unbalanced.

    >>> rows = np.array([[0, 0], [1, 1], [0, 0], [1, 1]], dtype=np.int16)
    >>> information = np.kron([[0.0, 1.0], [1.0, 0.0]], [[2.0, -2.0], [-2.0, 2.0]])
    >>> bool((complementary_rows(rows, Choices((2, 2)), information)[:, 0] != rows[:, 1]).any())
    True
    """
    if len(rows) < 2:
        return rows
    between = np.rint(information).astype(np.float32)
    owner = np.repeat(np.arange(len(choices.sizes)), choices.sizes)
    between[owner[:, None] == owner[None, :]] = 0.0
    return swap_improved(rows, choices.sizes, _ROUNDS, earlier=between)


def allocated_rows(shares: Sequence[NDArray[np.float64]], n_runs: int, rng: np.random.Generator) -> Codes:
    """Rows in which each factor's levels have their shares, up to one run, in orders of their own.

    What a share leaves over of a whole run is drawn, so that small shares get their runs over many blocks.

    >>> rows = allocated_rows([np.array([0.5, 0.5]), np.array([1.0, 0.0])], 4, np.random.default_rng(0))
    >>> np.bincount(rows[:, 0]).tolist(), rows[:, 1].tolist()
    ([2, 2], [0, 0, 0, 0])
    """
    rows = np.empty((n_runs, len(shares)), dtype=np.int16)
    for k, share in enumerate(shares):
        # systematic sampling: levels in random order, one point in each unit of runs
        order = rng.permutation(len(share))
        ends = np.cumsum(share[order]) * n_runs
        points = np.arange(n_runs) + rng.random()
        drawn = order[np.minimum(np.searchsorted(ends, points, side="right"), len(share) - 1)]
        rows[:, k] = rng.permutation(drawn)
    return rows
