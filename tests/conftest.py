"""Shared by all tests."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from levers.experiments import typical_loss
from levers.studies.library import close_storages

# the same examples every time, and no time limit on a busy machine; --hypothesis-profile=default looks for new ones
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20230)


@pytest.fixture(autouse=True)
def journals_are_elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Workers of a test write their journals into a folder of its own, and find none of another."""
    folder = tmp_path_factory.mktemp("journals")
    monkeypatch.setenv("LEVERS_JOURNAL", str(folder))
    return folder


@pytest.fixture
def few_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of a budget simulate their losses on 6 worlds in place of 40, where a test is about something else."""
    monkeypatch.setattr(typical_loss, "MOST_WORLDS", 6)


@pytest.fixture(autouse=True)
def storages_are_closed() -> Iterator[None]:
    yield
    close_storages()
