"""A verdict of `levers run` put to the test: fresh runs of its setting, of the default and of what TPE found.

What benchmarks/compiler_flags.py and benchmarks/sqlite_pragmas.py share. Fresh runs of all settings are interleaved in
a random order, so that a machine that gets slower meanwhile is no advantage to any of them.
"""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import levers
from levers.experiments.commands.command import Command
from levers.studies.analysis.describe import gain_words
from levers.studies.study import Study

EXAMPLES = Path(__file__).parents[1] / "examples"


@contextlib.contextmanager
def copied(example: str) -> Iterator[None]:
    """Work in a copy of an example, with a storage and journals of its own."""
    with tempfile.TemporaryDirectory(prefix="levers-fresh-") as name:
        folder = Path(name) / example
        shutil.copytree(EXAMPLES / example, folder, ignore=shutil.ignore_patterns("*.db*", "kernel", "job-*"))
        os.environ["LEVERS_JOURNAL"] = str(Path(name) / "journals")
        was = Path.cwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(was)


def tuned(study: str, words: Sequence[str]) -> Study:
    """The study after the example's one line, with further words."""
    environment = {**os.environ, "LEVERS": f"{sys.executable} -m levers.cli.app", "PYTHON": sys.executable}
    done = subprocess.run(["sh", "tune.sh", *words], env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):  # 4 is a verdict in doubt
        sys.exit(done.stderr)
    return levers.load_study(study, "sqlite:///levers.db")


def said(study: Study) -> str:
    """The promise of a verdict, and why it is in doubt if it is."""
    verdict = study.verdict()
    doubts = [f"\n  doubt: {doubt.text}" for doubt in verdict.doubts]
    best = study.best()
    gain = "" if best is None or best.gain is None else f"\n  {gain_words(best.gain, True, None)}"
    matter = f"\n  shown to matter: {', '.join(verdict.parents or ()) or 'none'}"
    return f"{verdict.n_runs} runs; {verdict.promise}{gain}{matter}{''.join(doubts)}"


def tpe(command: Command, study: Study, seed: int) -> levers.Assignment:
    """The setting that Optuna's TPE finds with as many runs as the study had; it promises nothing to be in doubt."""
    n_runs = study.verdict().n_runs
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        found = levers.optimize(
            command, study.space, algorithm="tpe", budget=n_runs, goal="minimize", seed=seed, progress=False
        )
    return found.assignment


def fresh(
    settings: Mapping[str, Callable[[], float]], n: int, rng: np.random.Generator
) -> dict[str, NDArray[np.float64]]:
    """n outcomes of each setting, all in a random order."""
    found: dict[str, list[float]] = {title: [] for title in settings}
    for title in rng.permutation(np.repeat(list(settings), n)):
        found[title].append(settings[title]())
    return {title: np.array(values) for title, values in found.items()}


def table(found: Mapping[str, NDArray[np.float64]], runs: Mapping[str, int], unit: str, default: str) -> str:
    """Means with their standard errors, and each setting against the default."""
    lines = [
        f"| setting | runs to find it | mean, {unit} | standard error | against {default} |",
        "|---|---:|---:|---:|---:|",
    ]
    base = found[default].mean()
    for title, values in found.items():
        error = values.std(ddof=1) / np.sqrt(len(values))
        ratio = 100 * (values.mean() / base - 1)
        size = "0" if error < 1e-9 * base else f"{error:.2g}"
        cells = [title, f"{runs.get(title, 0)}", f"{values.mean():,.6g}", size, f"{ratio:+.1f} %"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
