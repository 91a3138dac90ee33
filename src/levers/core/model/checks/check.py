"""What the checks look at, and what they say: runs, their residuals with the space these live in, and one result."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from levers.core.model.checks.additivity import NO_NOISE, Additive
from levers.core.model.interaction_fit import InteractionFit
from levers.core.model.level_index import Numbers
from levers.core.space import Codes

Positions = NDArray[np.int64]
"""Positions of runs, or numbers of their blocks."""
NOISE, OUTLIER, SPREAD, DRIFT, SERIAL, SETUP, SHAPE, NONADDITIVITY, PARENTS, EFFECT = (
    "noise",
    "outlier",
    "spread",
    "drift",
    "serial",
    "set-up",
    "shape",
    "nonadditivity",
    "max_parents",
    "min_effect",
)
"""The kinds of checks."""
_SMALL = 1e-11  # eigenvalues of the fit's inverse that are a smaller share of the largest are rounding
_ROOM = 1e-9  # a run that leaves less than this to its residual determines its own fit


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found. `p_value` is adjusted for everything that the check looked at.

    `runs` are positions of runs, `factor` and `level` and `block` what it is about, where it is about one of them.
    `size` is the number to show for it: an sd, a ratio, a correlation (docs/theory/doubts.md has a table). `is_harmful`
    is false where the data contradict an assumption, but by too little to matter for a certificate.
    """

    kind: str
    statistic: float
    p_value: float
    size: float | None = None
    runs: tuple[int, ...] = ()
    factor: int | None = None
    level: int | None = None
    block: int | None = None
    is_harmful: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class Runs:
    """Runs in the order of telling, and what is claimed about them.

    `constants` numbers the blocks that have a constant of their own in the fit, from 0. `days` numbers blocks that have
    none; None where nobody knows of any. `ordered` says which runs have a place in time, because runs from elsewhere
    have none. `noise_sd` is the stated noise. `hard` has the levels of levers that are hard to change, the hardest in
    the first column; None where there are none.
    """

    codes: Codes
    outcomes: Numbers
    n_levels: tuple[int, ...]
    constants: Positions | None = None
    days: Positions | None = None
    ordered: NDArray[np.bool_] | None = None
    noise_sd: float | None = None
    hard: Codes | None = None

    @property
    def n_runs(self) -> int:
        """How many."""
        return len(self.outcomes)

    @property
    def n_factors(self) -> int:
        """Factors without the one that blocks make."""
        return len(self.n_levels)

    def at(self, which: Positions) -> "Runs":
        """Some of the runs."""
        return Runs(
            self.codes[which],
            self.outcomes[which],
            self.n_levels,
            None if self.constants is None else self.constants[which],
            None if self.days is None else self.days[which],
            None if self.ordered is None else self.ordered[which],
            self.noise_sd,
            None if self.hard is None else self.hard[which],
        )

    def model(self) -> Additive:
        """The additive fit of all these runs, with the constants of blocks as one more factor."""
        codes, sizes = self.codes, list(self.n_levels)
        if self.constants is not None and self.n_runs:
            blocks = np.unique(self.constants, return_inverse=True)[1].ravel()
            if blocks.max() > 0:
                codes, sizes = np.column_stack([codes, blocks.astype(np.int16)]), [*sizes, int(blocks.max()) + 1]
        return Additive.of(codes, self.outcomes, sizes, most_runs=max(self.n_runs, 1))


@dataclass(frozen=True, eq=False)
class Residual:
    """The residuals e = M y of a fit with M = I - Q Q^T, Q an orthonormal basis of what the model can fit.

    Of a fit that `shrinks`, Q Q^T is no projection, and `square` is y^T M y (`of_interactions`).

    >>> left = Residual.of(Additive.of([[0], [0], [1], [1]], [1.0, 2.0, 4.0, 6.0], [2]))
    >>> left.values.round(6).tolist(), left.leverages.round(6).tolist(), round(left.square, 6), left.dof
    ([-0.5, 0.5, -1.0, 1.0], [0.5, 0.5, 0.5, 0.5], 2.5, 2)
    """

    values: Numbers
    basis: Numbers
    square: float
    dof: int
    n_runs: int
    largest: float
    shrinks: bool = False

    @classmethod
    def of_interactions(cls, fit: InteractionFit) -> "Residual":
        """What a shrunken fit with interactions leaves over, which is no projection, but leaves out runs as one does.

        M = sigma^2 P, the precision of all outcomes before effects and constants are known, in place of I - Q Q^T:
        e_i / M_ii is how far run i is from what all the others expect of it, e_i^2 / M_ii what leaving it out takes off
        y^T M y, which is sigma^2 chi-squared on the number of runs less that of constants where the fit's variances
        hold.
        """
        noise, outcomes = fit.weights.noise_variance, fit.runs.outcomes
        room = noise * fit.precision
        sizes, vectors = np.linalg.eigh(np.eye(len(outcomes)) - room)
        basis = vectors * np.sqrt(np.maximum(sizes, 0.0))
        values, n_runs = room @ outcomes, len(outcomes)
        largest = float(np.abs(outcomes).max(initial=0.0))
        return cls(values, basis, float(outcomes @ values), n_runs - fit.n_constants, n_runs, largest, True)

    @classmethod
    def of(cls, model: Additive, at: Positions | None = None) -> "Residual":
        """The residuals of a fit, or those of the runs in `at` only: the squares and counts are of all runs."""
        values = model.residuals if at is None else model.residuals[at]
        basis = basis_rows(model, np.arange(len(model.codes)) if at is None else at)
        largest = float(np.abs(model.outcomes).max(initial=0.0))
        return cls(values, basis, model.square, model.dof, len(model.codes), largest)

    @property
    def is_exact(self) -> bool:
        """Whether nothing but rounding is left, `largest` being the largest outcome."""
        return self.square <= self.n_runs * (NO_NOISE * self.largest) ** 2

    @cached_property
    def leverages(self) -> Numbers:
        """The diagonal of Q Q^T."""
        return np.asarray((self.basis**2).sum(axis=1))

    @cached_property
    def gains(self) -> Numbers:
        """What leaving out one run takes off the squares: e_i^2 / (1 - h_i); 0 where a run determines its own fit."""
        room = 1.0 - self.leverages
        return np.where(room > _ROOM, self.values**2 / np.maximum(room, _ROOM), 0.0)

    def shifts(self, runs: Sequence[int]) -> Numbers:
        """How far runs are from what all others expect of them: (I - H_SS)^-1 e_S."""
        at = list(runs)
        room = np.eye(len(at)) - self.basis[at] @ self.basis[at].T
        return np.asarray(np.linalg.lstsq(room, self.values[at], rcond=_ROOM)[0])

    def without(self, run: int) -> "Residual":
        """The same with an effect of its own for one run, which is leaving it out: its residual becomes 0.

        One more vector u = M d_i / sqrt(1 - h_i) joins the basis, and e loses u u^T e.
        """
        room = max(1.0 - float(self.leverages[run]), _ROOM)
        along = -self.basis @ self.basis[run]
        along[run] += 1.0
        along /= np.sqrt(room)
        pull = float(self.values[run]) / np.sqrt(room)
        values = self.values - along * pull
        values[run] = 0.0
        square = float(values @ values)
        if len(values) < self.n_runs or self.shrinks:  # some of the runs only: theirs are a part of all squares
            square = max(square, self.square - pull**2)
        basis = np.column_stack([self.basis, along])
        return replace(self, values=values, basis=basis, square=square, dof=self.dof - 1)

    def beside(self, column: Numbers) -> "Residual":
        """What is left with one more column in the model; the same where the model has it already."""
        along = column - self.basis @ (self.basis.T @ column)
        length = float(np.sqrt(along @ along))
        if length <= _ROOM * float(np.sqrt(column @ column)):
            return self
        along = along / length
        values = self.values - along * float(along @ self.values)
        basis = np.column_stack([self.basis, along])
        return replace(self, values=values, basis=basis, square=float(values @ values), dof=self.dof - 1)

    def besides(self, columns: Numbers) -> "Residual":
        """What is left with more columns in the model, as far as it does not have them already.

        >>> left = Residual.of(Additive.of([[0], [0], [1], [1]], [1.0, 2.0, 4.0, 6.0], [2]))
        >>> left.besides(np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])).values.round(6).tolist()
        [0.25, -0.25, -0.25, 0.25]
        """
        added = self._added(columns)
        values = self.values - added @ (added.T @ self.values)
        basis, dof = np.column_stack([self.basis, added]), self.dof - added.shape[1]
        return replace(self, values=values, basis=basis, square=float(values @ values), dof=dof)

    def explained(self, columns: Numbers) -> tuple[int, float]:
        """The rank and the squares of what columns add to the model: e^T T (T^T M T)^+ T^T e.

        >>> left = Residual.of(Additive.of([[0], [0], [1], [1]], [1.0, 2.0, 4.0, 6.0], [2]))
        >>> left.explained(np.array([[0.0], [1.0], [0.0], [1.0]]))[0], left.explained(np.ones((4, 1)))
        (1, (0, 0.0))
        """
        added = self._added(columns)
        return added.shape[1], float(((added.T @ self.values) ** 2).sum())

    def _added(self, columns: Numbers) -> Numbers:
        """An orthonormal basis of what columns add to the model."""
        lengths = np.sqrt((columns**2).sum(axis=0))
        used = columns[:, lengths > 0] / lengths[lengths > 0]
        vectors, sizes, _ = np.linalg.svd(self.swept(used), full_matrices=False)
        return np.asarray(vectors[:, sizes > 1e-6])

    def swept(self, columns: Numbers) -> Numbers:
        """What the model cannot fit of columns: M T."""
        return np.asarray(columns - self.basis @ (self.basis.T @ columns))


def basis_rows(model: Additive, at: Positions) -> Numbers:
    """Rows of an orthonormal basis of the fitted space: (1 / sqrt(n), (x - x_mean)^T L) with V^+ = L L^T.

    >>> rows = basis_rows(Additive.of([[0], [0], [1]], [1.0, 2.0, 4.0], [2]), np.arange(3))
    >>> (rows.T @ rows).round(9).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    moments, inverse = model.fit.moments, model.fit.inverse
    free = np.flatnonzero(inverse.diagonal() > 0)
    values, vectors = np.linalg.eigh(inverse[np.ix_(free, free)])
    kept = values > _SMALL * float(values.max(initial=0.0))
    half = np.zeros((inverse.shape[0], int(kept.sum())))
    half[free] = vectors[:, kept] * np.sqrt(values[kept])
    centre = (moments.level_counts / moments.n_runs) @ half
    rows = np.zeros((len(at), half.shape[1])) - centre
    for k, start in enumerate(moments.offsets[:-1]):
        rows += half[start + model.codes[at, k]]
    return np.column_stack([np.full(len(at), 1 / np.sqrt(moments.n_runs)), rows])


def noise_p_value(square: float, dof: int, noise_sd: float) -> float:
    """How likely squares this large are if the noise is as stated: P(chi-squared on dof > RSS / sigma^2).

    >>> round(noise_p_value(30.0, 10, 1.0), 6), noise_p_value(0.0, 0, 1.0)
    (0.000857, 1.0)
    """
    return float(chdtrc(dof, square / noise_sd**2)) if dof > 0 else 1.0


def bonferroni(p_values: Sequence[float] | Numbers, n: float | None = None) -> float:
    """The smallest p-value times how many were looked at, at most 1.

    >>> bonferroni([0.01, 0.5])
    0.02
    """
    values = np.asarray(p_values, dtype=np.float64)
    return float(min(1.0, values.min() * (len(values) if n is None else n))) if values.size else 1.0
