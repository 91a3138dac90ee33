"""Who works here, for the log, and what a worker is called."""

import getpass
import socket

from levers.core.validation import MAX_NAME, visible


def login_name() -> str:
    """Who works here, for the log."""
    try:
        return visible(getpass.getuser())[:MAX_NAME]
    except (OSError, KeyError):
        return "unknown"


def worker_name() -> str:
    """What a worker is called that nobody named: who works here, and the machine, so that names differ between them.

    >>> "@" in worker_name()
    True
    """
    return f"{login_name()}@{socket.gethostname()}"[:180]
