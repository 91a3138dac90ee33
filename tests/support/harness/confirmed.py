"""Simulated studies that are confirmed by fresh runs: honest ones, and ones whose prediction is false."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levers.core.model.confirmation import Confirmation
from levers.core.space import Space
from levers.studies.library import create_study
from levers.studies.study import Study


@dataclass(frozen=True)
class Kind:
    """A kind of study: level counts, how many levers matter and by how much (in noise sds), and its terms.

    `shift` is added to fresh outcomes at the setting found: it is what levers that act together would do there, or what
    a setting that was lucky loses. `chance` makes outcomes 0 or 1.
    """

    name: str
    levels: tuple[int, ...]
    n_matter: int
    effect: float
    terms: Mapping[str, Any]
    baseline: bool = False
    shift: float = 0.0
    chance: bool = False
    n_fresh: int = 12
    times: int = 1
    noise: str = "normal"
    more: Mapping[str, Any] = field(default_factory=dict)


_FEW, _MANY, _WIDE = (3, 3, 3, 3), (2,) * 10, (4,) * 6
_BUDGET, _LARGE = {"budget": 40}, {"budget": 120}
_PROMISE = {"tolerance": 1.0, "noise_sd": 1.0}
HONEST = (
    Kind("no lever matters, 4 of 3 levels, budget 40", _FEW, 0, 0.0, _BUDGET),
    Kind("no lever matters, 10 of 2 levels, budget 40", _MANY, 0, 0.0, _BUDGET),
    Kind("no lever matters, 10 of 2 levels, budget 120", _MANY, 0, 0.0, _LARGE),
    Kind("no lever matters, 6 of 4 levels, budget 120", _WIDE, 0, 0.0, _LARGE),
    Kind("all matter a little, 10 of 2 levels, budget 120", _MANY, 10, 0.3, _LARGE),
    Kind("3 matter, 10 of 2 levels, budget 120", _MANY, 3, 1.0, _LARGE),
    Kind("3 matter, 10 of 2 levels, budget 120, baseline", _MANY, 3, 1.0, _LARGE, baseline=True),
    Kind("no lever matters, 6 of 4 levels, budget 120, baseline", _WIDE, 0, 0.0, _LARGE, baseline=True),
    Kind("few runs: 4 of 3 levels, budget 14", _FEW, 2, 1.0, {"budget": 14}),
    Kind("tolerance, noise stated, 2 matter, 4 of 3 levels", _FEW, 2, 2.0, _PROMISE),
    Kind("tolerance, noise stated, none matters, 10 of 2 levels", _MANY, 0, 0.0, _PROMISE),
    Kind("tolerance, noise unknown, 2 matter, 4 of 3 levels", _FEW, 2, 2.0, {"tolerance": 1.0}),
    Kind("outcomes 0 or 1, 3 matter, budget 120", _MANY, 3, 0.25, _LARGE, chance=True),
    Kind("outcomes 0 or 1, 3 matter, budget 120, baseline", _MANY, 3, 0.25, _LARGE, chance=True, baseline=True),
    Kind("confirmed 3 times, 10 of 2 levels, budget 120", _MANY, 3, 0.5, _LARGE, times=3),
    Kind("few fresh runs: 2, 4 of 3 levels, budget 40", _FEW, 2, 0.5, _BUDGET, n_fresh=2),
    Kind("many fresh runs: 100, 10 of 2 levels, budget 40", _MANY, 0, 0.0, _BUDGET, n_fresh=100),
    Kind("noise with heavy tails (t on 3), 3 matter, budget 120", _MANY, 3, 1.0, _LARGE, noise="heavy"),
    Kind("minimize, 3 matter, 10 of 2 levels, budget 120", _MANY, 3, 0.5, _LARGE, more={"goal": "minimize"}),
    Kind("thompson, 3 matter, 4 of 3 levels", _FEW, 3, 0.5, {"algorithm": "thompson", "budget": 80}),
    Kind("random, 3 matter, 4 of 3 levels", _FEW, 3, 0.5, {"algorithm": "random", "budget": 80}),
)
FALSE = tuple(
    Kind(f"{name}, off by {shift:g} sd", levels, 3, 1.0, terms, baseline=baseline, shift=-shift)
    for name, levels, terms, baseline in (
        ("4 of 3 levels, budget 40", _FEW, _BUDGET, False),
        ("10 of 2 levels, budget 120", _MANY, _LARGE, False),
        ("10 of 2 levels, budget 120, baseline", _MANY, _LARGE, True),
        ("4 of 3 levels, tolerance, noise stated", _FEW, _PROMISE, False),
    )
    for shift in (1.0, 2.0)
)


def kind_seed(kind: Kind, seed: int) -> list[int]:
    """A seed of its own for every kind and study."""
    return [zlib.crc32(kind.name.encode()), seed]


def confirmed(kind: Kind, seed: int) -> tuple[Study, list[Confirmation]]:
    """A study of this kind, and what fresh runs said of it, each time that it was confirmed."""
    rng = np.random.default_rng(kind_seed(kind, seed))
    space = Space.sized(kind.levels)
    effects = [np.zeros(m) for m in kind.levels]
    for k in range(kind.n_matter):
        effects[k][int(rng.integers(kind.levels[k]))] = kind.effect
    baseline = dict.fromkeys(space.names, 1) if kind.baseline else None
    terms = dict(kind.terms) | dict(kind.more)
    study = create_study("simulated", space, baseline=baseline, seed=seed, **terms)
    study.warns = False

    def run(shift: float) -> None:
        chosen = study.verdict().assignment.codes if study.state.open_block is None else None
        trials = study.ask(10_000)
        codes = np.array([trial.params.codes for trial in trials])
        means = sum(effect[codes[:, k]] for k, effect in enumerate(effects))
        if chosen is not None:
            means = means + shift * (codes == np.array(chosen)).all(axis=1)
        means = means * (-1.0 if terms.get("goal") == "minimize" else 1.0)
        if kind.chance:
            values = (rng.random(len(codes)) < np.clip(0.15 + means, 0, 1)).astype(float)
        elif kind.noise == "heavy":
            values = means + rng.standard_t(3, len(codes)) / np.sqrt(3)
        else:
            values = means + rng.standard_normal(len(codes))
        study.tell_many(zip(trials, values.tolist(), strict=True))

    while not study.is_finished:
        run(0.0)
    found = []
    for _ in range(kind.times):
        study.confirm(kind.n_fresh)
        run(kind.shift)
        answer = study.verdict().confirmation
        assert answer is not None
        found.append(answer)
    return study, found
