import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levers.core.certificates.sample_size import SCHEDULES, make_schedule, successive_radius
from levers.core.designs.random import balanced_rows, block_length, repeated_block
from levers.core.model.elimination import Gaps, count_single, eliminate, empirical_gaps, lemma_variance
from levers.core.model.fit import Fit
from levers.core.model.moments import Moments
from levers.errors import InvalidSettingError

ACTIVE = ((0, 2), (1, 2, 3), (0,), (0, 1, 2, 3, 4))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 200), st.integers(0, 100))
def test_levels_in_play_are_used_equally_often(n: int, seed: int) -> None:
    rows = balanced_rows(ACTIVE, n, np.random.default_rng(seed))
    assert rows.shape == (n, 4)
    for k, levels in enumerate(ACTIVE):
        counts = [int((rows[:, k] == level).sum()) for level in levels]
        assert sum(counts) == n
        assert max(counts) - min(counts) <= 1


def test_factors_are_shuffled_independently() -> None:
    rows = balanced_rows(((0, 1), (0, 1)), 4000, np.random.default_rng(0))
    both = np.bincount(2 * rows[:, 0] + rows[:, 1])
    assert (np.abs(both - 1000) < 6 * math.sqrt(1000 / 4)).all()


def test_repeated_blocks_are_balanced_and_cannot_be_changed() -> None:
    n = block_length(ACTIVE, 1000)
    assert n == 990
    assert block_length((tuple(range(11)), tuple(range(13))), 100) == 100  # no common multiple is so short
    rows = repeated_block(ACTIVE, n, 3)
    assert np.bincount(rows[:, 3]).tolist() == [198] * 5
    with pytest.raises(ValueError, match="read-only"):
        rows[0, 0] = 1
    assert (repeated_block(ACTIVE, n, 4) != rows).any()


@pytest.mark.parametrize(
    ("name", "length", "last"), [("released-code", 8, 0.25), ("algorithm-1", 7, 0.1), ("proof", 7, 0.025)]
)
def test_schedules_end_where_the_table_says(name: str, length: int, last: float) -> None:
    """K = 10, B = 5, eps = 0.5: last widths eps/2, 2 eps/K and eps/(2K), each half the one before."""
    widths = make_schedule(name, 10, 0.5, 5.0).widths
    assert len(widths) == length
    assert widths[-1] == pytest.approx(last)
    np.testing.assert_allclose(np.array(widths[:-1]) / widths[1:], 2.0)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_never_are_empty(name: str) -> None:
    plan = make_schedule(name, 1, 1000.0, 0.001)
    assert len(plan.widths) >= 1
    assert plan.n_phases >= 1


def test_unknown_schedule_lists_the_known_ones() -> None:
    with pytest.raises(InvalidSettingError, match="released-code, algorithm-1, proof"):
        make_schedule("theorem", 3, 0.5, 5.0)


def test_elimination_needs_a_known_gap_of_at_least_the_width() -> None:
    active, dropped = eliminate(Gaps((1, 0), ((0.5, 0.0, None), (0.0, 0.49))), ((0, 1, 2), (0, 1)), 0.5, 77)
    assert active == ((1, 2), (0, 1))
    assert [(e.factor, e.level, e.n_runs, e.gap) for e in dropped] == [(0, 0, 77, 0.5)]
    assert count_single(((1,), (0, 1), (2,))) == 2


def test_a_contrast_worse_than_the_lemma_promises_rules_nothing_out() -> None:
    """Nearly identical columns: the contrast is determined, but with far more variance than Lemma 4.2 allows."""
    column = np.tile([0, 1], 50)
    twin = column.copy()
    twin[:2] = [1, 0]
    y = 100.0 * column
    fit = Fit(Moments.empty([2, 2]).add(np.stack([column, twin], axis=1), y))
    active = ((0, 1), (0, 1))
    allowed = lemma_variance(active, 100)
    assert fit.variances(0)[0, 1] > allowed
    found = empirical_gaps(fit, active, allowed)
    assert [row[1 - lead] for row, lead in zip(found.behind, found.leaders, strict=True)] == [None, None]
    assert empirical_gaps(fit, active).behind[0][0] == pytest.approx(100.0)
    assert lemma_variance(active, 2) == math.inf


def test_successive_radius_sums_to_the_failure_probability() -> None:
    """Two-sided tails over all actions and rounds add up to at most delta."""
    spent = sum(
        2 * 50 * math.exp(-t * successive_radius(50, t, 0.1, 2.0) ** 2 / (2 * 2.0**2)) for t in range(1, 20_000)
    )
    assert spent <= 0.1
