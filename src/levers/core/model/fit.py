"""Least squares of the additive model from its moments: contrasts, their variances, what cannot be estimated.

Only contrasts inside a factor are identifiable: the one-hot design has rank d - K + 1, not d. Any generalised inverse
gives the same contrasts and variances, so the fit uses the cheapest one: each factor's first used level is dropped, the
constant is swept out, and the rest is solved by Cholesky. Only when that is singular (a design in which columns move
together) is a pseudo-inverse taken, and contrasts outside the row space get an infinite variance.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from levers.core.model.level_index import Numbers
from levers.core.model.moments import Moments, residual_square
from levers.core.model.pooled import PooledSums
from levers.errors import InvalidSettingError

_ESTIMABLE = 1e-6
"""The largest part of a contrast's direction that may lie outside the row space: no more than rounding."""
_SINGULAR = 1e-9  # a column of which the others leave a smaller share unexplained moves together with them
_CELLS_AT_ONCE = 1 << 20  # levels times pairs of levels that are looked at together: 8 MB


@dataclass(frozen=True, eq=False)
class Fit:
    """The least-squares fit of y = constant + sum_k theta_k[x_k] to the runs in `moments`.

    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> fit = Fit(Moments.empty([2, 2]).add(rows, [0.0, 1.0, 5.0, 6.0]))
    >>> fit.rank, fit.level_effects(0).round(6).tolist(), fit.variances(0).round(6).tolist()
    (3, [0.0, 5.0], [[0.0, 1.0], [1.0, 0.0]])
    """

    moments: Moments | PooledSums

    @cached_property
    def _free(self) -> NDArray[np.int64]:
        """Positions of the used levels that are not their factor's reference level."""
        used = self.moments.level_counts > 0
        place = np.where(used, np.arange(len(used)), len(used))
        first = np.minimum.reduceat(place, self.moments.offsets[:-1])
        used[first[first < len(used)]] = False
        return np.flatnonzero(used)

    @cached_property
    def _system(self) -> Numbers:
        """The normal equations with the constants swept out: G - c c^T / n, summed over blocks."""
        if self.moments.n_runs == 0:
            raise InvalidSettingError("there are no runs to fit")
        return self.moments.centred(self._free)

    @cached_property
    def _factor(self) -> Numbers | None:
        """The Cholesky factor, or None when the design leaves some contrast undetermined."""
        if self.moments.n_runs < self._free.size + self.moments.n_blocks:
            return None
        if not self._free.size:
            return np.zeros((0, 0))
        from scipy.linalg.lapack import dpotrf  # takes a while to load, and reading a study fits nothing

        factor, failed = dpotrf(self._system, lower=1)  # LAPACK directly: for small systems scipy's checks cost as much
        if failed:
            return None
        unexplained = factor.diagonal() ** 2 / self._system.diagonal()
        return factor if float(unexplained.min()) > _SINGULAR else None

    @property
    def free_levels(self) -> NDArray[np.int64]:
        """Positions of the levels whose effects are free: all that were used but the first of each factor."""
        return self._free

    @property
    def determined(self) -> bool:
        """Whether the runs determine every contrast between levels that were used."""
        return self._factor is not None

    @cached_property
    def _spectrum(self) -> tuple[Numbers, Numbers]:
        """Eigenvalues above rounding error, and their eigenvectors: used when there is no Cholesky factor."""
        from scipy.linalg import eigh

        values, vectors = eigh(self._system)
        keep = values > _SINGULAR * max(float(values.max(initial=0.0)), 1e-300)
        return values[keep], vectors[:, keep]

    @cached_property
    def rank(self) -> int:
        """Rank of the one-hot design: d - K + 1 when every level is used and nothing moves together.

        Every further block has a constant of its own.
        """
        return self.moments.n_blocks + (self._free.size if self._factor is not None else self._spectrum[0].size)

    @cached_property
    def theta(self) -> Numbers:
        """One solution of the normal equations: 0 at each factor's reference level, nan where never used.

        Differences inside a factor are the estimated contrasts; the numbers themselves mean nothing else.
        """
        rhs = self.moments.sums[self._free]
        if self._factor is not None:
            from scipy.linalg.lapack import dpotrs

            solution = dpotrs(self._factor, rhs, lower=1)[0] if rhs.size else rhs
        else:
            values, vectors = self._spectrum
            solution = vectors @ ((vectors.T @ rhs) / values)
        theta = np.where(self.moments.level_counts > 0, 0.0, np.nan)
        theta[self._free] = solution
        return theta

    @cached_property
    def inverse(self) -> Numbers:
        """A generalised inverse on all d levels (zero at reference levels): contrast variances over sigma^2."""
        if self._factor is not None:
            from scipy.linalg.lapack import dpotri

            half = dpotri(self._factor, lower=1)[0] if self._free.size else self._factor
            small = np.tril(half) + np.tril(half, -1).T
        else:
            values, vectors = self._spectrum
            small = (vectors / values) @ vectors.T
        return self._over_all_levels(small)

    @cached_property
    def _outside(self) -> Numbers | None:
        """Each level's direction less its projection on the row space; None when everything is estimable."""
        if self._factor is not None:
            return None
        vectors = self._spectrum[1]
        return self._over_all_levels(np.eye(self._free.size) - vectors @ vectors.T)

    def _over_all_levels(self, small: Numbers) -> Numbers:
        d = sum(self.moments.n_levels)
        full = np.zeros((d, d))
        full[np.ix_(self._free, self._free)] = small
        return full

    def pair_variances(self, these: NDArray[np.int64], those: NDArray[np.int64]) -> Numbers:
        """Variances over sigma^2 of the contrasts between pairs of levels of one factor, by position among all levels.

        (e_i - e_j)^T V_n^+ (e_i - e_j), and infinite where the design does not determine the contrast.
        """
        diagonal = self.inverse.diagonal()
        spread = np.maximum(diagonal[these] + diagonal[those] - 2 * self.inverse[these, those], 0.0)
        known = (self.moments.level_counts[these] > 0) & (self.moments.level_counts[those] > 0)
        if self._outside is not None:
            known &= self._inside(these, those)
        return np.where(known, spread, np.inf)

    def _inside(self, these: NDArray[np.int64], those: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether contrasts are determined where some are not. A few pairs at a time: each takes a column of levels."""
        assert self._outside is not None  # see pair_variances
        step, found = max(1, _CELLS_AT_ONCE // len(self._outside)), np.empty(len(these), dtype=bool)
        for begin in range(0, len(these), step):
            a, b = these[begin : begin + step], those[begin : begin + step]
            found[begin : begin + step] = np.abs(self._outside[:, a] - self._outside[:, b]).max(axis=0) < _ESTIMABLE
        return found

    def level_effects(self, factor: int) -> Numbers:
        """Theta restricted to one factor's levels: differences are contrasts, nan where a level was never used."""
        return self.theta[self.moments.offsets[factor] : self.moments.offsets[factor + 1]]

    def variances(self, factor: int) -> Numbers:
        """Variances over sigma^2 of all contrasts of a factor, as a matrix over its levels."""
        places = np.arange(self.moments.offsets[factor], self.moments.offsets[factor + 1])
        these, those = np.meshgrid(places, places, indexing="ij")
        return self.pair_variances(these.ravel(), those.ravel()).reshape(these.shape)

    @property
    def residual_dof(self) -> int:
        """Runs left to estimate the noise with."""
        return self.moments.n_runs - self.rank

    @property
    def residual_square(self) -> float:
        """The sum of squared residuals."""
        explained = float(np.nansum(self.theta * self.moments.sums))
        return residual_square(self.moments.square, explained, self.rank)
