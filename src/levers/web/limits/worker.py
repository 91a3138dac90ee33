"""A process that does one job after the other, for `pool`. It ends when the service does, however that ended."""

import contextlib
import os
import pickle
import queue
import signal
import sys
import threading
from typing import IO, Any

from levers.errors import LeversError

READY = b"ready"
_LENGTH = 8
_PR_SET_PDEATHSIG = 1
_NICE = 5
"""How much these processes give way to the one that answers requests."""


def send(pipe: IO[bytes], data: bytes) -> None:
    """Write a message: its length, then itself."""
    pipe.write(len(data).to_bytes(_LENGTH, "big"))
    pipe.write(data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """Read a message; EOFError when there is none any more.

    >>> import io
    >>> pipe = io.BytesIO()
    >>> send(pipe, b"hello"), pipe.seek(0)
    (None, 0)
    >>> receive(pipe)
    b'hello'
    """
    head = pipe.read(_LENGTH)
    size = int.from_bytes(head, "big")
    data = pipe.read(size) if len(head) == _LENGTH else b""
    if len(head) < _LENGTH or len(data) < size:
        raise EOFError
    return data


def main() -> None:
    """Take jobs from standard input until it ends, and answer on standard output."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a library prints is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which ends this process
    _end_with_parent()
    path, most_bytes = pickle.loads(receive(jobs))
    sys.path[:] = path
    _limit_memory(most_bytes)
    with contextlib.suppress(AttributeError, OSError):
        os.nice(_NICE)
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_watch, args=(jobs, waiting), daemon=True).start()
    from levers.web.limits.jobs import nothing

    nothing()  # loads what most jobs need, before any of them is timed
    send(answers, READY)
    while True:
        seconds, what = pickle.loads(waiting.get())
        _limit_time(seconds)
        send(answers, _pickled(*_done(*what)))


def _end_with_parent() -> None:
    """Let Linux end this process when the thread that started it has ended; see `pool`.

    Elsewhere the end of standard input does it, unless a library keeps our threads from looking.
    """
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch(jobs: IO[bytes], waiting: "queue.SimpleQueue[bytes]") -> None:
    """Read ahead, so that the end of the service is noticed in the middle of a job."""
    try:
        while True:
            waiting.put(receive(jobs))
    except (EOFError, OSError):
        os._exit(0)


def _done(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any]:
    try:
        return "done", function(*args, **kwargs)
    except LeversError as error:
        return "raised", error
    except MemoryError:
        return "memory", None
    except Exception as error:
        import traceback

        return "broken", "".join(traceback.format_exception(error))[-4000:]


def _pickled(kind: str, value: Any) -> bytes:
    try:
        return pickle.dumps((kind, value), protocol=pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        return pickle.dumps(("memory", None))


def _limit_memory(most_bytes: int) -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # where there are no such limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))


def _limit_time(seconds: float) -> None:
    """Let the system end a job that nobody is there to end: of processor time, not of time on the clock."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime + seconds) + 5
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))
