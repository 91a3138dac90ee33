"""The methods that benchmarks/budgets.py compares with: what they set and recommend is allowed, and they do search."""

import numpy as np
import pytest

from harness.rivals import RIVALS, BudgetProblem, Rival, least_squares, thompson_sampling
from levers.core.merging import Forbidden, Merging
from levers.core.model.level_index import Numbers
from levers.core.space import Codes, Space
from levers.worlds.outcome import AdditiveOutcome

SPACE = Space.sized([2, 3, 3])
OUTCOME = AdditiveOutcome({0: (0.0, 1.5), 1: (0.0, 2.0, 1.0), 2: (0.4, 0.0, 1.2)})
BEST_TWICE: Forbidden = ((("X1", 2), ("X2", 2)), (("X2", 2), ("X3", 3)))
BUDGETS = (3, 8, 60)


def settings_of(
    rival: Rival, problem: BudgetProblem, noise_sd: float, budgets: tuple[int, ...] = BUDGETS
) -> tuple[list[Codes], list[Codes]]:
    """What a rival recommends after each budget, and all rows that it ran."""
    rng, noise, ran = np.random.default_rng(3), np.random.default_rng(4), list[Codes]()

    def measure(codes: Codes) -> Numbers:
        ran.extend(codes)
        return OUTCOME.mean(codes) + noise_sd * noise.normal(size=len(codes))

    return rival.recommend(problem, budgets, measure, rng), ran


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.name)
@pytest.mark.parametrize("noise_sd", [1.0, None])
@pytest.mark.parametrize("forbidden", [(), BEST_TWICE])
def test_runs_are_as_many_as_may_be_and_all_are_allowed(
    rival: Rival, noise_sd: float | None, forbidden: Forbidden
) -> None:
    problem = BudgetProblem(Merging.of(SPACE, forbidden), noise_sd)
    recommended, ran = settings_of(rival, problem, 1.0)
    assert len(recommended) == len(BUDGETS)
    assert len(ran) <= (BUDGETS[-1] if rival.anytime else sum(BUDGETS))
    assert all(problem.allows(row) for row in [*recommended, *ran])


@pytest.mark.parametrize("method", [least_squares, thompson_sampling])
@pytest.mark.parametrize("noise_sd", [1.0, None])
@pytest.mark.parametrize(("forbidden", "best"), [((), [1, 1, 2]), (BEST_TWICE, [1, 2, 2])])
def test_the_best_allowed_setting_is_found_without_noise(
    method: object, noise_sd: float | None, forbidden: Forbidden, best: list[int]
) -> None:
    [rival] = [rival for rival in RIVALS if rival.recommend is method]
    recommended, _ = settings_of(rival, BudgetProblem(Merging.of(SPACE, forbidden), noise_sd), 0.0)
    assert recommended[-1].tolist() == best


@pytest.mark.parametrize("rival", [rival for rival in RIVALS if rival.anytime], ids=lambda rival: rival.name)
def test_an_anytime_method_recommends_the_same_whatever_comes_later(rival: Rival) -> None:
    problem = BudgetProblem(Merging.of(SPACE, BEST_TWICE), None)
    early, _ = settings_of(rival, problem, 1.0, BUDGETS[:2])
    both, _ = settings_of(rival, problem, 1.0)
    assert [row.tolist() for row in early] == [row.tolist() for row in both[:2]]
