"""The estimates of one block of runs of a measured design."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from levers.core.design import Design, contrast_basis
from levers.core.fit import Fit, residual_square
from levers.core.moments import LevelSums, Moments


@dataclass(frozen=True, eq=False)
class BlockEstimate:
    """Level effects of a block, the variances of their differences over sigma^2, and what is left over.

    `effects[k]` has one number per level (their differences matter); `variances[k]` is a matrix over levels.
    """

    effects: tuple[NDArray[np.float64], ...]
    variances: tuple[NDArray[np.float64], ...]
    residual_square: float
    residual_dof: int


def estimate_block(design: Design, sums: LevelSums) -> BlockEstimate:
    """Least squares of the additive model on a design's runs, from outcome sums by level.

    Where the design is orthogonal, effects are level means and nothing has to be solved.

    >>> from levers.core.construction import make_design
    >>> design = make_design((2, 2), 4, seed=0)
    >>> y = design.rows @ [1.0, 5.0]
    >>> estimate = estimate_block(design, LevelSums.empty((2, 2)).add(design.rows, y))
    >>> [round(float(e[1] - e[0]), 6) for e in estimate.effects]
    [1.0, 5.0]
    """
    sizes = design.sizes
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rounding = sums.n_runs * (16 * float(np.finfo(np.float64).eps) * sums.mean) ** 2  # what a constant leaves over
    if not design.orthogonal:
        fit = Fit(Moments(sizes, sums.n_runs, sums.mean, sums.square, sums.sums, design.counts))
        return BlockEstimate(
            tuple(fit.level_effects(k) for k in range(len(sizes))),
            tuple(fit.variances(k) for k in range(len(sizes))),
            max(fit.residual_square, rounding),
            fit.residual_dof,
        )
    counts = design.counts.diagonal().astype(np.float64)
    means = sums.sums / counts
    explained = float((sums.sums * means).sum())
    effects = tuple(means[a:b] for a, b in pairwise(starts))
    variances = []
    for a, b in pairwise(starts):
        spread = 1 / counts[a:b, None] + 1 / counts[None, a:b]
        np.fill_diagonal(spread, 0.0)
        variances.append(spread)
    dof = sums.n_runs - 1 - sum(m - 1 for m in sizes)
    left = max(residual_square(sums.square, explained, sums.n_runs - dof), rounding)
    return BlockEstimate(effects, tuple(variances), left, dof)


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
    n, charge = design.n_runs, design.charge(single)
    result = list(effects)
    for part, values, vectors in _single_spectrum(design) if single else design.spectrum:
        spread = np.sqrt(np.maximum(charge - 1.0 / values, 0.0)) * noise_sd / math.sqrt(n)
        noise = vectors @ (spread * rng.normal(size=len(values)))
        begin = 0
        for k in part:
            m = design.sizes[k]
            result[k] = effects[k] + math.sqrt(m) * contrast_basis(m) @ noise[begin : begin + m - 1]
            begin += m - 1
    return tuple(result)


def _single_spectrum(
    design: Design,
) -> list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]]:
    """Eigenvalues of what each factor's own error covariance is the inverse of."""
    found = []
    for k, block in enumerate(design.error_blocks):
        variances, vectors = np.linalg.eigh(block)
        found.append((np.array([k]), 1.0 / variances, vectors))
    return found
