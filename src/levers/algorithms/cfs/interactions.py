"""What a study does where levers may work together: its leaders, and its next rows.

The leaders are those of the fit with interactions, where these are hardly to be doubted; else what it expects and what
added effects do are averaged, as likely as each is. As large a share of the next
runs as interactions are likely is made at settings that are best in a draw of that fit (Thompson sampling; Baptista and
Poloczek, ICML 2018, do so with pairs of levers). No guarantee rests on any of it (docs/decisions/0047).
"""

from collections.abc import Sequence

import numpy as np

from levers.algorithms.cfs import settings
from levers.core.model.interaction_fit import InteractionFit, Runs, Surface
from levers.core.model.level_index import Numbers
from levers.core.space import Codes


def expected(fit: InteractionFit, effects: Numbers) -> Surface:
    """What is expected of every setting: by the fit with interactions and by added effects, as likely as each is.

    Where interactions are hardly to be doubted, by the first alone.

    >>> from levers.core.model.interaction_fit import InteractionWeights
    >>> runs = Runs.none(2).add([[0, 0], [0, 1], [1, 0], [1, 1]] * 4, [0.0, 0.0, 0.0, 1.0] * 4, 0)
    >>> fit = InteractionFit((2, 2), runs, InteractionWeights(0.1, 1.0, 1.0, 0.05, 0.25))
    >>> found = expected(fit, np.array([4.0, 0.0, 0.0, 0.0]))
    >>> bool(np.allclose(found.pairs, 0.25 * fit.mean.pairs)), float(found.effects[0] - 0.25 * fit.mean.effects[0])
    (True, 3.0)
    """
    mean, likely = fit.mean, fit.weights.probability
    if fit.weights.prevail:
        return mean
    return Surface(likely * mean.effects + (1 - likely) * effects, likely * mean.pairs, likely * mean.near)


def leaders_together(fit: InteractionFit, surface: Surface, others: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The setting with the largest value of a surface, looked for from some settings and from those of the best runs.

    Of settings with the same value the one reached from the first of the others.

    >>> from levers.core.model.interaction_fit import InteractionWeights
    >>> codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 4, dtype=np.int16)
    >>> runs = Runs.none(2).add(codes, (codes[:, 0] == codes[:, 1]) + 0.01 * np.arange(16), 0)
    >>> fit = InteractionFit((2, 2), runs, InteractionWeights(0.1, 1.0, 1.0, 0.05, 1.0))
    >>> leaders_together(fit, fit.mean, [(0, 1)])
    (1, 1)
    """
    starts = np.concatenate([np.asarray(others, dtype=np.int16), best_runs(fit.runs)])
    return tuple(fit.best(surface, starts).tolist())


def sampled_rows(fit: InteractionFit, n_runs: int, rng: np.random.Generator) -> Codes:
    """Settings that are best in as many draws of what is not known.

    >>> from levers.core.model.interaction_fit import InteractionWeights
    >>> codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 4, dtype=np.int16)
    >>> runs = Runs.none(2).add(codes, 5.0 * (codes[:, 0] > codes[:, 1]) + 0.01 * np.arange(16), 0)
    >>> fit = InteractionFit((2, 2), runs, InteractionWeights(0.1, 1.0, 1.0, 0.05, 1.0))
    >>> sampled_rows(fit, 3, np.random.default_rng(0)).tolist()
    [[1, 0], [1, 0], [1, 0]]
    """
    random = rng.integers(0, fit.sizes, size=(settings.SEARCH_STARTS, len(fit.sizes)))
    starts = np.concatenate([best_runs(fit.runs), random.astype(np.int16)])
    rows = [fit.best(fit.draw(rng), starts) for _ in range(n_runs)]
    return np.array(rows, dtype=np.int16).reshape(n_runs, len(fit.sizes))


def best_runs(runs: Runs) -> Codes:
    """The settings of the largest outcomes, each once, about the means of those that share a constant."""
    _, at = np.unique(runs.constants, return_inverse=True)
    means = np.bincount(at, runs.outcomes) / np.bincount(at)
    order = np.argsort(-(runs.outcomes - means[at]), kind="stable")
    _, first = np.unique(runs.codes[order], axis=0, return_index=True)
    found: Codes = runs.codes[order][np.sort(first)[: settings.SEARCH_STARTS]]
    return found
