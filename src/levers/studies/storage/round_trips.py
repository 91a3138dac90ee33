"""Few ways to a PostgreSQL server and back: statements that go together, and no look whether it is there each time.

Every way costs a process switch on both sides, and whoever has a study's lock keeps the others waiting for it. So a
change of a study is two: one for the lock and everything that is read with it, one for what is written and the commit.
"""

import re
import selectors
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import sqlalchemy as sa

TRUSTED_SECONDS = 10.0
"""How long a connection that nobody used is taken to be alive: as long as the system waits before it looks itself."""
_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)  # select() cannot watch file number 1024
_LEFT_AT = "levers left at"
"""Where a connection keeps when it went back to the pool."""
_PREPARED = "levers prepared"
"""Where a connection keeps whether its statements are worked out."""


class Answered(Protocol):
    """What statements found: a cursor of psycopg, which stands at the first of them."""

    statusmessage: str | None

    def fetchone(self) -> Any:
        """The next row."""

    def fetchall(self) -> list[Any]:
        """All rows."""

    def nextset(self) -> bool | None:
        """Go on to what the next statement found."""


@dataclass(frozen=True)
class Plan:
    """A statement that a server works out once for each connection; `kinds` are its values with their types.

    >>> plan = Plan("levers_after", "SELECT data FROM events WHERE seq > %(after)s", {"after": "bigint"})
    >>> plan.prepare
    'PREPARE levers_after (bigint) AS SELECT data FROM events WHERE seq > $1'
    >>> plan.execute
    'EXECUTE levers_after (%(after)s)'
    """

    name: str
    statement: str
    kinds: Mapping[str, str]

    @property
    def prepare(self) -> str:
        """The statement that has it worked out."""
        places = {f"%({name})s": f"${place}" for place, name in enumerate(self.kinds, 1)}
        worked_out = re.sub(r"%\(\w+\)s", lambda found: places[found[0]], self.statement)
        return f"PREPARE {self.name} ({', '.join(self.kinds.values())}) AS {worked_out}"

    @property
    def execute(self) -> str:
        """The statement that runs it."""
        return f"EXECUTE {self.name} ({', '.join(f'%({name})s' for name in self.kinds)})"


def prepare_once(connection: sa.Connection, plans: Sequence[Plan]) -> None:
    """Have statements worked out, if that was not done on this connection."""
    if _PREPARED not in connection.info:
        send_together(connection, [plan.prepare for plan in plans], {})
        connection.info[_PREPARED] = True


def send_together(connection: sa.Connection, statements: Sequence[str], values: Mapping[str, object]) -> Answered:
    """Send statements to PostgreSQL at once, and wait for what they found. The first that fails ends the rest.

    The connection is one that begins no transactions by itself (AUTOCOMMIT), so BEGIN and COMMIT may be among them.
    Each sees what was committed when its turn came: one that follows a lock sees what the lock was waited for.

    psycopg's pipeline mode is not used. The message with which it ends a pipeline stops the clock of the server's
    `idle_in_transaction_session_timeout`, so that a worker which is stopped then would keep its lock for ever; and it
    may end without an error when the connection was lost.
    """
    dbapi = cast(Any, connection.dialect.loaded_dbapi)
    driver = cast(Any, connection.connection.driver_connection)
    try:
        answered: Answered = dbapi.ClientCursor(driver).execute("; ".join(statements), values)
    except dbapi.Error as error:
        is_gone = bool(driver.closed)
        if is_gone:
            connection.invalidate(error)
        raise sa.exc.DBAPIError.instance(
            None, None, error, dbapi.Error, connection_invalidated=is_gone, dialect=connection.dialect
        ) from error
    return answered


def look_before_use(engine: sa.Engine) -> None:
    """Find connections that ended while nobody used them, without asking the server each time.

    A server that ends a connection says so, and then there is something to read. Only if there is, or if nobody used
    it for long (a network may lose connections without a word), a statement tells whether it is alive.
    """

    def left(_: object, record: Any) -> None:
        record.info[_LEFT_AT] = time.monotonic()

    def taken(opened: Any, record: Any, _: object) -> None:
        left_at = record.info.pop(_LEFT_AT, None)
        if left_at is None or (time.monotonic() < left_at + TRUSTED_SECONDS and _is_silent(opened)):
            return
        try:
            engine.dialect.do_ping(opened)
        except cast(Any, engine.dialect.loaded_dbapi).Error as error:
            raise sa.exc.InvalidatePoolError from error  # the pool opens another one, and trusts none of before

    sa.event.listen(engine, "checkin", left)
    sa.event.listen(engine, "checkout", taken)


def _is_silent(opened: Any) -> bool:
    """Whether a connection is open and has nothing to say."""
    if opened.closed:
        return False
    with _Selector() as watched:
        watched.register(opened.fileno(), selectors.EVENT_READ)
        return not watched.select(0)
