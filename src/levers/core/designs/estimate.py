"""The estimates of one block of runs of a measured design."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levers.core.designs.design import ContrastBlocks, Design
from levers.core.model.fit import Fit, residual_square
from levers.core.model.level_index import level_pairs, offsets, size_groups
from levers.core.model.moments import LevelSums, Moments

_ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""The relative error that a large constant in the outcomes may leave in each residual."""


@dataclass(frozen=True, eq=False)
class BlockEstimate:
    """Level effects of a block, the variances of their differences over sigma^2, and the residuals.

    `values` has one number per level, of which only differences inside a factor mean anything; `spreads` has one
    variance per pair of levels, in the order of `level_pairs`.
    """

    sizes: tuple[int, ...]
    values: NDArray[np.float64]
    spreads: NDArray[np.float64]
    residual_square: float
    residual_dof: int

    @property
    def effects(self) -> tuple[NDArray[np.float64], ...]:
        """The effects factor by factor."""
        return tuple(np.split(self.values, offsets(self.sizes)[1:-1]))

    @property
    def differences(self) -> NDArray[np.float64]:
        """The differences of effects, pair by pair."""
        these, those = level_pairs(self.sizes)
        difference: NDArray[np.float64] = self.values[these] - self.values[those]
        return difference


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
        values, spreads = _level_means(design, sums)
    elif (inverse := design.inverse) is not None:
        values, spreads = _least_squares(design, inverse, sums)
    else:  # some contrast is not determined
        fit = Fit(Moments(sizes, sums.n_runs, sums.mean, sums.square, sums.sums, design.counts))
        spreads = fit.pair_variances(*level_pairs(sizes))
        return BlockEstimate(sizes, fit.theta, spreads, max(fit.residual_square, rounding), fit.residual_dof)
    rank = 1 + sum(sizes) - len(sizes)
    left = max(residual_square(sums.square, float(sums.sums @ values), rank), rounding)
    return BlockEstimate(sizes, values, spreads, left, sums.n_runs - rank)


def _level_means(design: Design, sums: LevelSums) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values and spreads of an orthogonal design."""
    these, those = level_pairs(design.sizes)
    counts = design.counts.diagonal().astype(np.float64)
    return sums.sums / counts, np.where(these == those, 0.0, 1 / counts[these] + 1 / counts[those])


def _least_squares(
    design: Design, inverse: NDArray[np.float64], sums: LevelSums
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
    design: Design,
    effects: tuple[NDArray[np.float64], ...],
    noise_sd: float,
    rng: np.random.Generator,
    single: bool = False,
) -> tuple[NDArray[np.float64], ...]:
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
    spectrum = []
    for contrasts, covariances in design.error_blocks:
        variances, vectors = np.linalg.eigh(covariances)
        spectrum.append(ContrastBlocks(contrasts, 1.0 / variances, vectors))
    return spectrum
