"""What a study of many levers or levels takes: python benchmarks/state_sizes.py [--spaces 3x3 1x500+30x2 ...]

For each space, in a process of its own: CPU seconds of the first design and of the decision after it, the most memory,
the size of that decision in the log, and the same as `levers.core.cost` estimates them. `min` after a space is a study
with a least effect, in two stages; `few` one in which at most five levers matter; `proof` a complete proof.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before numpy is loaded

import argparse
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from levers.algorithms.base import Batch, Problem
from levers.algorithms.registry import make_algorithm
from levers.core.codec import to_json
from levers.core.space import Space
from levers.studies.events import Decided

SPACES = ("3x3", "1x500+30x2", "1x500+30x2,min", "10x50", "200x2", "1000x5,few", "10000x2,few", "100x15", "30x100")
OPTIONS: dict[str, dict[str, Any]] = {
    "min": {"min_effect": 1.0},
    "few": {"max_parents": 5},
    "proof": {"certificate": "proven"},
}


def parsed(text: str) -> tuple[list[int], dict[str, Any]]:
    """Level counts and options of "10x4+2x3,min"."""
    sizes, _, kind = text.partition(",")
    parts = [part.split("x") for part in sizes.split("+")]
    return [int(m) for k, m in parts for _ in range(int(k))], OPTIONS.get(kind, {})


def measured(text: str, tolerance: float) -> str:
    n_levels, options = parsed(text)
    begun = time.process_time()
    problem = Problem(Space.sized(n_levels), tolerance, 0.1, 1.0)
    cfs = make_algorithm("cfs", problem, batch_size=2**40, **options)
    state = cfs.start()
    batch = cfs.ask(state, np.random.default_rng(0))
    assert isinstance(batch, Batch)
    designed = time.process_time()
    state = cfs.tell_block(state, batch, np.random.default_rng(1).normal(size=batch.n_runs))
    stored = len(to_json(Decided(state)))
    decided = time.process_time()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    cost = cfs.cost
    return (
        f"{text:20}{batch.n_runs:8,}{designed - begun:9.2f}{decided - designed:9.2f}{cost.seconds:9.1f}"
        f"{memory / 1e6:9.0f}{cost.n_bytes / 1e6:9.0f}{stored / 1e6:10.3f}{cost.stored / 1e6:10.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spaces", nargs="*", default=list(SPACES))
    parser.add_argument("--tolerance", type=float, default=20.0)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(measured(given.one, given.tolerance))
        return
    print(f"{'space':20}{'runs':>8}{'design s':>9}{'decide s':>9}{'about s':>9}", end="")
    print(f"{'MB':>9}{'about':>9}{'log MB':>10}{'about':>10}")
    for text in given.spaces:
        command = [sys.executable, __file__, "--one", text, "--tolerance", str(given.tolerance)]
        print(subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="", flush=True)


if __name__ == "__main__":
    main()
