"""The promise with forbidden combinations, counted: with and without a least effect, and with a budget."""

from typing import Any

import pytest
from scipy.stats import binom

from harness.forbidden import CHAIN, CORNER, critical_effects, forbidden_failure, random_effects

N, FAILURE_PROB = 20, 0.1


@pytest.mark.parametrize("forbidden", [CORNER, CHAIN], ids=["one pair", "a chain of two"])
@pytest.mark.parametrize("gap", [0.51, 0.26, 0.17])
def test_critical_gaps_at_the_forbidden_pair(forbidden: object, gap: float) -> None:
    failed = sum(forbidden_failure(critical_effects(gap), forbidden, seed, 0.5) for seed in range(N))  # type: ignore[arg-type]
    assert failed <= binom.ppf(0.999, N, FAILURE_PROB)


@pytest.mark.parametrize("options", [{}, {"min_effect": 0.5}], ids=["plain", "least effect"])
def test_random_effects(options: dict[str, Any]) -> None:
    """Effects of tied levers can cancel out in the combinations allowed, so a look must never dismiss them."""
    failed = sum(forbidden_failure(random_effects(seed, 0.5), CHAIN, seed, 0.4, **options) for seed in range(N))
    assert failed <= binom.ppf(0.999, N, FAILURE_PROB)


@pytest.mark.parametrize("aim", ["best", "certify"])
def test_budgets(aim: str) -> None:
    failed = sum(
        forbidden_failure(random_effects(seed, 1.0), CHAIN, seed, None, budget=60, aim=aim) for seed in range(N)
    )
    assert failed <= binom.ppf(0.999, N, FAILURE_PROB)
