"""How often a lever that is hard to change is changed: python benchmarks/changes.py [studies] [part of a name]

Seven levers, or where it says so one or three, days of 8 runs, and the first lever hard to change ("hard") or not
("usual"), on the same worlds. A budget of 120 runs is spent without knowing the noise, on worlds of normal effects as
large as the noise; studies with a tolerance have gaps that they can just resolve, which is where promises are broken.
"changes" is how often the lever is changed, "loss" the mean true loss of the setting found, with its standard error.
With a set-up error, each change of the lever adds an error of so many sds of the noise to all runs until the next
change. Failed: the true loss is above the certified one. Unmarked: failed, and the verdict comes without a doubt. 200
studies of each kind by default.
"""

import os
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import levers
from harness.doubtful import DAY, Runs, setups
from harness.hard_worlds import TOLERANCE, additive_world, slippage_world
from levers.core.designs.changes import n_changes
from levers.studies.analysis.views import certified
from levers.worlds.scm import World, gap

SIZES = (3, 2, 4, 3, 2, 3, 2)
FIRST = 2_000_000
"""The first seed: those of benchmarks/doubt.py are others."""


@dataclass(frozen=True)
class Case:
    """Studies of one kind: with a budget or a tolerance, the noise stated or not, and set-up errors of so many sds."""

    name: str
    budget: int | None
    stated: bool
    error: float
    days: bool = True
    n_levers: int = len(SIZES)


CASES = (
    Case("budget of 120, noise unknown", 120, False, 0.0),
    Case("budget of 120, noise unknown, set-up error 1 sd", 120, False, 1.0),
    *(
        Case(f"tolerance, noise {known}, set-up error {error:g} sd{where}", None, known == "stated", error, not where)
        for where in ("", ", no days")
        for known in ("stated", "unknown")
        for error in (0.0, 0.5, 1.0)
    ),
    *(
        Case(f"number of levers {n}, noise stated, set-up error {error:g} sd", None, True, error, n_levers=n)
        for n in (1, 3)
        for error in (0.5, 1.0)
    ),
)


@dataclass(frozen=True)
class Found:
    """What became of one study."""

    n_runs: int
    n_changes: int
    loss: float
    failed: bool
    doubts: tuple[str, ...]


def world_of(case: Case, seed: int) -> World:
    """Its world: normal effects, or gaps that the study can just resolve."""
    if case.budget is None:
        return slippage_world(case.n_levers, 2 + seed % 3)
    rng = np.random.default_rng([seed, 7])
    return additive_world([rng.normal(size=m).tolist() for m in SIZES])


def study(name: str, hard: bool, seed: int) -> Found:
    """One study from its first run to its end."""
    case = next(one for one in CASES if one.name == name)
    world, noise_sd = world_of(case, seed), 0.6 if case.budget is None and case.n_levers == len(SIZES) else 1.0
    settings: dict[str, Any] = {"budget": case.budget} if case.budget else {"tolerance": TOLERANCE}
    settings |= {"noise_sd": noise_sd if case.stated else None, "block_size": DAY if case.days else None}
    begun = levers.create_study("s", world.space, seed=seed, hard_to_change=["X1"] if hard else [], **settings)
    rng, memory, rows = np.random.default_rng([seed, 8]), dict[str, Any](), []
    while begun.state.open_block is not None:
        trials = begun.ask(1_000_000)
        codes = np.array([trial.params.codes for trial in trials], dtype=np.int16)
        rows.append(codes)
        runs = Runs(codes, np.array([trial.number for trial in trials]), 0, world, noise_sd)
        y = 70 + world.outcome.mean(codes) + setups(case.error)(runs, rng, memory)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            begun.tell_many(zip(trials, y.tolist(), strict=True))
    verdict = certified(begun.state)
    assert verdict is not None
    every = np.concatenate(rows)
    lost = gap(world, verdict.assignment.codes)
    doubts = tuple(sorted({doubt.kind for doubt in begun.state.doubts or ()}))
    return Found(len(every), n_changes(every)[0], lost, lost > verdict.within + 1e-9, doubts)


def studies(name: str, hard: bool, seeds: range) -> list[Found]:
    """Some of them, on one thread."""
    with threadpool_limits(1):
        return [study(name, hard, seed) for seed in seeds]


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    workers = int(os.environ.get("WORKERS", os.cpu_count() or 1))
    print(f"{'studies':62} {'runs':>5} {'changes':>8} {'loss':>14} {'failed':>7} {'unmarked':>8} {'marked':>7}")
    for case in CASES:
        if wanted not in case.name:
            continue
        for hard in (False, True):
            pieces = [range(FIRST + i, FIRST + min(i + 10, n)) for i in range(0, n, 10)]
            parts = Parallel(n_jobs=workers)(delayed(studies)(case.name, hard, piece) for piece in pieces)
            found = [one for part in parts for one in part]
            losses = np.array([one.loss for one in found])
            runs, changes = (np.mean([getattr(one, what) for one in found]) for what in ("n_runs", "n_changes"))
            failed = np.mean([one.failed for one in found])
            unmarked = np.mean([one.failed and not one.doubts for one in found])
            kinds = Counter(doubt for one in found for doubt in one.doubts)
            print(
                f"{case.name + (', hard' if hard else ', usual'):62} {runs:5.0f} {changes:8.1f} "
                f"{losses.mean():7.3f} ± {losses.std() / len(losses) ** 0.5:.3f} {failed:7.1%} {unmarked:8.1%} "
                f"{np.mean([bool(one.doubts) for one in found]):7.1%} "
                f"{', '.join(f'{kind} {count / n:.0%}' for kind, count in kinds.most_common(3))}",
                flush=True,
            )


if __name__ == "__main__":
    main()
