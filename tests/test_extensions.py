"""An algorithm and a storage of another package: tests/support/example_package, as if it were installed."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike
from starlette.testclient import TestClient

import levers
from levers.errors import StorageError, UnknownAlgorithmError
from levers.extensions import registered
from levers.studies.library import open_storage
from levers.testing.algorithms import check_contract
from levers.web.app import make_app
from levers.web.service import Service

PACKAGE = Path(__file__).parent / "support" / "example_package"
SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "high"], "speed": [1, 2, 3]}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(PACKAGE))
    registered.cache_clear()
    yield
    registered.cache_clear()


def command(*words: str) -> str:
    paths = [str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "levers.cli.app", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_answer() -> Callable[[levers.Batch], tuple[levers.Batch, ArrayLike]]:
    noise = np.random.default_rng(1)
    return lambda batch: (batch, batch.codes[:, 0] + 0.01 * noise.normal(size=batch.n_runs))


@pytest.mark.usefixtures("installed")
def test_it_keeps_the_contract_and_is_known_by_name() -> None:
    assert "random-search" in levers.ALGORITHMS
    algorithm = levers.make_algorithm("random-search", levers.Problem(levers.Space.of(SPACE), 0.5, 0.1, 1.0), budget=12)
    verdict = check_contract(algorithm, make_answer)
    assert (verdict.n_runs, verdict.assignment["heat"]) == (12, "high")


@pytest.mark.usefixtures("installed")
def test_it_runs_a_study_in_a_storage_of_its_package_and_the_pages_show_it() -> None:
    storage = open_storage("scratch:anything")
    study = levers.create_study("try", SPACE, tolerance=0.5, algorithm="random-search", budget=6, storage=storage)
    browser = TestClient(make_app(Service(storage)), base_url="http://127.0.0.1")
    while not study.is_finished:
        [trial] = study.ask(1)
        study.tell(trial, float(trial.params["speed"] == 2))
        assert browser.get("/studies/try", headers={"accept": "text/html"}).raise_for_status()
    assert study.verdict().n_runs == 6
    assert "random-search" in browser.get("/studies/try", headers={"accept": "text/html"}).text
    assert study.status().to_go.now == 0
    assert study.status().within is None  # it promises less than was asked for


@pytest.mark.usefixtures("installed")
def test_one_that_cannot_be_loaded_says_whose_fault_it_is() -> None:
    with pytest.raises(UnknownAlgorithmError, match="'broken-search' of levers-random-search cannot be loaded: Attr"):
        levers.make_algorithm("broken-search", levers.Problem(levers.Space.of(SPACE), 0.5, 0.1, 1.0))


@pytest.mark.usefixtures("installed")
def test_a_storage_that_cannot_be_made_says_whose_fault_it_is(tmp_path: Path) -> None:
    with pytest.raises(
        StorageError, match="'faulty' of levers-random-search cannot open 'faulty:x': RuntimeError: the d"
    ):
        open_storage("faulty:x")
    with pytest.raises(StorageError, match="'faulty' of levers-random-search gave no storage for 'faulty:none'"):
        open_storage("faulty:none")
    assert open_storage(f"sqlite:///{tmp_path}/own.db").names() == []  # nobody can take the place of our own


def test_commands_use_a_storage_of_another_package() -> None:
    """A new process has a new scratch storage, which is empty, and not refused."""
    create = "create s --factor a=1,2 --tolerance 1 --noise-sd 1 --storage scratch:x"
    assert "runs to go" in command(*create.split())
    assert "no stud" in command("studies", "--storage", "scratch:x").lower()


def test_commands_list_it_and_compare_it_in_several_processes() -> None:
    listed = command("algorithms")
    assert "random-search              Try random settings, and keep the one that did best" in listed
    assert "broken-search              'broken-search' of levers-random-search cannot be loaded" in listed
    assert "nameless-search            'nameless-search' of levers-random-search is no algorithm" in listed
    words = "--factors 2 --parents 1 --levels 2 --worlds 2 --repeats 1 --workers 2 --format csv"
    compared = command("compare", "--algorithms", "random-search,modl", *words.split())
    assert "random-search,20" in compared
