"""Tables over a few variables each, whose product is summed out one variable at a time: variable elimination.

Exact means of a world are sums over all configurations of its causes that nobody sets. There are far too many of them
in a network of 30 factors, but each table names a few variables only, so summing out one variable touches few tables.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.core.merging import connected
from levers.core.space import Codes
from levers.errors import InvalidWorldError

MAX_CONFIGURATIONS = 2_000_000
"""The most cells of a table while variables are summed out."""
MAX_JOINT = 20_000_000
"""The most settings of factors that are searched together for the best one."""


class Potential(NamedTuple):
    """Numbers over the configurations of some variables: one axis for each variable, in the order of the scope."""

    scope: tuple[int, ...]
    values: NDArray[np.float64]

    @classmethod
    def of(cls, scope: Sequence[int], values: ArrayLike) -> "Potential":
        """The same numbers with the variables in ascending order.

        >>> Potential.of((3, 1), [[1.0, 2.0], [3.0, 4.0]])
        Potential(scope=(1, 3), values=array([[1., 3.],
               [2., 4.]]))
        """
        order = sorted(range(len(scope)), key=scope.__getitem__)
        return cls(tuple(scope[i] for i in order), np.asarray(values, dtype=np.float64).transpose(order))

    def at(self, fixed: Mapping[int, int]) -> "Potential":
        """What is left when some variables are known."""
        index = tuple(fixed.get(v, slice(None)) for v in self.scope)
        return Potential(tuple(v for v in self.scope if v not in fixed), self.values[index])


def sum_out(potentials: Iterable[Potential], keep: Collection[int] = ()) -> Potential:
    """Multiply tables and sum over all their variables but those in `keep`.

    The variable whose elimination needs the smallest table goes first.

    >>> rain = Potential((0,), np.array([0.8, 0.2]))
    >>> wet = Potential((0, 1), np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> sum_out([rain, wet], keep={1}).values.round(2).tolist()
    [0.76, 0.24]
    """
    left = list(potentials)
    todo = {v for potential in left for v in potential.scope}.difference(keep)
    while todo:
        joint = {v: [p for p in left if v in p.scope] for v in sorted(todo)}
        variable = min(joint, key=lambda v: _n_cells(joint[v]))
        product = _product(joint[variable])
        axis = product.scope.index(variable)
        left = [p for p in left if variable not in p.scope]
        left.append(Potential(product.scope[:axis] + product.scope[axis + 1 :], product.values.sum(axis=axis)))
        todo.discard(variable)
    return _product(left)


def maximise(potentials: Iterable[Potential]) -> tuple[float, dict[int, int]]:
    """The largest sum of tables and where it is, exactly: variables that no table connects are searched apart.

    >>> maximise([Potential((0,), np.array([0.0, 1.0])), Potential((1,), np.array([3.0, 2.0]))])
    (4.0, {0: 1, 1: 0})
    """
    tables = list(potentials)
    total, best = sum((float(p.values) for p in tables if not p.scope), 0.0), dict[int, int]()
    variables = sorted({v for p in tables for v in p.scope})
    for group in connected(variables, [p.scope for p in tables if p.scope]):
        inside = [p for p in tables if p.scope and p.scope[0] in group]
        n_cells = _n_cells(inside)
        if n_cells > MAX_JOINT:
            raise InvalidWorldError(
                f"{len(group)} factors that interact have {n_cells:,} settings; the best is searched among at most "
                f"{MAX_JOINT:,}, so use fewer levels or smaller interactions"
            )
        table = reduce(np.add, [_spread(p, group) for p in inside])
        where = np.unravel_index(int(np.argmax(table)), table.shape)
        total += float(table[where])
        best |= {v: int(level) for v, level in zip(group, where, strict=True)}
    return total, best


def configurations(sizes: Sequence[int]) -> Codes:
    """All configurations of variables with these numbers of levels, one a row; the last varies fastest.

    >>> configurations([2, 2]).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    n_rows = math.prod(sizes)
    check_size(n_rows)
    if not sizes:
        return np.zeros((1, 0), dtype=np.int16)
    return np.stack(np.unravel_index(np.arange(n_rows), tuple(sizes)), axis=1).astype(np.int16)


def check_size(n_configurations: int) -> None:
    """Refuse tables that are too large before memory is exhausted."""
    if n_configurations > MAX_CONFIGURATIONS:
        raise InvalidWorldError(
            f"an exact sum needs a table of {n_configurations:,} configurations, more than the {MAX_CONFIGURATIONS:,} "
            "that are summed exactly; set more factors, or sample: estimate_mean_under"
        )


def _n_cells(potentials: Iterable[Potential]) -> int:
    return math.prod({v: n for p in potentials for v, n in zip(p.scope, p.values.shape, strict=True)}.values())


def _product(potentials: Sequence[Potential]) -> Potential:
    check_size(_n_cells(potentials))
    scope = tuple(sorted({v for p in potentials for v in p.scope}))
    return Potential(scope, reduce(np.multiply, [_spread(p, scope) for p in potentials], np.ones([1] * len(scope))))


def _spread(potential: Potential, scope: Sequence[int]) -> NDArray[np.float64]:
    """The numbers with an axis for every variable of a larger scope."""
    size = dict(zip(potential.scope, potential.values.shape, strict=True))
    return potential.values.reshape([size.get(v, 1) for v in scope])
