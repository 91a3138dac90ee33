"""A few seconds of everything that needs another package, with the versions that are installed, whichever they are.

`scripts/versions.py` runs it in an environment with the lowest versions that pyproject.toml declares, and with the
newest. It needs levers[all], the folder tests/support on PYTHONPATH, and no test runner.

    python tests/smoke/smoke.py [NAME ...]     (only these checks; all of them without a name)
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 120
"""How long a process may take before it counts as hanging."""
SPACE: dict[str, Any] = {"heat": ["low", "mid", "high"], "speed": [1, 2.5]}
OLD_STUDIES = Path(__file__).parents[1] / "old_studies" / "0.1.0.db"
BIF = """network unknown {
}
variable rain { type discrete [ 2 ] { no, yes }; }
variable wet { type discrete [ 2 ] { no, yes }; }
probability ( rain ) { table 0.8, 0.2; }
probability ( wet | rain ) { (no) 0.9, 0.1; (yes) 0.2, 0.8; }
"""


def finish(study: Any) -> Any:
    """Ask and tell to the verdict; heat matters, speed does not."""
    import numpy as np

    noise = np.random.default_rng(3)
    while study.status().state == "running":
        study.tell_many([(t, (t.params["heat"] == "mid") + noise.normal(0, 0.3)) for t in study.ask(1000)])
    verdict = study.verdict()
    assert verdict.assignment["heat"] == "mid", verdict
    return verdict


def command(*words: object) -> str:
    """What a command prints; one that fails ends the check with its words."""
    program = [sys.executable, "-m", "levers.cli.app", *map(str, words)]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ran.returncode == 0, f"levers {' '.join(map(str, words))} ended with {ran.returncode}: {ran.stderr}"
    return ran.stdout


def check_import(folder: Path) -> None:
    """`import levers` and a solver on a world, with numpy and scipy."""
    import networkx as nx
    import numpy as np

    import levers
    from levers.worlds.networks import graph_world
    from levers.worlds.scm import best_assignment

    graph = nx.DiGraph([("heat", "colour"), ("heat", "Y"), ("speed", "Y")])
    world = graph_world(graph, np.random.default_rng(0))
    problem = levers.Problem(world.space, tolerance=2.0, failure_prob=0.1, noise_sd=1.0)
    assert levers.run_on_world(levers.make_algorithm("cfs", problem), world, 0).n_runs > 0
    assert best_assignment(world)


def check_sqlite(folder: Path) -> None:
    """A study from its creation to its verdict in SQLite, and one of the oldest version after its upgrade (Alembic)."""
    import levers
    from levers.studies.storage.sql import upgrade_storage

    url = f"sqlite:///{folder}/a.db"
    finish(levers.create_study("oven", SPACE, tolerance=0.6, noise_sd=0.3, storage=url, seed=1))
    assert levers.load_study("oven", url).verdict().n_runs > 0
    shutil.copy(OLD_STUDIES, folder / "old.db")
    upgrade_storage(f"sqlite:///{folder}/old.db")
    assert levers.list_studies(f"sqlite:///{folder}/old.db")


def check_postgresql(folder: Path) -> None:
    """The same in PostgreSQL, where its programs are: psycopg."""
    import levers
    from harness.postgres import postgres_available, running_postgres
    from levers.studies.library import close_storages

    if not postgres_available():
        raise NotImplementedError("PostgreSQL's programs are not on this machine")
    with running_postgres() as url:
        finish(levers.create_study("oven", SPACE, tolerance=0.6, noise_sd=0.3, storage=url, seed=1))
        assert levers.load_study("oven", url).status().state == "finished"
        close_storages()


def check_commands(folder: Path) -> None:
    """The command line's main commands: typer, rich, polars."""
    at = ("--storage", f"sqlite:///{folder}/b.db")
    assert "levers" in command("--help")
    assert "--tolerance" in command("create", "--help")
    command(
        "create",
        "oven",
        "--factor",
        "heat=low,mid,high",
        "--factor",
        "speed=1,2.5",
        "--tolerance",
        1,
        "--noise-sd",
        1,
        "--seed",
        1,
        *at,
    )
    asked = json.loads(command("ask", "oven", "-n", 2, "--format", "json", *at))
    command("tell", "oven", asked[0]["trial"], "-1.5", *at)
    assert "oven" in command("studies", *at)
    for name in ("status", "trials", "log", "effects", "forecast"):
        assert command(name, "oven", *at).strip()
    assert "trial" in command("trials", "oven", "--format", "csv", *at)
    assert json.loads(command("token", "list", "--format", "json", *at)) == []
    assert "cfs" in command("algorithms")
    assert command("plan", "--levels", "3,2", "--tolerance", 1, "--noise-sd", 1, "--format", "json")
    ran = subprocess.run([sys.executable, "-m", "levers.cli.app", "tell", "oven"], capture_output=True, check=False)
    assert ran.returncode == 2, ran


def check_chart(folder: Path) -> None:
    """Pictures of a study: matplotlib."""
    import levers
    from levers.charts.picture import save_plot

    study = levers.create_study("oven", SPACE, tolerance=0.6, noise_sd=0.3, seed=1)
    finish(study)
    for kind in ("effects", "history"):
        for suffix in (".png", ".svg"):
            save_plot(study, kind, folder / f"{kind}{suffix}")
            assert (folder / f"{kind}{suffix}").stat().st_size > 1_000


def check_sheet(folder: Path) -> None:
    """A sheet goes out as a workbook, is filled in, and comes back: openpyxl, polars."""
    import openpyxl

    import levers

    study = levers.create_study("oven", SPACE, tolerance=0.6, noise_sd=0.3, seed=1)
    study.ask_sheet(folder / "runs.xlsx", 4)
    book = openpyxl.load_workbook(folder / "runs.xlsx")
    sheet = book.worksheets[0]
    column = [cell.value for cell in sheet[1]].index("outcome") + 1
    for row in range(2, 6):
        sheet.cell(row, column).value = row / 10
    book.save(folder / "filled.xlsx")
    study.tell_sheet(folder / "filled.xlsx")
    assert study.status().n_complete == 4
    study.export(folder / "all.csv")
    study.export(folder / "all.parquet")
    assert study.trials_dataframe().height >= 4


def check_dashboard(folder: Path) -> None:
    """The service in a process of its own, asked with the client and as a browser would: fastapi and what it needs."""
    import httpx

    from harness.http_load import running_server
    from levers.client import Client

    with running_server(f"sqlite:///{folder}/c.db") as server:
        client = Client(server.address)
        client.create_study("oven", SPACE, tolerance=0.6, noise_sd=0.3, seed=1)
        finish(client.study("oven"))
        for path in ("/", "/studies/oven", "/studies/new", "/api", "/metrics", "/api/v1/openapi.json", "/health"):
            found = httpx.get(server.address + path)
            assert found.status_code == 200, (path, found.status_code, found.text[:500])
        with httpx.Client(base_url=server.address, timeout=60) as browser:
            page = browser.get("/studies/new").text
            secret = re.search(r'name="form_token" value="([^"]+)"', page)
            assert secret is not None
            form = {"name": "farm", "factor": ["heat", "dose"], "levels": ["low, high", "1, 2"], "tolerance": "1"}
            made = browser.post("/studies", data={"form_token": secret[1], **form})
            assert made.status_code == 303, made.text[:2000]
    assert server.process.returncode == 0


def check_cluster(folder: Path) -> None:
    """A task of the paper's experiments on a dask cluster of one worker."""
    from distributed import LocalCluster

    from levers.reproduction.backends import run_local, run_on_cluster
    from levers.reproduction.sweeps import Task

    task = Task("elimination", 0, 0, "smoke")
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, local_directory=str(folder)
    ) as cluster:
        assert [t for t, _ in run_on_cluster([task], cluster.scheduler_address)] == [task]
    assert len(list(run_local([task, Task("elimination", 0, 1, "smoke")], 2))) == 2  # joblib's processes


def check_network(folder: Path) -> None:
    """A Bayesian network as a world: pgmpy."""
    from levers.worlds.files import load_world
    from levers.worlds.scm import mean_under

    (folder / "rain.bif").write_text(BIF)
    world = load_world(folder / "rain.bif", "wet")
    assert abs(mean_under(world, {"rain": "yes"}) - 0.8) < 1e-9


def check_optuna(folder: Path) -> None:
    """The baseline that asks Optuna."""
    import levers

    study = levers.create_study("oven", SPACE, budget=12, noise_sd=1.0, algorithm="tpe", seed=1)
    while not study.is_finished:
        study.tell_many((trial, float(trial.params["heat"] == "mid")) for trial in study.ask(10))
    assert study.verdict().n_runs == 12


CHECKS: dict[str, Callable[[Path], None]] = {
    name.removeprefix("check_"): found for name, found in list(globals().items()) if name.startswith("check_")
}


def main(names: list[str]) -> int:
    """Run the checks in folders of their own; 1 when one fails. The last line counts them."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "MPLBACKEND": "agg"}
    for name in [name for name in os.environ if name.startswith("LEVERS_")]:
        del os.environ[name]  # the commands must not find somebody's storage
    failed = skipped = 0
    for name in names or CHECKS:
        with tempfile.TemporaryDirectory(prefix="levers-smoke-") as folder:
            os.chdir(folder)
            try:
                CHECKS[name](Path(folder))
                said = "ok"
            except NotImplementedError as error:
                said, skipped = f"skipped: {error}", skipped + 1
            except Exception:
                said, failed = f"FAILED\n{traceback.format_exc()}", failed + 1
            finally:
                os.chdir("/")
        sys.stdout.write(f"{name}: {said}\n")
        sys.stdout.flush()
    n_passed = len(names or CHECKS) - failed - skipped
    sys.stdout.write(f"{n_passed} passed, {failed} failed" + (f", {skipped} skipped\n" if skipped else "\n"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
