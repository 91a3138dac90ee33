"""MODL's sum over phases against the bound of the sample-complexity theorem, over random worlds of the paper.

Run:  python benchmarks/modl_bound.py [worlds]

A row for each schedule: mean and largest ratio over the worlds ("2.0 to 4.1"), with P_Y unknown and known. The sum is
that without noise (`phase_sum`, rule "noiseless"), which is where real runs lie. The theorem is taken as stated, with
eps/K and an inner logarithm of base 2, or e; and with eps for eps/K, as the paper's remarks on it say.
"""

import math
import sys
from collections.abc import Iterator

import numpy as np

from levers.core.certificates.modl_bound import level_gaps, phase_sum, theorem_bound
from levers.core.certificates.sample_size import SCHEDULES, make_schedule
from levers.worlds.outcome import AdditiveOutcome
from levers.worlds.random import random_world

TOLERANCE, FAILURE_PROB, NOISE_SD, BOUND = 0.5, 0.1, 1.0, 5.0
READINGS = {"eps/K, base 2": ("proof", 2.0), "eps/K, base e": ("proof", math.e), "eps, base 2": ("released-code", 2.0)}


def random_gaps(n_factors: int, n_parents: int, n_worlds: int) -> Iterator[tuple[tuple[float, ...], ...]]:
    """The gaps of random worlds."""
    for world in range(n_worlds):
        made = random_world(n_factors, n_parents, np.random.default_rng([5, n_factors, n_parents, world]), degree=0.0)
        assert isinstance(made.outcome, AdditiveOutcome)
        effects, sizes = made.outcome.effects, made.space.n_levels
        yield level_gaps([effects.get(k, (0.0,) * m) for k, m in enumerate(sizes)])


def main(n_worlds: int) -> None:
    """Print the table."""
    print(f"{'K':>3} {'P_Y':>4} {'schedule':>14} {'P_Y is':>8}   " + "   ".join(f"{name:>15}" for name in READINGS))
    for n_factors in (10, 30):
        for n_parents in (1, n_factors // 3, n_factors):
            worlds = list(random_gaps(n_factors, n_parents, n_worlds))
            for schedule in SCHEDULES:
                plan = make_schedule(schedule, n_factors, TOLERANCE, BOUND)
                for known in (False, True):
                    enough = n_parents if known else None
                    sums = [phase_sum(gaps, plan, FAILURE_PROB, NOISE_SD, enough, "noiseless") for gaps in worlds]
                    cells = []
                    for reading, base in READINGS.values():
                        asked = (TOLERANCE, FAILURE_PROB, NOISE_SD, BOUND)
                        bounds = [
                            theorem_bound(gaps, *asked, schedule=reading, known_parents=known, log_base=base)
                            for gaps in worlds
                        ]
                        ratios = np.divide(sums, bounds)
                        cells.append(f"{ratios.mean():6.2f} to {ratios.max():5.2f}")
                    told_so = "known" if known else "unknown"
                    print(f"{n_factors:>3} {n_parents:>4} {schedule:>14} {told_so:>8}   " + "   ".join(cells))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
