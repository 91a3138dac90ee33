r"""A small job for SQLite: rows come in batches, one transaction each, and are looked up between; pragmas are levers.

python workload.py journal_mode=wal synchronous=normal cache_size=-8000

It works on a new file beside it each time, and prints the seconds that the job took, and 100 times their logarithm, in
which a difference of 1 is one percent. A pragma that SQLite did not take is an error: it ignores the names and values
that it does not know.
"""

import math
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
N_BATCHES, N_ROWS, N_LOOKUPS, N_REPORTS = 30, 60, 40, 4
ANSWERS = {"temp_store": {"default": 0, "file": 1, "memory": 2}, "synchronous": {"off": 0, "normal": 1, "full": 2}}
"""What SQLite calls the values of these pragmas when it is asked."""


def main() -> None:
    pragmas = dict(word.split("=", 1) for word in sys.argv[1:])
    size = float(os.environ.get("WORKLOAD_SIZE", "1"))  # the tests make it smaller
    with tempfile.TemporaryDirectory(dir=HERE, prefix="job-") as folder:
        database = sqlite3.connect(Path(folder) / "job.db", isolation_level=None)
        began = time.perf_counter()
        apply(database, pragmas)
        job(database, round(size * N_BATCHES), random.Random(time.time_ns()))
        database.close()
        seconds = time.perf_counter() - began
        print(f"seconds: {seconds:.5f}\nlog: {100 * math.log(seconds):.3f}")


def apply(database: sqlite3.Connection, pragmas: Mapping[str, str]) -> None:
    """Set pragmas, the size of pages first: it is fixed as soon as there is a page."""
    for name, value in sorted(pragmas.items(), key=lambda pair: (pair[0] != "page_size", pair[0] == "journal_mode")):
        database.execute(f"PRAGMA {name} = {value}")
        found = database.execute(f"PRAGMA {name}").fetchone()
        wanted = ANSWERS.get(name, {}).get(value, value)
        if found is None or str(found[0]) != str(wanted):
            sys.exit(f"PRAGMA {name} = {value} was not taken: it is {found}")


def job(database: sqlite3.Connection, n_batches: int, chance: random.Random) -> None:
    """Write orders in batches, look some up after each, and make a sorted report now and then."""
    database.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, place TEXT, amount REAL, note TEXT)"
    )
    database.execute("CREATE INDEX by_customer ON orders (customer)")
    for batch in range(n_batches):
        rows = [
            (chance.randrange(500), chance.choice("NESW"), chance.random(), "x" * chance.randrange(20, 200))
            for _ in range(N_ROWS)
        ]
        database.execute("BEGIN")
        database.executemany("INSERT INTO orders (customer, place, amount, note) VALUES (?, ?, ?, ?)", rows)
        database.execute("COMMIT")
        for _ in range(N_LOOKUPS):
            customer = (chance.randrange(500),)
            database.execute("SELECT sum(amount), max(note) FROM orders WHERE customer = ?", customer).fetchone()
        if batch % max(1, n_batches // N_REPORTS) == 0:
            database.execute("SELECT * FROM orders ORDER BY note, amount").fetchall()


if __name__ == "__main__":
    main()
