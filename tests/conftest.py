"""Shared by all tests."""

from collections.abc import Iterator

import numpy as np
import pytest

from levers.studies.storage.choice import close_storages


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20230)


@pytest.fixture(autouse=True)
def storages_are_closed() -> Iterator[None]:
    yield
    close_storages()
