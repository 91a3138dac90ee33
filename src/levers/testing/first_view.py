"""A large study, and what a browser measures when it first shows one. For tests and benchmarks."""

import numpy as np

from levers.studies.managing import create_study
from levers.studies.study import Study

N_TOLD, N_FACTORS, LEVELS = 100_000, 30, ("a", "b", "c", "d")
CHARTS = ("effects", "elimination", "forecast", "history", "evidence")


def make_large_study(storage: str, name: str = "large") -> Study:
    """A study that goes on, with 100,000 outcomes: three of its thirty factors matter."""
    rng = np.random.default_rng(3)
    space = {f"factor {k + 1}": list(LEVELS) for k in range(N_FACTORS)}
    study = create_study(name, space, budget=N_TOLD + 20_000, noise_sd=1.0, seed=3, storage=storage)
    n_told = 0
    while n_told < N_TOLD:
        due = study.ask_numbers(N_TOLD - n_told)
        study.tell_arrays(due, rng.normal(size=len(due)))
        n_told += len(due)
    return study
