"""Running a program: its time, the end of what it prints, and an end to all that it started if it takes too long."""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levers.errors import FailedRunError

KEPT_BYTES = 1 << 20
"""How much of the end of the standard output is kept, and of the standard error."""
MOST_REASON, LINES_KEPT = 1_000, 5
"""Characters and lines of the standard error that the log of a failed run has."""
_GRACE = 2.0
"""Seconds between asking a process group to end and ending it."""
_CHUNK = 1 << 16
_LOOK = 0.2
"""Seconds between two looks whether to stop."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a process did. `stdout` and `stderr` are the last megabyte of each; `is_cut` says that there was more."""

    code: int
    stdout: bytes
    stderr: bytes
    is_cut: bool
    wall: float
    user: float

    def failure(self, reason: str) -> FailedRunError:
        """Why there is no outcome, with the end of the standard error."""
        return _failure(reason, self.stderr)


def _failure(reason: str, stderr: bytes | bytearray) -> FailedRunError:
    """A failure that can be kept in a log: one printable line, not too long."""
    text = bytes(stderr[-2 * MOST_REASON :]).decode(errors="replace")
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    end = " | ".join(lines[-LINES_KEPT:])[-MOST_REASON:]
    said = f"{reason}; the end of its standard error: {end}" if end else reason
    return FailedRunError("".join(c if c.isprintable() else "?" for c in said))


def run_process(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
    stop: threading.Event | None = None,
) -> Ran:
    """Run a program to its end. It has no input, and a process group of its own, which ends with it if time is over.

    Raises FailedRunError when it cannot be started or takes longer than `timeout` seconds.

    >>> run_process(["echo", "3.5"]).stdout
    b'3.5\\n'
    """
    began = time.perf_counter()
    try:
        process = subprocess.Popen(
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if environment is None else dict(environment),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FailedRunError(f"{arguments[0]!r} cannot be started: {reason}") from None
    ending = _Ending(process, began)
    tails = _Tail(), _Tail()
    try:
        why = _follow(process, ending, tails, None if timeout is None else began + timeout, stop)
        if why is not None:
            _end_group(process.pid, ending)
            raise _failure(why, tails[1].data)
    except BaseException:
        _end_group(process.pid, ending)
        raise
    finally:
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None  # asked for above
            pipe.close()
        ending.close()
    out, err = tails
    return Ran(ending.code, bytes(out.data), bytes(err.data), out.is_cut, ending.at - began, ending.user)


class _Tail:
    """The end of what comes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_cut = False

    def add(self, more: bytes) -> None:
        self.data += more
        if len(self.data) > 2 * KEPT_BYTES:
            self.cut()

    def cut(self) -> None:
        if len(self.data) > KEPT_BYTES:
            del self.data[:-KEPT_BYTES]
            self.is_cut = True


class _Ending:
    """Waits for a process in a thread, so that its end is timed when it happens, and with what it used."""

    def __init__(self, process: "subprocess.Popen[bytes]", began: float) -> None:
        self.code, self.at, self.user = 0, began, 0.0
        self._process = process
        self.read_end, self._write_end = os.pipe()
        self.thread = threading.Thread(target=self._wait, name="levers process", daemon=True)
        self.thread.start()

    def _wait(self) -> None:
        _, status, usage = os.wait4(self._process.pid, 0)
        self.at, self.user = time.perf_counter(), usage.ru_utime
        self.code = os.waitstatus_to_exitcode(status)
        self._process.returncode = self.code  # so that nobody waits for it again
        os.write(self._write_end, b".")

    def close(self) -> None:
        self.thread.join()
        os.close(self.read_end)
        os.close(self._write_end)


def _follow(
    process: "subprocess.Popen[bytes]",
    ending: _Ending,
    tails: tuple[_Tail, _Tail],
    deadline: float | None,
    stop: threading.Event | None,
) -> str | None:
    """Read what the process prints until it has ended. What it started and left behind is not waited for.

    Returns why it has to be ended, if so.
    """
    with selectors.DefaultSelector() as selector:
        for pipe, tail in zip((process.stdout, process.stderr), tails, strict=True):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, tail)
        selector.register(ending.read_end, selectors.EVENT_READ)
        ended = False
        while not ended:
            left = _LOOK if deadline is None else min(_LOOK, deadline - time.perf_counter())
            if left <= 0:
                return "it took longer than the timeout, and was ended"
            if stop is not None and stop.is_set():
                return "stopped"
            for key, _ in selector.select(left):
                if key.data is None:
                    ended = True
                elif not _read(key.fd, key.data):
                    selector.unregister(key.fileobj)
        for key in list(selector.get_map().values()):  # what is still in the pipes
            while key.data is not None and _read(key.fd, key.data):
                pass
    for tail in tails:
        tail.cut()
    return None


def _read(descriptor: int, tail: _Tail) -> bool:
    """Take what is there; False when there is nothing, now or ever."""
    try:
        data = os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return False
    tail.add(data)
    return bool(data)


def _end_group(group: int, ending: _Ending) -> None:
    """End a process with all that it started: politely, and then for good."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(group, how)
        except (ProcessLookupError, PermissionError):
            return
        ending.thread.join(_GRACE)
