"""How long a design is: at most a budget, or long enough to be worth a number of ideal runs."""

import math
from functools import lru_cache

import numpy as np

from levers.core.arrays import smallest_array
from levers.core.construction import assembled, factorial_fits, make_design, most_searched
from levers.core.design import Design
from levers.core.mixing import mixed_design, mixes
from levers.core.searching import Origin, nearly_orthogonal

MOST_MIXED_LEVELS = 1000
"""Levels of all factors together up to which mixes of arrays are measured."""


def _mixed(sizes: tuple[int, ...], n_runs: float) -> bool:
    """Whether so long a design is put together from arrays."""
    long = n_runs > most_searched(sizes) and not factorial_fits(sizes, n_runs)
    return long and sum(sizes) <= MOST_MIXED_LEVELS


@lru_cache(maxsize=16)
def largest_design(sizes: tuple[int, ...], most_runs: int, seed: int, origin: Origin | None = None) -> Design:
    """A design of at most `most_runs` runs, for a fixed budget.

    >>> largest_design((3, 3, 3), 26, seed=0).n_runs
    26
    """
    rng = np.random.default_rng(seed)
    if _mixed(sizes, most_runs):
        for mix in mixes(sizes, 0.8 * most_runs, float(most_runs))[:1]:
            rest = most_runs - mix.n_runs
            more = nearly_orthogonal(sizes, rest, origin, rng, screening=True) if rest else None
            return mixed_design(sizes, mix, seed, more)
    design = make_design(sizes, most_runs, seed, origin, screening=True)
    if design.n_runs <= most_runs:
        return design
    size = smallest_array(max(sizes), len(sizes))
    short = size is None or most_runs <= most_searched(sizes)
    copies, rest = (0, most_runs) if size is None or short else divmod(most_runs, size.n_runs)
    return assembled(sizes, size, copies, rest, origin, rng, screening=True)


@lru_cache(maxsize=16)
def certified_design(
    sizes: tuple[int, ...],
    runs_if_ideal: float,
    seed: int,
    origin: Origin | None = None,
    single: bool = False,
    most_coupling: float = math.inf,
) -> Design:
    """A design that is worth at least `runs_if_ideal` ideal runs: n / inflation >= that number, as measured.

    With `single` only precision inside factors counts: because only one factor can lose anything, or because what
    factors share is bounded by `most_coupling`. A few lengths are tried, each from what the last one was short of.

    >>> design = certified_design((3, 4, 2), 50.0, seed=1)
    >>> design.n_runs / design.inflation >= 50
    True
    """

    coupled = math.isfinite(most_coupling)  # else nothing is asked, and nothing need be measured
    wanted = max(_first_length(sizes, runs_if_ideal, single), sum(sizes) - len(sizes) + 2.0)
    if not coupled and _mixed(sizes, wanted):
        for mix in mixes(sizes, runs_if_ideal):
            design = mixed_design(sizes, mix, seed)
            if design.n_runs >= runs_if_ideal * design.charge(single):
                return design
    while True:
        design = make_design(sizes, math.ceil(wanted), seed, origin, even=coupled)
        too_coupled = coupled and design.coupling > most_coupling
        if design.n_runs >= runs_if_ideal * design.charge(single) and not too_coupled:
            return design
        excess = min(design.charge(single) - 1.0, 1.0)
        # what is lost falls about as 1 / n: solve n = runs_if_ideal (1 + excess n_tried / n), and a little for luck
        better = (runs_if_ideal + math.sqrt(runs_if_ideal**2 + 4 * runs_if_ideal * excess * design.n_runs)) / 2
        wanted = max(1.006 * better, 1.02 * design.n_runs if too_coupled else 0.0, design.n_runs + 1.0)


def _first_length(sizes: tuple[int, ...], runs_if_ideal: float, single: bool) -> float:
    """The length to try first: about what searched designs take more than ideal ones."""
    n_parameters = sum(sizes) - len(sizes)
    length = runs_if_ideal
    for _ in range(4 if len(sizes) > 1 else 0):
        share = n_parameters / length
        length = runs_if_ideal * (1 + min(share + 2 * share**2, 1.0) * (0.1 if single else 1.0))
    return length
