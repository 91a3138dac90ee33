"""Kill a worker with SIGKILL again and again, at any moment: python benchmarks/kill.py [--kills 500]

Nothing that was told may be lost, nothing may count twice, and each verdict must be the one of a study that nobody
interrupted. Exit code 1 if not.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before numpy is loaded

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from harness.killing import PHASES, kill_workers
from harness.postgres import running_postgres

STORAGES = ("sqlite", "postgresql")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--storage", choices=[*STORAGES, "both"], default="both")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    all_ok = True
    for storage in STORAGES if given.storage == "both" else [given.storage]:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="levers-kill-")))
            url = f"sqlite:///{folder}/levers.db" if storage == "sqlite" else stack.enter_context(running_postgres())
            found = kill_workers(url, folder, kills=given.kills, seed=given.seed)
        landed = ", ".join(f"{found.landed.get(phase, 0)} {phase}" for phase in PHASES.values())
        print(
            f"{storage}: {found.kills} kills ({landed}) on {found.studies} studies, {found.n_told} outcomes told, "
            f"{found.n_lost} lost, {found.n_doubled} doubled, "
            f"verdicts identical: {'no' if found.n_different else 'yes'}, {found.seconds:.0f} s",
            flush=True,
        )
        all_ok &= found.ok
    sys.exit(0 if all_ok else 1)


if __name__ == "__main__":
    main()
