"""Arithmetic of finite fields: what orthogonal arrays are built from."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_POLYNOMIALS: dict[int, tuple[int, tuple[int, ...]]] = {
    # order: (characteristic, coefficients of x^e = ..., lowest first), from an irreducible polynomial of degree e
    4: (2, (1, 1)),
    8: (2, (1, 1, 0)),
    9: (3, (2, 0)),
    16: (2, (1, 1, 0, 0)),
    25: (5, (3, 0)),
    27: (3, (2, 1, 0)),
    32: (2, (1, 0, 1, 0, 0)),
}
ORDERS = (2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32)
"""Orders for which a field is made, ascending: all prime powers up to 32."""


class Field(NamedTuple):
    """Addition and multiplication tables of the field with `order` elements, numbered from 0."""

    order: int
    add: NDArray[np.int16]
    times: NDArray[np.int16]


@lru_cache(maxsize=32)
def finite_field(order: int) -> Field:
    """The field of the given order.

    >>> field = finite_field(4)
    >>> int(field.add[2, 3]), int(field.times[2, 3])
    (1, 1)
    """
    if order not in ORDERS:
        raise ValueError(f"no finite field of order {order} is made here; orders are {ORDERS}")
    numbers = np.arange(order)
    if order not in _POLYNOMIALS:
        add = (numbers[:, None] + numbers) % order
        times = (numbers[:, None] * numbers) % order
        return Field(order, add.astype(np.int16), times.astype(np.int16))
    prime, rule = _POLYNOMIALS[order]
    degree = len(rule)
    digits = np.stack([(numbers // prime**i) % prime for i in range(degree)], axis=1)
    weights = prime ** np.arange(degree)
    add = ((digits[:, None, :] + digits[None, :, :]) % prime) @ weights
    product = np.zeros((order, order, 2 * degree - 1), dtype=np.int64)
    for i in range(degree):
        for j in range(degree):
            product[:, :, i + j] += np.outer(digits[:, i], digits[:, j])
    for power in range(2 * degree - 2, degree - 1, -1):  # x^power = x^(power - degree) * rule
        for i, coefficient in enumerate(rule):
            product[:, :, power - degree + i] += coefficient * product[:, :, power]
    times = (product[:, :, :degree] % prime) @ weights
    return Field(order, add.astype(np.int16), times.astype(np.int16))
