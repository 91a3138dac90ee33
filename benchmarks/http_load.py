"""Many HTTP workers on one study: python benchmarks/http_load.py [--workers 64] [--seconds 60]

Each asks for one trial with a lease and an idempotency key, and tells it, over a connection of its own, with a token.
The service runs in a process of its own. No error, no outcome lost or doubled. Exit code 1 if not.
For comparison, the same storage without HTTP: one process that asks and tells in a loop.
With --against PATH, the `src` folder of another version, both are measured in turn, and the ratio is printed.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before numpy is loaded

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from in_turn import in_turn

from harness.fleet import FLEET_SPACE
from harness.http_load import check_load, run_load, running_server
from harness.postgres import running_postgres
from levers.studies.library import create_study, load_study, open_storage
from levers.studies.storage.tokens import create_token

STORAGES = ("sqlite", "postgresql")
PLENTY = 200_000  # runs: more than can be told in a minute


def alone(url: str, seconds: float) -> float:
    """Trials a second of one process that asks and tells without HTTP."""
    study = create_study("alone", FLEET_SPACE, budget=PLENTY, noise_sd=1.0, seed=0, storage=url)
    n, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds:
        for trial in study.ask(lease=600):
            study.tell(trial, 0.5)
            n += 1
    return n / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--storage", choices=[*STORAGES, "both"], default="both")
    parser.add_argument("--against", type=Path, metavar="SRC", help="another version's src folder, to compare with")
    parser.add_argument("--turns", type=int, default=2, help="how often each version is measured with --against")
    given = parser.parse_args()
    storages = STORAGES if given.storage == "both" else (given.storage,)
    if given.against is not None:
        options = ["--workers", str(given.workers), "--seconds", str(given.seconds)]
        sys.exit(0 if in_turn(__file__, given.against, storages, options, given.turns) else 1)
    all_ok = True
    for storage in storages:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="levers-load-")))
            url = f"sqlite:///{folder}/levers.db" if storage == "sqlite" else stack.enter_context(running_postgres())
            opened = open_storage(url)
            create_study("load", FLEET_SPACE, budget=PLENTY, noise_sd=1.0, seed=0, storage=opened)
            token = create_token(opened, "write")
            with running_server(url, "--require-token") as server:
                found = run_load(server.address, token, "load", workers=given.workers, seconds=given.seconds)
                code = server.stop()
            problems = found.problems[:5] + check_load(load_study("load", opened), found)
            problems += [f"the service ended with code {code}"] if code else []
            local = alone(url, min(given.seconds, 10))
            opened.close()
        ask, tell = (np.percentile(1000 * np.array(t), [50, 99]) for t in (found.ask_seconds, found.tell_seconds))
        rate = len(found.told) / found.seconds
        print(
            f"{storage}: {given.workers} HTTP workers, {len(found.told)} trials in {found.seconds:.0f} s, "
            f"{rate:.0f} a second; ms (median, 99 %): "
            f"ask {ask[0]:.0f}, {ask[1]:.0f}, tell {tell[0]:.0f}, {tell[1]:.0f}; "
            f"{'; '.join(problems) or 'no error, none lost, none doubled'}\n"
            f"{storage}: one process without HTTP {local:.0f} a second, ratio {rate / local:.1f}",
            flush=True,
        )
        all_ok &= not problems
    sys.exit(0 if all_ok else 1)


if __name__ == "__main__":
    main()
