"""Studies that earlier versions left behind go on with this one.

A sample is made once, by the code whose studies it keeps, and never again under the same name: before a release, named
as the version (0.2.0), or before work that must not change behaviour, named as a state of development (0.2.dev1).

python tests/old_studies/test_old_studies.py 0.2.0

0.2.dev3 has only the studies that 0.2.dev2 has not (`make_changed`), with a token and an answer that is kept.
"""

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import levers
from levers.core.codec import to_json
from levers.core.space import Level
from levers.studies.state import Trial
from levers.studies.storage.sql import upgrade_storage
from levers.studies.storage.tokens import create_token
from levers.studies.study import Study

FOLDER = Path(__file__).parent
SAMPLES = sorted(FOLDER.glob("*.db"))
SAME_RULES = ("0.2.dev1", "0.2.dev2", "0.2.dev3", "0.2.dev4", "0.2.0")
"""Samples of the solver's present rules: every study has to end as it would have then, wherever it stood."""
TAKEN = "mid"
"""The heat where it is left alone."""
SPACE: dict[str, list[Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4], "supplier": ["A", "B"]}


def outcome(study: Study, trial: Trial) -> float:
    """The same as when the samples were made: the noise follows from the trial, and the round that it belongs to."""
    heat, speed = trial.params.get("heat", TAKEN), trial.params["speed"]
    effect = {"low": 0.0, "mid": 1.4, "high": 0.6}[str(heat)] + 1.2 * (speed == 3)
    noise = np.random.default_rng([int(study.state.trials.block[trial.number]), trial.number]).normal()
    return round(float(effect + noise), 6)


def tell(study: Study, trials: list[Trial]) -> None:
    """The outcomes of some trials; where the heat was left alone it took the same level every time."""
    taken: dict[Trial, dict[str, Level]] = {t: {"heat": TAKEN} for t in trials if t.params.free}
    study.tell_many([(trial, outcome(study, trial)) for trial in trials], observed=taken or None)


def finish(study: Study) -> str:
    """Go on to the verdict, and give it as text."""
    while not study.is_finished:
        tell(study, study.running() or study.ask(1000))
    return to_json(study.verdict())


def put_away(study: Study, n_blocks: int, n_more: int = 5) -> None:
    """Tell so many whole blocks and a part of the next; a run of that is lost."""
    for _ in range(n_blocks):
        study.tell_many((trial, outcome(study, trial)) for trial in study.ask(1000))
    first, *others = study.ask(n_more)
    study.fail(first, "lost")
    study.tell_many((trial, outcome(study, trial)) for trial in others)


def make(url: str) -> None:
    """One of each kind of study: finished ones, and others that are put away half way."""

    def new(name: str, seed: int, space: dict[str, list[Level]] = SPACE, **settings: Any) -> Study:
        return levers.create_study(name, space, seed=seed, storage=url, who="ann", **settings)

    finish(new("finished", 1, tolerance=0.5, noise_sd=1.0))
    make_busy(url)
    paper = new("paper", 3, tolerance=1.0, noise_sd=1.0, algorithm="modl", goal="minimize")
    paper.tell_many((trial, -outcome(paper, trial)) for trial in paper.ask(50))
    put_away(new("merged", 4, tolerance=0.8, noise_sd=1.0, merged=[["heat", "supplier"]]), 1)
    wide = SPACE | {f"extra {k}": ["off", "on"] for k in range(9)}
    put_away(new("min effect, one look", 5, wide, tolerance=0.6, noise_sd=1.0, min_effect=0.7), 0, 70)
    put_away(new("min effect, in blocks", 7, wide, tolerance=0.6, noise_sd=1.0, min_effect=0.5), 2)
    put_away(new("max parents", 7, wide, tolerance=0.6, noise_sd=1.0, max_parents=2), 2)
    put_away(new("noise unknown", 8, tolerance=0.6), 1)
    put_away(new("budget", 9, budget=120, noise_sd=1.0), 1)
    mended = new("corrected", 10, tolerance=0.6, noise_sd=1.0)
    finish(mended)
    mended.correct(3, 4.0, "read off the wrong line")
    finish(mended)
    make_changed(url)


def make_busy(url: str) -> None:
    """A study to which everything has happened and that still runs."""
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
        busy.tell_many((trial, outcome(busy, trial)) for trial in busy.ask(1000))
    busy.correct(0, 5.0, "typo")
    first, second, *_ = busy.ask(5, worker="w1", lease=3600)
    busy.fail(first, "lost")
    busy.tell(second, outcome(busy, second))


def make_changed(url: str) -> None:
    """Studies that somebody ended, went on with or changed, outcomes that do not count, and levers left alone."""

    def new(name: str, seed: int, **settings: Any) -> Study:
        terms = {"tolerance": 0.7, "noise_sd": 1.0} | settings
        return levers.create_study(name, SPACE, seed=seed, storage=url, who="ann", **terms)

    ended = new("ended", 11)
    tell(ended, ended.ask(20))
    ended.finish("no more flour")
    finish(on := new("went on", 12))
    on.go_on(12, "to be surer")
    tell(on, on.ask(6))
    restated = new("restated", 13)
    tell(restated, restated.ask(40))
    restated.restate(tolerance=0.9, reason="good enough")
    restated.correct(2, 1.0, "typo")
    tell(restated, restated.ask(8))
    fewer = new("excluded", 14)
    finish(fewer)
    fewer.exclude(5, "the door was open")
    finish(fewer)
    days = new("days", 15, block_size=8, baseline={"heat": "low", "speed": 1, "supplier": "A"})
    tell(days, days.ask(12, lease=60.0))
    days.exclude(1, "spilt")
    days.once("key-1", "ask", lambda: str(days.ask_numbers(2).tolist()))
    alone = new("left alone", 16, free=["heat"], tolerance=1.5)
    tell(alone, alone.ask(30))
    finish(sure := new("confirmed", 17))
    sure.confirm(4, "before the change")
    tell(sure, sure.ask(3))
    create_token(alone.storage, "write", "left alone", "bench")
    create_token(alone.storage, "read")


def test_there_is_a_sample_of_every_release() -> None:
    text = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    released = {line.split()[1] for line in text.splitlines() if line.startswith("## ") and line != "## Unreleased"}
    found = {path.stem for path in SAMPLES}
    assert released <= found
    assert all(re.fullmatch(r"[\d.]+\.dev\d+", name) for name in found - released)


def comparable(verdict: levers.Verdict) -> levers.Verdict:
    """A verdict without what only later versions looked for."""
    provisos = tuple(remark for remark in verdict.provisos if remark.kind not in ("checked", "days unknown"))
    return replace(verdict, provisos=provisos, doubts=())


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
        if not study.spec.merging.is_merged:
            assert (found.parents, found.on_parents) == (was.parents, was.on_parents)
        else:  # as soon as one of tied levers was shown to matter all were named: since mended
            assert set(found.parents or ()) <= set(was.parents or ())
        if finished or sample.stem in SAME_RULES:  # else its later blocks are designed by other rules than then
            assert (found.assignment, found.n_runs) == (was.assignment, was.n_runs)
            # the last digits differ between processors, and which rows were in which day did so up to 0.2.0
            assert found.tolerance == pytest.approx(was.tolerance, rel=1e-3 if name == "days" else 1e-6)
        if sample.stem in SAME_RULES:  # what speaks against them was not looked for then
            assert comparable(found).statement == comparable(was).statement
        assert study.trials_dataframe().height > 0


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_reading_decides_nothing(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log is read without building a solver, and whatever checks are made of settings today."""
    copy = tmp_path / "old.db"
    shutil.copy(sample, copy)
    upgrade_storage(f"sqlite:///{copy}")

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("reading an old study planned or checked something")

    for name in ("make_algorithm", "restore_algorithm", "check_choice", "check_count"):
        monkeypatch.setattr(f"levers.studies.spec.{name}", forbidden)
    for name in ("check_scale", "check_probability"):
        monkeypatch.setattr(f"levers.algorithms.base.{name}", forbidden)
    for name in json.loads(sample.with_suffix(".json").read_text()):
        study = levers.load_study(name, f"sqlite:///{copy}")
        assert study.trials_dataframe().height == study.state.trials.n_trials > 0
        assert study.space.names[:2] == ("heat", "speed")
        with pytest.raises(AssertionError, match="planned or checked"):
            study.verdict()


def test_a_verdict_of_an_earlier_version_is_verified() -> None:
    """What it promises is put in other words now; that is no reason to doubt it."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(FOLDER / "0.2.dev1.db", Path(folder) / "old.db")
        upgrade_storage(f"sqlite:///{folder}/old.db")
        study = levers.load_study("finished", f"sqlite:///{folder}/old.db")
        known = json.loads((FOLDER / "0.2.dev1.json").read_text())["finished"]["verdict"]
        frame = study.trials_dataframe().filter(pl.col("outcome").is_not_null())
    was = levers.from_json(known, levers.Verdict)
    assert not was.provisos
    assert levers.verify(was, frame["outcome"].to_numpy()).ok
    assert not levers.verify(was, frame["outcome"].to_numpy() + np.arange(len(frame))).ok


def main(version: str, make: Callable[[str], None] = make) -> None:
    path = FOLDER / f"{version}.db"
    if path.exists():
        raise SystemExit(f"{path.name} is there already; a sample is never made again")
    make(f"sqlite:///{path}")
    expected = {}
    for name in levers.list_studies(f"sqlite:///{path}"):
        copy = levers.copy_study(name, name, f"sqlite:///{path}", levers.MemoryStorage())
        expected[name] = {"n_complete": copy.status().n_complete, "verdict": finish(copy)}
    (FOLDER / f"{version}.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
