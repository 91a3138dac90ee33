"""Studies with forbidden combinations, and how often they lose more than they certify."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from harness.hard_worlds import FAILURE_PROB, TOLERANCE
from levers.algorithms.base import Batch, run_to_verdict
from levers.core.merging import Forbidden
from levers.core.space import Space
from levers.studies.spec import StudySpec

SPACE = Space.of({"a": [1, 2, 3, 4], "b": [1, 2, 3], "c": ["x", "y"], "d": ["x", "y", "z"]})
CORNER: Forbidden = ((("a", 4), ("b", 3)),)
CHAIN: Forbidden = ((("a", 4), ("b", 3)), (("b", 3), ("c", "y")))


def forbidden_failure(
    effects: list[list[float]],
    forbidden: Forbidden,
    seed: int,
    tolerance: float | None,
    noise_sd: float | None = 1.0,
    space: Space = SPACE,
    **options: Any,
) -> bool:
    """Whether one study loses more than it certifies. Outcomes have a noise of 1, which the study knows or not."""
    spec = StudySpec(
        space, tolerance=tolerance, noise_sd=noise_sd, options=tuple(options.items()), forbidden=forbidden, seed=seed
    )
    rng, table = np.random.default_rng([seed, 5]), [np.array(row) for row in effects]

    def mean(codes: Any) -> Any:
        return sum(row[codes[:, k]] for k, row in enumerate(table))

    def outcomes_of(batch: Batch) -> tuple[Batch, Any]:
        return batch, mean(spec.expand(batch.codes)) + rng.normal(size=batch.n_runs)

    verdict = run_to_verdict(spec.solver, outcomes_of, np.random.default_rng([seed, 6]))
    every = np.stack(np.unravel_index(np.arange(space.n_assignments), space.n_levels), axis=1).astype(np.int16)
    allowed = every[(spec.merging.contract(every) >= 0).all(axis=1)]
    chosen = spec.expand(np.array([verdict.assignment.codes], dtype=np.int16))
    return bool(mean(allowed).max() - mean(chosen)[0] > verdict.within + 1e-12)


def random_effects(seed: int, least: float) -> list[list[float]]:
    """Effects of which about half range over exactly `least` or a little more, and the others over nothing."""
    rng = np.random.default_rng([seed, 7])
    found = []
    for m in SPACE.n_levels:
        row = rng.random(m)
        row = (row - row.min()) / (row.max() - row.min()) * least * rng.choice([1.0, 1.2])
        found.append((row * (rng.random() < 0.6)).tolist())
    return found


def critical_effects(gap: float) -> list[list[float]]:
    """The best levels one by one are the pair that is forbidden, and each is a gap ahead."""
    return [[0.0, 0.0, 0.0, gap], [0.0, 0.0, gap], [0.0, gap], [0.0, 0.0, 0.0]]


def allowed_effects(gap: float) -> list[list[float]]:
    """The best level of each lever is a gap ahead of all others, and all of them together are allowed."""
    return [[gap, 0.0, 0.0, 0.0], [gap, 0.0, 0.0], [gap, 0.0], [gap, 0.0, 0.0]]


def swapped_effects(gap: float, ahead: float) -> list[list[float]]:
    """The two best levels cannot be run together: without one of them as much is lost as `ahead`, without the other one
    a gap more."""
    return [[0.0, 0.0, 0.0, gap + ahead], [-9.0, 0.0, ahead], [0.0, 0.0], [0.0, 0.0, gap]]


def _same(effects: list[list[float]], _: int) -> list[list[float]]:
    return effects


@dataclass(frozen=True)
class ForbiddenScenario:
    """A scenario of studies with forbidden combinations; effects by seed."""

    name: str
    effects: Callable[[int], list[list[float]]]
    forbidden: Forbidden
    tolerance: float | None = TOLERANCE
    noise_sd: float | None = 1.0
    options: dict[str, Any] = field(default_factory=dict)
    failure_prob: float = FAILURE_PROB
    space: Space = SPACE

    def fails(self, seed: int) -> bool:
        """Whether the study with this seed loses more than it certifies."""
        given = self.effects(seed), self.forbidden, seed, self.tolerance, self.noise_sd, self.space
        return forbidden_failure(*given, **self.options)


def forbidden_scenarios() -> list[ForbiddenScenario]:
    """The best levels one by one are the pair that is forbidden, or effects that cancel out; what is known; budgets."""
    found = []
    for word, pairs in (("pair", CORNER), ("chain", CHAIN)):
        for gap in (0.51, 0.26, 0.17):
            for where, effects in (("at the pair", critical_effects(gap)), ("beside it", allowed_effects(gap))):
                name = f"forbidden {word}, gaps of {gap} {where}"
                found.append(ForbiddenScenario(name, partial(_same, effects), pairs))
        for ahead in (0.0, 0.4, 2.0):
            swapped = partial(_same, swapped_effects(0.51, ahead))
            found.append(ForbiddenScenario(f"forbidden {word}, swaps, {ahead:g} ahead", swapped, pairs))
        beside = partial(_same, allowed_effects(0.26))
        found.append(ForbiddenScenario(f"forbidden {word}, gaps of 0.26, noise unknown", beside, pairs, noise_sd=None))
    for sizes in ((2, 2), (3, 2), (3, 3), (6, 2)):  # nothing but two levers, whose best levels exclude each other
        space, word = Space.sized(list(sizes)), f"{sizes[0]} x {sizes[1]} levels, the last of both forbidden"
        pair: Forbidden = (tuple((factor.name, factor.levels[-1]) for factor in space.factors),)
        for ahead in (0.0, 1.0, 4.0):
            effects = [[*[0.0] * (m - 1), more] for m, more in zip(sizes, (0.501 + ahead, ahead), strict=True)]
            swapped = partial(_same, effects)
            found.append(ForbiddenScenario(f"{word}, swaps, {ahead:g} ahead", swapped, pair, space=space))
    half, whole = partial(random_effects, least=0.5), partial(random_effects, least=1.0)
    known: dict[str, Any] = {"min_effect": 0.5}
    for word, options in (("", {}), (", least effect known", known)):
        found.append(ForbiddenScenario(f"forbidden chain, tolerance 0.4{word}", half, CHAIN, 0.4, options=options))
    found.append(ForbiddenScenario("forbidden chain, noise unknown", half, CHAIN, noise_sd=None))
    for n in (20, 60):
        for aim in ("certify", "best"):
            options = {"budget": n, "aim": aim}
            found.append(
                ForbiddenScenario(f"forbidden chain, budget of {n}, {aim}", whole, CHAIN, None, options=options)
            )
    return found
