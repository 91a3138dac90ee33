"""PostgreSQL is restarted while a fleet works: no worker dies, nothing is lost or doubled, the verdict is the same."""

from pathlib import Path

from harness.outage import run_through_restarts
from harness.postgres import new_database, restart_postgres, running_postgres


def test_a_fleet_outlives_restarts_of_its_database(tmp_path: Path) -> None:
    # a server of its own: others would not like it to be restarted
    with running_postgres() as server, new_database(server) as url:
        found = run_through_restarts(
            url, tmp_path, lambda: restart_postgres(url), workers=2, runs=100, restarts=2, every=0.5
        )
    assert found.problems == ()
    assert found.n_restarts == 2
    assert found.n_runs == 100
