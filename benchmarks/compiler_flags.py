"""14 flags of the C compiler, tuned by one `levers run` line: python benchmarks/compiler_flags.py instructions|user

The kernel and the flags are in examples/compiler_flags; a run compiles it and counts its instructions (perf, or
valgrind), or takes its user time. Then the winner, plain -O2 and -O3, and what Optuna's TPE finds in as many runs are
measured afresh, 30 times each, and interleaved. `--merge a,b,c` studies flags as one lever.
"""

import argparse

import numpy as np
from fresh_runs import copied, fresh, said, table, tpe, tuned

import levers
from levers.experiments.commands.command import Command
from levers.experiments.commands.reading import Reading
from levers.studies.analysis.describe import setting_words

REPEATS = {"instructions": "1", "user": "200"}
UNIT = {"instructions": ("thousands of instructions", 1e-3), "user": ("ms of user time", 1e3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measure", choices=tuple(REPEATS))
    parser.add_argument("--budget", type=int, default=120)
    parser.add_argument("--fresh", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--merge", action="append", default=[])
    given = parser.parse_args()
    unit, scale = UNIT[given.measure]
    with copied("compiler_flags"):
        merged = [word for group in given.merge for word in ("--merge", group)]
        words = [given.measure, "--budget", str(given.budget), "--seed", str(given.seed), *merged]
        study = tuned(f"flags-{given.measure}", words)
        print(f"{said(study)}\n  set {setting_words(study.best_params)}", flush=True)
        space = study.space
        setup = ["cc", *(f"{{{lever}}}" for lever in space.names), "kernel.c", "-o", "kernel"]
        other = tpe(_command(space, setup, given.measure), study, given.seed)
        print(f"TPE: {setting_words(other)}\n", flush=True)
        settings = {"levers run": _flags(study.verdict().assignment), "Optuna's TPE": _flags(other)}
        settings |= {"-O2": ["-O2"], "-O3": ["-O3"]}
        unused = levers.Space.of({"unused": [1, 2]})
        measures = {}
        for title, flags in settings.items():
            command = _command(unused, ["cc", *flags, "kernel.c", "-o", "kernel"], given.measure)
            measures[title] = lambda command=command: scale * command(unused.assignment([0]))
        found = fresh(measures, given.fresh, np.random.default_rng(given.seed))
        n = study.verdict().n_runs
        print(table(found, {"levers run": n, "Optuna's TPE": n}, unit, "-O2"))


def _command(space: levers.Space, setup: list[str], measure: str) -> Command:
    return Command.of(["./kernel", REPEATS[measure]], space, setup=setup, reading=Reading(time=measure))


def _flags(setting: levers.Assignment) -> list[str]:
    return [str(level) for level in setting.values()]


if __name__ == "__main__":
    main()
