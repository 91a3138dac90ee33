"""Random worlds of the paper's Experiments section, and with interactions as in its appendix."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from levers.core.space import Space
from levers.core.validation import check_count, check_positive
from levers.errors import InvalidSettingError, InvalidWorldError
from levers.worlds.mechanisms import RandomTable
from levers.worlds.outcome import AdditiveOutcome, Interaction, Noise
from levers.worlds.scm import World

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
    min_effect: float = 0.0,
    max_in_degree: int | None = None,
) -> World:
    """A random world as in the paper.

    Erdos-Renyi graph of the given expected degree; uniform parents of the outcome; each factor after the outcome in
    causal order is an effect of it with probability 1/2; f_k = outcome_bound * Beta(2, 5). `interaction` is the
    appendix's alpha; `min_effect` redraws a parent's effects until two levels differ by that much; `max_in_degree` caps
    how many factors a factor reads, because tables grow exponentially with it.

    >>> world = random_world(10, 3, np.random.default_rng(0))
    >>> world.space.n_factors, len(world.outcome.parents)
    (10, 3)
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
    sizes = rng.integers(levels[0], levels[1] + 1, size=n_factors).tolist()
    order = rng.permutation(n_factors).tolist()
    causes = _random_causes(order, degree, max_in_degree, rng)
    parents = sorted(rng.choice(n_factors, size=n_parents, replace=False).tolist())
    effects = {k: _random_effects(sizes[k], outcome_bound, min_effect, rng) for k in parents}
    terms = _random_interactions(parents, interaction * outcome_bound / levels[1] ** 4, rng) if interaction else ()
    outcome = AdditiveOutcome(effects, Noise(noise_sd, noise), terms)
    bins = _outcome_bins(outcome, sizes, noise_sd)
    comes_after = set(order[max(order.index(k) for k in parents) + 1 :])
    mechanisms = []
    for k in range(n_factors):
        own_bins = bins if k in comes_after and rng.random() < 0.5 else None
        read = tuple(sizes[c] for c in causes[k])
        mechanisms.append(RandomTable(sizes[k], causes[k], read, own_bins, seed=int(rng.integers(2**63))))
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


def _random_interactions(parents: Sequence[int], scale: float, rng: np.random.Generator) -> tuple[Interaction, ...]:
    """alpha B M_max^-4 (X_i1 X_i2 X_i3 X_i4 + X_j1 X_j2 X_j3 + X_k1 X_k2), distinct in each product (Appendix B)."""
    return tuple(
        Interaction(scale, tuple(rng.choice(np.asarray(parents), size=size, replace=False).tolist()))
        for size in (4, 3, 2)
    )


def _outcome_bins(outcome: AdditiveOutcome, sizes: Sequence[int], noise_sd: float) -> tuple[int, int]:
    """The range of integers that effects of the outcome tell apart; outcomes beyond it are clipped."""
    most = sum(term.coefficient * math.prod(sizes[k] for k in term.factors) for term in outcome.interactions)
    low = sum(min(effects) for effects in outcome.effects.values()) - _NOISE_SDS * noise_sd
    high = sum(max(effects) for effects in outcome.effects.values()) + most + _NOISE_SDS * noise_sd
    return math.floor(low), math.ceil(high)
