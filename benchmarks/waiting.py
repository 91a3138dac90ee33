"""How long one study waits while another is being designed: SQLite has one write lock for all studies of a file.

    python benchmarks/waiting.py [--levers 300] [--storage URL]

A study with many levers completes a round in one thread. Another study tells outcomes meanwhile; the longest of its
waits is printed beside how long the design took.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import levers
from levers.studies.storage.sql import SqlStorage, parse_url


def main() -> None:
    """Print the two times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--levers", type=int, default=300)
    parser.add_argument("--storage")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        storage = SqlStorage(parse_url(chosen.storage or f"sqlite:///{Path(folder)}/levers.db"))
        factors = {f"x{i}": [1, 2, 3] for i in range(chosen.levers)}
        large = levers.create_study("large", factors, tolerance=0.5, noise_sd=1.0, seed=1, storage=storage)
        small = levers.create_study("small", {"a": [1, 2]}, tolerance=0.01, noise_sd=1.0, seed=1, storage=storage)
        due = large.ask_numbers(10**6)
        values = np.random.default_rng(1).normal(size=len(due))
        took, waits = [0.0], list[float]()

        def complete() -> None:
            began = time.perf_counter()
            large.tell_arrays(due, values)
            took[0] = time.perf_counter() - began

        thread = threading.Thread(target=complete)
        thread.start()
        while thread.is_alive():
            began = time.perf_counter()
            small.tell(small.ask()[0], 1.0)
            waits.append(time.perf_counter() - began)
        thread.join()
        print(f"a round of {len(due):,} runs of {chosen.levers} levers was decided on in {took[0]:.1f} s")
        print(f"another study asked and told {len(waits):,} times meanwhile; the longest wait was {max(waits):.2f} s")
        storage.close()


if __name__ == "__main__":
    main()
