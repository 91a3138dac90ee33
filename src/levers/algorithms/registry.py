"""Algorithms by name: those of this package, and those that other packages register.

Another package registers a class by an entry point of the group `levers.algorithms`, in its pyproject.toml:

    [project.entry-points."levers.algorithms"]
    my-method = "my_package:MyMethod"
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from levers.algorithms.base import Algorithm, Problem
from levers.core.codec import FINDERS, restored
from levers.errors import InvalidSettingError, UnknownAlgorithmError
from levers.extensions import load, origin, registered

GROUP = "levers.algorithms"
DEFAULT_ALGORITHM = "cfs"
_OWN = {
    "cfs": "levers.algorithms.cfs.solver:Cfs",
    "modl": "levers.algorithms.modl:Modl",
    "parents-first": "levers.algorithms.restricted:ParentsFirst",
    "oracle": "levers.algorithms.restricted:Oracle",
    "successive-elimination": "levers.algorithms.arms:SuccessiveElimination",
    "naive-search": "levers.algorithms.arms:NaiveSearch",
    "observational-regression": "levers.algorithms.observational:ObservationalRegression",
    "ucb": "levers.algorithms.ucb:Ucb",
    "rage": "levers.algorithms.linear_bandits.rage:Rage",
    "lingape": "levers.algorithms.linear_bandits.lingape:LinGapE",
    "xy-adaptive": "levers.algorithms.linear_bandits.xy_adaptive:XYAdaptive",
    "modl-unions": "levers.algorithms.linear_bandits.unions:MarginalUnions",
    "one-at-a-time": "levers.algorithms.baselines.one_at_a_time:OneAtATime",
    "fractional-factorial": "levers.algorithms.baselines.fractional_factorial:FractionalFactorial",
    "random": "levers.algorithms.baselines.random_search:RandomSettings",
    "thompson": "levers.algorithms.baselines.thompson:Thompson",
    "tpe": "levers.algorithms.baselines.tpe:Tpe",
}


class Algorithms(Mapping[str, type[Algorithm]]):
    """All algorithms by name. A class is imported when it is asked for.

    >>> ALGORITHMS["modl"].__name__, "cfs" in ALGORITHMS
    ('Modl', True)
    """

    def __getitem__(self, name: str) -> type[Algorithm]:
        if name in _OWN:
            module, _, cls = _OWN[name].partition(":")
            found: type[Algorithm] = getattr(import_module(module), cls)
            return found
        point = registered(GROUP)[name]
        given = load(point, UnknownAlgorithmError)
        if not (isinstance(given, type) and issubclass(given, Algorithm)) or getattr(given, "name", None) != name:
            raise UnknownAlgorithmError(
                f"{origin(point)} is no algorithm: {point.value} must be a subclass of levers.Algorithm with "
                f"name = {name!r}"
            )
        return given

    def __iter__(self) -> Iterator[str]:
        yield from _OWN
        yield from (name for name in registered(GROUP) if name not in _OWN)

    def __len__(self) -> int:
        return len({*_OWN, *registered(GROUP)})

    def __contains__(self, name: object) -> bool:
        return name in _OWN or name in registered(GROUP)


ALGORITHMS = Algorithms()


def check_known(name: str) -> str:
    """The name, if there is such an algorithm.

    >>> check_known("model")
    Traceback (most recent call last):
    levers.errors.UnknownAlgorithmError: there is no algorithm 'model' (did you mean 'modl'?); known are cfs, modl, \
parents-first, oracle, ...
    """
    if name not in ALGORITHMS:
        close = difflib.get_close_matches(name, ALGORITHMS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise UnknownAlgorithmError(
            f"there is no algorithm {name!r}{hint}; known are {', '.join(ALGORITHMS)}", field="algorithm"
        )
    return name


def described() -> Iterator[tuple[str, str]]:
    """Every algorithm's name with its first sentence, or why it cannot be used.

    >>> next(described())[0]
    'cfs'
    """
    for name in ALGORITHMS:
        try:
            text = ALGORITHMS[name].__doc__ or ""
        except UnknownAlgorithmError as error:
            text = str(error)
        yield name, text.strip().partition("\n")[0]


# an algorithm's state is known to the codec once its module is imported, which a log that is read cannot wait for
FINDERS.append(described)


def option_names(name: str) -> tuple[str, ...]:
    """The options that an algorithm takes beyond the problem.

    >>> option_names("modl")
    ('schedule', 'max_parents', 'outcome_bound')
    """
    return tuple(f.name for f in fields(ALGORITHMS[check_known(name)]) if f.init and f.name != "problem")


def restore_algorithm(name: str, problem: Problem, options: Mapping[str, Any]) -> Algorithm:
    """The algorithm of a study that was created before, without its checks, which it passed then.

    A check that becomes stricter later must not make a study unusable that has begun.
    """
    return restored(ALGORITHMS[check_known(name)], {"problem": problem, **options})


def make_algorithm(name: str, problem: Problem, **options: Any) -> Algorithm:
    """Build an algorithm by name.

    >>> from levers.core.space import Space
    >>> make_algorithm("modl", Problem(Space.sized([3, 3]), 0.5, 0.1, 1.0), schedule="proof").name
    'modl'
    """
    check_options(name, options)
    return ALGORITHMS[name](problem, **options)


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse options that an algorithm does not have.

    >>> check_options("modl", {"speed": 1})
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: modl has no option 'speed'; its options are schedule, max_parents, outcome_bound
    """
    known = option_names(name)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InvalidSettingError(
            f"{name} has no option {unknown[0]!r}; its options are {', '.join(known)}", field=unknown[0]
        )
