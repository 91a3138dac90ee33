"""Schemathesis against the service's own document: every operation, wrong and right input, and chains of requests.

It runs as a program of its own, over loopback, because it needs no filter for its warnings there. Always the same
requests; LEVERS_FUZZ_EXAMPLES (4 if not set) says how many of each kind, so more of them find more.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import levers
from levers.studies.library import open_storage
from levers.studies.storage.tokens import create_token

Serve = Callable[..., AbstractContextManager[str]]
FACTORS: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2]}

# `positive_data_acceptance` says that what fits the schema is not refused with 422. It is off where a rule cannot be
# said in a schema, and only there; all other checks are on everywhere.
CONFIGURATION = """
[auth.openapi.token]
bearer = "${TOKEN}"
[dictionaries.names]
values = ["oven", "a/b %"]
[dictionaries.doomed]
values = ["old", "older"]
[parameters]
"path.name" = { dictionary = "names", probability = 0.85 }

[[operations]]  # the studies that other requests need stay
include-operation-id = "deleteStudy"
parameters = { "path.name" = { dictionary = "doomed", probability = 0.85 } }

[[operations]]  # levels must differ, names be printable, and a tolerance exclude a budget
include-operation-id = ["createStudy", "copyStudy", "mergeStudy", "planStudy", "restate"]
checks.positive_data_acceptance.enabled = false

[[operations]]  # a sheet is a text to a schema; rows must be as many as values, and have the study's own levels
include-operation-id = ["tellSheet", "correctSheet", "importSheet", "importRuns"]
checks.positive_data_acceptance.enabled = false

[[operations]]  # each study has columns of its own to sort by
include-operation-id = "listTrials"
checks.positive_data_acceptance.enabled = false
"""

# a key stands for one request, and the fuzzer likes to use the same one for many; keys that are none stay as they are
HOOKS = """
import itertools, re, schemathesis
number = itertools.count()

@schemathesis.hook
def before_call(context, case, kwargs):
    for name, value in list((case.headers or {}).items()):
        if name.lower() == "idempotency-key" and re.fullmatch("[!-~]{1,200}", str(value)):
            case.headers[name] = f"key-{next(number)}"
"""


def test_the_service_keeps_to_its_document(serve: Serve, database: str, tmp_path: Path) -> None:
    study = levers.create_study("oven", FACTORS, tolerance=0.05, noise_sd=1.0, seed=1, storage=database)
    study.tell_many([(trial, float(trial.number % 3)) for trial in study.ask(40)])
    study.ask(20)
    done = levers.create_study("a/b %", FACTORS, tolerance=0.5, noise_sd=1.0, seed=1, storage=database)
    done.optimize(lambda run: float(run["speed"]))
    for name in ("old", "older"):
        levers.create_study(name, FACTORS, tolerance=0.5, storage=database)
    token = create_token(open_storage(database), "admin")
    (tmp_path / "st.toml").write_text(CONFIGURATION)
    (tmp_path / "st_hooks.py").write_text(HOOKS)
    program = Path(sys.executable).with_name("schemathesis")
    settings = {"NO_PROXY": "*", "SCHEMATHESIS_HOOKS": "st_hooks", "PYTHONPATH": str(tmp_path), "TOKEN": token}
    with serve(database, needs_token=True, most_failures=10**6) as url:  # it sends wrong tokens everywhere
        told = subprocess.run(
            [
                str(program),
                "--no-color",
                f"--config-file={tmp_path}/st.toml",
                "run",
                f"{url}/api/v1/openapi.json",
                "--include-path-regex=^(/api/v1|/health$|/metrics$)",
                "--generation-deterministic",
                f"--max-examples={os.environ.get('LEVERS_FUZZ_EXAMPLES', '4')}",
                "--continue-on-failure",
                "--request-timeout=20",
            ],
            cwd=tmp_path,
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=False,
        )
    assert told.returncode == 0, told.stdout + told.stderr
    assert "Tested: 43" in told.stdout, told.stdout
    assert token not in told.stdout
