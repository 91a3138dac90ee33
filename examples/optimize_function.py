"""The best setting of a noisy function: ten lines, as in the README."""

import numpy as np

import levers

rng = np.random.default_rng(7)


def share_of_good_parts(run: levers.Assignment) -> float:
    heat = {"low": 0.0, "mid": 1.4, "high": 0.6}[str(run["heat"])]
    return heat + 1.2 * (run["speed"] == 3) + rng.normal()


space = levers.Space.of({"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4], "supplier": ["A", "B"]})
verdict = levers.optimize(share_of_good_parts, space, tolerance=0.5, noise_sd=1.0, seed=1)
print(dict(verdict.assignment), verdict.parents, verdict.n_runs)
