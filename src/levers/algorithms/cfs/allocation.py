"""Which levels to run next when the setting recommended at the end is all that counts.

Runs go where they lower the expected opportunity cost most: the loss, by the posterior, of recommending the leader when
another level is better. Every run sets all factors, so each factor is allocated by itself, and the columns are put
together at random. No guarantee rests on any of it (docs/decisions/0021).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from levers.algorithms.cfs.settings import TIED
from levers.core.designs.search import swap_improved
from levers.core.model.choices import Choices
from levers.core.model.posterior import Posterior
from levers.core.space import Codes

HARDLY = 0.02
"""The share of the average lever's opportunity cost below which a lever begins to be left at its leader."""

_STEPS = 60
"""Steps in which the runs left are allocated: one run each, or so many at a time that these steps are enough."""


_DRAWS = 400
"""Draws from the posterior that say how often a combination is the best."""

_ROUNDS = 12
"""Rounds of swaps that bring a block's columns together."""


def leaders_of(choices: Choices, found: Posterior, baseline: Sequence[int] | None = None) -> tuple[int, ...]:
    """The level of each factor with the largest posterior mean; the baseline's, if it is no worse but by rounding.

    >>> equal = Posterior(np.array([0.0, 1.0, 1.0]), np.eye(3), 1.0, 1.0)
    >>> leaders_of(Choices((3,)), equal), leaders_of(Choices((3,)), equal, [2]), leaders_of(Choices((3,)), equal, [0])
    ((1,), (2,), (1,))
    """
    every = choices.values(found.mean)
    leaders = [int(np.argmax(values)) for values in every]
    for k, level in enumerate(baseline or ()):
        if every[k][leaders[k]] - every[k][level] <= TIED * found.effect_sd:
            leaders[k] = level
    return tuple(leaders)


def allocated_shares(
    choices: Choices, found: Posterior, n_left: int, rng: np.random.Generator | None = None
) -> list[NDArray[np.float64]]:
    """For each factor the share of the next `n_left` runs that each of its levels gets.

    With leader i and rival j, d_ij ahead by the posterior with standard deviation s_ij, the opportunity cost of j is
    E[(theta_j - theta_i)^+], whose derivative by the variance is phi(d/s) / (2 s). Each run goes to the level that
    lowers these variances most, so weighted   (expected opportunity cost; Chick and Inoue, Operations Research 2001).

    With an `rng`, combinations of tied factors have half of their runs by how often each is the best in draws from the
    posterior: there are many, and comparing them with the leader alone explores too few (docs/decisions/0055).

    >>> rival = Posterior(np.array([1.0, 0.9, -3.0]), 0.04 * np.eye(3), 1.0, 1.0)
    >>> [share] = allocated_shares(Choices((3,)), rival, 20)
    >>> bool(share[2] == 0.0), bool(abs(share[0] - share[1]) <= 0.1)
    (True, True)
    """
    at_once = max(1, math.ceil(n_left / _STEPS))
    n_steps, added = math.ceil(n_left / at_once), at_once / found.noise_sd**2
    single = [k for k, table in enumerate(choices.tables) if table.shape[1] == 1]
    shares: dict[int, NDArray[np.float64]] = {}
    if single:
        rows = _single_shares([choices.places[k][:, 0] for k in single], found, n_steps, added)
        shares = dict(zip(single, rows, strict=True))
    for k, places in enumerate(choices.places):
        if places.shape[1] > 1:
            shares[k] = _tied_shares(places, found, n_steps, added)
            if rng is not None:
                shares[k] = (shares[k] + _shares_of_best(places, found, rng)) / 2
    return [shares[k] for k in range(len(choices.n_levels))]


def local_shares(
    choices: Choices, found: Posterior, shares: Sequence[NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """The same shares, but levers hardly in doubt stay at their leaders, so that the others are compared there.

    A lever of two levels would else have each in half of the runs to the end, however clear it is, and one that is so
    clear that all gains are 0 its first level in all. Where effects add up that costs nothing, and saves nothing; where
    levers interact too little to be seen, it compares the others in places that will not be chosen. A factor is left at
    its leader in a share 1 - c / (HARDLY c') of the runs, with c its expected opportunity cost
    sum_j E[(theta_j - theta_i)^+] and c' the average over all factors.

    >>> clear = Posterior(np.array([3.0, -3.0, 0.1, 0.0]), 0.04 * np.eye(4), 1.0, 1.0)
    >>> even = [np.array([0.5, 0.5]), np.array([0.5, 0.5])]
    >>> [share.round(3).tolist() for share in local_shares(Choices((2, 2)), clear, even)]
    [[1.0, 0.0], [0.5, 0.5]]
    """
    costs, leaders = zip(*(_opportunity_cost(places, found) for places in choices.places), strict=True)
    usual = HARDLY * float(np.mean(costs))
    kept = []
    for share, cost, leader in zip(shares, costs, leaders, strict=True):
        explored = min(1.0, cost / usual) if usual > 0 else 1.0
        local = explored * share
        local[leader] += 1.0 - explored
        kept.append(local)
    return kept


def indicators_of(places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The levels that a factor's combinations are made of, and which of them each has."""
    used = np.unique(places)
    indicators = np.zeros((len(places), len(used)))
    np.put_along_axis(indicators, np.searchsorted(used, places), 1.0, axis=1)
    return used, indicators


def _opportunity_cost(places: NDArray[np.int64], found: Posterior) -> tuple[float, int]:
    """What choosing a factor's leader is expected to cost, its rivals being compared with it one by one; the leader."""
    values = found.mean[places].sum(axis=1)
    leader = int(values.argmax())
    used, indicators = indicators_of(places)
    away = np.delete(indicators[leader] - indicators, leader, axis=0)
    spread = np.sqrt(np.maximum(((away @ found.covariance[np.ix_(used, used)]) * away).sum(axis=1), 1e-300))
    z = np.delete(values[leader] - values, leader) / spread
    return float((spread * (np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) - z * ndtr(-z))).sum()), leader


def _single_shares(
    places: list[NDArray[np.int64]], found: Posterior, n_steps: int, added: float
) -> list[NDArray[np.float64]]:
    """The shares of factors that are chosen by themselves, all at once.

    Levels are taken as independent: a run at one with precision N lowers its variance by 1 / (N^2 sigma^2), and the
    leader gains by all its rivals.
    """
    n_factors, sizes = len(places), [len(at) for at in places]
    mean = np.full((n_factors, max(sizes)), -np.inf)
    precision = np.ones_like(mean)
    for k, at in enumerate(places):
        mean[k, : len(at)] = found.mean[at]
        precision[k, : len(at)] = 1.0 / own_variances(found.covariance[np.ix_(at, at)])
    row = np.arange(n_factors)
    leader = mean.argmax(axis=1)
    rival = np.isfinite(mean)
    rival[row, leader] = False
    behind = np.where(rival, mean[row, leader][:, None] - mean, 0.0)
    given = np.zeros_like(mean)
    for _ in range(n_steps):
        spread = np.sqrt(1.0 / precision[row, leader][:, None] + 1.0 / precision)
        weight = np.where(rival, np.exp(-0.5 * (behind / spread) ** 2) / spread, 0.0)
        gain = weight / precision**2
        gain[row, leader] = weight.sum(axis=1) / precision[row, leader] ** 2
        chosen = _first_best(gain)
        precision[row, chosen] += added
        given[row, chosen] += 1
    return [given[k, :m] / n_steps for k, m in enumerate(sizes)]


def _tied_shares(places: NDArray[np.int64], found: Posterior, n_steps: int, added: float) -> NDArray[np.float64]:
    """The shares of the combinations of one factor's parts.

    Combinations share levels, so a run at combination c, with indicator z, lowers the variance of a difference d by
    (d' C z)^2 / (1/added + z' C z), C being the covariance of the parts' effects, and C itself is updated.
    """
    used, indicators = indicators_of(places)
    covariance = found.covariance[np.ix_(used, used)].copy()
    values = indicators @ found.mean[used]
    best = int(values.argmax())
    behind, differences = values[best] - values, indicators[best] - indicators
    rival = np.arange(len(values)) != best
    given = np.zeros(len(values))
    for _ in range(n_steps):
        spread_out = differences @ covariance
        spread = np.sqrt(np.maximum((spread_out * differences).sum(axis=1), 1e-300))
        weight = np.where(rival, np.exp(-0.5 * (behind / spread) ** 2) / spread, 0.0)
        moved = indicators @ covariance
        total = 1.0 / added + (moved * indicators).sum(axis=1)
        gain = weight @ (spread_out @ indicators.T) ** 2 / total
        chosen = int(_first_best(gain[None])[0])
        covariance -= np.outer(moved[chosen], moved[chosen]) / total[chosen]
        given[chosen] += 1
    return given / n_steps


def _shares_of_best(places: NDArray[np.int64], found: Posterior, rng: np.random.Generator) -> NDArray[np.float64]:
    """How often each combination of one factor's parts is the best, in draws from the posterior.

    >>> even = Posterior(np.array([0.0, 0.0, 5.0, 5.0]), np.eye(4), 1.0, 1.0)
    >>> _shares_of_best(np.array([[0, 2], [1, 3]]), even, np.random.default_rng(0)).round(1).tolist()
    [0.5, 0.5]
    """
    used, indicators = indicators_of(places)
    values, vectors = np.linalg.eigh(found.covariance[np.ix_(used, used)])
    spread = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = found.mean[used] + rng.normal(size=(_DRAWS, len(used))) @ spread.T
    best = (drawn @ indicators.T).argmax(axis=1)
    return np.bincount(best, minlength=len(places)) / _DRAWS


def _first_best(gain: NDArray[np.float64]) -> NDArray[np.int64]:
    """The first of each row's largest numbers, rounding left out: levels that are alike must not be told by it.

    >>> _first_best(np.array([[1.0, 1.0 + 1e-15, 0.5]])).tolist()
    [0]
    """
    found: NDArray[np.int64] = (gain >= (1 - 1e-9) * gain.max(axis=1, keepdims=True)).argmax(axis=1)
    return found


def own_variances(joint: NDArray[np.float64]) -> NDArray[np.float64]:
    """About the variance of each level alone: what all levels of a factor share says nothing about its choice."""
    m = len(joint)
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
    if choices.is_tied:  # of combinations, from their parts
        made_of = np.zeros((sum(choices.n_levels), len(information)))
        np.put_along_axis(made_of, _padded(choices), 1.0, axis=1)
        information = made_of @ information @ made_of.T
    between = np.rint(information).astype(np.float32)
    owner = np.repeat(np.arange(len(choices.n_levels)), choices.n_levels)
    between[owner[:, None] == owner[None, :]] = 0.0
    return swap_improved(rows, choices.n_levels, _ROUNDS, earlier=between)


def _padded(choices: Choices) -> NDArray[np.int64]:
    """Where the parts of every level are, in one table; shorter rows repeat their last part."""
    widest = max(places.shape[1] for places in choices.places)
    return np.concatenate(
        [np.pad(places, ((0, 0), (0, widest - places.shape[1])), mode="edge") for places in choices.places]
    )


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
