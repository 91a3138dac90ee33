"""Nine pragmas of SQLite, tuned by one `levers run` line: python benchmarks/sqlite_pragmas.py [--budget 120]

The job and the pragmas are in examples/sqlite_pragmas. Then the winner, SQLite's defaults, and what Optuna's TPE finds
in as many runs are measured afresh, 30 times each, and interleaved. `--metric seconds` tunes seconds in place of their
logarithm; `--merge journal_mode,synchronous` studies these two as one lever.
"""

import argparse
import sys

import numpy as np
from fresh_runs import copied, fresh, said, table, tpe, tuned

from levers.core.space import Assignment
from levers.experiments.commands.command import Command
from levers.experiments.commands.reading import Reading
from levers.studies.analysis.describe import setting_words

DEFAULT = "SQLite's defaults"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, default=120)
    parser.add_argument("--fresh", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--metric", choices=("log", "seconds"), default="log")
    parser.add_argument("--merge")
    given = parser.parse_args()
    more = ["--merge", given.merge] if given.merge else []
    metric = rf"{given.metric}: (\S+)"
    with copied("sqlite_pragmas"):
        words = ["--budget", str(given.budget), "--seed", str(given.seed), "--metric", metric, *more]
        study = tuned("pragmas", words)
        print(f"{said(study)}\n  set {setting_words(study.best_params)}", flush=True)
        space = study.space
        job = [sys.executable, "workload.py", *(f"{name}={{{name}}}" for name in space.names)]
        other = tpe(Command.of(job, space, reading=Reading(metric=metric)), study, given.seed)
        print(f"TPE: {setting_words(other)}\n", flush=True)
        seconds = Command.of(job, space, reading=Reading(metric=r"seconds: (\S+)"))
        settings = {"levers run": study.verdict().assignment, "Optuna's TPE": other}
        settings[DEFAULT] = space.assignment([0] * space.n_factors)

        def again(setting: Assignment) -> float:
            return 1000 * seconds(setting)

        measures = {title: (lambda at=at: again(at)) for title, at in settings.items()}
        found = fresh(measures, given.fresh, np.random.default_rng(given.seed))
        n = study.verdict().n_runs
        print(table(found, {"levers run": n, "Optuna's TPE": n}, "ms", DEFAULT))


if __name__ == "__main__":
    main()
