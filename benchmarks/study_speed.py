"""What keeping a study costs, against Optuna on the same disk: python benchmarks/study_speed.py [--folder .]

Both sides on SQLite with their own settings, in turns, so that a slow moment of the disk hits both. Then levers alone:
the 100,000th trial against the 1,000th, and a million outcomes from one run sheet in a new process. Exit code 1 if a
target is missed.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before numpy is loaded

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import optuna
from sqlalchemy import Engine

import levers
from levers.studies.sheets.runs import sheet_columns, tell_sheet
from levers.studies.sheets.write import write_sheet
from levers.studies.storage.sql import SqlStorage, parse_url
from levers.studies.study import Study

N_FACTORS, N_LEVELS = 10, 4
ROUNDS, PAIRS, MANY = 10, 20, 2_000
SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


@dataclass
class Stopwatch:
    """Seconds of each call."""

    seconds: list[float] = field(default_factory=list)

    def __call__(self, action: Callable[[], object]) -> None:
        """Do it."""
        began = time.perf_counter()
        action()
        self.seconds.append(time.perf_counter() - began)

    @property
    def mean(self) -> float:
        """Milliseconds."""
        return 1000 * float(np.mean(self.seconds))

    @property
    def median(self) -> float:
        """Milliseconds."""
        return 1000 * float(np.median(self.seconds))


def at_the_long_block(url: str, budget: int) -> Study:
    """A study whose short first blocks are done; the open one has nearly all of the budget."""
    space = {f"x{i}": list(range(N_LEVELS)) for i in range(N_FACTORS)}
    study = levers.create_study("speed", space, budget=budget, noise_sd=1.0, seed=1, storage=url)
    rng = np.random.default_rng(0)
    while (block := study.state.open_block) is not None and block.n_runs < budget / 2:
        due = study.ask_numbers(block.n_runs)
        study.tell_arrays(due, rng.normal(size=len(due)))
    return study


def pair(study: Study, ask: Stopwatch, tell: Stopwatch) -> None:
    held: list[levers.Trial] = []
    ask(lambda: held.extend(study.ask()))
    tell(lambda: study.tell(held[0], 1.0))


def optuna_pair(study: optuna.Study, ask: Stopwatch, tell: Stopwatch) -> None:
    choices: dict[str, optuna.distributions.BaseDistribution] = {
        f"x{i}": optuna.distributions.CategoricalDistribution(list(range(N_LEVELS))) for i in range(N_FACTORS)
    }
    held: list[optuna.Trial] = []
    ask(lambda: held.append(study.ask(fixed_distributions=choices)))
    tell(lambda: study.tell(held[0], 1.0))


def guarantee(engine: Engine) -> str:
    with engine.connect() as connection:
        mode, sync = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("journal_mode", "synchronous")
        )
    return f"journal_mode={mode}, synchronous={SYNCHRONOUS[sync]}"


def against_optuna(folder: Path) -> bool:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    url = f"sqlite:///{folder}/levers.db"
    ours = at_the_long_block(url, 100_000)
    storage = optuna.storages.RDBStorage(f"sqlite:///{folder}/optuna.db")
    theirs = optuna.create_study(storage=storage, sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(PAIRS):  # warm up
        pair(ours, Stopwatch(), Stopwatch())
        optuna_pair(theirs, Stopwatch(), Stopwatch())
    our_ask, our_tell, our_many, their_ask, their_tell = (Stopwatch() for _ in range(5))
    for _ in range(ROUNDS):
        for _ in range(PAIRS):
            pair(ours, our_ask, our_tell)
        due = ours.ask_numbers(MANY).tolist()
        outcomes = {trial: float(trial) for trial in due}
        our_many(lambda told=outcomes: ours.tell_many(told))  # type: ignore[misc]
        for _ in range(PAIRS):
            optuna_pair(theirs, their_ask, their_tell)
    met = line("ask + tell, ms", our_ask.mean + our_tell.mean, their_ask.mean + their_tell.mean, 3)
    line("  ask", our_ask.mean, their_ask.mean)
    line("  tell", our_tell.mean, their_tell.mean)
    met &= line(f"tell per outcome, {MANY:,} at once", our_many.mean / MANY, their_tell.mean, 100)
    print("means; a ratio is how many times faster levers is")
    own = SqlStorage(parse_url(url))
    print(
        f"levers: {guarantee(own._engine)}: every commit is on disk before ask or tell returns, also after power loss"
    )
    print(f"optuna {optuna.__version__}: {guarantee(storage.engine)} (what SQLite and its driver do unless told)\n")
    own.close()
    return met


def line(what: str, ours: float, theirs: float, target: float | None = None) -> bool:
    """Print a comparison; returns whether its target is met."""
    met = target is None or theirs / ours >= target
    aim = "" if target is None else f"target {target:g}: {said(met)}"
    print(f"{what:34} levers {ours:9.4f}  optuna {theirs:9.4f}  ratio {theirs / ours:8.1f}  {aim}", flush=True)
    return met


def said(met: bool) -> str:
    return "met" if met else "MISSED"


def late_against_early(folder: Path) -> bool:
    late = at_the_long_block(f"sqlite:///{folder}/late.db", 110_000)
    advance(late, 1_000)
    early = levers.copy_study("speed", "speed", f"sqlite:///{folder}/late.db", f"sqlite:///{folder}/early.db")
    advance(late, 100_000)
    times = {(which, what): Stopwatch() for which in ("early", "late") for what in ("ask", "tell")}
    for _ in range(2 * ROUNDS):
        for _ in range(PAIRS):
            pair(early, times["early", "ask"], times["early", "tell"])
        for _ in range(PAIRS):
            pair(late, times["late", "ask"], times["late", "tell"])
    all_met = True
    for what in ("ask", "tell"):
        one, other = times["early", what], times["late", what]
        ratio = other.median / one.median
        all_met &= ratio <= 1.5
        print(
            f"{what:5} ms, median (mean): trial 1,000 {one.median:.3f} ({one.mean:.3f}), trial 100,000 "
            f"{other.median:.3f} ({other.mean:.3f}), ratio {ratio:.2f}  "
            f"target at most 1.5: {said(ratio <= 1.5)}",
            flush=True,
        )
    print()
    return all_met


def advance(study: Study, to: int) -> None:
    """Tell outcomes until so many are complete."""
    while (missing := to - study.state.n_complete) > 0:
        due = study.ask_numbers(min(missing, 100))
        study.tell_arrays(due, np.zeros(len(due)))


def a_million(folder: Path) -> bool:
    url, path = f"sqlite:///{folder}/million.db", folder / "runs.csv"
    study = at_the_long_block(url, 1_030_000)
    due = study.ask_numbers(2**40)
    outcomes = np.random.default_rng(1).normal(size=len(due))
    write_sheet(path, study.space, **sheet_columns(study.state, due, outcomes))
    size = path.stat().st_size / 2**20
    ran = subprocess.run([sys.executable, __file__, "--tell", url, path], stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(ran.stdout)
    assert found["told"] == len(due)
    assert study.is_finished
    met = [found["told"] >= 1e6, found["seconds"] < 15, found["megabytes"] < 1024]
    verdicts = [said(ok) for ok in met]
    print(
        f"{found['told']:,} outcomes from one CSV of {size:.0f} MB (target 1,000,000: {verdicts[0]}): "
        f"{found['seconds']:.1f} s (under 15: {verdicts[1]}), "
        f"peak {found['megabytes']:.0f} MB (under 1024: {verdicts[2]}); loading, reading and the verdict included"
    )
    return all(met)


def tell_and_report(url: str, path: str) -> None:
    """In a process of its own, so that the peak is that of telling alone."""
    began = time.perf_counter()
    report = tell_sheet(levers.load_study("speed", url), path)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"told": report.n_new, "seconds": seconds, "megabytes": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--tell", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.tell:
        tell_and_report(*given.tell)
        return
    with tempfile.TemporaryDirectory(prefix="levers-speed-", dir=given.folder) as folder:
        met = [measure(Path(folder).resolve()) for measure in (against_optuna, late_against_early, a_million)]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
