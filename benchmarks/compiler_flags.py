"""14 flags of the C compiler, tuned by one `levers run` line: python benchmarks/compiler_flags.py [--budget 60]

The kernel and the flags are in examples/compiler_flags; a run compiles it and counts its instructions (perf, or
valgrind). Then the winner, the plain -O2 and -O3, and what Optuna's TPE finds in as many runs are measured afresh, 30
times each: instructions, which hardly vary, and user time.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import levers
from levers.experiments.commands.command import Command
from levers.experiments.commands.reading import Reading
from levers.studies.space_text import read_space

EXAMPLE = Path(__file__).parents[1] / "examples" / "compiler_flags"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--fresh", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="levers-flags-") as name:
        folder = Path(name) / "flags"
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("*.db", "kernel"))
        os.environ["LEVERS_JOURNAL"] = str(Path(name) / "journals")
        os.chdir(folder)
        space = read_space("flags.toml").space
        setup = ["cc", *(f"{{{lever}}}" for lever in space.names), "kernel.c", "-o", "kernel"]
        count = Command.of(["./kernel"], space, setup=setup, reading=Reading(time="instructions"))
        settings = {"levers run": tuned(given.budget, given.seed)}
        tpe = levers.optimize(
            count, space, algorithm="tpe", budget=given.budget, goal="minimize", seed=given.seed, progress=False
        )
        settings["Optuna's TPE"] = [str(level) for level in tpe.assignment.values()]
        settings |= {"-O2": ["-O2"], "-O3": ["-O3"]}
        print(f"{given.budget} runs each; mean of {given.fresh} fresh runs\n")
        print(f"{'flags':14}{'instructions':>14}{'spread':>8}{'user time, ms':>15}")
        for title, flags in settings.items():
            counts, times = fresh(flags, given.fresh)
            print(f"{title:14}{counts.mean():14,.0f}{np.ptp(counts):8,.0f}{1000 * times.mean():15.2f}")


def tuned(budget: int, seed: int) -> list[str]:
    """What the one line finds; its last words are printed."""
    words = ["sh", "tune.sh", "--budget", str(budget), "--seed", str(seed)]
    environment = {**os.environ, "LEVERS": f"{sys.executable} -m levers.cli.app"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):
        sys.exit(done.stderr)
    said = ("IN DOUBT", "Within", "In doubt", "Runs")
    print("\n".join(line for line in done.stdout.splitlines() if line.startswith(said)))
    best = levers.load_study("flags", "sqlite:///levers.db").best_params
    return [str(level) for level in best.values()]


def fresh(flags: Sequence[str], n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Instructions and user times of the kernel with some flags."""
    space = levers.Space.of({"unused": [1, 2]})
    subprocess.run(["cc", *flags, "kernel.c", "-o", "kernel"], check=True)
    count, time = (Command.of(["./kernel"], space, reading=Reading(time=one)) for one in ("instructions", "user"))
    at = space.assignment([0])
    return np.array([count(at) for _ in range(n)]), np.array([time(at) for _ in range(n)])


if __name__ == "__main__":
    main()
