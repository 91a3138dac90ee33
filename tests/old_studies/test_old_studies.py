"""Make the sample of a release: run once, before it, and never again for the same version.

python tests/old_studies/make_sample.py 0.1.0
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import levers
from levers.core.codec import to_json
from levers.core.space import Level
from levers.studies.storage.sql import upgrade_storage
from levers.studies.study import Study
from levers.studies.trials import Trial

FOLDER = Path(__file__).parent
SAMPLES = sorted(FOLDER.glob("*.db"))
SPACE: dict[str, list[Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4], "supplier": ["A", "B"]}


def outcome(trial: Trial) -> float:
    effect = {"low": 0.0, "mid": 1.4, "high": 0.6}[str(trial.params["heat"])] + 1.2 * (trial.params["speed"] == 3)
    return round(float(effect + np.random.default_rng([trial.block, trial.number]).normal()), 6)


def finish(study: Study) -> str:
    """Go on to the verdict, and give it as text."""
    while not study.is_finished:
        study.tell_many((trial, outcome(trial)) for trial in study.running() or study.ask(1000))
    return to_json(study.verdict())


def make(url: str) -> None:
    """A study that is finished, one to which everything has happened and that still runs, one by the paper's method."""
    done = levers.create_study("finished", SPACE, tolerance=0.5, noise_sd=1.0, seed=1, storage=url, who="ann")
    finish(done)
    busy = levers.create_study(
        "busy",
        SPACE,
        tolerance=0.4,
        seed=2,
        storage=url,
        who="ann",
        forbidden=[{"heat": "high", "speed": 4}],
        block_size=6,
    )
    busy.import_runs([{"heat": "mid", "speed": 3, "supplier": "A"}] * 3, [2.5, 2.7, 2.4], "last year")
    while len(busy.state.blocks) < 3:
        busy.tell_many((trial, outcome(trial)) for trial in busy.ask(1000))
    busy.correct(0, 5.0, "typo")
    first, second, *_ = busy.ask(5, worker="w1", lease=3600)
    busy.fail(first, "lost")
    busy.tell(second, outcome(second))
    paper = levers.create_study(
        "paper", SPACE, tolerance=1.0, noise_sd=1.0, seed=3, storage=url, algorithm="modl", goal="minimize", who="ann"
    )
    paper.tell_many((trial, -outcome(trial)) for trial in paper.ask(50))


def test_there_is_a_sample_of_every_release() -> None:
    text = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    released = {line.split()[1] for line in text.splitlines() if line.startswith("## ") and line != "## Unreleased"}
    assert released == {path.stem for path in SAMPLES}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_an_old_study_goes_on(sample: Path, tmp_path: Path) -> None:
    copy = tmp_path / "old.db"
    shutil.copy(sample, copy)
    url = f"sqlite:///{copy}"
    upgrade_storage(url)
    expected = json.loads(sample.with_suffix(".json").read_text())
    assert levers.list_studies(url) == list(expected)
    for name, known in expected.items():
        study = levers.load_study(name, url)
        assert study.status().n_complete == known["n_complete"]
        finished = study.is_finished
        found = levers.from_json(finish(study), levers.Verdict)
        was = levers.from_json(known["verdict"], levers.Verdict)
        assert (found.parents, found.on_parents) == (was.parents, was.on_parents)
        if finished:  # else its later blocks are designed by this version
            assert (found.assignment, found.n_runs) == (was.assignment, was.n_runs)
            assert found.tolerance == pytest.approx(was.tolerance)  # the last digits differ between processors
        assert study.trials_dataframe().height > 0


def main(version: str) -> None:
    path = FOLDER / f"{version}.db"
    if path.exists():
        raise SystemExit(f"{path.name} is there already; a released sample is never made again")
    make(f"sqlite:///{path}")
    expected = {}
    for name in ("finished", "busy", "paper"):
        copy = levers.copy_study(name, name, f"sqlite:///{path}", levers.MemoryStorage())
        expected[name] = {"n_complete": copy.status().n_complete, "verdict": finish(copy)}
    (FOLDER / f"{version}.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
