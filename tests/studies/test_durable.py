"""Workers that are killed, and several at once, on real databases; `benchmarks/kill.py` and `fleet.py` are larger."""

from pathlib import Path

import pytest

from harness.fleet import run_fleet, run_forked
from harness.killing import _check_killed, _Task, kill_workers
from levers.studies.library import load_study


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_storage"))
    return f"sqlite:///{tmp_path}/levers.db"


def test_killed_workers_lose_and_double_nothing(url: str, tmp_path: Path) -> None:
    found = kill_workers(url, tmp_path, kills=12, tolerances=(0.2,))
    assert found.kills == sum(found.landed.values()) == 12
    assert (found.n_lost, found.n_doubled, found.n_different) == (0, 0, 0)
    assert found.n_told > 100


def test_several_processes_share_a_study(url: str, tmp_path: Path) -> None:
    found = run_fleet(url, tmp_path, workers=4, trials=800)
    assert found.problems == ()
    assert found.n_told >= 700


def test_a_study_may_be_carried_into_forked_processes(url: str) -> None:
    assert run_forked(url, children=3, asks=12) == 2 + 3 * 12


def test_the_checks_see_what_is_lost_or_changed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/levers.db"
    assert kill_workers(url, tmp_path, kills=0, tolerances=(0.2,)).ok
    task = _Task(url, 0, 0.2, tmp_path / "0.told")
    with task.notes.open("a") as notes:
        notes.write("100000 1.0\n")
    assert _check_killed(task)[1:] == (1, 0, 0)
    trial, value = task.notes.read_text().split()[:2]
    load_study(task.name, url).correct(int(trial), float(value) + 0.001, "a test")
    told, lost, _, different = _check_killed(task)
    assert (lost, different) == (2, 1)
    assert told > 100
