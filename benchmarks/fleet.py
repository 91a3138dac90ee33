"""Many processes on one study: python benchmarks/fleet.py [--workers 16] [--trials 20000] [--restarts 10]

Each asks for one trial at a time, with a lease, and tells it. No lock error, no trial handed out twice, every outcome
as it was told. With --against PATH, the `src` folder of another version, both are measured in turn, and the ratio is
printed. With --restarts PostgreSQL is restarted so many times while workers call `optimize`: no worker ends,
nothing is lost or counted twice, the verdict is the one without restarts. Exit code 1 if not.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before numpy is loaded

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from in_turn import in_turn

from harness.fleet import run_fleet
from harness.postgres import restart_postgres, running_postgres

STORAGES = ("sqlite", "postgresql")
LEASE = 600  # seconds: every trial has a deadline, and none passes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--storage", choices=[*STORAGES, "both"], default="both")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--restarts", type=int, default=0, help="restart PostgreSQL so many times")
    parser.add_argument("--against", type=Path, metavar="SRC", help="another version's src folder, to compare with")
    parser.add_argument("--turns", type=int, default=4, help="how often each version is measured with --against")
    given = parser.parse_args()
    storages = STORAGES if given.storage == "both" else (given.storage,)
    if given.against is not None:
        options = ["--workers", str(given.workers), "--trials", str(given.trials), "--seed", str(given.seed)]
        sys.exit(0 if in_turn(__file__, given.against, storages, options, given.turns) else 1)
    if given.restarts:
        sys.exit(0 if through_restarts(given.workers, given.trials, given.restarts) else 1)
    all_ok = True
    for storage in storages:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="levers-fleet-")))
            url = f"sqlite:///{folder}/levers.db" if storage == "sqlite" else stack.enter_context(running_postgres())
            found = run_fleet(url, folder, workers=given.workers, trials=given.trials, seed=given.seed, lease=LEASE)
        ask, tell = (np.percentile(1000 * t, [50, 99]) for t in (found.ask_seconds, found.tell_seconds))
        print(
            f"{storage}: {given.workers} processes, {found.n_told} trials in {found.seconds:.0f} s, "
            f"{found.n_told / found.seconds:.0f} a second; ms (median, 99 %): ask {ask[0]:.1f}, {ask[1]:.1f}, "
            f"tell {tell[0]:.1f}, {tell[1]:.1f}; {'; '.join(found.problems) or 'all exact'}",
            flush=True,
        )
        all_ok &= not found.problems
    sys.exit(0 if all_ok else 1)


def through_restarts(workers: int, trials: int, restarts: int) -> bool:
    """A fleet of `optimize` calls while the database is restarted; prints what came of it."""
    from harness.outage import run_through_restarts  # which versions to compare with may not have

    with tempfile.TemporaryDirectory(prefix="levers-fleet-") as folder, running_postgres() as url:
        found = run_through_restarts(
            url, Path(folder), lambda: restart_postgres(url), workers=workers, runs=trials, restarts=restarts
        )
    print(
        f"postgresql: {workers} processes, {found.n_runs} runs in {found.seconds:.0f} s through {found.n_restarts} "
        f"restarts; {found.n_measured - found.n_runs} measured twice because a lease ran out meanwhile; "
        f"{'; '.join(found.problems) or 'no worker ended, nothing lost or doubled, same verdict'}"
    )
    return not found.problems and found.n_restarts == restarts


if __name__ == "__main__":
    main()
