"""The order of rows in which levers that are hard to change are changed seldom, and the check of what it rests on."""

import math
from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import binom, f

from levers.core.designs.changes import few_changes, hard_levels, n_changes
from levers.core.designs.days import day_lengths
from levers.core.model.checks.check import Residual, Runs
from levers.core.model.checks.order import setup
from levers.core.space import Codes


def by_block(order: Codes | np.ndarray, lengths: tuple[int, ...]) -> list[list[int]]:
    return [sorted(part.tolist()) for part in np.split(order, np.cumsum(lengths)[:-1])]


@pytest.mark.parametrize(
    ("sizes", "n_runs", "size"), [((3,), 40, 8), ((4, 2), 43, 8), ((2, 3, 2), 60, None), ((5,), 3, 8)]
)
def test_rows_move_inside_their_block_only_and_levels_stand_together(
    sizes: tuple[int, ...], n_runs: int, size: int | None
) -> None:
    rng = np.random.default_rng(1)
    levels = np.stack([rng.integers(m, size=n_runs) for m in sizes], axis=1).astype(np.int16)
    lengths = day_lengths(n_runs, size)
    order = few_changes(levels, lengths, rng)
    assert by_block(order, lengths) == by_block(np.arange(n_runs), lengths)
    for block in np.split(levels[order], np.cumsum(lengths)[:-1]):
        for k in range(len(sizes)):  # each combination of the levers so far is one stretch
            assert sum(n_changes_together(block[:, : k + 1])) == len(np.unique(block[:, : k + 1], axis=0)) - 1


def n_changes_together(levels: Codes) -> list[bool]:
    """Whether anything changes from each row to the next."""
    found: list[bool] = (levels[1:] != levels[:-1]).any(axis=1).tolist()
    return found


def test_one_lever_changes_as_seldom_as_its_blocks_allow() -> None:
    rng = np.random.default_rng(2)
    for seed in range(30):
        levels = rng.integers(3, size=(12, 1)).astype(np.int16)
        blocks = np.split(levels[:, 0], 2)
        order = few_changes(levels, (6, 6), np.random.default_rng(seed), in_place=[int(rng.integers(3))])
        distinct = [len(np.unique(block)) for block in blocks]
        found = levels[order, 0]
        [changed] = n_changes(found[:, None])
        joined = found[5] in blocks[1]
        assert changed == sum(distinct) - 2 + (not joined)
        if joined:
            assert found[6] == found[5]


def test_no_order_of_a_short_block_has_fewer_changes() -> None:
    levels = np.array([[0], [1], [2], [0], [1], [0]], dtype=np.int16)
    least = min(n_changes(levels[list(order)])[0] for order in permutations(range(6)))
    assert n_changes(levels[few_changes(levels, (6,), np.random.default_rng(0))])[0] == least == 2


def test_the_order_of_levels_is_random_but_for_what_is_in_place() -> None:
    levels = np.repeat([[0], [1], [2]], 2, axis=0).astype(np.int16)
    orders = [tuple(levels[few_changes(levels, (6,), np.random.default_rng(seed)), 0][::2]) for seed in range(200)]
    assert {*orders} == {*permutations(range(3))}
    counts = [orders.count(order) for order in {*orders}]
    assert min(counts) > binom.ppf(0.0005, 200, 1 / 6)
    for seed in range(20):
        assert levels[few_changes(levels, (6,), np.random.default_rng(seed), in_place=[2]), 0][0] == 2


def test_rows_of_one_stretch_keep_their_order_and_the_same_seed_gives_the_same() -> None:
    levels = np.array([[1], [0], [1], [0], [1]], dtype=np.int16)
    order = few_changes(levels, (5,), np.random.default_rng(3))
    assert sorted(map(tuple, (order[levels[order, 0] == level].tolist() for level in (0, 1)))) == [(0, 2, 4), (1, 3)]
    assert np.array_equal(order, few_changes(levels, (5,), np.random.default_rng(3)))


def test_a_lever_inside_a_merged_column_has_its_own_levels() -> None:
    rows = np.array([[0, 1], [5, 0]])
    assert hard_levels(rows, ((0, (0, 0, 1, 1, 2, 2)), (1, (0, 1)))).tolist() == [[0, 1], [2, 0]]


def split_plot(seed: int, tau: float, n_days: int = 10) -> Runs:
    """Days of twelve runs with two hard levers, of 2 and 3 levels, and an easy one; the first is set with an error."""
    rng = np.random.default_rng(seed)
    codes = np.array([*product((0, 1), (0, 1, 2), (0, 1))] * n_days, dtype=np.int16)
    codes[:, 2] = rng.permutation(codes[:, 2])
    day = np.repeat(np.arange(n_days), 12)
    own = rng.normal(0, tau, (n_days, 2))[day, codes[:, 0]] if tau else 0.0
    y = rng.normal(size=len(codes)) + codes.sum(axis=1) + rng.normal(size=n_days)[day] + own
    return Runs(codes, y, (2, 3, 2), constants=day, hard=codes[:, :2])


def dummies(*columns: np.ndarray) -> np.ndarray:
    """One column for each combination."""
    which = np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].ravel()
    return np.eye(which.max() + 1)[which]


def squares(y: np.ndarray, *parts: np.ndarray) -> tuple[float, int]:
    """Of residuals by least squares, and the rank."""
    x = np.column_stack(parts)
    rest = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    return float(rest @ rest), int(np.linalg.matrix_rank(x))


def test_the_p_value_is_that_of_the_nested_models() -> None:
    for seed in range(5):
        runs = split_plot(seed, 0.4)
        assert runs.constants is not None
        (a, b, c), day, y = runs.codes.T, runs.constants, runs.outcomes
        check = setup(runs, Residual.of(runs.model()), None)
        assert check is not None
        plain = [dummies(a), dummies(b), dummies(c), dummies(day)]
        first = [*plain, dummies(day, a)]
        inside = [*first, dummies(a, b)]
        second = [*inside, dummies(day, a, b)]
        p_values = []
        for smaller, larger in ((plain, first), (inside, second)):
            (before, rank), (after, more) = squares(y, *smaller), squares(y, *larger)
            ratio = ((before - after) / (more - rank)) / (after / (len(y) - more))
            p_values.append(float(f.sf(ratio, more - rank, len(y) - more)))
        assert math.isclose(check.p_value, min(1.0, 2 * min(p_values)), rel_tol=1e-6)
        assert check.factor == int(np.argmin(p_values))


def test_a_set_up_error_is_seen_with_its_lever_and_its_size() -> None:
    found = [setup(runs, Residual.of(runs.model()), 1.0) for runs in (split_plot(seed, 1.0) for seed in range(20))]
    seen = [check for check in found if check is not None and check.p_value < 0.01 and check.is_harmful]
    assert len(seen) >= 16  # 19 are expected
    assert all(check.factor == 0 for check in seen)
    assert 0.8 < np.sqrt(np.mean([check.size**2 for check in found if check is not None and check.size])) < 1.2


@pytest.mark.parametrize("noise_sd", [None, 1.0])
def test_honest_runs_are_doubted_as_often_as_said(noise_sd: float | None) -> None:
    p_values = []
    for seed in range(300):
        runs = split_plot(seed, 0.0, n_days=4)
        check = setup(runs, Residual.of(runs.model()), noise_sd)
        assert check is not None
        p_values.append(check.p_value)
    for level in (0.05, 0.2):
        assert sum(p < level for p in p_values) <= binom.ppf(0.999, 300, level)
    assert sum(p < 0.2 for p in p_values) >= binom.ppf(0.001, 300, 0.19)  # two tests: 0.2 less a little


def test_hard_levers_that_interact_are_no_set_up_error() -> None:
    runs = split_plot(3, 0.0)
    twisted = Runs(
        runs.codes,
        runs.outcomes + 5.0 * (runs.codes[:, 0] * runs.codes[:, 1] == 1),
        runs.n_levels,
        runs.constants,
        hard=runs.hard,
    )
    check = setup(twisted, Residual.of(twisted.model()), None)
    assert check is not None
    assert check.p_value > 0.01


def test_one_block_says_nothing_of_set_ups() -> None:
    runs = split_plot(1, 1.0, n_days=1)
    alone = Runs(runs.codes, runs.outcomes, runs.n_levels, hard=runs.codes[:, :1])
    assert setup(alone, Residual.of(alone.model()), None) is None
