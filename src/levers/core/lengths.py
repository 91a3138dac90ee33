"""How long a design is: at most a budget, or long enough to be worth a number of ideal runs."""

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from levers.core.arrays import exact_array, smallest_array
from levers.core.construction import (
    MOST_MIXED_LEVELS,
    assembled,
    factorial_fits,
    make_design,
    most_searched,
    rest_rows,
)
from levers.core.design import Design
from levers.core.mixing import Mix, mixed_design, mixes
from levers.core.searching import Effort


def _mixed(sizes: tuple[int, ...], n_runs: float) -> bool:
    """Whether so long a design is put together from arrays."""
    long = n_runs > most_searched(sizes) and not factorial_fits(sizes, n_runs)
    return long and sum(sizes) <= MOST_MIXED_LEVELS


@lru_cache(maxsize=4)  # the largest have hundreds of MB
def largest_design(sizes: tuple[int, ...], most_runs: int, seed: int, effort: Effort = "usual") -> Design:
    """A design of at most `most_runs` runs, for a fixed budget. `effort` is for searches.

    >>> largest_design((3, 3, 3), 26, seed=0).n_runs
    26
    """
    rng = np.random.default_rng(seed)
    size = exact_array(sizes)
    if size is None and _mixed(sizes, most_runs):
        for mix in mixes(sizes, 0.8 * most_runs, float(most_runs))[:1]:
            rest = most_runs - mix.n_runs
            more = rest_rows(sizes, rest, rng, effort) if rest else None
            return mixed_design(sizes, mix, seed, more)
    design = make_design(sizes, most_runs, seed, effort=effort)
    if design.n_runs <= most_runs:
        return design
    size = size or smallest_array(max(sizes), len(sizes))
    short = size is None or most_runs <= most_searched(sizes)
    copies, rest = (0, most_runs) if size is None or short else divmod(most_runs, size.n_runs)
    return assembled(sizes, size, copies, rest, rng, effort=effort)


@lru_cache(maxsize=4)
def certified_design(
    sizes: tuple[int, ...],
    runs_if_ideal: float,
    seed: int,
    single: bool = False,
    most_coupling: float = math.inf,
    effort: Effort = "usual",
) -> Design:
    """A design that is worth at least `runs_if_ideal` ideal runs: n / inflation >= that number, as measured.

    With `single` only precision inside factors counts: because only one factor can lose anything, or because what
    factors share is bounded by `most_coupling`. A few lengths are tried, each from what the last one was short of.

    >>> design = certified_design((3, 4, 2), 50.0, seed=1)
    >>> design.n_runs / design.inflation >= 50
    True
    """

    coupled = math.isfinite(most_coupling)  # else nothing is asked, and nothing need be measured
    least = runs_if_ideal * (1 - 1e-9)  # what is exact may be measured a rounding error too low
    wanted = max(_first_length(sizes, runs_if_ideal, single), sum(sizes) - len(sizes) + 2.0)
    arrays_tried = 0.0  # up to this length
    while True:
        longest = math.inf if _mixed(sizes, wanted) else wanted
        for design in _of_arrays(sizes, runs_if_ideal, seed, arrays_tried, longest):
            if design.n_runs / design.charge(single) >= least and (not coupled or design.coupling <= most_coupling):
                return design
        arrays_tried = longest
        design = make_design(sizes, math.ceil(wanted), seed, even=coupled, effort=effort)
        too_coupled = coupled and design.coupling > most_coupling
        if design.n_runs / design.charge(single) >= least and not too_coupled:
            return design
        wanted = _better_length(design, design.charge(single), runs_if_ideal, too_coupled)


def _of_arrays(
    sizes: tuple[int, ...], runs_if_ideal: float, seed: int, above: float, most_runs: float
) -> Iterator[Design]:
    """Designs of whole arrays that may be worth so many runs, of more than `above` and up to `most_runs`, in order."""
    if above >= most_runs:
        return
    exact = exact_array(sizes)
    found: list[Mix] = []
    least = sum(sizes) - len(sizes) + 2.0  # something must be left to see the noise by
    if exact is not None:
        copies = math.ceil(max(runs_if_ideal * (1 - 1e-9), least) / exact.n_runs)
        found.append(Mix(copies * exact.n_runs, copies * exact.n_runs, ((exact, copies),)))
    if len(sizes) > 1 and sum(sizes) <= MOST_MIXED_LEVELS:
        found += mixes(sizes, runs_if_ideal)
    for mix in sorted(found, key=lambda mix: mix.n_runs):
        if least <= mix.n_runs and above < mix.n_runs <= most_runs:
            yield mixed_design(sizes, mix, seed)
        if exact is not None and mix.parts[0][0] == exact and len(mix.parts) == 1:
            return  # it cannot fail


def _first_length(sizes: tuple[int, ...], runs_if_ideal: float, single: bool) -> float:
    """The length to try first: about what searched designs take more than ideal ones, or random ones.

    Short designs of very many levels are random: with p parameters their least eigenvalue is about (1 - sqrt(p / n))^2,
    and a factor's own errors are n / (n - p) times the ideal ones.
    """
    n_parameters = sum(sizes) - len(sizes)
    if sum(sizes) > MOST_MIXED_LEVELS and runs_if_ideal < n_parameters:
        return runs_if_ideal + n_parameters + (0.0 if single else 2 * math.sqrt(runs_if_ideal * n_parameters))
    length = runs_if_ideal
    for _ in range(4 if len(sizes) > 1 else 0):
        share = n_parameters / max(length, 1.0)
        lost = max(0.75 * share**2, 0.1 * share) if single else 1.6 * share
        length = runs_if_ideal * (1 + min(lost, 1.0))
    return length


def _better_length(tried: Design, charge: float, runs_if_ideal: float, too_coupled: bool) -> float:
    """The length to try after a design that was not enough: a little more than what it was short of, for luck."""
    n, excess = tried.n_runs, min(charge - 1.0, 1.0)
    far = too_coupled or excess == 1.0
    if far and sum(tried.sizes) > MOST_MIXED_LEVELS:  # random: n / charge is (sqrt(n) - lost)^2
        better = (math.sqrt(runs_if_ideal) + math.sqrt(n) - math.sqrt(n / charge)) ** 2
    else:  # what is lost falls about as 1 / n: solve n = runs_if_ideal (1 + excess n_tried / n)
        better = (runs_if_ideal + math.sqrt(runs_if_ideal**2 + 4 * runs_if_ideal * excess * n)) / 2
    return max(1.006 * better, 1.02 * n if far else 0.0, n + 1.0)
