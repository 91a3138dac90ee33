"""Algorithms by name."""

import difflib
from collections.abc import Callable
from dataclasses import fields
from typing import Any, cast

from levers.algorithms.arms import NaiveSearch, SuccessiveElimination
from levers.algorithms.base import Algorithm, AlgorithmBase, Problem
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.modl import Modl
from levers.algorithms.observational import ObservationalRegression
from levers.algorithms.restricted import Oracle, ParentsFirst
from levers.errors import InvalidSettingError, UnknownAlgorithmError

ALGORITHMS: dict[str, type[AlgorithmBase]] = {
    "cfs": Cfs,
    "modl": Modl,
    "parents-first": ParentsFirst,
    "oracle": Oracle,
    "successive-elimination": SuccessiveElimination,
    "naive-search": NaiveSearch,
    "observational-regression": ObservationalRegression,
}

DEFAULT_ALGORITHM = "cfs"


def check_known(name: str) -> str:
    """The name, if there is such an algorithm.

    >>> check_known("model")
    Traceback (most recent call last):
    levers.errors.UnknownAlgorithmError: there is no algorithm 'model' (did you mean 'modl'?); known are cfs, modl, \
parents-first, oracle, successive-elimination, naive-search, observational-regression
    """
    if name not in ALGORITHMS:
        close = difflib.get_close_matches(name, ALGORITHMS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise UnknownAlgorithmError(f"there is no algorithm {name!r}{hint}; known are {', '.join(ALGORITHMS)}")
    return name


def option_names(name: str) -> tuple[str, ...]:
    """The options that an algorithm takes beyond the problem.

    >>> option_names("modl")
    ('schedule', 'max_parents', 'outcome_bound')
    """
    return tuple(f.name for f in fields(ALGORITHMS[check_known(name)]) if f.init and f.name != "problem")


def make_algorithm(name: str, problem: Problem, **options: Any) -> Algorithm:
    """Build an algorithm by name.

    >>> from levers.core.space import Space
    >>> make_algorithm("modl", Problem(Space.sized([3, 3]), 0.5, 0.1, 1.0), schedule="proof").name
    'modl'
    """
    known = option_names(name)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InvalidSettingError(
            f"{name} has no option {unknown[0]!r}; its options are {', '.join(known)}", field=unknown[0]
        )
    build = cast(Callable[..., Algorithm], ALGORITHMS[name])
    return build(problem, **options)
