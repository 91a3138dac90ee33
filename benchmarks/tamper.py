"""How many single bits that flip in a storage's file, and rows that are edited or deleted in it, are noticed.

    python benchmarks/tamper.py [--flips 10000] [--edits 1000] [--looks 200] [--honest 20] [--seed 1]

A flip is noticed by `levers storage check` or `levers verify`; or it hit bytes that hold nothing (free space inside
pages), and every row of every table is the same byte for byte, which is compared. Anything else is a miss.
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from harness.tampering import Tampered, build_storage, edit_rows, flip_bits, space_that_holds_nothing, verified_studies
from levers.studies.storage.care.check import check_storage

Act: TypeAlias = Callable[..., Tampered]
CHUNK = 250
"""How many changes one process makes: one that SQLite or Python crashes on would end a process, and is counted."""


def in_processes(act: Act, path: Path, n: int, seed: int, **more: int) -> tuple[Tampered, int]:
    """All changes, in processes of their own; and how many of these crashed."""
    total, crashes = Tampered(), 0
    for begin in range(0, n, CHUNK):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        given = {key: max(0, min(value - begin, CHUNK)) for key, value in more.items()}
        arguments = (theirs, act, path, min(CHUNK, n - begin), seed + begin, given)
        process = multiprocessing.Process(target=_work, args=arguments)
        process.start()
        theirs.close()
        try:
            found: Tampered = ours.recv()
            total.found += found.found
            total.missed += found.missed
            total.tracebacks += found.tracebacks
        except EOFError:
            crashes += 1
        process.join()
        print(f"  {begin + min(CHUNK, n - begin):6} of {n}", end="\r", file=sys.stderr, flush=True)
    return total, crashes


def _work(pipe: Any, act: Act, path: Path, n: int, seed: int, more: dict[str, int]) -> None:
    pipe.send(act(path, n, seed, **more))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("flips", 10_000), ("edits", 1_000), ("looks", 200), ("honest", 20), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        accused = 0
        for i in range(chosen.honest):
            path = Path(folder) / f"honest{i}.db"
            build_storage(path, chosen.seed + i)
            accused += not check_storage(f"sqlite:///{path}").ok or not verified_studies(str(path))
        path = Path(folder) / "storage.db"
        build_storage(path, chosen.seed)
        share = space_that_holds_nothing(path)
        print(f"honest storages: {chosen.honest} built, {accused} accused")
        print(f"the storage: {path.stat().st_size:,} bytes; {share:.1%} of them hold nothing")
        wrong = accused
        parts: list[tuple[str, Act, int, dict[str, int]]] = [
            ("single-bit flips", flip_bits, chosen.flips, {"looks": chosen.looks}),
            ("row edits and deletions", edit_rows, chosen.edits, {}),
        ]
        for name, act, n, more in parts:
            began = time.perf_counter()
            found, crashes = in_processes(act, path, n, chosen.seed, **more)
            _print(name, n, found, crashes, time.perf_counter() - began)
            wrong += len(found.missed) + len(found.tracebacks) + crashes
    sys.exit(1 if wrong else 0)


def _print(name: str, n: int, found: Tampered, crashes: int, seconds: float) -> None:
    print(f"{name}: {n:,} in {seconds:.0f} s")
    kinds = Counter({kind: count for kind, count in found.found.items() if "look" not in kind})
    for kind, count in kinds.most_common():
        print(f"  {kind:32} {count:7,} {count / n:7.1%}")
    looked = sum(count for kind, count in found.found.items() if "look" in kind)
    if looked:
        print(f"  {'commands and pages that looked':32} {looked:7,}")
    print(f"  {'missed':32} {len(found.missed):7,}")
    print(f"  {'tracebacks':32} {len(found.tracebacks):7,}")
    print(f"  {'crashed processes':32} {crashes:7,}")
    for line in (*found.missed[:10], *found.tracebacks[:10]):
        print(f"    {line}")


if __name__ == "__main__":
    main()
