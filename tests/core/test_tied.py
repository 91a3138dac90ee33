"""Levers that forbidden combinations tie together: swaps, designs among what is allowed, and what may be lost."""

import itertools
import math

import numpy as np
import pytest

import levers
from harness.tied import GROUPS, Group, mean_runs, two, worst_share
from levers.algorithms.base import Batch, Verdict, run_to_verdict
from levers.algorithms.cfs.settings import LEADER_RULES, PARTS_RULES
from levers.core.certificates.certificate import stakes_tolerance
from levers.core.certificates.sums import Stake, Tied, is_finite, separate, stakes_bound
from levers.core.designs.allowed import Combinations, allowed_rows
from levers.core.designs.exchange import exchanged_rows
from levers.core.merging import Forbidden
from levers.core.model.choices import Choices
from levers.core.model.fit import Fit
from levers.core.model.level_index import offsets
from levers.core.model.moments import Moments
from levers.core.model.swaps import n_swaps
from levers.core.space import Space
from levers.studies.spec import StudySpec

PAIR, CHAIN = Group((4, 3), (two(0, 3, 1, 2),)), Group((4, 3, 2), (two(0, 3, 1, 2), two(1, 2, 2, 1)))


def table_of(group: Group) -> tuple[tuple[int, ...], ...]:
    return group.parts[0]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: str((group.sizes, group.forbidden)))
def test_without_swaps_every_lever_has_to_be_mistaken_by_itself(group: Group) -> None:
    """What the count stands for: rivals that one forbidden change alone keeps from being compared lever by lever."""
    table = table_of(group)
    allowed, most = set(table), 0
    found = n_swaps(table, tuple(range(len(table))))
    assert found is not None
    for best in table:
        tied = set()
        for rival in table:
            back = [tuple(best[k] if k == i else rival[k] for k in range(len(best))) for i in range(len(best))]
            if any(one not in allowed for one in back):
                tied.add(rival)
        assert (found > 0) >= (len(tied) > 0)
        most = max(most, len(tied))
    assert 0 < found <= most  # rivals that swap the same levels count once


def test_where_nothing_is_forbidden_among_what_is_in_play_there_are_no_swaps() -> None:
    table = table_of(PAIR)
    in_play = tuple(i for i, row in enumerate(table) if row[0] != 3)
    assert n_swaps(table, tuple(range(len(table)))) == 3
    assert n_swaps(table, in_play) == 0
    wide = tuple(itertools.product(range(16), range(16)))[1:]
    assert n_swaps(wide, tuple(range(255))) == 15
    many = tuple(row for row in wide if (row[0] + row[1]) % 2)
    assert n_swaps(many, tuple(range(len(many)))) is None  # so many pairs would take long


def test_a_group_may_lose_more_than_levers_apart_and_less_than_one_lever_of_all_combinations() -> None:
    apart: list[Stake | Tied] = [(4, 0.2), (3, 0.17), (2, 0.14), (3, 0.17)]
    both = math.hypot(0.2, 0.17)
    parts = (4, 0.2), (3, 0.17)
    tied: list[Stake | Tied] = [Tied(parts, 3, both), *apart[2:]]
    whole: list[Stake | Tied] = [(11, both), *apart[2:]]
    bounds = [stakes_bound(stakes, 0.5) for stakes in (apart, tied, whole)]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[1] < bounds[2]
    none: list[Stake | Tied] = [Tied(parts, 0, 0.0), *apart[2:]]
    assert stakes_bound(none, 0.5) == pytest.approx(bounds[0], rel=0.01)
    for stakes in (tied, none):
        found = stakes_tolerance(stakes, 0.09)
        assert stakes_bound(stakes, found) <= 0.09
        assert stakes_bound(stakes, 0.98 * found) > 0.08
    assert separate(tied) == apart
    assert not is_finite([Tied(((2, math.inf),), 0, 0.0)])
    assert not is_finite([Tied(((2, 0.1),), 2, math.inf)])


def largest_variance(rows: np.ndarray, sizes: tuple[int, ...], columns: int) -> float:
    """The largest variance of a difference inside the first columns, over that of an ideal design."""
    fit = Fit(Moments.empty(sizes).add(rows, np.zeros(len(rows))))
    starts, worst = offsets(sizes), 0.0
    for k in range(columns):
        these, those = np.triu_indices(sizes[k], 1)
        spread = fit.pair_variances(these + starts[k], those + starts[k])
        worst = max(worst, float(spread.max()) * len(rows) / (2 * sizes[k]))
    return worst


@pytest.mark.parametrize(("group", "share", "most"), [(PAIR, 0.95, 1.2), (CHAIN, 0.8, 1.6)], ids=["pair", "chain"])
def test_designs_are_searched_among_what_is_allowed(group: Group, share: float, most: float) -> None:
    sizes, q = (*group.sizes, 3), len(group.sizes)
    table = np.array(table_of(group), dtype=np.int16)
    given = Combinations(tuple(range(q)), table, np.arange(len(table)))
    rng = np.random.default_rng(0)
    balanced = np.stack([rng.permutation(np.arange(96) % m) for m in sizes], axis=1).astype(np.int16)
    rows = balanced.copy()
    rows[:, :q] = table[allowed_rows(balanced, [given], rng)[:, 0]]
    found = exchanged_rows(rows, sizes, [given], np.zeros((sum(sizes),) * 2), np.random.default_rng(1))
    assert {tuple(row) for row in found[:, :q].tolist()} <= set(table_of(group))
    np.testing.assert_array_equal(found[:, q], balanced[:, q])
    before, after = (largest_variance(one, sizes, q) for one in (rows, found))
    assert after < share * before
    assert after < most
    again = exchanged_rows(rows, sizes, [given], np.zeros((sum(sizes),) * 2), np.random.default_rng(1))
    np.testing.assert_array_equal(found, again)


def test_exchanges_make_up_for_earlier_runs() -> None:
    """Earlier runs had two of the three settings, so that later ones have the third most often."""
    table = np.array([[0, 0], [0, 1], [1, 0]], dtype=np.int16)
    group = Combinations((0, 1), table, np.arange(3))
    earlier = Moments.empty((2, 2)).add(np.repeat(table[:2], 20, axis=0), np.zeros(40)).centred(np.arange(4))
    rows = np.repeat(table, 6, axis=0)
    found = exchanged_rows(rows, (2, 2), [group], earlier, np.random.default_rng(0))
    assert (found[:, 0] == 1).sum() >= 8


def test_a_forbidden_pair_costs_a_fifth_of_the_runs() -> None:
    """Two studies each; it was three quarters. benchmarks/tied_levers.py has ten, and a chain of two pairs."""
    free = mean_runs(Group((4, 3, 2, 3), (), others=()), PARTS_RULES, 2)
    before, now = (mean_runs(Group((4, 3), PAIR.forbidden, others=(2, 3)), r, 2) for r in (LEADER_RULES, PARTS_RULES))
    assert free < now < 1.3 * free
    assert now < 0.75 * before


@pytest.mark.parametrize("group", [Group((3, 2), (two(0, 2, 1, 1),)), PAIR, CHAIN], ids=["3 x 2", "4 x 3", "chain"])
def test_effects_that_lose_most_stay_within_what_is_allowed_for(group: Group) -> None:
    """The search of benchmarks/tied_levers.py, on fewer studies."""
    assert worst_share(group, 2000, 20) <= 1.15


def test_so_few_combinations_count_as_levels_of_one_lever() -> None:
    """Three settings of two levers can differ in any way."""
    tied, _ = Group((2, 2), (two(0, 1, 1, 1),)).measured
    assert tied is None


def pooled_runs(space: Space, forbidden: Forbidden, seed: int = 0) -> Verdict:
    """A study in which nothing matters."""
    spec = StudySpec(space, tolerance=0.5, noise_sd=1.0, forbidden=forbidden, seed=seed, options=(("max_runs", 400),))
    noise = np.random.default_rng(seed)

    def outcomes_of(batch: Batch) -> tuple[Batch, np.ndarray]:
        return batch, noise.normal(size=batch.n_runs)

    return run_to_verdict(spec.solver, outcomes_of, np.random.default_rng(seed))


def test_a_level_that_can_never_be_set_costs_nothing() -> None:
    """It was counted as one that the runs do not determine: 1,500 runs in place of 95."""
    space = Space.sized([3, 3, 2])
    never: Forbidden = tuple(((space.names[0], i), (space.names[1], 2)) for i in (1, 2, 3))
    found = pooled_runs(space, never)
    assert found.tolerance is not None
    assert found.tolerance <= 0.5
    assert found.n_runs < 130


def test_levers_that_cannot_be_told_apart_are_one_lever() -> None:
    """Of three levels each only equal ones go together, so no effect of one of both is ever seen: no study ended."""
    space = Space.sized([3, 3, 2])
    apart: Forbidden = tuple(((space.names[0], i), (space.names[1], j)) for i in (1, 2, 3) for j in (1, 2, 3) if i != j)
    found = pooled_runs(space, apart)
    assert found.tolerance is not None
    assert found.tolerance <= 0.5
    assert found.n_runs < 130
    planned = levers.plan(space, tolerance=0.5, noise_sd=1.0, forbidden=[dict(one) for one in apart])
    assert found.n_runs < 1.3 * planned.runs_if_nothing_matters
    determined = Choices((3, 8), (((0, 0), (1, 1), (2, 2)), table_of(Group((3, 3), (two(0, 2, 1, 2),))))).determined
    assert [bool(parts) for parts in determined.parts] == [False, True]
