"""One row per run: what every table, figure and claim is made from."""

from dataclasses import asdict, dataclass

import polars as pl

from levers.algorithms.base import Verdict
from levers.experiments.reproduction.sweep import Contender, Point, Task
from levers.simulation.scm import World
from levers.simulation.truth import gap, true_parents

SCHEMA = {
    "experiment": pl.String,
    "panel": pl.String,
    "x": pl.Float64,
    "contender": pl.String,
    "world": pl.Int64,
    "repeat": pl.Int64,
    "n_runs": pl.Int64,
    "gap": pl.Float64,
    "failed": pl.Boolean,
    "parents_exact": pl.Boolean,
    "limit": pl.Int64,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One contender on one world, once. `limit` is the fewest runs with which a balanced design could do it."""

    experiment: str
    panel: str
    x: float
    contender: str
    world: int
    repeat: int
    n_runs: int
    gap: float
    failed: bool
    parents_exact: bool | None
    limit: int | None

    @classmethod
    def of(
        cls,
        task: Task,
        point: Point,
        contender: Contender,
        repeat: int,
        *,
        verdict: Verdict,
        world: World,
        tolerance: float,
        limit: int,
    ) -> "Row":
        """What a verdict is worth in a world in which the truth is known."""
        loss = gap(world, verdict.assignment.codes)
        exact = None if verdict.parents is None else set(verdict.parents) == set(true_parents(world))
        return cls(
            task.sweep,
            point.panel,
            point.x,
            contender.label,
            task.world,
            repeat,
            verdict.n_runs,
            loss,
            loss > tolerance,
            exact,
            limit,
        )


def table(rows: list[Row]) -> pl.DataFrame:
    """Rows as a table."""
    return pl.DataFrame([asdict(row) for row in rows], schema=SCHEMA)


def summary(runs: pl.DataFrame) -> pl.DataFrame:
    """Means over all runs of a point, with standard errors that take worlds as the independent units.

    >>> rows = [Row("e", "p", 1.0, "cfs", world, 0, 10 * (world + 1), 0.1, False, None, 5) for world in range(4)]
    >>> summary(table(rows)).select("runs", "runs_se", "failures", "n").row(0)
    (25.0, 6.454972243679028, 0, 4)
    """
    by_world = runs.group_by("experiment", "panel", "x", "contender", "world", maintain_order=True).agg(
        pl.col("n_runs").mean(),
        pl.col("gap").mean(),
        pl.col("failed").sum().alias("failures"),
        pl.col("parents_exact").mean(),
        pl.col("limit").mean(),
        pl.len().alias("n"),
    )
    se = (pl.len().cast(pl.Float64)).sqrt()
    return by_world.group_by("experiment", "panel", "x", "contender", maintain_order=True).agg(
        pl.col("n_runs").mean().alias("runs"),
        (pl.col("n_runs").std() / se).alias("runs_se"),
        pl.col("gap").mean().alias("gap"),
        (pl.col("gap").std() / se).alias("gap_se"),
        pl.col("failures").sum(),
        pl.col("n").sum(),
        pl.col("parents_exact").mean(),
        pl.col("limit").mean(),
    )
