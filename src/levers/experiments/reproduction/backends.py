"""Where tasks run: processes of this machine, or a dask cluster. Results come back in any order."""

from collections.abc import Iterator, Sequence

from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError

from levers.core.checks import check_count
from levers.errors import InvalidSettingError
from levers.experiments.reproduction.rows import Row
from levers.experiments.reproduction.sweep import Task
from levers.experiments.reproduction.tasks import run_task

MOST_RETRIES = 3
"""How often in a row workers may die without any task getting finished."""

Finished = tuple[Task, list[Row]]


def run_local(tasks: Sequence[Task], workers: int) -> Iterator[Finished]:
    """Tasks in processes of this machine. A worker that dies is replaced, and what it had is run again."""
    check_count("workers", workers)
    if workers == 1:
        yield from ((task, run_task(task)) for task in tasks)
        return
    left, failures = {task.key: task for task in tasks}, 0
    while left:
        pool = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
        try:
            for task, rows in pool(delayed(_keyed)(task) for task in list(left.values())):
                del left[task.key]
                failures = 0
                yield task, rows
        except TerminatedWorkerError:
            failures += 1
            if failures > MOST_RETRIES:
                raise InvalidSettingError(
                    f"workers were killed {failures} times in a row; there may be too little memory for {workers}"
                ) from None


def run_on_cluster(tasks: Sequence[Task], scheduler: str) -> Iterator[Finished]:
    """Tasks on a dask cluster at an address such as tcp://127.0.0.1:8786; lost workers' tasks are run again there."""
    try:
        from distributed import Client, as_completed
    except ModuleNotFoundError:
        raise InvalidSettingError("a cluster needs dask: pip install 'levers[cluster]'") from None
    try:
        client = Client(scheduler, timeout=10)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise InvalidSettingError(f"there is no dask scheduler at {scheduler}: {error}") from None
    with client:
        futures = client.map(
            _keyed, tasks, key=[f"levers-{task.key}" for task in tasks], retries=MOST_RETRIES, pure=False
        )
        for _, (task, rows) in as_completed(futures, with_results=True):  # type: ignore[no-untyped-call]
            yield task, rows


def _keyed(task: Task) -> Finished:
    return task, run_task(task)
