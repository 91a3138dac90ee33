"""What a study expects at its setting, against the truth: python benchmarks/expected_outcome.py [studies]

The mean outcome at the setting chosen, noise sd 1 and not known: by how much it is overestimated on average (bias), the
root of the mean squared error, half the width of its 95 % interval, and in how many studies that holds the truth. As it
is now, beside least squares of the same runs with Scheffe's interval, which was shown before with aim "certify" and
tolerances. Studies in which levers seem to work together have another fit, and are left out. Budgets of 32 to 250 runs;
"alike": no lever has an effect; "one": one of seven; "weak", "all": all seven, of standard deviation .25 and .8;
"equal": the last level of every lever adds .3; K=7 and K=10 are the worlds of budgets.py.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before numpy is loaded

import sys
from typing import NamedTuple

import numpy as np
from budgets import KINDS

import levers
from harness.hard_worlds import additive_world
from levers.core.model.ordinary import Noise
from levers.studies.analysis.estimates import Estimates
from levers.worlds.scm import World

CASES = (
    ("K=7", 32), ("K=7", 64), ("K=7", 120), ("K=10", 120), ("K=10", 250), ("alike", 64), ("one", 64), ("weak", 64),
    ("equal", 64), ("all", 64),
)  # fmt: skip


def world_of(name: str, seed: int) -> World:
    if name in ("K=7", "K=10"):
        return KINDS[1 if name == "K=7" else 0].world(5000 + seed)
    rng = np.random.default_rng([seed, 5])
    sizes = rng.integers(2, 5, size=7).tolist()
    spread = {"alike": 0.0, "one": 0.0, "equal": 0.0, "weak": 0.25, "all": 0.8}[name]
    effects = [spread * rng.normal(size=m) for m in sizes]
    if name == "one":
        effects[0] = 2 * rng.normal(size=sizes[0])
    if name == "equal":
        effects = [0.3 * np.eye(m)[-1] for m in sizes]
    return additive_world([one.tolist() for one in effects])


class Found(NamedTuple):
    """Error of the expected outcome, half its interval, whether that holds the truth; the same by least squares."""

    error: float
    half: float
    holds: bool
    usual_error: float
    scheffe: float
    scheffe_holds: bool


def found_in(name: str, n_runs: int, aim: str, seed: int) -> Found | None:
    world, rng = world_of(name, seed), np.random.default_rng([seed, n_runs])
    study = levers.create_study("expected", world.space, budget=n_runs, aim=aim, seed=seed)
    while asked := study.ask(1000):
        codes = np.array([trial.params.codes for trial in asked], dtype=np.int16)
        study.tell_many(zip(asked, world.outcome.sample(codes, rng).tolist(), strict=True))
    best, estimates = study.best(), Estimates.of(study.state)
    if best is None or best.predicted is None or best.low is None or best.high is None:
        return None
    setting = tuple(best.params.codes)
    usual = estimates.least_squares(setting, None)
    if usual is None or estimates.fitted is None:
        return None
    noise = Noise.of(estimates.fitted.fit, None)
    assert noise is not None  # there was a prediction
    scheffe = noise.scheffe_half_width(usual[1], 1 + len(estimates.fitted.fit.free_levels))
    true = float(world.outcome.mean(np.array([setting], dtype=np.int16))[0])
    now = best.predicted - true, (best.high - best.low) / 2, best.low <= true <= best.high
    return Found(*now, usual[0] - true, scheffe, abs(usual[0] - true) <= scheffe)


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    print(f"{'':26}{'now':^38}{'least squares, Scheffe':^32}")
    columns = "".join(f"{word:>8}" for word in ("bias", "rmse", "half", "holds") * 2)
    print(f"{'world':7}{'runs':>5} {'aim':8}{'studies':>8}{columns}", flush=True)
    for aim in ("best", "certify"):
        for name, n_runs in CASES:
            found = [one for one in (found_in(name, n_runs, aim, seed) for seed in range(n)) if one is not None]
            if not found:
                continue
            error, half, holds, usual, scheffe, before_holds = (np.array(column) for column in zip(*found, strict=True))
            cells = "".join(
                f"{off.mean():8.2f}{np.sqrt((off**2).mean()):8.2f}{width.mean():8.2f}{inside.mean():8.0%}"
                for off, width, inside in ((error, half, holds), (usual, scheffe, before_holds))
            )
            print(f"{name:7}{n_runs:5} {aim:8}{len(found):8}{cells}", flush=True)


if __name__ == "__main__":
    main()
