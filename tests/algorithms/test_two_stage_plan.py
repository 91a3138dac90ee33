import math

import pytest

from levers.algorithms.base import Problem
from levers.algorithms.cfs.decisions import error_shares, first_block, pair_error
from levers.algorithms.cfs.two_stage import TwoStage
from levers.core.space import Space


def test_the_failure_probability_is_shared_out_in_full() -> None:
    for estimate in (False, True):
        for one_shot in (False, True):
            shares = error_shares(0.1, estimate, one_shot)
            assert sum(shares) == pytest.approx(0.1)
            assert (shares.noise > 0) == estimate
            assert (shares.screening == 0) == one_shot
    assert sum(error_shares(0.1, False, False, dismiss=True)) == pytest.approx(0.1)
    assert pair_error(0.01, [4, 4], all_pairs=True) == pytest.approx(0.01 / 24)
    assert [first_block([6] * 30, False, wanted) for wanted in (0.0, 300.0, math.inf)] == [270, 300, 450]


def test_the_first_block_is_the_longer_the_more_the_rest_will_take() -> None:
    space = Space.sized([4] * 30)  # 90 parameters: from 162 to 270 runs

    def first(tolerance: float | None, noise_sd: float | None = 1.0, **options: int) -> int | None:
        return TwoStage(Problem(space, tolerance, 0.1, noise_sd), **options).first_screening()  # type: ignore[arg-type]

    assert [first(0.5), first(0.5, max_parents=1), first(5.0)] == [270, 162, 162]
    between, unknown = first(0.5, max_parents=8), first(0.5, None, max_parents=8)
    assert between is not None
    assert unknown is not None
    assert 200 < between < unknown < 260  # taken for two tolerances, with a part of the failure probability
    assert first(0.5, None, max_parents=1) == 198
    assert [first(None, budget=n) for n in (300, 400, 1000, 5000)] == [None, 162, 200, 270]
