"""Studies whose outcomes are not what a certificate assumes, and honest ones: who fails, and who is told."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import levers
from harness.hard_worlds import TOLERANCE, additive_world, mixed_world, near_and_far_world, slippage_world
from levers.core.space import Codes
from levers.studies.analysis.views import certified
from levers.worlds.outcome import AdditiveOutcome, Interaction, Noise
from levers.worlds.random import random_world
from levers.worlds.scm import World, gap

Numbers = NDArray[np.float64]
BASE = 70.0
"""What outcomes are about, so that a decimal point in the wrong place is seen."""
MANY_RUNS = 1000
"""Runs after which a study that is in doubt is not waited for: one typo may ask for a million."""
DAY = 8
"""Runs of a day."""


@dataclass(frozen=True)
class Shape:
    """Worlds by seed at which a promise is hard to keep, and the noise at which a study has about a hundred runs."""

    n_factors: int
    world: Callable[[int], World]
    noise_sd: float
    tolerance: float = TOLERANCE


SHAPES: tuple[Shape, ...] = (
    Shape(1, lambda seed: slippage_world(1, 2 + seed % 3), 1.0),
    Shape(3, lambda seed: slippage_world(3, 2 + seed % 3), 1.0),
    Shape(5, lambda seed: near_and_far_world(5, 1, (6.0,)), 0.5),
    Shape(6, mixed_world, 0.5),
    Shape(10, lambda seed: slippage_world(10, 2 + seed % 3), 0.5),
    Shape(30, lambda seed: slippage_world(30, 2), 0.4),
)


@dataclass(frozen=True)
class Runs:
    """Runs to answer: their rows, their numbers in the order of the study, the round, and the world."""

    codes: Codes
    numbers: NDArray[np.int64]
    round: int
    world: World
    noise_sd: float


Errors = Callable[[Runs, np.random.Generator, dict[str, Any]], Numbers]
"""What is added to the means; the last argument is kept from round to round of one study."""


def gaussian(runs: Runs, rng: np.random.Generator, memory: dict[str, Any]) -> Numbers:
    """Noise as promised."""
    return rng.normal(0.0, runs.noise_sd, len(runs.numbers))


@dataclass(frozen=True)
class Kind:
    """Studies of one kind. `stated` is the stated noise over the true one; None where the noise is not known."""

    name: str
    errors: Errors = gaussian
    stated: float | None = 1.0
    shapes: tuple[Shape, ...] = SHAPES
    settings: Mapping[str, Any] = field(default_factory=dict)
    typo: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of one study. `named` is None where there was no typo to name, and `unclaimed`, whether the true loss
    is above the tolerance that is certified without claims, where there is no such tolerance."""

    n_factors: int
    n_runs: int
    failed: bool
    doubts: tuple[str, ...]
    ever: bool
    named: bool | None
    unclaimed: bool | None = None


def outcome(kind: Kind, seed: int) -> Outcome:
    """One study from its first run to its verdict."""
    shape = kind.shapes[seed % len(kind.shapes)]
    world = shape.world(seed // len(kind.shapes))
    rng, memory = np.random.default_rng([seed, 91]), dict[str, Any]()
    study = levers.create_study(
        "s",
        world.space,
        **{
            "tolerance": shape.tolerance,
            "noise_sd": None if kind.stated is None else kind.stated * shape.noise_sd,
            "seed": seed,
            **kind.settings,
        },
    )
    n_rounds, ever, typo = 0, False, None
    typo_round = int(rng.integers(2))
    while study.state.open_block is not None and not (study.state.n_complete > MANY_RUNS and study.state.doubts):
        trials = study.ask(1_000_000)
        codes = np.array([trial.params.codes for trial in trials], dtype=np.int16)
        numbers = np.array([trial.number for trial in trials])
        runs = Runs(codes, numbers, n_rounds, world, shape.noise_sd)
        y = BASE + world.outcome.mean(codes) + kind.errors(runs, rng, memory)
        if kind.typo is not None and typo is None and n_rounds == typo_round:
            at = int(rng.integers(len(y)))
            y[at] *= kind.typo
            typo = int(numbers[at])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a surprising outcome is what is studied here
            study.tell_many(zip(trials, y.tolist(), strict=True))
        ever |= bool(study.state.doubts)
        n_rounds += 1
    verdict = certified(study.state)
    assert verdict is not None
    found = study.state.doubts or ()
    lost = gap(world, verdict.assignment.codes)
    named = None if typo is None else any(typo in doubt.trials for doubt in found)
    kinds = tuple(sorted({doubt.kind for doubt in found}))
    without = verdict.tolerance_without_claims
    unclaimed = None if without is None else lost > without + 1e-9
    failed = lost > verdict.within + 1e-9
    return Outcome(shape.n_factors, study.state.n_complete, failed, kinds, ever, named, unclaimed)


# Errors that break an assumption


def outliers(share: float, size: float) -> Errors:
    """Some runs are off by so many sds, up or down."""

    def errors(runs: Runs, rng: np.random.Generator, memory: dict[str, Any]) -> Numbers:
        y = gaussian(runs, rng, memory)
        off = rng.random(len(y)) < share
        return np.asarray(y + off * rng.choice([-1.0, 1.0], len(y)) * size * runs.noise_sd)

    return errors


def drifting(per_hundred: float) -> Errors:
    """The mean rises by so many sds in a hundred runs."""

    def errors(runs: Runs, rng: np.random.Generator, memory: dict[str, Any]) -> Numbers:
        return gaussian(runs, rng, memory) + per_hundred * runs.noise_sd * runs.numbers / 100

    return errors


def days(size: float) -> Errors:
    """Days of eight runs have effects of so many sds."""

    def errors(runs: Runs, rng: np.random.Generator, memory: dict[str, Any]) -> Numbers:
        known = memory.setdefault("days", {})
        effects = [known.setdefault(day, rng.normal()) for day in (runs.numbers // DAY).tolist()]
        return gaussian(runs, rng, memory) + size * runs.noise_sd * np.array(effects)

    return errors


def setups(size: float) -> Errors:
    """Each change of the first factor has an error of so many sds, which stays until the next change."""

    def errors(runs: Runs, rng: np.random.Generator, memory: dict[str, Any]) -> Numbers:
        found, last, error = [], memory.get("level"), memory.get("error", 0.0)
        for level in runs.codes[:, 0].tolist():
            if level != last:
                last, error = level, rng.normal()
            found.append(error)
        memory |= {"level": last, "error": error}
        return gaussian(runs, rng, memory) + size * runs.noise_sd * np.array(found)

    return errors


def lognormal(runs: Runs, rng: np.random.Generator, memory: dict[str, Any]) -> Numbers:
    """Skewed and heavy-tailed noise with the sd that is promised."""
    raw = np.exp(rng.normal(size=len(runs.numbers)))
    return np.asarray(runs.noise_sd * (raw - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e))


def wider(ratio: float) -> Errors:
    """At one level of the first factor, another one in each study, the sd is so many times that of the others."""

    def errors(runs: Runs, rng: np.random.Generator, memory: dict[str, Any]) -> Numbers:
        level = memory.setdefault("level", int(rng.integers(runs.world.space.n_levels[0])))
        return gaussian(runs, rng, memory) * np.where(runs.codes[:, 0] == level, ratio, 1.0)

    return errors


# Worlds in which a claim is false


def many_parents(n_parents: int) -> Shape:
    """The paper's worlds of ten factors with so many parents."""
    return Shape(10, lambda seed: random_world(10, n_parents, np.random.default_rng([seed, 6])), 1.0, tolerance=1.0)


def parents_shape(n_factors: int, n_levels: int, noise_sd: float) -> Shape:
    """All factors matter, at the gap that a study of a third of them just resolves."""
    claimed = max(n_factors // 3, 1)
    gap_size = max(slippage_world(claimed, n_levels).outcome.mean(np.zeros((1, claimed), dtype=np.int16))) / claimed
    world = additive_world([[float(gap_size)] + [0.0] * (n_levels - 1)] * n_factors)
    return Shape(n_factors, lambda seed: world, noise_sd)


def small_effects(size: float) -> Shape:
    """Ten factors that all matter, by less than the 0.6 that is claimed."""
    world = additive_world([[size, size / 2, 0.0]] * 10)
    return Shape(10, lambda seed: world, 1.0)


def interacting(alpha: float, n_parents: int = 5, levels: tuple[int, int] = (3, 6)) -> Shape:
    """The paper's worlds of ten factors, five of them parents, with interactions of strength alpha.

    Fewer levels and more parents make studies shorter, and what they rest on harder to contradict.
    """

    def world(seed: int) -> World:
        return random_world(10, n_parents, np.random.default_rng([seed, 5]), levels=levels, interaction=alpha)

    return Shape(10, world, 1.0, tolerance=1.0)


def twisted(size: float) -> Shape:
    """size (a - 2)(b - 2) for two of six factors of three levels: no effect of their own, and a corner to win."""
    balance = tuple(-2 * size * (a + 1) for a in range(3))
    outcome = AdditiveOutcome({0: balance, 1: balance, 2: (0.0, 0.5, 0.2)}, Noise(1.0), (Interaction(size, (0, 1)),))

    def world(seed: int) -> World:
        plain = additive_world([[0.0] * 3] * 6)
        return World(plain.space, plain.mechanisms, outcome)

    return Shape(6, world, 1.0, tolerance=1.0)


def broken_kinds() -> Iterator[Kind]:
    """Every assumption broken, with the noise stated and not."""
    for ratio in (1.25, 1.5, 2.0, 5.0):
        yield Kind(f"noise understated {ratio:g} times", stated=1 / ratio)
        for shape in (SHAPES[0], SHAPES[-1]):
            yield Kind(f"noise understated {ratio:g} times, K={shape.n_factors}", stated=1 / ratio, shapes=(shape,))
    both = [
        Kind("one typo, times 10", typo=10.0),
        Kind("one typo, times 100", typo=100.0),
        Kind("1 % outliers of 10 sd", outliers(0.01, 10.0)),
        Kind("drift of 0.3 sd in 100 runs", drifting(0.3)),
        Kind("drift of 1 sd in 100 runs", drifting(1.0)),
        Kind("days of 1 sd", days(1.0)),
        Kind("days of 1 sd, block_size 8", days(1.0), settings={"block_size": DAY}),
        Kind("lognormal noise", lognormal),
        Kind("sd doubled at one level", wider(2.0)),
        Kind("sd tripled at one level", wider(3.0)),
    ]
    hard = {"block_size": DAY, "hard_to_change": ["X1"]}
    both += [
        Kind(f"set-up error of {size:g} sd, block_size 8", setups(size), settings=hard, shapes=SHAPES[1:])
        for size in (0.5, 1.0)
    ]
    both += [Kind(f"max_parents 2, true {n}", shapes=(many_parents(n),), settings={"max_parents": 2}) for n in (4, 8)]
    for shape in (parents_shape(3, 3, 1.0), parents_shape(10, 3, 0.5), parents_shape(30, 2, 0.5)):
        claimed = {"max_parents": max(shape.n_factors // 3, 1)}
        both.append(Kind(f"max_parents a third of K={shape.n_factors}, at the edge", shapes=(shape,), settings=claimed))
    least = {"min_effect": 0.6}
    both += [
        Kind(f"effects of {size}, min_effect 0.6", shapes=(small_effects(size),), settings=least)
        for size in (0.2, 0.3, 0.45)
    ]
    both += [Kind(f"interactions, alpha = {alpha}", shapes=(interacting(alpha),)) for alpha in (1, 2, 3, 4, 5)]
    both += [
        Kind(f"6 parents of 2 to 4 levels, alpha = {alpha}", shapes=(interacting(alpha, 6, (2, 4)),))
        for alpha in (1, 2, 3, 4, 5)
    ]
    both += [Kind(f"interaction {size:g} (a - 2)(b - 2)", shapes=(twisted(size),)) for size in (0.5, 1.0, 2.0)]
    spent = {"tolerance": None, "budget": 120}
    both += [
        Kind("one typo, times 10, budget of 120", typo=10.0, settings=spent, shapes=SHAPES[:5]),
        Kind("one typo, times 100, budget of 120", typo=100.0, settings=spent, shapes=SHAPES[:5]),
        Kind(
            "one typo, times 100, budget, block_size 8",
            typo=100.0,
            settings={**spent, "block_size": DAY},
            shapes=SHAPES[:5],
        ),
        Kind("days of 1 sd, budget, block_size 8", days(1.0), settings={**spent, "block_size": DAY}, shapes=SHAPES[:5]),
        Kind("drift of 1 sd in 100 runs, budget of 120", drifting(1.0), settings=spent, shapes=SHAPES[:5]),
    ]
    for kind in both:
        yield kind
        yield replace(kind, name=f"{kind.name}, noise unknown", stated=None)


def unclaimed_kinds() -> Iterator[Kind]:
    """All levers matter where a third were said to, by as much as what is certified without that just resolves.

    That is 1.5 to 2.1 tolerances, at 3 to 30 levers: gaps are stretched so.
    """
    for n_factors, n_levels, noise_sd, stretch in ((3, 3, 1.0, 1.51), (10, 3, 0.5, 2.0), (30, 2, 0.5, 2.12)):
        world = slippage_world(n_factors, n_levels, None, stretch)
        shape = Shape(n_factors, lambda seed, world=world: world, noise_sd)  # type: ignore[misc]
        kind = Kind(
            f"max_parents a third of K={n_factors}, at the edge without it",
            shapes=(shape,),
            settings={"max_parents": n_factors // 3},
        )
        yield kind
        yield replace(kind, name=f"{kind.name}, noise unknown", stated=None)


def honest_kinds() -> Iterator[Kind]:
    """Studies in which nothing is wrong."""
    yield Kind("honest, noise stated")
    yield Kind("honest, noise unknown", stated=None)
    yield Kind("honest, block_size 8", settings={"block_size": DAY})
    hard = {"block_size": DAY, "hard_to_change": ["X1", "X2"]}
    yield Kind("honest, hard to change", settings=hard, shapes=SHAPES[1:])
    yield Kind("honest, hard to change, noise unknown", settings=hard, shapes=SHAPES[1:], stated=None)
    spent = {**hard, "tolerance": None, "budget": 120}
    yield Kind("honest, hard to change, budget of 120", settings=spent, shapes=SHAPES[1:5], stated=None)
    yield Kind("honest, budget of 120", settings={"tolerance": None, "budget": 120}, stated=None, shapes=SHAPES[:5])
    yield Kind("honest, budget of 120, noise stated", settings={"tolerance": None, "budget": 120}, shapes=SHAPES[:5])
    claimed = tuple(Shape(6, lambda seed: slippage_world(2, 3, None, 1.0, 4), 1.0) for _ in range(1))
    yield Kind("honest, max_parents", shapes=claimed, settings={"max_parents": 2})
    least = (Shape(6, lambda seed: additive_world([[0.6, 0.4, 0.0]] * 3 + [[0.0] * 3] * 3), 1.0),)
    yield Kind("honest, min_effect", shapes=least, settings={"min_effect": 0.6})
