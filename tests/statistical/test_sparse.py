"""Broken promises among very many factors, counted over fixed seeds."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from harness.sparse import FAILURE_PROB, Effects, equal_gaps, just_over, random_effects, study_sparse

STUDIES = 12
LEVELS = (5,) * 200
MIXED = (2, 3, 4, 5, 6) * 40
WORLDS: dict[str, tuple[tuple[int, ...], int, bool, Callable[[np.random.Generator], Effects]]] = {
    "gap of a third": (LEVELS, 6, True, lambda rng: equal_gaps(LEVELS, 6, just_over(3), rng)),
    "gap of a half": (LEVELS, 6, True, lambda rng: equal_gaps(LEVELS, 6, just_over(2), rng)),
    "noise estimated": (LEVELS, 6, False, lambda rng: equal_gaps(LEVELS, 6, just_over(2), rng)),
    "weak beside strong": (
        LEVELS,
        6,
        True,
        lambda rng: equal_gaps(LEVELS, 3, just_over(2), rng) | equal_gaps(LEVELS, 3, 1.5, rng),
    ),
    "unequal levels": (MIXED, 6, True, lambda rng: random_effects(MIXED, 6, rng)),
}


@pytest.mark.parametrize("name", WORLDS)
def test_promises_are_kept(name: str) -> None:
    n_levels, max_parents, known, effects = WORLDS[name]
    results = [
        study_sparse(n_levels, effects(np.random.default_rng([seed, 3])), max_parents, seed, known=known)
        for seed in range(STUDIES)
    ]
    allowed = int(binom.ppf(1 - 1e-3, STUDIES, FAILURE_PROB))
    assert sum(result.failed for result in results) <= allowed
    assert sum(result.n_false > 0 for result in results) <= int(binom.ppf(1 - 1e-3, STUDIES, 0.005))
