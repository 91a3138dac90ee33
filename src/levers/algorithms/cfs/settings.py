"""Every constant of CFS, and what follows from them before the first run: shares of the error, lengths of blocks."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from levers.core.certificates.certificate import scale_needed, subgaussian_scale, usual_scale

SCREENING, LOOK, SELECTION = "screening", "look", "selection"
RULES = 2
"""What a study keeps to from its beginning: 1, of 0.1.0, knew no planned look of a stage of its own, and made other
designs."""
NOISES = ("gaussian", "subgaussian")
WHOLE_BLOCK = 2**40
"""A batch size for studies: they hand out runs one by one, so a block may as well be planned at once."""
MOST_CELLS = 200_000_000
"""Runs times factors of the largest design: 400 MB."""
STUDY_CELLS, STUDY_RUNS = 20_000_000, 2_000_000
"""The same in a durable study, whose blocks are stored and read again by every process, and its longest block."""

# shares of the failure probability
SCREENING_SHARE = 0.1
DISMISSAL_SHARE = 0.4
AFTER_LOOK_SHARE = 0.03  # for screening, when a planned look does most of it
NOISE_SHARE = 0.1

# lengths of blocks
FIRST_BLOCK = (1.8, 3.0)  # runs of the first block per parameter, at least and at most
FIRST_SHARE = 0.3  # in between, this share of the runs that would settle everything at once
FIRST_SHARE_OF_BUDGET = 0.2
NEXT_BLOCK = 1.5  # runs of a later block per parameter still open, at least
GROWTH = 0.6  # and at least this share of the runs so far
LEAST_DOF = 20  # degrees of freedom for the noise in the first block, when it has to be estimated
USUAL_NOISE = 2.0  # tolerances: what the first block takes the noise for while it is not known
TO_MEASURE = 2.2  # runs per parameter, at least, of a first block that has to tell the noise as well

# whether to have a look, and whether to screen on
LOOK_PAYS = 0.7  # a planned look must be shorter than this share of a design that settles everything
LOOK_ROWS = 1.8  # rows of a look's design for each parameter, at least: what nearly independent factors take
LARGEST_RATIO = 1e6  # of tolerance or least effect to noise, either way, for which a look is planned
FEW_FACTORS = 3  # up to this many factors the tight certificate is cheap enough to look ahead with
WORTH = 0.99  # screening on must promise to cost less than this share of selecting now
GROWTHS = (1.1, 1.25, 1.4, 1.6, 1.8, 2.0, 2.3, 2.7, 3.2, 4.0, 5.0, 6.5, 8.0, 10.0, 13.0, 16.0, 20.0)
"""Lengths of further screening that are looked ahead to, in runs so far."""

# what the anytime radii are tuned to
RHO_SHARE = 0.1  # the mixture is tightest at about twenty times this share of the first block's information
DISMISSED_AT = 6.5  # standard errors of min_effect at which a factor without effect is about to be dismissed

# how many runs are to go
SLACK = 1.25  # the cheap scale may be low by a tenth, and whole copies of an array round up
ROUNDED = 40.0  # runs by which rounding to an array may lengthen even a small design


class Shares(NamedTuple):
    """The failure probability in parts: comparing levels, dismissing factors, bounding the noise, selecting."""

    screening: float
    dismissal: float
    noise: float
    selection: float


def error_shares(
    failure_prob: float, estimate_noise: bool, one_shot: bool, dismiss: bool = False, look: bool = False
) -> Shares:
    """A tenth each for screening and for the noise, four for dismissals, where needed; the rest for the selection.

    With a planned look screening takes less, and the rest is for the look and the selection together.

    >>> round(error_shares(0.1, estimate_noise=False, one_shot=False).selection, 6)
    0.09
    """
    screening = 0.0 if one_shot else (AFTER_LOOK_SHARE if look else SCREENING_SHARE) * failure_prob
    noise = NOISE_SHARE * failure_prob if estimate_noise else 0.0
    dismissal = DISMISSAL_SHARE * failure_prob if dismiss and not one_shot and not look else 0.0
    return Shares(screening, dismissal, noise, failure_prob - screening - dismissal - noise)


def pair_error(screening_prob: float, n_levels: Sequence[int], all_pairs: bool) -> float:
    """The error of one one-sided comparison, a.

    That no factor loses its best level needs sum_k (M_k - 1) comparisons to hold. That every factor with a dropped
    level is a parent, which `max_parents` relies on, and that the best of the levels that a look left is not dropped,
    need all sum_k M_k (M_k - 1) (docs/theory, sections 5 and 6).

    >>> pair_error(0.01, [3, 3], all_pairs=False)
    0.0025
    """
    comparisons = sum(m * (m - 1) if all_pairs else m - 1 for m in n_levels)
    return screening_prob / comparisons


def first_block(n_levels: Sequence[int], estimate_noise: bool, wanted: float = 0.0) -> int:
    """Runs of the first screening block: those wanted, but neither fewer nor many more than there are parameters.

    >>> [first_block([3] * 10, estimate_noise=False, wanted=n) for n in (0, 50, math.inf)]
    [36, 50, 60]
    >>> first_block([2, 2], estimate_noise=True)
    23
    """
    n_parameters = sum(m - 1 for m in n_levels)
    least, most = (per * n_parameters for per in FIRST_BLOCK)
    needed = n_parameters + 1 + (LEAST_DOF if estimate_noise else 5)
    return max(math.ceil(min(max(wanted, least), most) - 1e-9), needed)  # 2.2 times 90 is 198, not a bit more


def next_block(sizes: Sequence[int], n_runs: int) -> int:
    """Runs of a later screening block over factors of these sizes."""
    n_parameters = sum(m - 1 for m in sizes)
    return max(math.ceil(NEXT_BLOCK * n_parameters), math.ceil(GROWTH * n_runs), n_parameters + 6)


def cheap_scale(levels: tuple[int, ...], failure_prob: float, bound: str, reach: float = 0.0) -> float:
    """The scale of a certificate, roughly: exact for a few factors, else the Chernoff bound times its usual excess."""
    if not levels:
        return 0.0
    if bound == "subgaussian":
        return subgaussian_scale(levels, failure_prob)
    if len(levels) <= FEW_FACTORS:
        return scale_needed(levels, failure_prob, bound, reach)
    return usual_scale(levels, failure_prob, bound == "proven", reach)


def longest_design(sizes: Sequence[int], runs_if_ideal: float) -> float:
    """About the most runs of a design that is worth so many ideal ones; it has a row more than parameters at least."""
    n_parameters = sum(m - 1 for m in sizes)
    return max(runs_if_ideal, n_parameters + 2.0) + min(n_parameters, 0.1 * runs_if_ideal + ROUNDED)
