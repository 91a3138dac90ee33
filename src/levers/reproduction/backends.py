"""Where tasks run: processes of this machine, or a dask cluster. Results come back in any order."""

import asyncio
import os
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias
from uuid import uuid4

from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import threadpool_limits

from levers.core.validation import check_count
from levers.errors import InvalidSettingError, to_install
from levers.reproduction.results import Row
from levers.reproduction.sweeps import Task
from levers.reproduction.tasks import run_task

MOST_RETRIES = 3
"""How often in a row workers may die without any task getting finished."""
SECONDS_TO_CONNECT = 10
"""How long a scheduler may take to answer."""
Finished: TypeAlias = tuple[Task, list[Row]]
"""A task and its rows."""


def run_local(tasks: Sequence[Task], workers: int) -> Iterator[Finished]:
    """Tasks in processes of this machine. A worker that dies is replaced, and what it had is run again."""
    check_count("workers", workers)
    if workers == 1:
        yield from ((task, run_task(task)) for task in tasks)
        return
    left, failures = {task.key: task for task in tasks}, 0
    while left:
        pool = Parallel(n_jobs=workers, backend="loky", return_as="generator_unordered", batch_size=1)
        results = pool(delayed(_run_in_worker)(task, os.getpid()) for task in list(left.values()))
        try:
            for task, rows in results:
                del left[task.key]
                failures = 0
                yield task, rows
        except TerminatedWorkerError:
            failures += 1
            if failures > MOST_RETRIES:
                raise InvalidSettingError(
                    f"workers were killed {failures} times in a row; there may be too little memory for {workers}"
                ) from None
        except GeneratorExit:  # the caller was interrupted: end the workers now, without joblib's advice about it
            with warnings.catch_warnings(action="ignore"):
                results.close()
            raise


def run_on_cluster(tasks: Sequence[Task], scheduler: str) -> Iterator[Finished]:
    """Tasks on a dask cluster at an address such as tcp://127.0.0.1:8786; lost workers' tasks are run again there.

    Waits for workers if there are none yet, since some clusters start them when there is work.
    """
    try:
        from distributed import KilledWorker, as_completed
    except ModuleNotFoundError:
        raise InvalidSettingError(f"a cluster needs dask: {to_install('cluster')}") from None
    if not tasks:
        return
    with _connect(scheduler) as client:
        _check_versions(client)
        # all users of a cluster share its keys, and a known key is not run again, so ours must be new
        session = uuid4().hex
        keys = [f"levers-{session}-{task.key}" for task in tasks]
        futures = client.map(_run_on_cluster, tasks, key=keys, pure=False, expected=version("levers"))
        results = as_completed(futures, loop=client.loop, with_results=True)  # type: ignore[no-untyped-call]
        try:
            for future, result in results:
                if future.status != "finished":
                    raise InvalidSettingError(f"the dask cluster at {scheduler} was lost; the same call goes on later")
                yield result
        except KilledWorker as error:
            raise InvalidSettingError(f"the cluster's workers keep dying: {error}") from None


def _connect(scheduler: str) -> Any:
    from distributed import Client

    try:
        # in a thread, since a notebook has an event loop already
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _greet(scheduler)).result()
        return Client(scheduler, timeout=SECONDS_TO_CONNECT, set_as_default=False)  # type: ignore[no-untyped-call]
    except Exception as error:  # of any kind: whatever else listens there may answer anything
        reason = str(error) or f"no answer within {SECONDS_TO_CONNECT} seconds"
        raise InvalidSettingError(f"there is no dask scheduler at {scheduler}: {reason}") from None


async def _greet(scheduler: str) -> None:
    """Shake hands once: dask's own timeout is over when something listens, and would wait for an answer for ever."""
    from distributed import Security
    from distributed.comm.core import connect

    security = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
    greeting = connect(scheduler, timeout=SECONDS_TO_CONNECT, **security)  # type: ignore[no-untyped-call]
    comm = await asyncio.wait_for(greeting, SECONDS_TO_CONNECT)
    await comm.close()


def _check_versions(client: Any) -> None:
    """Refuse workers with another levers, before anything runs."""
    ours, others = version("levers"), set()
    for found in client.run(version, "levers", on_error="return").values():
        if isinstance(found, PackageNotFoundError):
            others.add("none")
        elif isinstance(found, str) and found != ours:
            others.add(found)
    if others:
        raise InvalidSettingError(_mismatch(ours, ", ".join(sorted(others))))


def _mismatch(ours: str, theirs: str) -> str:
    return f"this is levers {ours}, but workers of the cluster have {theirs}; install the same version there"


def _run_in_worker(task: Task, parent: int) -> Finished:
    _end_with(parent)
    return task, run_task(task)


@cache
def _end_with(parent: int) -> None:
    """End this worker soon after its parent ends: a parent that is killed cannot tell its workers."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run_on_cluster(task: Task, expected: str) -> Finished:
    if version("levers") != expected:  # a worker that came later
        raise InvalidSettingError(_mismatch(expected, version("levers")))
    # set for good, not for this task alone: a task that ends would lift the limit of those in other threads
    threadpool_limits(1)
    return task, run_task(task)
