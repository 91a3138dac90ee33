"""Workers that are killed, and several at once, on real databases; `benchmarks/kill.py` and `fleet.py` are larger."""

from pathlib import Path

import pytest

from levers.testing.durability import kill_workers, run_fleet


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_storage"))
    return f"sqlite:///{tmp_path}/levers.db"


def test_killed_workers_lose_and_double_nothing(url: str, tmp_path: Path) -> None:
    found = kill_workers(url, tmp_path, kills=12, tolerances=(0.5,))
    assert found.kills == sum(found.landed.values()) == 12
    assert (found.n_lost, found.n_doubled, found.n_different) == (0, 0, 0)
    assert found.n_told > 100


def test_several_processes_share_a_study(url: str, tmp_path: Path) -> None:
    found = run_fleet(url, tmp_path, workers=4, trials=800)
    assert found.problems == ()
    assert found.n_told >= 700
