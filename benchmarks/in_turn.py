"""Another version and this one, measured in turn.

Machines are busy with other things too, so that only runs that follow each other can be compared.
"""

import math
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import levers


def in_turn(script: str, against: Path, storages: Sequence[str], options: Sequence[str], turns: int) -> bool:
    """Run a benchmark of trials a second by the other version's `src` folder and by this one, each in its own process.

    Prints what they reach, and the ratio; says whether all ran well and this version is at least as fast.
    """
    own, is_well = Path(levers.__file__).parents[1], True
    for storage in storages:
        rates: dict[Path, list[float]] = {against: [], own: []}
        for turn in range(turns):
            for source in (against, own) if turn % 2 == 0 else (own, against):
                path = os.pathsep.join([str(source.resolve()), *sys.path[1:]])
                done = subprocess.run(
                    [sys.executable, script, "--storage", storage, *options],
                    env={**os.environ, "PYTHONPATH": path},
                    stdout=subprocess.PIPE,
                    text=True,
                )
                print(f"{source}: {done.stdout}", end="", flush=True)
                is_well &= done.returncode == 0
                measured = re.search(r"(\d+) trials in ([\d.]+) s", done.stdout)
                rates[source].append(float(measured[1]) / max(float(measured[2]), 1.0) if measured else math.nan)
        before, now = (sum(found) / len(found) for found in rates.values())
        print(f"{storage}: {before:.1f} trials a second there, {now:.1f} here, ratio {now / before:.2f}", flush=True)
        is_well &= now >= before
    return is_well
