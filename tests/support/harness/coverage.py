"""Count how often a promise is broken, on instances made to break it."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Protocol

import numpy as np

from harness.forbidden import forbidden_scenarios
from harness.hard_worlds import (
    FAILURE_PROB,
    JUST_OVER,
    SELECTION,
    TOLERANCE,
    Worlds,
    additive_world,
    always,
    bernoulli_world,
    edge_world,
    look_world,
    mixed_world,
    near_and_far_world,
    noisy_world,
    one_parent_world,
    rare_world,
    rounded_world,
    seeded,
    slippage_world,
    worst_gap,
)
from levers.algorithms.base import Algorithm, Batch, Problem, Verdict
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.cfs.sparse.solver import Sparse
from levers.algorithms.cfs.two_stage import TwoStage
from levers.core.certificates.certificate import scale_needed
from levers.core.designs.design import Design, estimate_block, independent_effects
from levers.core.model.moments import LevelSums
from levers.experiments.runner import run_on_world
from levers.worlds.outcome import AdditiveOutcome, Noise
from levers.worlds.random import random_world
from levers.worlds.scm import World, gap

AT_THE_END, FIRST_LOOK, EVERY_LOOK, LOOKS_AND_END, ANY_STOP, PARENTS = (
    "end",
    "first look",
    "every look",
    "looks and end",
    "any stop",
    "parents",
)
"""What is held against the truth: the verdict; the certificate of the first look; those of every look before the end,
for someone who sees data and truth and stops at the look of his choice; the same with the verdict; the verdict of
someone who sees data and truth, and may stop after every run; the parents named.
"""


@dataclass(frozen=True)
class Scenario:
    """Worlds by seed, how the study is set up, and what is counted."""

    name: str
    world: Worlds
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: float | None = TOLERANCE
    known_noise: bool = True
    counted: str = AT_THE_END
    rules: type[Algorithm] = Cfs
    failure_prob: float = FAILURE_PROB
    day_sd: float = 0.0
    drift: float = 0.0
    """What is added to outcomes: an effect of each day of eight runs, and so much in 100 runs."""

    def solver(self, world: World) -> Any:
        """The solver as it is set up for a world."""
        noise_sd = world.outcome.noise_sd if self.known_noise else None
        return self.rules(Problem(world.space, self.tolerance, self.failure_prob, noise_sd), **self.options)

    def fails(self, seed: int) -> bool:
        """Whether the study with this seed loses more than it certifies, or names a factor without effect."""
        world = self.world(seed)
        solver = self.solver(world)
        if self.day_sd or self.drift:
            return _loses_more(world, _run_in_days(solver, world, seed, self.day_sd, self.drift))
        match self.counted:
            case "first look":
                return _loses_more(world, next(_looks(solver, world, seed)))
            case "every look" | "looks and end":
                at_end = self.counted == LOOKS_AND_END
                return any(_loses_more(world, verdict) for verdict in _looks(solver, world, seed, at_end))
            case "any stop":
                return any(_loses_more(world, verdict) for verdict in _stops(solver, world, seed))
            case "parents":
                return _names_more(world, run_on_world(solver, world, seed))
        return _loses_more(world, run_on_world(solver, world, seed))


def _loses_more(world: World, verdict: Verdict) -> bool:
    return gap(world, verdict.assignment.codes) > verdict.within + 1e-12


def _names_more(world: World, verdict: Verdict) -> bool:
    assert isinstance(world.outcome, AdditiveOutcome)
    matter = {world.space.names[k] for k, values in world.outcome.effects.items() if max(values) > min(values)}
    return not set(verdict.parents or ()) <= matter


def _looks(solver: Any, world: World, seed: int, at_end: bool = False) -> Iterator[Verdict]:
    """What is certified after each block but the last; after that one too if it is the only one, or `at_end`."""
    rng, state, n_blocks = np.random.default_rng(seed), solver.start(), 0
    while isinstance(step := solver.ask(state, rng), Batch):
        state = solver.tell(state, step, world.sample(step.codes, rng).outcomes)
        verdict = solver.interim(state) if len(state.blocks) > n_blocks else None
        if verdict is not None and (at_end or not state.finished or not n_blocks):
            n_blocks = len(state.blocks)
            yield verdict


def _run_in_days(solver: Any, world: World, seed: int, day_sd: float, drift: float) -> Verdict:
    rng, state, n_runs = np.random.default_rng(seed), solver.start(), 0
    effects = day_sd * np.random.default_rng([seed, 81]).normal(size=10_000)
    while isinstance(step := solver.ask(state, rng), Batch):
        run = n_runs + np.arange(step.n_runs)
        y = world.sample(step.codes, rng).outcomes + effects[run // 8] + drift * run / 100
        state, n_runs = solver.tell(state, step, y), n_runs + step.n_runs
    assert isinstance(step, Verdict)
    return step


def _stops(solver: Any, world: World, seed: int) -> Iterator[Verdict]:
    """What is certified if the study is stopped, after every run."""
    rng, state = np.random.default_rng(seed), solver.start()
    while isinstance(step := solver.ask(state, rng), Batch):
        y = world.sample(step.codes, rng).outcomes
        for n_told in range(1, step.n_runs):
            yield solver.verdict(solver.finish(state, step.codes[:n_told], y[:n_told]))
        state = solver.tell(state, step, y)
        yield solver.verdict(solver.finish(state, step.codes[:0], y[:0]))


@cache  # scenarios that differ in the world's shape alone share it, and a budget of hundreds of runs takes a while
def _certified_of_nothing(sizes: tuple[int, ...], options: tuple[tuple[str, Any], ...], seed: int) -> float:
    """What a study certifies in whose world nothing matters."""
    nothing = additive_world([[0.0] * m for m in sizes])
    scenario = Scenario("nothing", lambda seed: nothing, dict(options), None)
    within = run_on_world(scenario.solver(nothing), nothing, seed).within
    return within if math.isfinite(within) else 2.0  # fewer runs than parameters: any gap would do


def budget_worlds(sizes: tuple[int, ...], options: dict[str, Any], shape: str, stretch: float = 1.0) -> Worlds:
    """Gaps at the scale that a budget resolves: what a study without effects certifies.

    One design certifies what its rows determine, so that is taken for each seed; otherwise it is a middle value.
    """

    def certified(seed: int) -> float:
        return _certified_of_nothing(sizes, tuple(options.items()), seed)

    def world(seed: int) -> World:
        middle = statistics.median(map(certified, range(9))) if options["aim"] == "best" else certified(seed)
        resolved = stretch * middle
        if shape == "mixed":
            rng = np.random.default_rng([seed, 79])
            return additive_world([(2 * resolved / len(sizes) * rng.exponential(size=m)).tolist() for m in sizes])
        worst = 1.0 if shape == "one wrong" else worst_gap(sizes, scale_needed(tuple(sorted(sizes)), SELECTION))
        size = worst * resolved * JUST_OVER
        return additive_world([[0.0] * (m - 1) + [size] for m in sizes])

    return world


@cache
def no_effects_world(sizes: tuple[int, ...]) -> World:
    """Levers of which none does anything."""
    return additive_world([[0.0] * m for m in sizes])


@cache
def half_far_world(sizes: tuple[int, ...], n_runs: int, far: float, aim: str = "certify") -> World:
    """Half of the levers have a best level that is `far` ahead, the others one so far ahead as two wrong ones of them
    lose just more than the study then certifies."""
    half = [[0.0] * (m - 1) + [far] for m in sizes[: len(sizes) // 2]]
    options = {"budget": n_runs, "aim": aim}
    rest = sizes[len(sizes) // 2 :]
    without = additive_world([*half, *([0.0] * m for m in rest)])
    scenario = Scenario("half of them", lambda seed: without, options, None)
    within = [run_on_world(scenario.solver(without), without, seed).within for seed in range(25)]
    gap = statistics.median(within) / 2 * JUST_OVER
    return additive_world([*half, *([0.0] * (m - 1) + [gap] for m in rest)])


@cache
def world_at_look(sizes: tuple[int, ...], look: int, n_wrong: int) -> World:
    """Equal gaps such that so many wrong levels lose just more than a look certifies while nothing is dropped."""
    nothing = additive_world([[0.0] * m for m in sizes])
    solver = Scenario("nothing", lambda seed: nothing).solver(nothing)
    certified = [verdict.within for verdict in _looks(solver, nothing, 0)]
    size = certified[look - 1] / n_wrong * (1 + 1e-6)
    return additive_world([[0.0] * (m - 1) + [size] for m in sizes])


class Counted(Protocol):
    """What can be counted: whether the study with a seed breaks its promise."""

    @property
    def name(self) -> str:
        """What is put to the test."""

    @property
    def failure_prob(self) -> float:
        """How often it may fail."""

    def fails(self, seed: int) -> bool:
        """Whether it does."""


def groups() -> Mapping[str, Sequence[Counted]]:
    """All that is counted, by what is put to the test."""
    return {**_groups_of_worlds(), "forbidden pairs": forbidden_scenarios()}


@cache
def every_scenario() -> dict[str, Counted]:
    """All that is counted, by name."""
    return {one.name: one for group in groups().values() for one in group}


def _groups_of_worlds() -> dict[str, list[Scenario]]:
    return {
        "pooled": _pooled(),
        "days": _days(),
        "looks": _looks_of_pooled(),
        "stops": _stops_of_pooled(),
        "budgets": _budgets(),
        "unknown noise": _unknown_noise(),
        "discrete outcomes": _discrete_outcomes(),
        "parents known": _parents_known(),
        "two stages": _two_stages(),
    }


def scenarios() -> list[Scenario]:
    """All scenarios in which a solver meets a world."""
    return [scenario for group in _groups_of_worlds().values() for scenario in group]


def _pooled() -> list[Scenario]:
    """Answers of all runs: at the worst equal gap, at unequal gaps, and where levels are dropped early."""
    worst = [(k, m) for k in (2, 10, 30) for m in (2, 4, 6)] + [(k, m) for k in (1, 3, 5) for m in (2, 4)]
    unequal = {
        "one near, two 2.5 behind": (1, (2.5, 2.5)),
        "one near, two 4 behind": (1, (4.0, 4.0)),
        "one near, two 6 behind": (1, (6.0, 6.0)),
        "one near, two 9 behind": (1, (9.0, 9.0)),
        "two near, two 5 behind": (2, (5.0, 5.0)),
        "two near, two 8 behind": (2, (8.0, 8.0)),
        "one near, 2.5 to 9 behind": (1, (2.5, 4.0, 6.5, 9.0)),
        "early drops": (1, (9.0, 15.0, 25.0, 40.0)),
    }
    return [
        Scenario("paper's worlds K=5 P=3", lambda seed: random_world(5, 3, np.random.default_rng(seed))),
        *(Scenario(f"slippage K={k} m={m}", always(slippage_world, k, m)) for k, m in sorted(worst)),
        *(
            Scenario(f"{name} K={k}", always(near_and_far_world, k, *gaps))
            for name, gaps in unequal.items()
            for k in (1, 3, 5, 10, 30)
        ),
        Scenario("early drops, half without effect K=10", always(near_and_far_world, 5, 1, (15.0, 30.0), 1.0, 5)),
        Scenario("mixed gaps", mixed_world),
        Scenario("eight runs at a time", always(slippage_world, 3, 3), {"batch_size": 8}),
    ]


def _days() -> list[Scenario]:
    """Days with effects of their own, and drift: one standard deviation of the noise, or one in 100 runs."""
    days = {"block_size": 8}
    return [
        *(
            Scenario(
                f"day effects, K={k} m={m}, noise {word}",
                always(slippage_world, k, m),
                days,
                known_noise=known,
                day_sd=1.0,
            )
            for k, m in ((1, 2), (3, 3), (10, 2))
            for word, known in (("known", True), ("unknown", False))
        ),
        Scenario("drift, days K=3 m=3", always(slippage_world, 3, 3), days, drift=1.0),
        Scenario("drift, no days K=3 m=3", always(slippage_world, 3, 3), drift=1.0),
        Scenario("day effects, early drops K=3", always(near_and_far_world, 3, 1, (9.0, 15.0, 25.0)), days, day_sd=1.0),
        *(
            Scenario(f"day effects, budget of 80, {aim}", budget_worlds((3, 3, 3), o, "equal"), o, None, day_sd=1.0)
            for aim in ("certify", "best")
            for o in ({"budget": 80, "aim": aim, **days},)
        ),
        Scenario("at most 60 runs K=3 m=3", always(slippage_world, 3, 3, None, 1.6), {"max_runs": 60}),
        Scenario("at most 40 runs K=1 m=4", always(slippage_world, 1, 4, None, 1.5), {"max_runs": 40}),
    ]


def _stops_of_pooled() -> list[Scenario]:
    """Stopped after any run by somebody who sees data and truth: gaps that are resolved before the end."""
    small: tuple[int, ...] = (3, 3, 3)
    found = [
        Scenario(f"stopped anywhere, gaps x {f} K={k} m={m}", always(slippage_world, k, m, None, f), counted=ANY_STOP)
        for k, m, f in ((1, 2, 1.5), (1, 4, 1.5), (3, 3, 1.5))
    ]
    for n, aim, known in ((20, "certify", True), (20, "certify", False), (80, "best", True)):
        options = {"budget": n, "aim": aim}
        worlds = budget_worlds(small, options, "equal", stretch=1.5)
        name = f"stopped anywhere, budget of {n}, {aim}, noise {'known' if known else 'unknown'}"
        found.append(Scenario(name, worlds, options, None, known_noise=known, counted=ANY_STOP))
    return found


def _looks_of_pooled() -> list[Scenario]:
    """Certificates before the end, one of which is wrong: gaps that each of the looks can just resolve."""
    equal = [
        Scenario(f"looks, gaps x {f} K={k} m={m}", always(slippage_world, k, m, None, f), counted=EVERY_LOOK)
        for k, m in ((1, 2), (1, 4), (3, 3), (10, 4), (30, 3))
        for f in (1.0, 1.5, 2.2)
    ]
    at_look = [
        Scenario(f"looks, resolved by look {j} K={k} m={m}", always(world_at_look, (m,) * k, j, c), counted=EVERY_LOOK)
        for k, m, j, c in ((1, 2, 1, 1), (1, 2, 2, 1), (3, 3, 1, 2), (3, 3, 2, 2), (10, 4, 2, 4))
    ]
    unequal = [
        Scenario(f"looks, near and {t} behind K={k}", always(near_and_far_world, k, 1, (t, t), f), counted=EVERY_LOOK)
        for k, t, f in ((1, 4.0, 1.0), (1, 8.0, 1.5), (3, 4.0, 1.0), (3, 9.0, 1.5), (5, 9.0, 1.0), (10, 6.0, 1.5))
    ]
    return [
        Scenario("stopped at the first certificate", mixed_world, counted=FIRST_LOOK),
        *equal,
        *at_look,
        *unequal,
        Scenario("looks, early drops K=3", always(near_and_far_world, 3, 1, (9.0, 15.0, 25.0)), counted=EVERY_LOOK),
        Scenario("looks, mixed gaps", mixed_world, counted=EVERY_LOOK),
        Scenario("looks, mixed gaps x 2", seeded(mixed_world, 2.0), counted=EVERY_LOOK),
        Scenario("looks, noise unknown K=3", always(noisy_world, 3, 3, 1.0), known_noise=False, counted=EVERY_LOOK),
        Scenario("looks and end K=1 m=2", always(slippage_world, 1, 2), counted=LOOKS_AND_END),
        Scenario("looks and end K=3 m=3", always(slippage_world, 3, 3), counted=LOOKS_AND_END),
        Scenario("looks and end K=10 m=4", always(slippage_world, 10, 4), counted=LOOKS_AND_END),
    ]


def _budgets() -> list[Scenario]:
    """Budgets of few and of many runs, for both aims."""
    small: tuple[int, ...] = (3, 3, 3)
    found = []
    for n in (10, 14, 20, 40, 80, 150, 500):
        sizes = small if n < 500 else (4,) * 5
        for aim in ("certify", "best"):
            options = {"budget": n, "aim": aim}
            for shape in ("equal", "mixed"):
                worlds = budget_worlds(sizes, options, shape)
                found.append(Scenario(f"budget of {n}, {aim}, {shape} gaps", worlds, options, None))
    # levels far behind are left out: of one design, and after rounds
    for sizes, n in (((3, 3, 3, 3), 20), ((2,) * 6, 16), ((3, 3, 3, 3), 36), ((3, 3, 3, 3), 48), ((2,) * 6, 40)):
        for far in (2.5, 4.0, 8.0):
            worlds = always(half_far_world, sizes, n, far)
            name = f"budget of {n}, certify, {len(sizes)} x {sizes[0]} levels, half of them {far:g} apart"
            found.append(Scenario(name, worlds, {"budget": n, "aim": "certify"}, None))
    for n, k, m, stretch in ((21, 20, 2, 1.2), (25, 20, 2, 1.0), (11, 10, 2, 1.0), (7, 5, 2, 1.0), (12, 3, 4, 1.0)):
        options = {"budget": n, "aim": "certify"}  # hardly more runs than parameters: levers that are not independent
        worlds = budget_worlds((m,) * k, options, "equal", stretch)
        found.append(Scenario(f"budget of {n}, certify, {k} x {m} levels", worlds, options, None))
    for n, sizes in ((20, (8, 8)), (40, (8, 8)), (40, (12, 12, 12)), (80, (12, 12, 12)), (150, (16, 16, 16))):
        options = {"budget": n, "aim": "best"}
        for shape, stretch in (("equal", 1.0), ("equal", 0.6), ("mixed", 1.0)):
            name = f"budget of {n}, best, {len(sizes)} x {sizes[0]} levels, {shape} gaps x {stretch}"
            found.append(Scenario(name, budget_worlds(sizes, options, shape, stretch=stretch), options, None))
    for n, sizes in ((60, (2,) * 4), (80, small), (150, (4, 4))):  # rivals that are just left out, or just not
        for far in (0.4, 0.7, 1.1):
            worlds = always(half_far_world, sizes, n, far, "best")
            name = f"budget of {n}, best, {len(sizes)} x {sizes[0]} levels, half of them {far:g} apart"
            found.append(Scenario(name, worlds, {"budget": n, "aim": "best"}, None))
    # a single wrong lever loses more than is certified
    for n, sizes in ((12, (3,)), (16, (2, 2)), (30, small), (40, (2, 2)), (80, (3,)), (80, small)):
        options = {"budget": n, "aim": "best"}
        name = f"budget of {n}, best, {len(sizes)} x {sizes[0]} levels, one wrong"
        found.append(Scenario(name, budget_worlds(sizes, options, "one wrong"), options, None))
    for n, sizes in ((300, (3,)), (200, (3, 2)), (200, (2, 2))):  # what looks far behind by chance gets few more runs
        name = f"budget of {n}, best, no effects, {' x '.join(map(str, sizes))} levels, parents"
        nothing = always(no_effects_world, sizes)
        found.append(Scenario(name, nothing, {"budget": n, "aim": "best"}, None, counted="parents"))
    for n, aim in ((80, "best"), (150, "best"), (150, "certify")):
        options = {"budget": n, "aim": aim}
        worlds = budget_worlds(small, options, "equal", stretch=1.5)
        found.append(Scenario(f"looks, budget of {n}, {aim}", worlds, options, None, counted=EVERY_LOOK))
    return found


def _unknown_noise() -> list[Scenario]:
    """Noise that is estimated: by few residuals, so that the first block is about enough, and by many."""
    found = [
        Scenario("noise estimated, 20 degrees of freedom", always(slippage_world, 2, 2), known_noise=False),
        Scenario("noise estimated, K=10", always(slippage_world, 10, 3), known_noise=False),
    ]
    for k, m in ((1, 2), (1, 4), (2, 2), (2, 3)):
        for noise_sd in (0.4, 0.7, 1.0, 1.3, 3.0):
            name = f"noise unknown, sd {noise_sd} K={k} m={m}"
            found.append(Scenario(name, always(noisy_world, k, m, noise_sd), known_noise=False))
    three = (3, 3, 3)
    for n, sizes in ((3, (2,)), (4, (2,)), (6, (2,)), (5, (2, 2)), (8, three), (10, three), (14, three), (80, three)):
        for aim in ("certify", "best"):
            options = {"budget": n, "aim": aim}
            worlds = budget_worlds(sizes, options, "equal")
            name = f"noise unknown, budget of {n}, {aim}, {len(sizes)} x {sizes[0]} levels"
            found.append(Scenario(name, worlds, options, None, known_noise=False))
    for n, sizes, failure_prob in ((3, (2,), 0.001), (7, three, 0.01), (8, three, 0.001), (12, three, 0.01)):
        options = {"budget": n, "aim": "certify"}
        worlds = budget_worlds(sizes, options, "equal", 0.5)
        name = f"noise unknown, budget of {n}, promised {failure_prob:g}"
        found.append(Scenario(name, worlds, options, None, known_noise=False, failure_prob=failure_prob))
    return found


def _discrete_outcomes() -> list[Scenario]:
    """Outcomes of 0 and 1 that are mostly 0, and outcomes rounded to steps of so many standard deviations."""
    found = []
    for base, size, tolerance in ((0.01, 0.02, 0.02), (0.01, 0.03, 0.03), (0.03, 0.015, 0.03), (0.08, 0.03, 0.03)):
        for sizes in ((3,), (3, 2)):
            name = f"rare outcomes, {base:.0%} and {size:.1%}, K={len(sizes)}"
            found.append(Scenario(name, always(rare_world, base, size, sizes), {}, tolerance, known_noise=False))
    for base, size, unit in ((0.01, 0.03, 100.0), (0.03, 0.03, 100.0), (0.08, 0.03, 100.0), (0.03, 0.03, 0.1)):
        name = f"rare outcomes of 0 or {unit:g}, {base:.0%} and {size:.1%}"
        worlds = always(rare_world, base, size, (3,), unit)
        found.append(Scenario(name, worlds, {}, unit * size, known_noise=False))
    for step in (0.5, 1.0, 4 / 3, 2.0, 4.0):
        for sizes, tolerance in (((2,), 0.5), ((3, 3), 0.5), ((2,), 1.2), ((3, 3), 1.5)):
            name = f"rounded to {step:.3g} sd, tolerance {tolerance}, K={len(sizes)}"
            worlds = seeded(rounded_world, step, sizes, 1, tolerance)
            found.append(Scenario(name, worlds, {}, tolerance, known_noise=False))
    return found


def _parents_known() -> list[Scenario]:
    """The number of parents known: they are at the worst gap for so many, other factors without effect."""
    sparse = partial(Scenario, rules=Sparse)
    return [
        Scenario(
            "paper's worlds K=5, P=2 known",
            lambda seed: random_world(5, 2, np.random.default_rng(seed)),
            {"max_parents": 2},
        ),
        Scenario("one parent known, at the worst gap", always(one_parent_world), {"max_parents": 1}),
        *(
            Scenario(
                f"P={p} known of 10, at the worst gap",
                always(slippage_world, p, 4, None, 1.0, 10 - p),
                {"max_parents": p},
            )
            for p in (1, 2, 5)
        ),
        *(
            Scenario(
                f"P={p} known of 10, 6 behind",
                always(near_and_far_world, p, 1, (6.0,), 1.0, 10 - p),
                {"max_parents": p},
            )
            for p in (1, 3)
        ),
        *(Scenario(f"max_parents = K = {k}", always(slippage_world, k, 3), {"max_parents": k}) for k in (1, 3, 10)),
        Scenario(
            "noise unknown, P=2 known of 10",
            always(slippage_world, 2, 4, None, 1.0, 8),
            {"max_parents": 2},
            known_noise=False,
        ),
        *(
            Scenario(
                f"parents named, max_parents {p} of 6",
                always(slippage_world, 2, 3, None, 1.0, 4),
                {"max_parents": p},
                counted=PARENTS,
            )
            for p in (2, 6)
        ),
        sparse("sparse, P=2 of 60", always(slippage_world, 2, 3, None, 1.0, 58), {"max_parents": 2}),
        sparse("sparse, P=4 of 60", always(slippage_world, 4, 3, None, 1.0, 56), {"max_parents": 4}),
        sparse(
            "sparse, P=2 of 60, 6 behind", always(near_and_far_world, 2, 1, (6.0, 6.0), 1.0, 58), {"max_parents": 2}
        ),
        sparse("sparse, max_parents = K = 4", always(slippage_world, 4, 3), {"max_parents": 4}),
        sparse(
            "sparse, noise unknown, P=2 of 60",
            always(slippage_world, 2, 3, None, 1.0, 58),
            {"max_parents": 2},
            known_noise=False,
        ),
    ]


def _two_stages() -> list[Scenario]:
    """Fresh runs to select on: planned looks, complete proofs, noise of any shape, and studies begun by older rules."""
    older = partial(Scenario, rules=TwoStage)
    proven = {"certificate": "proven"}
    subgaussian = {"noise": "subgaussian"}
    third = TOLERANCE / 3
    three = always(slippage_world, 3, 3)
    return [
        Scenario(
            "paper's worlds K=10 P=2, least effect known",
            lambda seed: random_world(10, 2, np.random.default_rng(seed), min_effect=0.6),
            {"min_effect": 0.6},
        ),
        Scenario("least effect at its edge", always(edge_world), {"min_effect": 0.6}),
        Scenario("look, one rival at a third", always(look_world, third, 1), {"min_effect": 0.5}),
        Scenario("look, three rivals at a third", always(look_world, third, 3), {"min_effect": 0.5}),
        Scenario("look, two rivals at a fifth", always(look_world, TOLERANCE / 5, 2), {"min_effect": 0.5}),
        Scenario("look, proven, three rivals at a third", always(look_world, third, 3), {"min_effect": 0.5, **proven}),
        Scenario(
            "look, noise estimated, one rival at a third",
            always(look_world, third, 1),
            {"min_effect": 0.5},
            known_noise=False,
        ),
        Scenario(
            "look, P=8 known too, one rival at a third",
            always(look_world, third, 1, 8),
            {"min_effect": 0.5, "max_parents": 8},
        ),
        Scenario(
            "look, two-point noise",
            lambda seed: additive_world([[0.5, 0.4, 0.0]] * 5, Noise(1.0, "two-point")),
            {"min_effect": 0.5, **subgaussian},
        ),
        Scenario("bounded noise", always(slippage_world, 2, 3, Noise(1.0, "uniform")), subgaussian),
        Scenario("two-point noise", always(slippage_world, 2, 3, Noise(1.0, "two-point")), subgaussian),
        Scenario("Bernoulli outcome", always(bernoulli_world), subgaussian, tolerance=0.2),
        Scenario("mixed gaps, proven", mixed_world, proven),
        Scenario("proven, one parent known", always(one_parent_world), {"max_parents": 1, **proven}),
        Scenario("proven, noise estimated", always(slippage_world, 2, 2), proven, known_noise=False),
        Scenario("proven, first certificate", mixed_world, proven, counted=FIRST_LOOK),
        Scenario("proven, budget of 150", three, {"budget": 150, **proven}, None),
        Scenario("proven, budget of 14", three, {"budget": 14, **proven}, None),
        Scenario("proven, eight runs at a time", three, {"batch_size": 8, **proven}),
        Scenario(
            "least effect and a budget of 150",
            always(edge_world),
            {"budget": 150, "min_effect": 0.6, "aim": "certify"},
            None,
        ),
        *(older(f"two stages, slippage K={k} m=4", always(slippage_world, k, 4)) for k in (2, 10)),
        older("two stages, one parent known", always(one_parent_world), {"max_parents": 1}),
        older("two stages, mixed gaps", mixed_world),
        older("two stages, noise estimated", always(slippage_world, 2, 2), known_noise=False),
        older("two stages, noise estimated, K=10", always(slippage_world, 10, 3), known_noise=False),
        older("two stages, every look", mixed_world, counted=EVERY_LOOK),
        older("two stages, budget of 150", three, {"budget": 150}, None),
        older("two stages, budget of 14", three, {"budget": 14}, None),
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
