"""What it takes to start: python benchmarks/startup.py [--runs 7]

User CPU time of whole processes, the median of several runs, which take turns so that a busy machine is fair to all.
What a command needs at least is numpy and scipy.special; ratios are against these. The first turn only fills caches.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HEAVY = (
    "joblib",
    "networkx",
    "polars",
    "sqlalchemy",
    "matplotlib",
    "rich",
    "typer",
    "alembic",
    "fastapi",
    "httpx",
    "pandas",
)
LEAST = "import numpy, scipy.special"
COMMAND = "from levers.cli.app import main; main()"
"""What the installed command `levers` does."""
CASES: dict[str, list[str]] = {
    LEAST: ["-c", LEAST],
    "import levers": ["-c", "import levers"],
    "levers --version": ["-c", COMMAND, "--version"],
    "levers studies": ["-c", COMMAND, "studies"],
    "levers studies, of three": ["-c", COMMAND, "studies", "--storage", "sqlite:///three.db"],
}


def make_studies(folder: str) -> None:
    """Three studies in one storage: one begun, one with outcomes, one finished."""
    import levers  # here only: what it takes to import is measured

    storage = f"sqlite:///{folder}/three.db"
    space: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4]}
    for blocks in (0, 1, 1000):
        study = levers.create_study(f"after {blocks}", space, tolerance=0.5, noise_sd=0.5, seed=1, storage=storage)
        for _ in range(blocks):
            study.tell_many((trial, float(trial.number % 3)) for trial in study.ask(1000))
            if study.is_finished:
                break


def environment() -> dict[str, str]:
    """One thread, and no storage but the one in the working folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEVERS_")}
    return {**kept, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}


def user_seconds(arguments: list[str], folder: str) -> float:
    """User CPU time of one process that starts in this folder."""
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None  # asked for above
    with process.stderr:
        complaint = process.stderr.read().decode()
    _, code, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        raise SystemExit(f"python {' '.join(arguments)} failed: {complaint}")
    return used.ru_utime


def loaded() -> list[str]:
    """The heavy libraries that `import levers` brings along."""
    code = f"import sys, levers; print(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    return done.stdout.split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    n_runs = parser.parse_args().runs
    times: dict[str, list[float]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory(prefix="levers-startup-") as folder:
        make_studies(folder)
        for turn in range(1 + n_runs):
            for name, arguments in CASES.items():
                seconds = user_seconds(arguments, folder)
                if turn:
                    times[name].append(seconds)
        left = sorted(path.name for path in Path(folder).iterdir() if not path.name.startswith("three.db"))
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    print(f"{'':28} {'user ms':>8} {'ratio':>6}   (median of {n_runs})")
    for name, median in medians.items():
        print(f"{name:28} {1000 * median:8.0f} {median / medians[LEAST]:6.2f}")
    print(f"import levers loads: {', '.join(loaded()) or 'none'} (of {', '.join(HEAVY)})")
    if left:
        print(f"files that looking left behind: {', '.join(left)}")


if __name__ == "__main__":
    main()
