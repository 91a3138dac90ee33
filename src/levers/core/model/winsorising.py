"""Outcomes that are far out drawn in, so that no single one decides what is recommended.

A machine that is busy with something else takes twice its time once in a while; a sample is spilt. Least squares
follows such a run. Here an outcome further from what all other runs expect of it than is usual is moved to the edge of
the usual (metrically Winsorised residuals; Huber and Ronchetti, Robust Statistics, 2009, section 7.8). What others
expect is by the fit in which levers may work together, so that a corner of good levels is no outlier. Certificates and
checks rest on outcomes as they were told; no guarantee rests on any of this.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from levers.core.model.interaction_fit import InteractionWeights, KernelSpectra, Runs

USUAL = 3.0
"""How many usual deviations an outcome may be from what the others expect; of normal ones 0.3 % are further."""
_STEPS = 3
"""How often outcomes are drawn in: each time the others expect something else, and the usual deviation is smaller."""
_ROUNDING = 1e-12
"""The least deviation that counts, as a share of the largest outcome."""
EXPECTED = 2.0
"""Standard deviations of the fit within which no outcome is far out, however much closer all others are: those of a
program that answers alike each time are closer than any fit allows for."""
_NORMAL = 1.4826
"""The standard deviation of normal numbers over the median of their absolute values."""


def winsorised(
    runs: Runs, sizes: Sequence[int], noise_sd: float | None, least_noise: float = 0.0, least: float = EXPECTED
) -> tuple[Runs, InteractionWeights]:
    """The runs with outcomes drawn in that are far out, and the weights of the fit to these.

    With e_i how far run i is from what the others expect and s_i the standard deviation of that by the fit, z_i = e_i /
    s_i are compared with their own median: u = 1.4826 med |z|, which a few outcomes far out hardly move. Where |z_i| >
    3 u, and beyond `least`, the outcome becomes what is expected plus 3 u s_i, or `least` s_i where that is more, with
    the sign of e_i. Half of all deviations 0 draw nothing in.

    >>> rng = np.random.default_rng(0)
    >>> codes = rng.integers(2, size=(60, 4)).astype(np.int16)
    >>> y = codes @ [1.0, 2.0, 0.0, 0.0] + 0.1 * rng.normal(size=60)
    >>> y[7] += 30
    >>> found, _ = winsorised(Runs.none(4).add(codes, y, 0), (2,) * 4, None)
    >>> [int(i) for i in np.flatnonzero(found.outcomes != y)], bool(found.outcomes[7] - y[7] < -28)
    ([7], True)
    """
    spectra, outcomes = KernelSpectra(runs, tuple(sizes)), runs.outcomes
    floor = max(least_noise, _ROUNDING * float(np.abs(outcomes).max(initial=0.0)))
    for _ in range(_STEPS if len(runs) else 0):
        # with the noise learned: one stated would make effects of an outcome far out, and outliers of its neighbours
        away, sd = spectra.left_out(outcomes, spectra.weights(outcomes, None, least_noise))
        usual = _NORMAL * float(np.median(np.abs(away / sd)))
        if usual == 0:
            break
        most = np.maximum(USUAL * np.maximum(usual * sd, floor), least * sd)
        expected = outcomes - away
        far = np.abs(runs.outcomes - expected) > most
        if not (far | (outcomes != runs.outcomes)).any():
            break
        outcomes = np.where(far, np.clip(runs.outcomes, expected - most, expected + most), runs.outcomes)
    return replace(runs, outcomes=outcomes), spectra.weights(outcomes, noise_sd, least_noise)
