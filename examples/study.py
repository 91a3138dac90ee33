"""A study that survives: in a file, worked on by several processes, with a typo on the way."""

import multiprocessing
import tempfile
from pathlib import Path

import numpy as np

import levers

SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4], "supplier": ["A", "B"]}


def measure(run: levers.Assignment) -> float:
    heat = {"low": 0.0, "mid": 1.4, "high": 0.6}[str(run["heat"])]
    return heat + 1.2 * (run["speed"] == 3) + np.random.default_rng().normal()


def work(storage: str) -> None:
    """What every worker does; with a lease, the runs of one that dies go to the others after ten minutes."""
    levers.load_study("oven", storage).optimize(measure, lease=600)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        storage = f"sqlite:///{Path(folder) / 'levers.db'}"
        study = levers.create_study("oven", SPACE, tolerance=0.5, noise_sd=1.0, storage=storage)
        first = study.ask()[0]
        study.tell(first, 140.0)  # a typo
        study.correct(first, 1.4, "decimal point")
        crew = [multiprocessing.get_context("spawn").Process(target=work, args=(storage,)) for _ in range(2)]
        for process in crew:
            process.start()
        for process in crew:
            process.join()
        verdict = study.verdict()
        print(f"after {verdict.n_runs} runs: {dict(study.best_params)}")
        print(f"within {verdict.tolerance:.2f} of the best with probability {1 - verdict.failure_prob:.0%}")


if __name__ == "__main__":
    main()
