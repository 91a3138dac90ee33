"""What looks lose on given effects, by simulation, against the price that is counted for it."""

import math

import numpy as np
from numpy.typing import NDArray

from levers.core.certificates.look import Look, factor_risk, loss_tail

Numbers = NDArray[np.float64]
_CELLS = 400  # of the losses that count, as in look_risk


def total_loss(look: Look, effects: Numbers, n_factors: int, rng: np.random.Generator, n: int) -> Numbers:
    """What is lost in all by the look's decisions: dismissed factors at their leaders, others by dropped levels."""
    m = len(effects)
    error = math.sqrt(m / look.n_runs)
    total = np.zeros(n)
    for _ in range(n_factors):
        means = effects + error * rng.normal(size=(n, m))
        ordered = np.sort(means, axis=1)
        kept = means > ordered[:, -1:] - look.apart * error
        settled = ordered[:, -2] - ordered[:, 0] < dict(look.spread)[m] * error
        best_kept = np.where(kept, effects, -np.inf).max(axis=1)
        total += np.where(settled, -effects[means.argmax(axis=1)], -best_kept)
    return total


def random_effects(m: int, min_effect: float, error: float, rng: np.random.Generator) -> Numbers:
    """A parent's effects: the best level at 0, one at least min_effect behind, others near, far, tied, in groups."""
    rivals = m - 2
    near, far = rng.uniform(0, 4 * error), rng.uniform(0, 8 * error)
    kinds = [
        rng.uniform(0, min_effect, rivals),
        np.full(rivals, near),
        6 * error * rng.beta(1, 2, rivals),
        np.where(rng.random(rivals) < rng.random(), near, far),
        np.where(np.arange(rivals) == 0, near, rng.uniform(min_effect / 2, min_effect, rivals)),
    ]
    gaps = np.minimum(kinds[rng.integers(0, len(kinds))], 3 * min_effect)
    return -np.concatenate([[0.0], gaps, [min_effect * rng.choice([1.0, 1.0, 1.1, 1.5])]])


def price_ratios(
    look: Look, effects: Numbers, min_effect: float, tolerance: float, rng: np.random.Generator, n: int
) -> tuple[float, float, float]:
    """E g(loss) over the bound that is counted for it, its standard error, and the same ratio for the worst g of all.

    g(x) = exp(p lambda x) - 1 up to the reach is the envelope in use. The worst g is 1/T: its bound is 1, and any other
    ratio is at most E[1/T(loss)], where nothing is counted for no loss.
    """
    m = len(effects)
    error = math.sqrt(m / look.n_runs)
    steepness = look.coupling * math.log(1 / look.selection)
    cell_ends = np.minimum(np.arange(1, _CELLS + 2), _CELLS) / _CELLS
    gaps = np.arange(_CELLS + 1, dtype=np.float64) * (look.reach * tolerance / _CELLS) / error
    known = (min_effect / error - dict(look.spread)[m], min_effect / error, look.apart)
    growth: Numbers = np.expm1(steepness * cell_ends)
    bound = factor_risk(m, *known, growth, gaps, False)
    lost = total_loss(look, effects, 1, rng, n)
    price = np.expm1(steepness * np.minimum(lost / (look.reach * tolerance), 1.0))
    tail = loss_tail(m - 1, *known, lost[lost > 0] / error, False)
    return float(price.mean()) / bound, float(price.std()) / bound / math.sqrt(n), float((1 / tail).sum()) / n
