"""Studies with forbidden combinations, and how often they lose more than they certify."""

from typing import Any

import numpy as np

from levers.algorithms.base import Batch, run_to_verdict
from levers.core.merging import Forbidden
from levers.core.space import Space
from levers.studies.spec import StudySpec

SPACE = Space.of({"a": [1, 2, 3, 4], "b": [1, 2, 3], "c": ["x", "y"], "d": ["x", "y", "z"]})
CORNER: Forbidden = ((("a", 4), ("b", 3)),)
CHAIN: Forbidden = ((("a", 4), ("b", 3)), (("b", 3), ("c", "y")))


def forbidden_failure(
    effects: list[list[float]], forbidden: Forbidden, seed: int, tolerance: float | None, **options: Any
) -> bool:
    """Whether one study loses more than it certifies. Outcomes have a noise of 1, which the study knows."""
    spec = StudySpec(
        SPACE, tolerance=tolerance, noise_sd=1.0, options=tuple(options.items()), forbidden=forbidden, seed=seed
    )
    rng, table = np.random.default_rng([seed, 5]), [np.array(row) for row in effects]

    def mean(codes: Any) -> Any:
        return sum(row[codes[:, k]] for k, row in enumerate(table))

    def outcomes_of(batch: Batch) -> tuple[Batch, Any]:
        return batch, mean(spec.expand(batch.codes)) + rng.normal(size=batch.n_runs)

    verdict = run_to_verdict(spec.solver, outcomes_of, np.random.default_rng([seed, 6]))
    every = np.stack(np.unravel_index(np.arange(SPACE.n_assignments), SPACE.n_levels), axis=1).astype(np.int16)
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
