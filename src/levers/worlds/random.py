"""Random worlds of the paper's Experiments section, with interactions as in its appendix or in its released code."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from levers.core.space import Space
from levers.core.validation import check_choice, check_count, check_number, check_positive
from levers.errors import InvalidSettingError, InvalidWorldError
from levers.worlds.mechanisms import RandomTable
from levers.worlds.outcome import (
    BERNOULLI,
    NOISES,
    AdditiveOutcome,
    Interaction,
    Noise,
    Outcome,
    bernoulli_from_effects,
)
from levers.worlds.scm import World

WORLD_NOISES = (*NOISES, BERNOULLI)
"""The noises of random worlds."""
_NOISE_SDS = 6  # the outcome's integer bins reach this many standard deviations beyond its extreme means
_MOST_DRAWS = 10_000  # how often effects are drawn again until their range is large enough


def random_world(
    n_factors: int,
    n_parents: int,
    rng: np.random.Generator,
    *,
    levels: tuple[int, int] = (3, 6),
    degree: float = 3.0,
    outcome_bound: float = 5.0,
    noise_sd: float = 1.0,
    noise: str = "gaussian",
    interaction: float = 0.0,
    interactions: Sequence[int] = (),
    magnitude: float = 0.0,
    min_effect: float = 0.0,
    max_in_degree: int | None = None,
    child_prob: float = 0.5,
    table_beta: tuple[float, float] = (2.0, 5.0),
    root_dirichlet: float = 0.5,
) -> World:
    """A random world as in the paper.

    Erdos-Renyi graph of the given expected degree; uniform parents of the outcome; each factor after the outcome in
    causal order is an effect of it with probability `child_prob`; f_k = outcome_bound * Beta(2, 5); nature chooses
    roots by Dirichlet(root_dirichlet) and other factors by tables proportional to Beta(table_beta).

    `interaction` is the appendix's alpha. `interactions` and `magnitude` are those of the released code: for each size
    a product of that many parents, levels counted from 0, times the magnitude. `min_effect` redraws a parent's effects
    until two levels differ by that much; `max_in_degree` caps how many factors a factor reads, because tables grow
    exponentially with it. With `noise="bernoulli"` the outcome is 0 or 1: its probability is the additive mean, shifted
    and scaled so that it runs from 0.05 to 0.95, and the noise's standard deviation is at most 1/2.

    >>> world = random_world(10, 3, np.random.default_rng(0))
    >>> world.space.n_factors, len(world.outcome.parents)
    (10, 3)
    >>> released = random_world(10, 5, np.random.default_rng(0), interactions=(2, 3, 3), magnitude=0.05)
    >>> [len(term.factors) for term in released.outcome.interactions]
    [2, 3, 3]
    """
    check_count("n_factors", n_factors)
    check_count("n_parents", n_parents, 1, n_factors)
    check_count("the fewest levels", levels[0], 2)
    check_count("the most levels", levels[1], levels[0])
    check_positive("outcome_bound", outcome_bound)
    if not (math.isfinite(degree) and degree >= 0):
        raise InvalidSettingError(f"degree must be a number from 0 up, not {degree!r}")
    if not 0 <= min_effect < outcome_bound:
        allowed = f"between 0 and outcome_bound ({outcome_bound})"
        raise InvalidSettingError(f"min_effect must lie {allowed}, not {min_effect!r}")
    if interaction and n_parents < 4:
        raise InvalidSettingError(f"interactions are products of up to 4 parents, but there are only {n_parents}")
    if max_in_degree is not None:
        check_count("max_in_degree", max_in_degree, 0)
    check_choice("noise", noise, WORLD_NOISES)
    if not 0 <= check_number("child_prob", child_prob) <= 1:
        raise InvalidSettingError(f"child_prob must lie between 0 and 1, not {child_prob!r}")
    for value in (*table_beta, root_dirichlet):
        check_positive("a parameter of the tables", value)
    check_number("magnitude", magnitude)
    for size in interactions:
        check_count("the size of an interaction", size, 2, n_parents)
    if magnitude and not interactions:
        raise InvalidSettingError("a magnitude needs the sizes of the interactions, such as interactions=(2, 3, 3)")
    if noise == BERNOULLI and (interaction or interactions):
        raise InvalidSettingError("outcomes of 0 and 1 have no interactions: their probability is additive")
    sizes = rng.integers(levels[0], levels[1] + 1, size=n_factors).tolist()
    order = rng.permutation(n_factors).tolist()
    causes = _random_causes(order, degree, max_in_degree, rng)
    parents = sorted(rng.choice(n_factors, size=n_parents, replace=False).tolist())
    effects = {k: _random_effects(sizes[k], outcome_bound, min_effect, rng) for k in parents}
    terms: tuple[Interaction, ...] = ()
    if interaction:  # alpha B M_max^-4 (X_i1 X_i2 X_i3 X_i4 + X_j1 X_j2 X_j3 + X_k1 X_k2), values from 1 (Appendix B)
        terms += _random_products(parents, (4, 3, 2), interaction * outcome_bound / levels[1] ** 4, 1.0, rng)
    terms += _random_products(parents, interactions, magnitude, 0.0, rng)
    if noise == BERNOULLI:
        outcome: Outcome = bernoulli_from_effects(effects)
        bins = (0, 1)
    else:
        outcome = AdditiveOutcome(effects, Noise(noise_sd, noise), terms)
        bins = _outcome_bins(outcome, sizes, noise_sd)
    comes_after = set(order[max(order.index(k) for k in parents) + 1 :])
    mechanisms = []
    for k in range(n_factors):
        own_bins = bins if k in comes_after and rng.random() < child_prob else None
        read, seed = tuple(sizes[c] for c in causes[k]), int(rng.integers(2**63))
        mechanisms.append(RandomTable(sizes[k], causes[k], read, own_bins, seed, table_beta, root_dirichlet))
    return World(Space.sized(sizes), mechanisms, outcome)


def _random_causes(
    order: Sequence[int], degree: float, max_in_degree: int | None, rng: np.random.Generator
) -> dict[int, tuple[int, ...]]:
    """The factors that each factor reads: earlier ones, each with probability degree / (K - 1)."""
    share = min(1.0, degree / max(len(order) - 1, 1))
    causes = {}
    for place, k in enumerate(order):
        earlier = np.asarray(order[:place])[rng.random(place) < share] if place else np.empty(0, dtype=np.int64)
        if max_in_degree is not None and len(earlier) > max_in_degree:
            earlier = rng.choice(earlier, size=max_in_degree, replace=False)
        causes[k] = tuple(sorted(int(c) for c in earlier))
    return causes


def _random_effects(n_levels: int, bound: float, min_effect: float, rng: np.random.Generator) -> tuple[float, ...]:
    for _ in range(_MOST_DRAWS):
        effects: NDArray[np.float64] = bound * rng.beta(2, 5, size=n_levels)
        if float(np.ptp(effects)) >= min_effect:
            return tuple(effects.tolist())
    raise InvalidWorldError(f"no effects with a range of {min_effect} came up in {_MOST_DRAWS} draws; lower min_effect")


def _random_products(
    parents: Sequence[int], products: Sequence[int], scale: float, first: float, rng: np.random.Generator
) -> tuple[Interaction, ...]:
    """A product of distinct parents for each size."""
    return tuple(
        Interaction(scale, tuple(rng.choice(np.asarray(parents), size=size, replace=False).tolist()), first)
        for size in products
    )


def _outcome_bins(outcome: AdditiveOutcome, sizes: Sequence[int], noise_sd: float) -> tuple[int, int]:
    """The range of integers that effects of the outcome tell apart; outcomes beyond it are clipped."""
    terms = [t.coefficient * math.prod(sizes[k] - 1 + t.first for k in t.factors) for t in outcome.interactions]
    low = sum(min(effects) for effects in outcome.effects.values()) + min(sum(terms), 0.0) - _NOISE_SDS * noise_sd
    high = sum(max(effects) for effects in outcome.effects.values()) + max(sum(terms), 0.0) + _NOISE_SDS * noise_sd
    return math.floor(low), math.ceil(high)
