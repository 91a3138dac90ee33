"""What studies under attack share: processes that start fast, and what a study says is complete."""

import multiprocessing
from multiprocessing.context import ForkServerContext

import numpy as np

from levers.studies.events import Numbers, Values
from levers.studies.state import StudyState, TrialState

SECONDS_TO_START = 120


def fork_context() -> ForkServerContext:
    """A server that has imported everything and holds no connection: workers start in milliseconds, threads or not."""
    context = multiprocessing.get_context("forkserver")
    modules = ["levers.studies.storage.sql", "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql.psycopg"]
    context.set_forkserver_preload([*modules, "alembic.command", "harness.killing", "harness.fleet"])
    return context


def completed(state: StudyState) -> tuple[Numbers, Values]:
    """The trials whose outcomes count, and these."""
    table = state.trials
    which = np.flatnonzero(table.state[: table.n_trials] == TrialState.COMPLETE)
    values = [state.blocks[block].values[row] for block, row in zip(table.block[which], table.row[which], strict=True)]
    return which, np.array(values)
