"""A few processes for what takes long: plans, first rounds of studies, sheets. They can be ended, and threads cannot.

A job is a function of a module and plain data, as `pickle` has them. At most so many wait; each may take so many
seconds and so much memory; and one whose client has left is ended with the process that it ran in.
"""

import atexit
import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar, cast

from levers.web.errors import RefusedError
from levers.web.limits import Limits
from levers.web.limits.jobs import nothing
from levers.web.limits.worker import receive, send

P = ParamSpec("P")
R = TypeVar("R")
_MOST_JOBS = 500
"""After so many jobs a process is replaced, whatever it may have gathered meanwhile."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
_START = "from levers.web.limits.worker import main; main()"


class Job:
    """Work that is under way, or waits for its turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self.is_cancelled = False
        self.is_late = False

    def cancel(self) -> None:
        """Nobody waits for it any more: end the process that does it."""
        with self._lock:
            self.is_cancelled = True
            if self._worker is not None:
                self._worker.end()

    def run_out(self) -> None:
        """It has taken too long."""
        self.is_late = True
        self.cancel()

    def begin(self, worker: "_Worker") -> bool:
        """Whether it is still wanted, now that there is a process for it."""
        with self._lock:
            self._worker = None if self.is_cancelled else worker
            return not self.is_cancelled

    def done(self) -> None:
        """Its process belongs to the next."""
        with self._lock:
            self._worker = None


class Pool:
    """Processes that are started when they are first needed.

    >>> pool = Pool(Limits(workers=1))
    >>> pool.run(Job(), divmod, 7, 2)
    (3, 1)
    >>> pool.close()
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free: queue.LifoQueue[_Worker] = queue.LifoQueue()  # the one that is warm comes first
        self._all = [_Worker(limits) for _ in range(limits.workers)]
        for worker in reversed(self._all):
            self._free.put(worker)
        self.n_taken, self._lock = 0, threading.Lock()
        self.is_closed = False

    def run(self, job: Job, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What a function gives, worked out in a process. What it raises on purpose is raised here."""
        with self._taken():
            kind, value = self._run(job, (function, args, kwargs))
        if kind == "raised":
            raise value
        if kind == "memory":
            raise _too_much()
        if kind == "broken":
            raise RuntimeError(f"a job failed in its process: {value}")
        return cast(R, value)

    @contextlib.contextmanager
    def _taken(self) -> Iterator[None]:
        """A place in the line."""
        with self._lock:
            if self.n_taken >= self._limits.waiting + self._limits.workers:
                raise busy()
            self.n_taken += 1
        try:
            yield
        finally:
            with self._lock:
                self.n_taken -= 1

    def _run(self, job: Job, what: tuple[Any, ...]) -> tuple[str, Any]:
        worker = self._next()
        try:
            if self.is_closed or not job.begin(worker):
                raise _left()
            with contextlib.suppress(EOFError):  # which the call finds out again
                worker.start()
            timer = threading.Timer(self._limits.computing_seconds, job.run_out)
            timer.daemon = True
            timer.start()
            try:
                return worker.call(what)
            except EOFError:
                raise self._ended(job) from None
            finally:
                timer.cancel()
                job.done()
        finally:
            self._free.put(worker)

    def warm(self) -> None:
        """Start a process now, so that the first who needs one does not wait for it."""

        def start() -> None:
            try:
                self.run(Job(), nothing)
            except Exception:
                if not self.is_closed:  # a service that ends before it has begun, as on a port in use, ends this too
                    raise

        threading.Thread(target=start, name="levers-warm", daemon=True).start()

    def close(self) -> None:
        """End all processes."""
        self.is_closed = True
        for worker in self._all:
            worker.end()

    def _next(self) -> "_Worker":
        """A process that does nothing, when it is this job's turn."""
        try:
            return self._free.get(timeout=self._limits.computing_seconds)
        except queue.Empty:
            raise busy() from None

    def _ended(self, job: Job) -> RefusedError:
        if job.is_late:
            most = self._limits.computing_seconds
            return RefusedError(422, f"this takes more than {most:g} s here; make it smaller, or use levers in Python")
        return _left() if job.is_cancelled or self.is_closed else _too_much()


_pools: dict[tuple[float, ...], Pool] = {}
_pools_lock = threading.Lock()


def shared_pool(limits: Limits) -> Pool:
    """The pool of this process for such limits: services side by side share it."""
    key = (os.getpid(), limits.workers, limits.waiting, limits.computing_seconds, limits.worker_bytes)
    with _pools_lock:
        if key not in _pools or _pools[key].is_closed:
            _pools[key] = Pool(limits)
        return _pools[key]


@atexit.register
def close_pools() -> None:
    """End the processes of all pools."""
    with _pools_lock:
        for pool in _pools.values():
            pool.close()


def busy() -> RefusedError:
    """Too much waits already."""
    return RefusedError(503, "too many long computations are under way; try again in a few seconds", retry_after=5)


def _left() -> RefusedError:
    return RefusedError(503, "nobody waits for this any more, or the service is stopping", retry_after=5)


def _too_much() -> RefusedError:
    return RefusedError(422, "this takes more memory than the service has for one request; make it smaller")


_starter = ThreadPoolExecutor(1, "levers-starter")


def _start(environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    """A new program: a fork would take the locks of our threads along."""
    command = [sys.executable, "-c", _START]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


class _Worker:
    """One process, which may not have been started yet."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._n_jobs = 0
        self._lock = threading.Lock()

    def call(self, what: tuple[Any, ...]) -> tuple[str, Any]:
        """Have something done; EOFError when the process ends before."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise EOFError
        try:
            send(process.stdin, pickle.dumps((self._limits.computing_seconds, what)))
            answer = receive(process.stdout)
            found = cast(tuple[str, Any], pickle.loads(answer))
        except (OSError, EOFError, ValueError):  # a pipe that was closed under us
            self.end()
            raise EOFError from None
        self._n_jobs += 1
        if self._n_jobs >= _MOST_JOBS:
            self.end()
        return found

    def end(self) -> None:
        """End the process; the next call starts another."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # about what was not sent yet
                        pipe.close()

    def start(self) -> None:
        """Start the process if there is none, and wait until it has loaded its libraries."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
        self.end()
        one_each = dict.fromkeys(_THREADS, "1")
        # from one thread that lives as long as we do: a process ends with the thread that started it
        process = _starter.submit(_start, {**os.environ, **one_each}).result()
        with self._lock:
            self._process, self._n_jobs = process, 0
        assert process.stdin is not None  # asked for there
        assert process.stdout is not None
        try:
            send(process.stdin, pickle.dumps((sys.path, self._limits.worker_bytes)))
            receive(process.stdout)
        except (OSError, EOFError, ValueError):
            self.end()
            raise EOFError from None
