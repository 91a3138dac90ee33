"""Which test files take the time: ./scripts/test --junitxml=times.xml; python benchmarks/test_times.py times.xml

A table of the slowest files and single tests, in seconds as they were measured on a machine that did other tests
beside them. Waiting for browsers and servers is part of it.
"""

import argparse
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path


def times(report: Path) -> list[tuple[str, str, float]]:
    """File, test and seconds of everything in a report of pytest's --junitxml."""
    cases = ET.parse(report).getroot().iter("testcase")  # the report is our own
    return [(case.get("classname", ""), case.get("name", ""), float(case.get("time", "0"))) for case in cases]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("--rows", type=int, default=20)
    given = parser.parse_args()
    found = times(given.report)
    by_file: dict[str, list[float]] = defaultdict(list)
    for place, _, seconds in found:
        by_file[place].append(seconds)
    total = sum(seconds for *_, seconds in found)
    print(f"{len(found)} tests in {len(by_file)} files, {total:.0f} s in all")
    print(f"{'seconds':>8} {'tests':>6}  file")
    for place, all_seconds in sorted(by_file.items(), key=lambda row: -sum(row[1]))[: given.rows]:
        print(f"{sum(all_seconds):8.1f} {len(all_seconds):6}  {place}")
    print(f"{'seconds':>8}  test")
    for place, name, seconds in sorted(found, key=lambda row: -row[2])[: given.rows]:
        print(f"{seconds:8.1f}  {place}::{name}")


if __name__ == "__main__":
    main()
