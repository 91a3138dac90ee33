"""Count how often a promise is broken, on instances made to break it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levers.algorithms.base import Batch, Problem
from levers.algorithms.cfs.solver import Cfs
from levers.core.certificates.certificate import scale_needed
from levers.core.certificates.limits import slippage_failures
from levers.core.designs.design import Design, estimate_block, independent_effects
from levers.core.model.moments import LevelSums
from levers.core.space import Space
from levers.experiments.runner import run_on_world
from levers.worlds.named import even_table
from levers.worlds.outcome import AdditiveOutcome, BernoulliOutcome, Noise, Outcome
from levers.worlds.random import random_world
from levers.worlds.scm import World, gap

TOLERANCE, FAILURE_PROB = 0.5, 0.1


@dataclass(frozen=True)
class Scenario:
    """Instances by seed, and how the study is set up. `early` ends it at the first certificate that screening gives."""

    name: str
    world: Callable[[int], World]
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: float | None = TOLERANCE
    known_noise: bool = True
    early: bool = False

    def solver(self, world: World) -> Cfs:
        """The solver as it is set up for a world."""
        noise_sd = world.outcome.noise_sd if self.known_noise else None
        return Cfs(Problem(world.space, self.tolerance, FAILURE_PROB, noise_sd), **self.options)

    def fails(self, seed: int) -> bool:
        """Whether the study with this seed loses more than its verdict certifies."""
        world = self.world(seed)
        cfs = self.solver(world)
        verdict = _first_certificate(cfs, world, seed) if self.early else run_on_world(cfs, world, seed)
        allowed = verdict.within if self.tolerance is None or self.early else self.tolerance
        return gap(world, verdict.assignment.codes) > allowed + 1e-12


def _first_certificate(cfs: Cfs, world: World, seed: int) -> Any:
    rng, state = np.random.default_rng(seed), cfs.start()
    while (verdict := cfs.interim(state)) is None:
        step = cfs.ask(state, rng)
        assert isinstance(step, Batch)  # there is no verdict before the first block is complete
        state = cfs.tell(state, step, world.sample(step.codes, rng).outcomes)
    return verdict


def additive_world(effects: Sequence[Sequence[float]], noise: Noise | None = None) -> World:
    """A world without a graph to speak of: every factor is a parent with these effects.

    >>> additive_world([[0.0, 1.0], [0.0, 0.5, 0.2]]).space.n_levels
    (2, 3)
    """
    sizes = [len(row) for row in effects]
    outcome: Outcome = AdditiveOutcome({k: tuple(row) for k, row in enumerate(effects)}, noise or Noise())
    return World(Space.sized(sizes), [even_table(m) for m in sizes], outcome)


def worst_gap(levels: Sequence[int], scale: float) -> float:
    """The equal gap, in tolerances, at which the balanced rule fails most often.

    >>> worst_gap([2], 2.0)
    1.0
    """
    return 1.0 / (1 + int(slippage_failures(levels, scale).argmax()))


def slippage_world(n_factors: int, n_levels: int, noise: Noise | None = None) -> World:
    """The worst equal-gap instance of a fixed-size design that is just large enough: one level is best, by one gap."""
    levels = (n_levels,) * n_factors
    scale = scale_needed(levels, 0.9 * FAILURE_PROB)
    distance = worst_gap(levels, scale) * TOLERANCE * (1 + 1e-9)
    return additive_world([[distance] + [0.0] * (n_levels - 1)] * n_factors, noise)


def mixed_world(seed: int) -> World:
    """Gaps of all sizes about the resolution of the design, and some factors without effect."""
    rng = np.random.default_rng([seed, 77])
    sizes = rng.integers(2, 7, size=int(rng.integers(2, 9)))
    unit = TOLERANCE / len(sizes)
    return additive_world([(unit * rng.choice([0, 1, 3]) * rng.exponential(size=m)).tolist() for m in sizes])


def one_parent_world() -> World:
    """One of six factors matters, by just over the tolerance."""
    return additive_world([[TOLERANCE * (1 + 1e-9), 0.0, 0.0, 0.0]] + [[0.0] * 4] * 5)


def edge_world() -> World:
    """Six parents whose effects range over exactly 0.6, with a second level that is hard to tell from the best."""
    return additive_world([[0.6, 0.6 - TOLERANCE / 3 * (1 + 1e-9), 0.0]] * 6)


def look_world(gap: float, rivals: int, n_parents: int = 10) -> World:
    """Parents at the edge of what a look may dismiss: some levels a gap behind the best, the rest half way."""
    parent = [0.5] + [0.5 - gap] * rivals + [0.25] * (3 - rivals) + [0.0]
    return additive_world([parent] * n_parents + [[0.0] * 5] * (10 - n_parents))


def bernoulli_world() -> World:
    """Two factors that move a probability: gaps of half the tolerance of 0.2."""
    outcome = BernoulliOutcome({0: (0.1 + 1e-9, 0.0, 0.0), 1: (0.1 + 1e-9, 0.0)}, base=0.4)
    return World(Space.sized([3, 2]), [even_table(3), even_table(2)], outcome)


def scenarios() -> list[Scenario]:
    """All scenarios, by name."""
    worst = [
        Scenario(f"slippage K={k} m={m}", lambda seed, k=k, m=m: slippage_world(k, m))  # type: ignore[misc]
        for k in (2, 10, 30)
        for m in (2, 4, 6)
    ]
    small = slippage_world(3, 3)
    return [
        Scenario("paper's worlds K=5 P=3", lambda seed: random_world(5, 3, np.random.default_rng(seed))),
        Scenario(
            "paper's worlds K=5, P=2 known",
            lambda seed: random_world(5, 2, np.random.default_rng(seed)),
            {"max_parents": 2},
        ),
        Scenario(
            "paper's worlds K=10 P=2, least effect known",
            lambda seed: random_world(10, 2, np.random.default_rng(seed), min_effect=0.6),
            {"min_effect": 0.6},
        ),
        Scenario("least effect at its edge", lambda seed: edge_world(), {"min_effect": 0.6}),
        Scenario("look, one rival at a third", lambda seed: look_world(TOLERANCE / 3, 1), {"min_effect": 0.5}),
        Scenario("look, three rivals at a third", lambda seed: look_world(TOLERANCE / 3, 3), {"min_effect": 0.5}),
        Scenario("look, two rivals at a fifth", lambda seed: look_world(TOLERANCE / 5, 2), {"min_effect": 0.5}),
        Scenario(
            "look, proven, three rivals at a third",
            lambda seed: look_world(TOLERANCE / 3, 3),
            {"min_effect": 0.5, "certificate": "proven"},
        ),
        Scenario(
            "look, noise estimated, one rival at a third",
            lambda seed: look_world(TOLERANCE / 3, 1),
            {"min_effect": 0.5},
            known_noise=False,
        ),
        Scenario(
            "look, P=8 known too, one rival at a third",
            lambda seed: look_world(TOLERANCE / 3, 1, n_parents=8),
            {"min_effect": 0.5, "max_parents": 8},
        ),
        Scenario(
            "look, two-point noise",
            lambda seed: additive_world([[0.5, 0.4, 0.0]] * 5, Noise(1.0, "two-point")),
            {"min_effect": 0.5, "noise": "subgaussian"},
        ),
        *worst,
        Scenario("one parent known, at the worst gap", lambda seed: one_parent_world(), {"max_parents": 1}),
        Scenario("mixed gaps", mixed_world),
        Scenario("mixed gaps, proven", mixed_world, {"certificate": "proven"}),
        Scenario("bounded noise", lambda seed: slippage_world(2, 3, Noise(1.0, "uniform")), {"noise": "subgaussian"}),
        Scenario(
            "two-point noise", lambda seed: slippage_world(2, 3, Noise(1.0, "two-point")), {"noise": "subgaussian"}
        ),
        Scenario("Bernoulli outcome", lambda seed: bernoulli_world(), {"noise": "subgaussian"}, tolerance=0.2),
        Scenario("noise estimated, 20 degrees of freedom", lambda seed: slippage_world(2, 2), known_noise=False),
        Scenario("noise estimated, K=10", lambda seed: slippage_world(10, 3), known_noise=False),
        Scenario("stopped at the first certificate", mixed_world, early=True),
        Scenario("budget of 150", lambda seed: small, {"budget": 150}, tolerance=None),
        Scenario("budget of 14, no screening", lambda seed: small, {"budget": 14}, tolerance=None),
        Scenario("eight runs at a time", lambda seed: small, {"batch_size": 8}),
    ]


def selection_failures(design: Design, n_studies: int, seed: int, certificate: str = "slippage") -> int:
    """Failures of the selection alone on a given design, however far from orthogonal, at its worst equal gap."""
    scale = scale_needed(tuple(sorted(design.sizes)), FAILURE_PROB, certificate)
    tolerance = scale * math.sqrt(design.inflation / design.n_runs)
    distance = worst_gap(design.sizes, scale) * tolerance * (1 + 1e-9)
    mean = distance * (design.rows == 0).sum(axis=1)
    failed = 0
    rng = np.random.default_rng(seed)
    for _ in range(n_studies):
        sums = LevelSums.empty(design.sizes).add(design.rows, mean + rng.normal(size=design.n_runs))
        effects = independent_effects(design, estimate_block(design, sums).effects, 1.0, rng)
        lost = distance * sum(int(np.argmax(values)) != 0 for values in effects)
        failed += lost > tolerance
    return failed
