"""The estimates of one block of runs of a measured design."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levers.core.designs.design import Design, Part
from levers.core.model.fit import Fit, residual_square
from levers.core.model.level_index import alike_factors, level_pairs, offsets
from levers.core.model.moments import LevelSums, Moments


@dataclass(frozen=True, eq=False)
class BlockEstimate:
    """Level effects of a block, the variances of their differences over sigma^2, and what is left over.

    `values` has one number per level (their differences inside a factor matter), `spreads` one per pair of levels in
    the order of `level_pairs`.
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
    rounding = sums.n_runs * (16 * float(np.finfo(np.float64).eps) * sums.mean) ** 2  # what a constant leaves over
    if not design.orthogonal and design.inverse is None:
        fit = Fit(Moments(sizes, sums.n_runs, sums.mean, sums.square, sums.sums, design.counts))
        spreads = fit.pair_variances(*level_pairs(sizes))
        return BlockEstimate(sizes, fit.theta, spreads, max(fit.residual_square, rounding), fit.residual_dof)
    values, spreads = _level_means(design, sums) if design.orthogonal else _solved(design, sums)
    rank = 1 + sum(sizes) - len(sizes)
    left = max(residual_square(sums.square, float(sums.sums @ values), rank), rounding)
    return BlockEstimate(sizes, values, spreads, left, sums.n_runs - rank)


def _level_means(design: Design, sums: LevelSums) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values and spreads of an orthogonal design."""
    these, those = level_pairs(design.sizes)
    counts = design.counts.diagonal().astype(np.float64)
    return sums.sums / counts, np.where(these == those, 0.0, 1 / counts[these] + 1 / counts[those])


def _solved(design: Design, sums: LevelSums) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values and spreads from the inverse information A^-1: contrasts are A^-1 z / n with covariance sigma^2/n A^-1."""
    assert design.inverse is not None  # or there is no one solution
    groups, inverse = alike_factors(design.sizes), design.inverse / design.n_runs
    moments = np.empty(len(inverse))
    for group in groups:
        moments[group.contrasts] = sums.sums[group.levels] @ group.basis
    contrasts = inverse @ moments
    values, spreads = np.empty(len(sums.sums)), np.empty(sum(m * m for m in design.sizes))
    for group in groups:
        basis, at = group.basis, group.contrasts
        values[group.levels] = contrasts[at] @ basis.T
        covariance = basis @ inverse[at[:, :, None], at[:, None, :]] @ basis.T
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
    `single` only levels are made alike, factor by factor; correlation between factors is left, because one of them only
    can lose anything.
    """
    charge = design.charge(single)
    drawn = rng.normal(size=sum(m - 1 for m in design.sizes)) * noise_sd / math.sqrt(design.n_runs)
    noise = np.empty_like(drawn)
    for part in _single_spectrum(design) if single else design.spectrum:
        spread = np.sqrt(np.maximum(charge - 1.0 / part.values, 0.0))[:, :, None]
        # the symmetric root: eigenvectors have no sign of their own, and it must not matter which one they got
        turned = part.vectors.swapaxes(1, 2) @ drawn[part.contrasts][:, :, None]
        noise[part.contrasts] = (part.vectors @ (spread * turned))[:, :, 0]
    values = np.concatenate(effects)
    for group in alike_factors(design.sizes):
        values[group.levels] += noise[group.contrasts] @ group.basis.T
    return tuple(np.split(values, offsets(design.sizes)[1:-1]))


def _single_spectrum(design: Design) -> list[Part]:
    """Eigenvalues of what each factor's own error covariance is the inverse of."""
    found = []
    for contrasts, blocks in design.error_blocks:
        variances, vectors = np.linalg.eigh(blocks)
        found.append(Part(contrasts, 1.0 / variances, vectors))
    return found
