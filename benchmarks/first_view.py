"""How fast a large study is first seen: python benchmarks/first_view.py [--views 5]

A study with 100,000 outcomes of 30 factors, the service in a process of its own, a real Chromium on the same machine.
Cold is the first request after the service has started, with a browser that has kept nothing; warm is any later one.
Milliseconds since the click; the target is for charts that can be seen.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before numpy is loaded

import argparse
import statistics
import tempfile

from harness.browser import Visitors, running_chromium
from harness.first_view import STEPS, make_large_study, view
from harness.http_load import running_server

TARGET = 1_000


def shown(label: str, found: dict[str, float]) -> str:
    times = ", ".join(f"{step} {found[step]:.0f}" for step in STEPS)
    last = found[STEPS[-1]]
    return f"{label}: {times} ms; target {TARGET}: {'met' if last <= TARGET else 'missed'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--views", type=int, default=5)
    n_views = parser.parse_args().views
    with tempfile.TemporaryDirectory(prefix="levers-view-") as folder, running_chromium() as chromium:
        storage = f"sqlite:///{folder}/levers.db"
        study = make_large_study(storage)
        colds, warms = [], []
        for _ in range(n_views):
            with running_server(storage) as server, Visitors(chromium, server.address) as people:
                page = people.new_page(viewport={"width": 1280, "height": 900})
                colds.append(view(page, f"/studies/{study.name}"))
                warms.append(view(page, f"/studies/{study.name}"))
    print(f"{study.state.n_complete:,} outcomes, {study.space.n_factors} factors, medians of {n_views}")
    for label, found in (("cold", colds), ("warm", warms)):
        print(shown(label, {step: statistics.median(times[step] for times in found) for step in STEPS}), flush=True)


if __name__ == "__main__":
    main()
