import numpy as np
import pytest

from levers.core.designs.arrays import (
    ORDERS,
    ArraySize,
    collapsed_copies,
    collapsed_levels,
    finite_field,
    is_orthogonal,
    rao_hamming,
    smallest_array,
)
from levers.core.designs.design import Design
from levers.core.model.moments import pair_counts


@pytest.mark.parametrize("order", ORDERS)
def test_every_field_is_a_field(order: int) -> None:
    add, times = finite_field(order).add, finite_field(order).times
    assert (add == add.T).all()
    assert (times == times.T).all()
    assert (add[0] == np.arange(order)).all()
    assert (times[1] == np.arange(order)).all()
    assert all(sorted(row) == list(range(order)) for row in add)
    assert all(sorted(row) == list(range(order)) for row in times[1:])
    a, b, c = np.random.default_rng(0).integers(0, order, size=(3, 300))
    assert (times[a, add[b, c]] == add[times[a, b], times[a, c]]).all()
    assert (times[a, times[b, c]] == times[times[a, b], c]).all()


def test_orders_without_a_field_are_refused() -> None:
    with pytest.raises(ValueError, match="no finite field of order 6"):
        finite_field(6)


@pytest.mark.parametrize(("order", "exponent"), [(2, 4), (3, 3), (4, 2), (5, 2), (7, 3), (8, 2), (9, 2), (16, 2)])
def test_arrays_have_strength_two_in_all_columns(order: int, exponent: int) -> None:
    n_columns = (order**exponent - 1) // (order - 1)
    rows = rao_hamming(order, exponent, n_columns)
    counts = pair_counts(rows, [order] * n_columns)
    assert is_orthogonal(counts, [order] * n_columns, len(rows))
    assert set(counts.diagonal()) == {order ** (exponent - 1)}
    with pytest.raises(ValueError, match="columns, not"):
        rao_hamming(order, exponent, n_columns + 1)


def test_a_broken_array_is_noticed() -> None:
    rows = rao_hamming(3, 2, 4).copy()
    rows[0, 0], rows[1, 0] = rows[1, 0], rows[0, 0]
    rows[0, 0] = (rows[0, 0] + 1) % 3
    assert not is_orthogonal(pair_counts(rows, [3] * 4), [3] * 4, 9)


def test_collapsing_keeps_orthogonality_and_rotation_evens_levels_out() -> None:
    sizes = [2, 3, 4, 5, 6]
    array = ArraySize(7, 2, 49)
    one = collapsed_copies(array, collapsed_levels(7, sizes, 1, np.random.default_rng(0)))
    assert is_orthogonal(pair_counts(one, sizes), sizes, len(one))
    many = collapsed_copies(array, collapsed_levels(7, sizes, 60, np.random.default_rng(0)))
    assert all(len(set(np.bincount(many[:, k]).tolist())) == 1 for k in range(5))
    assert Design(many, tuple(sizes), "").inflation < 1.03 < Design(one, tuple(sizes), "").inflation
    few = collapsed_copies(array, collapsed_levels(7, sizes, 3, np.random.default_rng(0)))
    assert all(np.ptp(np.bincount(few[:, k])) <= 7 for k in range(5))  # one symbol's rows


def test_the_smallest_array_is_known() -> None:
    assert smallest_array(33, 2) is None
    found = smallest_array(2, 7)
    assert found is not None
    assert found.n_runs == 8
