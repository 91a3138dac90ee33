"""How many files work goes through: python benchmarks/walks.py [--json FILE] [--against FILE] [--pairs WALK]

A switch is a call into a source file of the package other than the one of the call before it. Calls outside the package
do not count, and neither do templates. Every walk is made twice, each time on a new study: once to import and to fill
what is kept from the first use on, and once to count. A count is exact, so two states of the code can be compared.

Only faces that people use are called, so that the same script runs before and after files move. These names it needs:
`levers`, `levers.cli.app.main`, and for the web application what `make_web_app` imports.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", COLUMNS="120")  # before numpy is loaded

import argparse
import contextlib
import csv
import gc
import io
import itertools
import json
import sqlite3
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from starlette.testclient import TestClient

import levers
from levers.cli.app import main as command_line

PACKAGE = Path(levers.__file__).parent
NAME = "oven"
SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4], "supplier": ["A", "B"]}
TOLERANCE, NOISE_SD, SEED = 0.5, 1.0, 3
ALL_THERE_IS = 1_000  # more than any block has


def make_web_app(study: levers.Study) -> Any:
    """The application that serves a study's storage. The one place that knows where it is made."""
    from levers.web.app import make_app
    from levers.web.service import Service

    return make_app(Service(study.storage))


@dataclass(frozen=True)
class Count:
    """What one walk took."""

    files: int
    switches: int

    @classmethod
    def of(cls, calls: list[str]) -> "Count":
        """From the files that were called, in order."""
        return cls(len(set(calls)), sum(a != b for a, b in itertools.pairwise(calls)))


Prepare = Callable[[Path], Callable[[], object]]
"""Gets everything ready in an empty folder, and returns what is to be counted."""


@contextlib.contextmanager
def recorded_calls() -> Iterator[list[str]]:
    """The files of the package that are called, one for each call, in order, in this thread and in those it starts."""
    calls: list[str] = []
    inside = f"{PACKAGE}{os.sep}"

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            if file.startswith(inside) and file.endswith(".py"):
                calls.append(file)

    gc.collect()
    gc.disable()  # finalizers would be called at some moment or other
    threading.setprofile(record)
    sys.setprofile(record)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()


def count_calls(prepare: Prepare) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="levers-walks-") as folder:
        for name in ("warm", "counted"):
            (Path(folder) / name).mkdir()
        prepare(Path(folder) / "warm")()
        walk = prepare(Path(folder) / "counted")
        with recorded_calls() as calls:
            walk()
    return calls


def outcome(run: levers.Assignment, rng: np.random.Generator) -> float:
    heat = {"low": 0.0, "mid": 1.4, "high": 0.6}[str(run["heat"])]
    return float(heat + 1.2 * (run["speed"] == 3) + rng.normal())


def new_study(folder: Path) -> levers.Study:
    storage = f"sqlite:///{folder}/levers.db"
    return levers.create_study(NAME, SPACE, tolerance=TOLERANCE, noise_sd=NOISE_SD, seed=SEED, storage=storage)


def tell_block(study: levers.Study, rng: np.random.Generator) -> None:
    study.tell_many((trial, outcome(trial.params, rng)) for trial in study.ask(ALL_THERE_IS))


def command(*words: object) -> str:
    """What a command of the command line prints. It has to succeed."""
    said, before = io.StringIO(), sys.argv
    sys.argv = ["levers", *map(str, words)]
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            command_line()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"{' '.join(sys.argv)}: {said.getvalue()}") from None
    finally:
        sys.argv = before
    return said.getvalue()


def unopened(folder: Path) -> str:
    """The same storage in another file, so that a command has to open it as it does in a process of its own."""
    with (
        contextlib.closing(sqlite3.connect(folder / "levers.db")) as there,
        contextlib.closing(sqlite3.connect(folder / "unopened.db")) as here,
    ):
        there.backup(here)
    return f"sqlite:///{folder}/unopened.db"


def fill_in(sheet: Path) -> None:
    """Outcomes for all runs of a sheet."""
    with sheet.open(newline="") as file:
        reader = csv.DictReader(file)
        rows, columns = list(reader), reader.fieldnames or ()
    rng = np.random.default_rng(SEED)
    for row in rows:
        row["outcome"] = f"{1.4 * (row['heat'] == 'mid') + 1.2 * (row['speed'] == '3') + rng.normal():.4f}"
    with sheet.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def create(folder: Path) -> Callable[[], object]:
    factors = [f"--factor={name}={','.join(map(str, levels))}" for name, levels in SPACE.items()]
    settings = [f"--tolerance={TOLERANCE}", f"--noise-sd={NOISE_SD}", f"--seed={SEED}"]
    return lambda: command("create", NAME, *factors, *settings, f"--storage=sqlite:///{folder}/levers.db")


def ask_sheet(folder: Path) -> Callable[[], object]:
    new_study(folder)
    storage = unopened(folder)
    return lambda: command("ask", NAME, "-n", ALL_THERE_IS, "--sheet", folder / "runs.csv", "--storage", storage)


def tell_sheet(folder: Path) -> Callable[[], object]:
    study, sheet = new_study(folder), folder / "runs.csv"
    command("ask", NAME, "-n", ALL_THERE_IS, "--sheet", sheet, "--storage", study.storage.url)
    fill_in(sheet)
    storage = unopened(folder)
    return lambda: command("tell", NAME, "--sheet", sheet, "--storage", storage)


def status(folder: Path) -> Callable[[], object]:
    tell_block(new_study(folder), np.random.default_rng(SEED))
    storage = unopened(folder)
    return lambda: command("status", NAME, "--storage", storage)


def verdict(folder: Path) -> Callable[[], object]:
    study, rng = new_study(folder), np.random.default_rng(SEED)
    while not study.is_finished:
        tell_block(study, rng)
    storage = unopened(folder)
    return lambda: command("verdict", NAME, "--storage", storage)


def browser(study: levers.Study) -> TestClient:
    return TestClient(make_web_app(study), base_url="http://127.0.0.1")


def http_tell(folder: Path) -> Callable[[], object]:
    there, path = browser(new_study(folder)), f"/api/v1/studies/{NAME}"
    asked = there.post(f"{path}/ask", json={"n": 1}).raise_for_status().json()
    told = {"trial": asked["trials"][0]["trial"], "value": 1.5}
    return lambda: there.post(f"{path}/tell", json=told).raise_for_status()


def study_page(folder: Path) -> Callable[[], object]:
    """A page that nobody has seen yet: one block is told, some of the next, and three runs are out."""
    study, rng = new_study(folder), np.random.default_rng(SEED)
    tell_block(study, rng)
    study.tell_many((trial, outcome(trial.params, rng)) for trial in study.ask(18))
    study.ask(3)
    there = browser(study)
    return lambda: there.get(f"/studies/{NAME}", headers={"accept": "text/html"}).raise_for_status()


def optimize(_: Path) -> Callable[[], object]:
    space, rng = levers.Space.of(SPACE), np.random.default_rng(7)
    return lambda: levers.optimize(lambda run: outcome(run, rng), space, tolerance=TOLERANCE, noise_sd=NOISE_SD, seed=1)


def cfs_block(_: Path) -> Callable[[], object]:
    """The first decision, on nothing but noise: no level goes, so everything is looked at."""
    cfs = levers.make_algorithm("cfs", levers.Problem(levers.Space.of(SPACE), TOLERANCE, 0.1, NOISE_SD))
    state, rng = cfs.start(), np.random.default_rng(SEED)
    step = cfs.ask(state, rng)
    if not isinstance(step, levers.Batch):
        raise TypeError("the solver has a verdict before the first run")
    y = rng.normal(scale=NOISE_SD, size=len(step.codes))
    return lambda: cfs.tell(state, step, y)


WALKS: dict[str, Prepare] = {
    "create": create,
    "ask --sheet": ask_sheet,
    "tell --sheet": tell_sheet,
    "status": status,
    "verdict": verdict,
    "HTTP tell": http_tell,
    "study page": study_page,
    "optimize": optimize,
    "one CFS block": cfs_block,
}


def solver_folder() -> str:
    """Where the default solver is: its own files, without the mathematics that others use as well."""
    return str(Path(sys.modules[levers.ALGORITHMS["cfs"].__module__].__file__ or "").parent)


def measure() -> dict[str, Count]:
    found = {}
    for name, prepare in WALKS.items():
        calls = count_calls(prepare)
        found[name] = Count.of(calls)
        if name == "one CFS block":
            found[f"{name}, its folder"] = Count.of(
                [file for file in calls if str(Path(file).parent) == solver_folder()]
            )
    return found


def table(found: dict[str, Count], before: dict[str, Count]) -> Iterator[str]:
    head = f"{'walk':26} {'files':>6} {'switches':>9}"
    yield head + (f" {'files before':>13} {'switches before':>16} {'files':>7} {'switches':>9}" if before else "")
    for name, now in found.items():
        line = f"{name:26} {now.files:6} {now.switches:9,}"
        if name in before:
            was = before[name]
            ratios = f"{now.files / max(was.files, 1):7.2f} {now.switches / max(was.switches, 1):9.2f}"
            line += f" {was.files:13} {was.switches:16,} {ratios}"
        yield line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers")
    parser.add_argument("--against", type=Path, metavar="FILE", help="numbers that --json wrote, to compare with")
    parser.add_argument("--pairs", choices=WALKS, metavar="WALK", help="only print which files a walk switches between")
    given = parser.parse_args()
    if given.pairs is not None:
        calls = [str(Path(file).relative_to(PACKAGE)) for file in count_calls(WALKS[given.pairs])]
        for (one, other), n in Counter(itertools.pairwise(calls)).most_common():
            if one != other:
                print(f"{n:6} {one} -> {other}")
        return
    before: dict[str, Count] = {}
    if given.against is not None:
        before = {name: Count(**counts) for name, counts in json.loads(given.against.read_text()).items()}
    found = measure()
    print("\n".join(table(found, before)))
    if given.json is not None:
        given.json.write_text(json.dumps({name: vars(count) for name, count in found.items()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
