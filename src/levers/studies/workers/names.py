"""Who works here, for the log, and what a worker is called."""

import getpass
import socket


def login_name() -> str:
    """Who works here, for the log."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def worker_name() -> str:
    """What a worker is called that nobody named: who works here, and the machine, so that names differ between them.

    >>> "@" in worker_name()
    True
    """
    return f"{login_name()}@{socket.gethostname()}"[:180]
