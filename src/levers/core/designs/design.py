"""A design, what was measured of it, and the estimates that a block of its runs gives."""

import math
import zlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.core.designs.arrays import is_orthogonal
from levers.core.model.fit import Fit
from levers.core.model.level_index import Numbers, Places, level_pairs, offsets, size_groups
from levers.core.model.moments import LevelSums, Moments, pair_counts, residual_square
from levers.core.space import Codes

_DETERMINED = 1e-9  # information of less than this share of the ideal is rounding error: the contrast is not determined


class ContrastBlocks(NamedTuple):
    """Diagonal blocks of the information matrix, all of one size: positions of contrasts, eigenvalues, eigenvectors.

    The first axis counts the blocks. An orthogonal design has a block for each factor, any other design a single one.
    """

    contrasts: Places
    values: Numbers
    vectors: Numbers

    @property
    def inverse(self) -> Numbers:
        """The inverse information of each block."""
        return np.asarray((self.vectors / self.values[:, None, :]) @ self.vectors.swapaxes(1, 2))


@dataclass(frozen=True, eq=False)
class Design:
    """Runs over factors of the given sizes, and how precisely they estimate contrasts, measured on the rows themselves.

    `inflation` is the largest factor by which any combination of contrasts is less precise than in an ideal design of
    as many runs; 1 is perfect.

    >>> from levers.core.designs.build import make_design
    >>> design = make_design((3, 3, 3), 9, seed=0)
    >>> design.kind, design.n_runs, design.orthogonal, round(design.inflation, 6)
    ('orthogonal array', 9, True, 1.0)
    """

    rows: Codes
    sizes: tuple[int, ...]
    kind: str
    counted: NDArray[np.int64] | None = None
    """Pair counts, where they are known from how the rows were made."""

    @property
    def n_runs(self) -> int:
        """How many runs."""
        return len(self.rows)

    @cached_property
    def digest(self) -> str:
        """A short fingerprint of the rows: a design made again from its seed must have the same one."""
        return f"{zlib.crc32(np.ascontiguousarray(self.rows, dtype='<i2').tobytes()):08x}"

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Pair counts of all levels."""
        return pair_counts(self.rows, self.sizes) if self.counted is None else self.counted

    @cached_property
    def orthogonal(self) -> bool:
        """Whether factors are exactly orthogonal to each other, counted pair by pair."""
        return is_orthogonal(self.counts, self.sizes, self.n_runs)

    @cached_property
    def spectrum(self) -> list[ContrastBlocks]:
        """Eigenvalues and vectors of the information matrix (ideal: identity), factor by factor if orthogonal."""
        return [ContrastBlocks(contrasts, *np.linalg.eigh(matrices)) for contrasts, matrices in _information(self)]

    @property
    def inverse(self) -> Numbers | None:
        """The inverse information of a design that is not orthogonal; None when a contrast is not determined."""
        return _inverse(self)

    @cached_property
    def inflation(self) -> float:
        """1 / least eigenvalue of the information matrix; infinite when a contrast is not determined."""
        if "spectrum" in self.__dict__:
            least = min(float(blocks.values.min(initial=1.0)) for blocks in self.spectrum)
        else:  # without eigenvectors, which take most of the time
            least = min(float(np.linalg.eigvalsh(matrices).min(initial=1.0)) for _, matrices in _information(self))
        return 1.0 / least if least > _DETERMINED else math.inf

    @cached_property
    def single_inflation(self) -> float:
        """The same for combinations of contrasts inside one factor: what counts when only one factor can lose."""
        if not math.isfinite(self.inflation):
            return math.inf
        return max(float(np.linalg.eigvalsh(blocks).max(initial=0.0)) for _, blocks in self.error_blocks)

    @cached_property
    def error_blocks(self) -> list[tuple[Places, Numbers]]:
        """Each factor's own block of the inverse information: the covariance of its errors, ideal being the identity.

        Factors with the same number of levels are stacked, with the positions of their contrasts.
        """
        if self.orthogonal:
            return [(blocks.contrasts, blocks.inverse) for blocks in self.spectrum]
        inverse = self.inverse
        assert inverse is not None  # callers have seen that the inflation is finite
        places = [group.contrasts for group in size_groups(self.sizes)]
        return [(at, inverse[at[:, :, None], at[:, None, :]]) for at in places]

    @cached_property
    def coupling(self) -> float:
        """The least p with T <= p diag(T), T being the covariance of errors; 1 if factors are independent.

        T has `single_inflation` on its diagonal, because noise is added inside factors until their levels have equal
        errors, and the inverse information between factors (docs/theory, section 6).
        """
        if self.orthogonal or not math.isfinite(self.inflation):
            return 1.0 if self.orthogonal else math.inf
        assert self.inverse is not None  # as the inflation is finite
        between = self.inverse.copy()  # less each factor's own block
        for group in size_groups(self.sizes):
            between[group.contrasts[:, :, None], group.contrasts[:, None, :]] = 0.0
        return 1.0 + float(np.linalg.eigvalsh(between)[-1]) / self.single_inflation

    def charge(self, single: bool) -> float:
        """The inflation that a certificate must pay: for all factors at once, or for any one alone."""
        return self.single_inflation if single else self.inflation


@lru_cache(maxsize=1)
def _information(design: Design) -> list[tuple[Places, Numbers]]:
    """sqrt(m_k m_l)/n Q_k^T (N_kl - n_k n_l^T / n) Q_l: the whole matrix, or a block for each factor if orthogonal.

    One pair for each stack of blocks: positions of contrasts, and matrices. Only the last result is cached: it is asked
    for several times in a row, and may be large.
    """
    single = design.counts.diagonal().astype(np.float64)
    centred = design.counts - np.outer(single, single / design.n_runs)
    groups = size_groups(design.sizes)
    if design.orthogonal:
        return [
            (g.contrasts, g.basis.T @ centred[g.levels[:, :, None], g.levels[:, None, :]] @ g.basis / design.n_runs)
            for g in groups
        ]
    n_contrasts = len(single) - len(design.sizes)
    half = np.empty((n_contrasts, len(single)))
    for g in groups:
        half[g.contrasts] = g.basis.T @ centred[g.levels]
    information = np.empty((n_contrasts, n_contrasts))
    for g in groups:  # the matrix is symmetric, so rows may be taken for columns
        information[g.contrasts] = g.basis.T @ half.T[g.levels]
    information /= design.n_runs
    return [(np.arange(n_contrasts)[None, :], information[None])]


@lru_cache(maxsize=1)
def _inverse(design: Design) -> Numbers | None:
    """The inverse by Cholesky, with LAPACK called directly: for small matrices scipy's checks cost as much again."""
    [(_, [information])] = _information(design)
    from scipy.linalg.lapack import dpotrf, dpotri  # takes a while to load, and reading a study designs nothing

    factor, failed = dpotrf(information, lower=1)
    if failed or float(factor.diagonal().min()) ** 2 <= _DETERMINED:
        return None
    half = dpotri(factor, lower=1)[0]
    inverse: Numbers = np.tril(half) + np.tril(half, -1).T
    inverse.flags.writeable = False  # it is cached
    return inverse


_ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""The relative error that a large constant in the outcomes may leave in each residual."""


@dataclass(frozen=True, eq=False)
class BlockEstimate:
    """Level effects of a block, the variances of their differences over sigma^2, and the residuals.

    `values` has one number per level, of which only differences inside a factor mean anything; `spreads` has one
    variance per pair of levels, in the order of `level_pairs`.
    """

    sizes: tuple[int, ...]
    values: Numbers
    spreads: Numbers
    residual_square: float
    residual_dof: int

    @property
    def effects(self) -> tuple[Numbers, ...]:
        """The effects factor by factor."""
        return tuple(np.split(self.values, offsets(self.sizes)[1:-1]))

    @property
    def differences(self) -> Numbers:
        """The differences of effects, pair by pair."""
        these, those = level_pairs(self.sizes)
        return np.asarray(self.values[these] - self.values[those])


def estimate_block(design: Design, sums: LevelSums) -> BlockEstimate:
    """Least squares of the additive model on a design's runs, from outcome sums by level.

    Where the design is orthogonal, effects are level means and nothing has to be solved.

    >>> from levers.core.designs.build import make_design
    >>> design = make_design((2, 2), 4, seed=0)
    >>> y = design.rows @ [1.0, 5.0]
    >>> estimate = estimate_block(design, LevelSums.empty((2, 2)).add(design.rows, y))
    >>> [round(float(e[1] - e[0]), 6) for e in estimate.effects]
    [1.0, 5.0]
    """
    sizes = design.sizes
    rounding = sums.n_runs * (_ROUNDING * sums.mean) ** 2
    if design.orthogonal:
        these, those = level_pairs(sizes)
        counts = design.counts.diagonal().astype(np.float64)
        values, spreads = sums.sums / counts, np.where(these == those, 0.0, 1 / counts[these] + 1 / counts[those])
    elif (inverse := design.inverse) is not None:
        values, spreads = _least_squares(design, inverse, sums)
    else:  # some contrast is not determined
        fit = Fit(Moments(sizes, sums.n_runs, sums.mean, sums.square, sums.sums, design.counts))
        spreads = fit.pair_variances(*level_pairs(sizes))
        return BlockEstimate(sizes, fit.theta, spreads, max(fit.residual_square, rounding), fit.residual_dof)
    rank = 1 + sum(sizes) - len(sizes)
    left = max(residual_square(sums.square, float(sums.sums @ values), rank), rounding)
    return BlockEstimate(sizes, values, spreads, left, sums.n_runs - rank)


def _least_squares(design: Design, inverse: Numbers, sums: LevelSums) -> tuple[Numbers, Numbers]:
    """Values and spreads from the inverse information A^-1: contrasts are A^-1 z / n with covariance sigma^2/n A^-1."""
    groups, scaled = size_groups(design.sizes), inverse / design.n_runs
    moments = np.empty(len(scaled))
    for group in groups:
        moments[group.contrasts] = sums.sums[group.levels] @ group.basis
    contrasts = scaled @ moments
    values, spreads = np.empty(len(sums.sums)), np.empty(sum(m * m for m in design.sizes))
    for group in groups:
        basis, at = group.basis, group.contrasts
        values[group.levels] = contrasts[at] @ basis.T
        covariance = basis @ scaled[at[:, :, None], at[:, None, :]] @ basis.T
        own = covariance.diagonal(axis1=1, axis2=2)
        spread = own[:, :, None] + own[:, None, :] - 2 * covariance
        spreads[group.pairs] = spread.reshape(len(at), -1)
    return values, spreads


def independent_effects(
    design: Design, effects: tuple[Numbers, ...], noise_sd: float, rng: np.random.Generator, single: bool = False
) -> tuple[Numbers, ...]:
    """The effects with just enough noise added that errors are independent over factors and equal over levels.

    In contrast coordinates the errors have covariance sigma^2/n A^-1, A being the design's information. Adding
    independent noise with covariance sigma^2/n (c I - A^-1), c the design's inflation, makes it sigma^2 c/n I: exactly
    the error of an ideal design of n / c runs, which is what the certificate is about (docs/theory, section 4). With
    `single` errors are made equal inside each factor only; correlation between factors is left, for a certificate that
    allows for it.
    """
    charge = design.charge(single)
    drawn = rng.normal(size=sum(m - 1 for m in design.sizes)) * noise_sd / math.sqrt(design.n_runs)
    noise = np.empty_like(drawn)
    for blocks in _single_spectrum(design) if single else design.spectrum:
        spread = np.sqrt(np.maximum(charge - 1.0 / blocks.values, 0.0))[:, :, None]
        # the symmetric root, because the sign of an eigenvector is arbitrary and must not matter
        turned = blocks.vectors.swapaxes(1, 2) @ drawn[blocks.contrasts][:, :, None]
        noise[blocks.contrasts] = (blocks.vectors @ (spread * turned))[:, :, 0]
    values = np.concatenate(effects)
    for group in size_groups(design.sizes):
        values[group.levels] += noise[group.contrasts] @ group.basis.T
    return tuple(np.split(values, offsets(design.sizes)[1:-1]))


def _single_spectrum(design: Design) -> list[ContrastBlocks]:
    """The spectrum of each factor's own information: the inverse of its error covariance."""
    spectra = ((contrasts, *np.linalg.eigh(covariances)) for contrasts, covariances in design.error_blocks)
    return [ContrastBlocks(contrasts, 1.0 / variances, vectors) for contrasts, variances, vectors in spectra]
