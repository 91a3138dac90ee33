"""A shrunken fit in which levers may work together: what to recommend, and where to look next, if effects do not add.

An outcome is a constant, plus an effect of every level, plus one of every pair of levels, plus what settings that
differ in few levers share, plus noise. All are independent normal before the first run, with variances that the runs
themselves suggest, so that there may be far more of them than runs: a Gaussian process. Where nothing but single levels
matters, the additive fit is as good: `interaction_weights` says how likely that is. No guarantee rests on any of it
(docs/decisions/0047).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.core.codec import serialisable
from levers.core.model.level_index import Numbers, Places, offsets
from levers.core.space import Codes

_RATIOS = np.geomspace(0.05, 1e5, 29)
"""Variances of main effects together that are considered, in variances of the noise."""
_PAIR_SHARES = (0.1, 0.4, 1.6)
"""Variances of all pairs together that are considered, in those of all main effects."""
_NEAR_SHARE = 0.05
"""The variance of what is neither main effect nor pair, in the same."""
_NEAR = 0.6
"""What two settings that differ in one more lever have in common of that, as a share."""
_SURE = 0.95
"""The probability of interactions from which on they are taken for granted: few runs make them half likely at once."""
_JITTER = 1e-9
"""A share of the outcomes' variance that is added to the noise, so that runs without any can be fitted."""
_ALONE = 1e-9
"""The precision of an outcome given all others, over that of the noise, below which it is that of a run alone."""


@serialisable("Runs")
@dataclass(frozen=True, eq=False)
class Runs:
    """Runs one by one: level positions, outcomes, and which of a study's constants each belongs to.

    >>> runs = Runs.none(2).add([[0, 1]], [2.5], 0).add([[1, 1], [1, 0]], [2.0, 1.0], 1)
    >>> len(runs), runs.codes.tolist(), runs.constants.tolist()
    (3, [[0, 1], [1, 1], [1, 0]], [0, 1, 1])
    """

    codes: Codes
    outcomes: Numbers
    constants: Places

    @classmethod
    def none(cls, n_factors: int) -> "Runs":
        """No runs of so many factors."""
        return cls(np.zeros((0, n_factors), dtype=np.int16), np.zeros(0), np.zeros(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.outcomes)

    @property
    def differ(self) -> bool:
        """Whether any two outcomes with the same constant differ, so that there is something to fit.

        >>> runs = Runs.none(1).add([[0], [1]], [2.0, 2.0], 0).add([[0], [1]], [3.0, 3.0], 1)
        >>> runs.differ, runs.add([[0]], [3.5], 1).differ
        (False, True)
        """
        _, first, at = np.unique(self.constants, return_index=True, return_inverse=True)
        return bool((self.outcomes != self.outcomes[first][at]).any())

    def at(self, which: Places) -> "Runs":
        """Some of the runs."""
        return Runs(self.codes[which], self.outcomes[which], self.constants[which])

    def add(self, codes: Codes | list[list[int]], outcomes: Numbers | list[float], constants: Places | int) -> "Runs":
        """The runs with more of them."""
        rows = np.asarray(codes, dtype=np.int16).reshape(-1, self.codes.shape[1])
        return Runs(
            np.concatenate([self.codes, rows]),
            np.concatenate([self.outcomes, np.asarray(outcomes, dtype=np.float64)]),
            np.concatenate([self.constants, np.broadcast_to(np.asarray(constants, dtype=np.int64), len(rows))]),
        )


@serialisable("InteractionWeights")
@dataclass(frozen=True)
class InteractionWeights:
    """The variances of a fit with interactions: of the noise, and of all main effects, pairs and the rest over it.

    `probability` is that of interactions, given the runs, where they are as likely as not before any.
    """

    noise_variance: float
    main: float
    pairs: float
    near: float
    probability: float

    @property
    def prevail(self) -> bool:
        """Whether interactions are so likely that they are said to be there, and a choice is made by them."""
        return self.probability >= _SURE


class Surface(NamedTuple):
    """A function of settings: the sum over a setting's levels of `effects`, over its pairs of levels of `pairs`, and
    over the runs of `near`, times what the setting has in common with each."""

    effects: Numbers
    pairs: Numbers
    near: Numbers


@dataclass(frozen=True)
class _Levels:
    """The levels of all factors in a row, and what follows from their numbers alone."""

    sizes: tuple[int, ...]

    @cached_property
    def owner(self) -> Places:
        """The factor of each level."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def same(self) -> NDArray[np.bool_]:
        """Which levels belong to one factor."""
        found: NDArray[np.bool_] = self.owner[:, None] == self.owner[None, :]
        return found

    @cached_property
    def centring(self) -> Numbers:
        """C with C z the centred indicators of a setting's levels z: scaled so that those of a factor have norm 1."""
        m = np.asarray(self.sizes, dtype=np.float64)[self.owner]
        found: Numbers = (np.eye(len(m)) - self.same / m[None, :]) * np.sqrt(m / np.maximum(m - 1, 1))[:, None]
        return found

    def indicators(self, codes: Codes) -> Numbers:
        """A row of zeros and ones for each setting."""
        found = np.zeros((len(codes), len(self.owner)))
        found[np.arange(len(codes))[:, None], self.places(codes)] = 1.0
        return found

    def places(self, codes: Codes) -> Places:
        """Where the levels of settings are in the row of all levels."""
        return codes.astype(np.int64) + self.begins

    def near(self, indicators: Numbers, others: Numbers) -> Numbers:
        """rho^(number of levers that differ) between settings, given by their indicators."""
        found: Numbers = self._powers.take((indicators @ others.T).astype(np.int64))
        return found

    @cached_property
    def begins(self) -> Places:
        """Where the levels of each factor begin."""
        return offsets(self.sizes)[:-1]

    @cached_property
    def _powers(self) -> Numbers:
        """rho^(K - n) by the number n of levers at the same level."""
        found: Numbers = _NEAR ** np.arange(len(self.sizes), -1, -1, dtype=np.float64)
        return found

    def kernels(self, these: Codes, those: Codes) -> tuple[Numbers, Numbers, Numbers]:
        """What settings have in common: of main effects, of pairs, and of the rest, each 1 for a setting with itself.

        With c_k = (m_k [x_k = x'_k] - 1) / (m_k - 1), which is 0 on average over levels:
        main = sum_k c_k / K, pairs = sum_{k<l} c_k c_l / (K (K-1) / 2), near = rho^(number of levers that differ).
        """
        one, other = self.indicators(these), self.indicators(those)
        first, second = one @ self.centring.T, other @ self.centring.T
        main = first @ second.T
        squares, begins = np.zeros_like(main), offsets(self.sizes)
        for begin, end in pairwise(begins.tolist()):
            squares += (first[:, begin:end] @ second[:, begin:end].T) ** 2
        n = len(self.sizes)
        return main / n, (main**2 - squares) / max(n * (n - 1), 1), self.near(one, other)


@lru_cache(maxsize=8)
def _levels_of(sizes: tuple[int, ...]) -> _Levels:
    """The levels of factors of these sizes, the same for all looks of a study."""
    return _Levels(sizes)


@dataclass(frozen=True, eq=False)
class KernelSpectra:
    """The kernels of runs off their constants, without and with each share of pairs considered, as U diag(a) U'.

    They depend on settings and constants alone, and take most of the time: whoever looks at other outcomes of the same
    runs needs them once.
    """

    runs: Runs
    sizes: tuple[int, ...]

    @cached_property
    def _basis(self) -> Numbers:
        """Orthonormal columns off the constants."""
        constants = _constants(self.runs)
        full: Numbers = np.linalg.qr(constants, mode="complete")[0]
        return full[:, constants.shape[1] :]

    @cached_property
    def _parts(self) -> list[tuple[float, float, Numbers, Numbers]]:
        """Share of pairs, share of the rest, eigenvalues and eigenvectors."""
        codes, basis, found = self.runs.codes, self._basis, []
        main, pairs, near = (basis.T @ kernel @ basis for kernel in _levels_of(self.sizes).kernels(codes, codes))
        for share in (0.0, *_PAIR_SHARES):
            rest = _NEAR_SHARE if share else 0.0
            values, vectors = np.linalg.eigh(main + share * pairs + rest * near)
            found.append((share, rest, np.maximum(values, 0.0), vectors))
        return found

    def weights(self, outcomes: Numbers, noise_sd: float | None, least_noise: float) -> InteractionWeights:
        """See `interaction_weights`."""
        inside = self._basis.T @ outcomes
        dof, total = max(len(inside), 1), float(inside @ inside)
        floor = max(least_noise**2, 1e-300)
        costs, learned, found = [], [], []
        for share, rest, values, vectors in self._parts:
            grown = 1 + _RATIOS[:, None] * values
            left, size = ((vectors.T @ inside) ** 2 / grown).sum(axis=1), np.log(grown).sum(axis=1)
            variances = np.maximum((left + _JITTER * total) / dof, floor)
            cost = size + dof * np.log(variances) + left / variances
            learned.append(float(cost.min()))
            if noise_sd is not None:
                variances = np.full(len(_RATIOS), max(noise_sd**2, floor))
                cost = size + left / variances
            i = int(np.argmin(cost))
            costs.append(float(cost[i]))
            ratio = float(_RATIOS[i])
            found.append((float(variances[i]), ratio, ratio * share, ratio * rest))
        best = 1 + int(np.argmin(costs[1:]))
        # a noise that was stated too small would make interactions of what is noise
        return InteractionWeights(*found[best], min(_probability(costs), _probability(learned)))

    def left_out(self, outcomes: Numbers, weights: InteractionWeights) -> tuple[Numbers, Numbers]:
        """How far each outcome is from what all others expect of it by the fit with these weights, and the standard
        deviation of that, infinite where no other run shares its constant: (P y)_i / P_ii and P_ii^(-1/2).

        P = U diag(1 / (1 + q a)) U' / sigma^2 is `InteractionFit.precision`.
        """
        [(_, _, values, vectors)] = [part for part in self._parts[1:] if weights.pairs == weights.main * part[0]]
        turned, grown = self._basis @ vectors, 1 + weights.main * values
        room = (turned**2 / grown).sum(axis=1)
        known = room > _ALONE
        away = turned @ ((turned.T @ outcomes) / grown)
        distance = np.divide(away, room, out=np.zeros_like(away), where=known)
        variance = np.divide(weights.noise_variance, room, out=np.full_like(room, np.inf), where=known)
        return distance, np.sqrt(variance)


def interaction_weights(
    runs: Runs, sizes: Sequence[int], noise_sd: float | None, least_noise: float = 0.0
) -> InteractionWeights:
    """The variances of the largest marginal likelihood, on a grid; an unknown noise is estimated with them.

    The same without pairs is what interactions are compared with: their probability is that of all shares of pairs
    considered, on average, against none, each with its likeliest scale. A stated noise is not relied on for that: the
    probability is the smaller one of that with it and that with the noise learned from the runs.

    With U diag(a) U' the kernel off the constants and w = U' y, -2 log p(y) = sum log(1 + q a) + S(q) / sigma^2, where
    S = sum w^2 / (1 + q a), q is the variance of main effects over sigma^2, and an unknown sigma^2 is S / dof.

    >>> rng = np.random.default_rng(0)
    >>> codes = rng.integers(2, size=(80, 4)).astype(np.int16)
    >>> y = 2.0 * codes[:, 0] * codes[:, 1] + 0.1 * rng.normal(size=80)
    >>> found = interaction_weights(Runs.none(4).add(codes, y, 0), (2,) * 4, None)
    >>> bool(0.07 < found.noise_variance**0.5 < 0.14), bool(found.pairs > 0.3 * found.main), found.probability > 0.99
    (True, True, True)
    >>> y = codes.sum(axis=1) + rng.normal(size=80)
    >>> interaction_weights(Runs.none(4).add(codes, y, 0), (2,) * 4, None).probability < 0.2
    True
    """
    return KernelSpectra(runs, tuple(sizes)).weights(runs.outcomes, noise_sd, least_noise)


def _probability(costs: Sequence[float]) -> float:
    """That of interactions, from -2 log p(y) without them and with each share of pairs considered."""
    likely = np.exp(-0.5 * (np.array(costs) - min(costs)))
    return float(likely[1:].mean() / (likely[0] + likely[1:].mean()))


def _constants(runs: Runs) -> Numbers:
    """A column for each constant that runs belong to."""
    _, at = np.unique(runs.constants, return_inverse=True)
    found = np.zeros((len(runs), int(at.max(initial=-1)) + 1))
    found[np.arange(len(runs)), at] = 1.0
    return found


# scipy.linalg takes as long to import as numpy, and most commands fit nothing: it is imported where it is used


def _factored(matrix: Numbers) -> tuple[Numbers, bool]:
    """The Cholesky factor of a covariance, as `_solution` takes it."""
    from scipy.linalg import cho_factor

    found: tuple[Numbers, bool] = cho_factor(matrix, lower=True, check_finite=False)
    return found


def _solution(root: tuple[Numbers, bool], columns: Numbers) -> Numbers:
    """Sigma^-1 of columns, by Sigma's factor."""
    from scipy.linalg import cho_solve

    found: Numbers = cho_solve(root, columns, check_finite=False)
    return found


@dataclass(frozen=True, eq=False)
class InteractionFit:
    """The fit to some runs of factors with these numbers of levels.

    >>> rng = np.random.default_rng(0)
    >>> codes = rng.integers(2, size=(80, 4)).astype(np.int16)
    >>> y = 2.0 * (codes[:, 0] == codes[:, 1]) - 0.5 * codes[:, 2] + 0.1 * rng.normal(size=80)
    >>> runs = Runs.none(4).add(codes, y, 0)
    >>> fit = InteractionFit((2,) * 4, runs, interaction_weights(runs, (2,) * 4, None))
    >>> best = fit.best(fit.mean, codes[:3])
    >>> other = np.array([1 - best[0], best[1], best[2], best[3]])
    >>> bool(best[0] == best[1]), int(best[2]), round(fit.difference(best, other)[0], 1)
    (True, 0, 2.1)
    """

    sizes: tuple[int, ...]
    runs: Runs
    weights: InteractionWeights

    @cached_property
    def _levels(self) -> _Levels:
        return _levels_of(self.sizes)

    @property
    def noise_sd(self) -> float:
        """The standard deviation of the noise."""
        return math.sqrt(self.weights.noise_variance)

    def _covariance(self, these: Codes, those: Codes) -> Numbers:
        main, pairs, near = self._levels.kernels(these, those)
        w = self.weights
        found: Numbers = w.noise_variance * (w.main * main + w.pairs * pairs + w.near * near)
        return found

    @cached_property
    def _between_runs(self) -> Numbers:
        return self._covariance(self.runs.codes, self.runs.codes)

    @cached_property
    def _root(self) -> tuple[Numbers, bool]:
        n = len(self.runs)
        total = self._between_runs
        noise = self.weights.noise_variance + _JITTER * float(np.trace(total)) / max(n, 1)
        return _factored(total + noise * np.eye(n))

    @cached_property
    def _off(self) -> tuple[Numbers, Numbers]:
        """Sigma^-1 B and (B' Sigma^-1 B)^-1, with B the constants' columns."""
        columns = _constants(self.runs)
        solved = _solution(self._root, columns)
        return solved, np.asarray(np.linalg.inv(columns.T @ solved), dtype=np.float64)

    @cached_property
    def precision(self) -> Numbers:
        """P = Sigma^-1 - Sigma^-1 B (B' Sigma^-1 B)^-1 B' Sigma^-1.

        (P y)_i / P_ii is how far run i is from what all the others expect of it, and 1 / P_ii the variance of that.
        """
        columns, inverse = self._off
        return _solution(self._root, np.eye(len(self.runs))) - columns @ inverse @ columns.T

    @property
    def left_out(self) -> tuple[Numbers, Numbers]:
        """What all other runs expect of each, and how far its outcome is from that, in standard deviations."""
        away, room = self.precision @ self.runs.outcomes, self.precision.diagonal()
        return self.runs.outcomes - away / room, away / np.sqrt(room)

    @property
    def n_constants(self) -> int:
        """How many constants runs belong to."""
        return int(self._off[0].shape[1])

    def _solved(self, outcomes: Numbers) -> Numbers:
        """Sigma^-1 (y - B b), with b the constants by generalised least squares."""
        solved = _solution(self._root, outcomes)
        columns, inverse = self._off
        found: Numbers = solved - columns @ (inverse @ (columns.T @ outcomes))
        return found

    @cached_property
    def _features(self) -> tuple[Numbers, Numbers]:
        indicators = self._levels.indicators(self.runs.codes)
        return indicators, indicators @ self._levels.centring.T

    @property
    def _variances(self) -> tuple[float, float, float]:
        """Of each centred main effect, of each centred pair effect, and of the rest."""
        n, w = len(self.sizes), self.weights
        noise = w.noise_variance
        return noise * w.main / n, noise * w.pairs * 2 / max(n * (n - 1), 1), noise * w.near

    def _surface(self, solved: Numbers) -> Surface:
        main, pair, near = self._variances
        _, features = self._features
        crossed = (features * solved[:, None]).T @ features
        return Surface(*self._uncentred(main * (features.T @ solved), pair * crossed), near * solved)

    def _uncentred(self, main: Numbers, pairs: Numbers) -> tuple[Numbers, Numbers]:
        """Effects of levels and pairs of levels as they are, from those of centred indicators."""
        centring, same = self._levels.centring, self._levels.same
        return centring.T @ main, np.where(same, 0.0, centring.T @ np.where(same, 0.0, pairs) @ centring)

    @cached_property
    def mean(self) -> Surface:
        """What is expected of every setting given the runs."""
        return self._surface(self._solved(self.runs.outcomes))

    def draw(self, rng: np.random.Generator) -> Surface:
        """One draw of the function given the runs: drawn before them, and corrected by what they say (Matheron's rule).

        What is neither main effect nor pair is not drawn, but expected given the rest.
        """
        main, pair, _ = self._variances
        d = len(self._levels.owner)
        upper = np.triu(rng.standard_normal((d, d)), 1)
        effects, pairs = self._uncentred(math.sqrt(main) * rng.standard_normal(d), math.sqrt(pair) * (upper + upper.T))
        indicators, _ = self._features
        drawn = indicators @ effects + 0.5 * ((indicators @ pairs) * indicators).sum(axis=1)
        noise = self.noise_sd * rng.standard_normal(len(self.runs))
        more = self._surface(self._solved(self.runs.outcomes - drawn - noise))
        return Surface(effects + more.effects, pairs + more.pairs, more.near)

    def values(self, surface: Surface, codes: Codes) -> Numbers:
        """A surface at some settings."""
        at = self._levels.indicators(codes)
        near = self._levels.near(at, self._features[0])
        found: Numbers = at @ surface.effects + 0.5 * ((at @ surface.pairs) * at).sum(axis=1) + near @ surface.near
        return found

    def steps(self, surface: Surface, codes: Codes) -> Numbers:
        """For each setting what changing one lever to each of its levels adds to a surface, all levels in a row."""
        levels, runs = self._levels, self._features[0]
        at = levels.indicators(codes)
        value = surface.effects + at @ surface.pairs
        shared = (surface.near * levels.near(at, runs)) @ runs
        places = np.arange(len(codes))[:, None], levels.places(codes)[:, levels.owner]
        now, shared_now = value[places], shared[places]
        found = value - now + (_NEAR - 1) * shared_now + (1 / _NEAR - 1) * shared
        return np.where(at > 0, 0.0, found)

    def best(self, surface: Surface, starts: Codes) -> Codes:
        """The setting with the largest value that is reached from any of these, changing one lever at a time."""
        owner, begins = self._levels.owner, self._levels.begins
        codes = np.array(starts, dtype=np.int16)
        least = 1e-9 * float(np.abs(surface.effects).max(initial=0.0) + np.abs(surface.pairs).max(initial=0.0))
        row = np.arange(len(codes))
        for _ in range(8 * len(self.sizes)):
            steps = self.steps(surface, codes)
            place = steps.argmax(axis=1)
            rises = steps[row, place] > least
            if not rises.any():
                break
            factor = owner[place]
            codes[row[rises], factor[rises]] = (place - begins[factor])[rises]
        values = self.values(surface, codes)
        found: Codes = codes[int((values >= values.max() - least).argmax())]  # the first of those that are the same
        return found

    def difference(self, setting: Codes, against: Codes | None = None) -> tuple[float, float]:
        """What is expected of a setting less another, or less the average of the runs, and the variance of that."""
        codes = self.runs.codes
        here = np.asarray(setting, dtype=np.int16)[None, :]
        if against is None:
            with_runs = self._covariance(here, codes)[0] - self._between_runs.mean(axis=0)
            own = self.weights.noise_variance * (self.weights.main + self.weights.pairs + self.weights.near)
            own += float(self._between_runs.mean()) - 2 * float(self._covariance(here, codes).mean())
        else:
            both = np.concatenate([here, np.asarray(against, dtype=np.int16)[None, :]])
            table = self._covariance(both, codes)
            with_runs = table[0] - table[1]
            square = self._covariance(both, both)
            own = float(square[0, 0] + square[1, 1] - 2 * square[0, 1])
        known = self._solved(with_runs)
        return float(with_runs @ self._solved(self.runs.outcomes)), max(own - float(with_runs @ known), 0.0)
