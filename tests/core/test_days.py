"""Rounds divided into days: how balanced they are, and what constants for all of them cost."""

import numpy as np
import pytest

from levers.core.designs.build import extending_design, largest_design
from levers.core.designs.days import LEAST_DAY, day_lengths, divided_rows
from levers.core.model.fit import Fit
from levers.core.model.level_index import level_pairs
from levers.core.model.moments import Moments
from levers.core.model.pooled import PooledSums
from levers.core.space import Codes


def mean_variance(rows: Codes, sizes: tuple[int, ...], lengths: tuple[int, ...]) -> float:
    """Of all differences between levels, with a constant for each day, in variances of the noise."""
    pooled, begin = PooledSums.empty(sizes), 0
    for n in lengths:
        pooled = pooled.add(Moments.empty(sizes).add(rows[begin : begin + n], np.zeros(n)))
        begin += n
    these, those = level_pairs(sizes)
    return float(Fit(pooled).pair_variances(these, those)[these != those].mean())


def counts_by_day(rows: Codes, sizes: tuple[int, ...], lengths: tuple[int, ...]) -> list[list[np.ndarray]]:
    """How often each level is used in each day, factor by factor."""
    days = np.split(rows, np.cumsum(lengths)[:-1])
    return [[np.bincount(day[:, k], minlength=m) for k, m in enumerate(sizes)] for day in days]


@pytest.mark.parametrize(
    ("sizes", "n_runs", "size", "most_lost"),
    [
        ((2,) * 7, 16, 8, 0.001),
        ((2,) * 7, 48, 8, 0.001),
        ((3,) * 7, 24, 8, 0.03),
        ((3, 3, 4, 2, 2, 5, 3), 48, 8, 0.03),
        ((2,) * 14, 40, 8, 0.03),
        ((3,) * 10, 60, 12, 0.02),
        ((4,) * 10, 192, 48, 0.002),
        ((3,) * 30, 400, 8, 0.06),
        ((12, 12, 12), 80, 8, 0.11),
    ],
)
def test_days_are_balanced_so_that_their_constants_cost_little(
    sizes: tuple[int, ...], n_runs: int, size: int, most_lost: float
) -> None:
    design = (
        largest_design(sizes, n_runs, 1)
        if n_runs < 100
        else extending_design(sizes, n_runs, 1, sizes, tuple(range(len(sizes))))
    )
    lengths = day_lengths(n_runs, size)
    order = divided_rows(design.rows, sizes, lengths, np.random.default_rng(0))
    assert sorted(order.tolist()) == list(range(n_runs))  # the same rows
    rows = design.rows[order]
    ideal = mean_variance(design.rows, sizes, (n_runs,))
    assert mean_variance(rows, sizes, lengths) <= (1 + most_lost) * ideal
    assert mean_variance(design.rows, sizes, lengths) > (1 + 2 * most_lost) * ideal  # a random order costs more
    apart = [
        np.abs(count - n / m).max()
        for day, n in zip(counts_by_day(rows, sizes, lengths), lengths, strict=True)
        for count, m in zip(day, sizes, strict=True)
    ]
    assert np.mean(apart) < 1.0
    assert max(apart) < 3.0


def test_an_array_that_divides_is_divided_exactly() -> None:
    sizes, lengths = (2,) * 7, (8, 8, 8, 8)
    rows = largest_design(sizes, 32, 3).rows
    order = divided_rows(rows, sizes, lengths, np.random.default_rng(1))
    for day in counts_by_day(rows[order], sizes, lengths):
        assert all(count.tolist() == [4, 4] for count in day)


def test_long_rounds_are_divided_part_by_part() -> None:
    sizes = (3,) * 6
    rows = extending_design(sizes, 1500, 0, sizes, tuple(range(6))).rows
    lengths = day_lengths(1500, 16)
    ordered = rows[divided_rows(rows, sizes, lengths, np.random.default_rng(0))]
    assert mean_variance(ordered, sizes, lengths) < 1.02 * mean_variance(rows, sizes, (1500,))


def test_the_order_does_not_depend_on_the_processor() -> None:
    """Processors add up in different orders; so does this one, when columns stand in another order."""

    def n_different(steady: bool) -> int:
        found = 0
        for seed in range(30):
            sizes = (2, 3, 3, 4)
            rows = largest_design(sizes, 48, seed).rows
            order = divided_rows(rows, sizes, (8,) * 6, np.random.default_rng(seed), steady)
            turned = divided_rows(rows[:, ::-1], sizes[::-1], (8,) * 6, np.random.default_rng(seed), steady)
            found += not np.array_equal(order, turned)
        return found

    assert n_different(steady=True) == 0
    assert n_different(steady=False) > 0  # so rounding does matter where it may


def test_the_order_inside_a_day_is_random() -> None:
    """Whatever drifts inside a day must not meet levels in an order that the design chose."""
    rows = largest_design((2, 2, 2), 16, 0).rows
    first = [
        rows[divided_rows(rows, (2, 2, 2), (8, 8), np.random.default_rng(seed))][:4, 0].sum() for seed in range(200)
    ]
    assert len(set(first)) == 5
    assert 1.7 < np.mean(first) < 2.3


@pytest.mark.parametrize("n_runs", [1, 3, 4, 7, 8, 9, 12, 15, 16, 100])
@pytest.mark.parametrize("size", [1, 3, 4, 8, 50])
def test_days_are_full_and_none_is_too_short(n_runs: int, size: int) -> None:
    lengths = day_lengths(n_runs, size)
    assert sum(lengths) == n_runs
    assert set(lengths[:-1]) <= {size}
    assert len(lengths) == 1 or min(lengths) >= LEAST_DAY
