"""The pragmas of SQLite, studied again and again on measured times: python benchmarks/replayed.py [studies] [runs]

`pragma_times.csv` has four measurements of all 1,152 settings of examples/sqlite_pragmas, each a round through all of
them in a random order. One study of a real job says little, because the next one may find another setting. Here a job's
logarithm of time is what main effects and the clearest pairs of pragmas (3 standard errors) say of all measurements,
plus the residual of one of them, drawn at random. Printed is how much slower than the best the setting found is, in
percent, and its standard error, on the log scale of a time and on the linear one, and in how many studies of ours
pragmas were said to work together. Ours are studies that are told times (`scale="log"`, `"linear"`); the others are
given logarithms or times.
"""

import csv
import os
import sys
import warnings
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from harness.rivals import BudgetProblem, thompson_sampling, tree_parzen_estimator
from levers.core.merging import Merging
from levers.core.model.level_index import Numbers
from levers.core.outcome_scale import LINEAR, LOG, OutcomeScale
from levers.core.space import Codes, Space
from levers.studies.library import create_study

TIMES = Path(__file__).with_name("pragma_times.csv")
CLEAR = 3.0
RIVALS = {"TPE": tree_parzen_estimator, "Thompson": thompson_sampling}


class Job:
    """The job as the measurements tell it: a mean logarithm of time for every setting, and what is left of each."""

    def __init__(self) -> None:
        with TIMES.open() as file:
            header, *rows = list(csv.reader(file))
        n_times = sum(name.startswith("ms_") for name in header)
        levels = [list(dict.fromkeys(column)) for column in zip(*(row[:-n_times] for row in rows), strict=True)]
        self.sizes = tuple(len(column) for column in levels)
        self.every = np.array(
            [[column.index(name) for column, name in zip(levels, row, strict=False)] for row in rows], dtype=np.int16
        )
        self.logs = np.log(np.array([[float(ms) for ms in row[-n_times:]] for row in rows]))
        columns, left = self.columns(self.every), self.logs - self.logs.mean(axis=0)
        found, *_ = np.linalg.lstsq(columns, left.mean(axis=1), rcond=None)
        self.residuals = (left - (columns @ found)[:, None]).ravel()
        variance = self.residuals @ self.residuals / (self.residuals.size - columns.shape[1] - n_times)
        errors = np.sqrt(np.diag(np.linalg.inv(columns.T @ columns)) * variance / n_times)
        self.effects = np.where((np.abs(found) > CLEAR * errors) | (np.arange(len(found)) < self.n_main), found, 0.0)

    @property
    def n_main(self) -> int:
        """Columns of main effects, which come first."""
        return sum(self.sizes) - len(self.sizes)

    def columns(self, codes: Codes) -> Numbers:
        """Centred indicators of all levels but the first, then their products for every pair of levers."""
        of = [[(codes[:, k] == level) - 1 / m for level in range(1, m)] for k, m in enumerate(self.sizes)]
        pairs = [a * b for first, second in combinations(of, 2) for a in first for b in second]
        return np.column_stack([column for lever in of for column in lever] + pairs)

    def slower(self, codes: Codes) -> float:
        """How much slower than the best a setting is, in percent."""
        means = self.columns(np.concatenate([self.every, codes[None, :].astype(np.int16)])) @ self.effects
        return float(100 * np.expm1(means[-1] - means[:-1].min()))

    def times(self, codes: Codes, rng: np.random.Generator) -> Numbers:
        """A time of every row, in units of the mean one."""
        found: Numbers = np.exp(self.columns(codes) @ self.effects + rng.choice(self.residuals, len(codes)))
        return found

    def measured(self, codes: Codes, scale: str, rng: np.random.Generator) -> Numbers:
        """The same as a number that adds up on a scale, larger being better."""
        return OutcomeScale(scale, -1.0).inward(self.times(codes, rng))


def studied(job: Job, n_runs: int, scale: str, seed: int) -> dict[str, float]:
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        in_seconds, space = scale == LINEAR, Space.sized(job.sizes)
        rng = np.random.default_rng([seed, in_seconds])
        study = create_study("pragmas", space, goal="minimize", scale=scale, budget=n_runs, seed=seed)
        while trials := study.ask(n_runs):
            codes = np.array([trial.params.codes for trial in trials], dtype=np.int16)
            study.tell_many(list(zip(trials, job.times(codes, rng).tolist(), strict=True)))
        fitted = study.spec.solver.fitted(study.state.known[-1])
        found = {"ours": job.slower(np.array(study.verdict().assignment.codes))}
        found["together"] = float(fitted is not None and fitted.together is not None)
        for name, recommend in RIVALS.items():
            rng = np.random.default_rng([seed, in_seconds, 1])
            measure = partial(job.measured, scale=scale, rng=rng)
            [setting] = recommend(BudgetProblem(Merging.of(space, ()), None), [n_runs], measure, rng)
            found[name] = job.slower(setting)
        return found


def main() -> None:
    n_studies = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    n_runs = int(sys.argv[2]) if len(sys.argv) > 2 else 120
    job, workers = Job(), int(os.environ.get("WORKERS", os.cpu_count() or 1))
    print(f"{n_studies} studies of {n_runs} runs; residual sd of the logarithm {job.residuals.std():.3f}")
    print(f"{'scale':10} {'ours':>14} {'TPE':>14} {'Thompson':>14} {'together':>9}")
    for name in (LOG, LINEAR):
        tasks = (delayed(studied)(job, n_runs, name, seed) for seed in range(n_studies))
        found = Parallel(n_jobs=workers)(tasks)
        cells = []
        for who in ("ours", *RIVALS):
            values = np.array([one[who] for one in found])
            cells.append(f"{values.mean():6.2f} +- {values.std() / len(values) ** 0.5:4.2f}")
        together = np.mean([one["together"] for one in found])
        print(f"{name:10} " + " ".join(f"{cell:>14}" for cell in cells) + f" {together:9.2f}", flush=True)


if __name__ == "__main__":
    main()
