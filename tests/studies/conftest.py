"""Shared by the tests of studies. A test that needs PostgreSQL fails, not skips, where there is none."""

from collections.abc import Iterator

import pytest

from harness.postgres import new_database, running_postgres


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """One server per test process: it starts in about two seconds, sharing it would take locks and a user count."""
    with running_postgres() as url:
        yield url


@pytest.fixture
def postgres_storage(postgres_url: str) -> Iterator[str]:
    """The URL of a new, empty database."""
    with new_database(postgres_url) as url:
        yield url
