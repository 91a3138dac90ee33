"""Worlds of ordinary Python functions: each factor a function of its causes, the outcome any function of a row."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from keyword import iskeyword
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levers.core.space import Codes, Factor, Level, Space
from levers.core.validation import check_choice
from levers.errors import InvalidSpaceError, InvalidWorldError
from levers.worlds.mechanisms import Drawn, Mechanism, Table
from levers.worlds.outcome import BERNOULLI, NOISES, BinaryOutcome, FunctionOutcome, Noise, Outcome
from levers.worlds.potentials import configurations
from levers.worlds.scm import OUTCOME, Hidden, World

RANDOMNESS = "rng"
"""The parameter through which a function takes randomness."""
REMEMBERED = 100_000
"""How many means of an outcome's function are kept."""


def identifier(name: str) -> str:
    """How a variable's name is written as a parameter or in an expression: melt_temperature for 'melt temperature'.

    >>> identifier("melt temperature"), identifier("2nd dose")
    ('melt_temperature', '_2nd_dose')
    """
    word = re.sub(r"\W", "_", name)
    return word if word.isidentifier() and not iskeyword(word) else f"_{word}"


def identifiers(names: Sequence[str]) -> dict[str, int]:
    """The position of each variable by the way it is written in expressions; two must not be written alike."""
    found: dict[str, int] = {}
    for k, name in enumerate(names):
        word = identifier(name)
        if word in found:
            raise InvalidWorldError(f"{names[found[word]]!r} and {name!r} are both written {word}; rename one")
        found[word] = k
    return found


def function_world(
    factors: Mapping[str, Sequence[Level]] | Space,
    outcome: Callable[..., float],
    nature: Mapping[str, Callable[..., Any]] | None = None,
    *,
    hidden: Mapping[str, Sequence[Level]] | None = None,
    noise_sd: float = 1.0,
    noise: str = "gaussian",
) -> World:
    """A world of functions. The names of a function's parameters say what it reads: variables, Y, rng.

    A function of `nature` says what a factor (or a hidden variable) does when nobody sets it. It returns a level, or a
    mapping of levels to probabilities; with a parameter `rng` it draws the level itself, row by row, and then exact
    means can be had only where the factor is set. A variable without a function takes its levels equally often. With
    `noise="bernoulli"` the outcome is 0 or 1, and its function returns the probability of a 1.

    >>> world = function_world(
    ...     {"heat": [200, 220, 240], "steam": ["off", "on"]},
    ...     outcome=lambda heat, steam, flour: -abs(heat - 220) / 20 + (steam == "on") * (flour == "dry"),
    ...     nature={"steam": lambda flour: "on" if flour == "dry" else "off"},
    ...     hidden={"flour": ["dry", "moist"]},
    ... )
    >>> from levers.worlds.scm import best_assignment, mean_under
    >>> mean_under(world, {"heat": 220}), mean_under(world, {"heat": 220, "steam": "on"})
    (0.5, 0.5)
    >>> world.causes["steam"]
    ('flour',)
    """
    check_choice("noise", noise, (*NOISES, BERNOULLI))
    space = Space.of(factors)
    secret = Space.of(hidden).factors if hidden else ()
    variables = (*space.factors, *secret)
    reader = _Reader(variables)
    if RANDOMNESS in reader.places:
        raise InvalidWorldError(f"no variable may be called {RANDOMNESS!r}: that is how functions take randomness")
    natural = dict(nature or {})
    for name in natural:
        if name not in reader.names:
            raise InvalidWorldError(f"nature has a function for {name!r}, which is neither a factor nor hidden")
    mechanisms = [reader.mechanism(k, natural.get(variable.name)) for k, variable in enumerate(variables)]
    nodes = [
        Hidden(variable.name, variable.n_levels, mechanism)
        for variable, mechanism in zip(secret, mechanisms[space.n_factors :], strict=True)
    ]
    made = reader.outcome(outcome, noise_sd, noise)
    return World(space, mechanisms[: space.n_factors], made, nodes)


class _Reader:
    """What functions see of rows: the levels of the variables that their parameters name."""

    def __init__(self, variables: Sequence[Factor]) -> None:
        self.variables = tuple(variables)
        self.names = tuple(variable.name for variable in variables)
        self.sizes = tuple(variable.n_levels for variable in variables)
        self.places = identifiers(self.names)

    def parents(self, name: str, function: Callable[..., Any], also: Sequence[str]) -> dict[str, int]:
        """The parameters of a function with the positions that they stand for; -1 for those in `also`."""
        found = {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise InvalidWorldError(f"the function of {name!r} must name what it reads, not {parameter}")
            if parameter.name in also:
                found[parameter.name] = -1
            elif parameter.name in self.places:
                found[parameter.name] = self.places[parameter.name]
            else:
                known = ", ".join((*self.places, *also))
                raise InvalidWorldError(f"the function of {name!r} reads {parameter.name!r}; there are {known}")
        return found

    def level(self, k: int, code: int) -> Level:
        return self.variables[k].levels[code]

    def code(self, k: int, result: Any) -> int:
        plain = result.item() if isinstance(result, np.generic) else result
        try:
            return self.variables[k].code(plain)
        except InvalidSpaceError as error:
            raise InvalidWorldError(f"the function of {self.names[k]!r} returned a wrong level: {error}") from None

    def mechanism(self, k: int, function: Callable[..., Any] | None) -> Mechanism:
        size = self.sizes[k]
        if function is None:
            return Table(np.full((1, size), 1.0 / size))
        read = self.parents(self.names[k], function, (OUTCOME, RANDOMNESS))
        parents = tuple(p for p in read.values() if p >= 0)
        words = tuple(word for word, p in read.items() if p >= 0)

        def known(row: Sequence[int]) -> dict[str, Any]:
            return {word: self.level(p, code) for word, p, code in zip(words, parents, row, strict=True)}

        if RANDOMNESS in read or OUTCOME in read:

            def draw(rows: Codes, outcomes: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int16]:
                drawn = np.empty(len(rows), dtype=np.int16)
                for i, row in enumerate(rows[:, parents].tolist()):
                    extra = {OUTCOME: float(outcomes[i]), RANDOMNESS: rng}
                    given = {word: extra[word] for word in read if word in extra}
                    drawn[i] = self._drawn(k, function(**known(row), **given), rng)
                return drawn

            return Drawn(size, draw, parents, reads_outcome=OUTCOME in read)
        sizes = tuple(self.sizes[p] for p in parents)
        cells = np.array([self._probabilities(k, function(**known(row))) for row in configurations(sizes).tolist()])
        return Table(cells, parents, sizes)

    def _probabilities(self, k: int, result: Any) -> list[float]:
        if not isinstance(result, Mapping):
            return [float(code == self.code(k, result)) for code in range(self.sizes[k])]
        weights = [0.0] * self.sizes[k]
        for level, weight in result.items():
            weights[self.code(k, level)] = float(weight)
        if min(weights) < 0 or abs(sum(weights) - 1) > 1e-6:
            raise InvalidWorldError(
                f"the function of {self.names[k]!r} returned probabilities that are not: {result!r}"
            )
        return weights

    def _drawn(self, k: int, result: Any, rng: np.random.Generator) -> int:
        if not isinstance(result, Mapping):
            return self.code(k, result)
        return int(rng.choice(self.sizes[k], p=self._probabilities(k, result)))

    def outcome(self, function: Callable[..., float], noise_sd: float, noise: str) -> Outcome:
        read = self.parents(OUTCOME, function, ())
        words, parents = tuple(read), tuple(read.values())

        @lru_cache(maxsize=REMEMBERED)
        def mean(row: tuple[int, ...]) -> float:
            return float(function(**{w: self.level(p, code) for w, p, code in zip(words, parents, row, strict=True)}))

        def rule(rows: Codes) -> NDArray[np.float64]:
            settings, inverse = np.unique(rows[:, parents], axis=0, return_inverse=True)
            return np.array([mean(tuple(row)) for row in settings.tolist()])[inverse.reshape(-1)]

        sizes = tuple(self.sizes[p] for p in parents)
        shown = Noise() if noise == BERNOULLI else Noise(noise_sd, noise)
        made = FunctionOutcome(rule, parents, sizes, shown)
        return BinaryOutcome(made) if noise == BERNOULLI else made
