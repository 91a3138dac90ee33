"""How we connect to PostgreSQL: so that a worker that was stopped, or cut off, keeps others waiting for seconds.

A worker that is stopped in the middle of a change holds the lock on its study. The server ends its session after
`IDLE_SECONDS`, and whoever waited goes on; the worker finds its change refused when it wakes up, and nothing kept.
"""

from typing import Any

from sqlalchemy.engine import URL

IDLE_SECONDS = 8
"""How long a change may do nothing while it holds the lock: designs are worked out without it."""
LONG_SECONDS = 600
"""The same for a change that was overtaken again and again, and is worked out with the lock to come to an end."""
LOCK_SECONDS = 30
"""How long a change waits for the lock on its study."""
STATEMENT_SECONDS = 60
"""How long one statement may take; reading a log of 100,000 events takes a second."""
CONNECT_SECONDS = 10
POOL_SECONDS = 30
"""How long a thread waits for a connection while all are in use."""
LOOK_SECONDS = 2
"""How long a look at whether the server answers may take."""


def server_options(url: URL, *, patient: bool = False, for_looks: bool = False) -> dict[str, Any]:
    """What a connection is made with: time limits that the server keeps, and a look now and then whether it is there.

    Options in the address come last, so they win. `patient` connections, for backups and upgrades, have no limits.

    >>> from sqlalchemy import make_url
    >>> server_options(make_url("postgresql+psycopg://ann@localhost/studies"))["options"].split()[1]
    'lock_timeout=30s'
    """
    limits = {
        "lock_timeout": 0 if patient else LOCK_SECONDS,
        "statement_timeout": 0 if patient else LOOK_SECONDS if for_looks else STATEMENT_SECONDS,
        "idle_in_transaction_session_timeout": 0 if patient else IDLE_SECONDS,
    }
    given = url.query.get("options", "")
    told = " ".join((given,) if isinstance(given, str) else given)
    options = " ".join(f"-c {name}={seconds}s" for name, seconds in limits.items())
    return {
        "connect_timeout": LOOK_SECONDS if for_looks else CONNECT_SECONDS,
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
        "options": f"{options} {told}".strip(),
        "prepare_threshold": None,  # what is prepared we prepare; the driver would drop that with its own
    }
