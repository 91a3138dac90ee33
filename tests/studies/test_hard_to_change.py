"""Levers that are hard to change: on every face, in the order of runs, in what a verdict rests on, and in doubts."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import levers
from harness.doubtful import DAY, setups
from harness.doubtful import Runs as Asked
from levers.cli.app import app
from levers.client import Client
from levers.core.designs.changes import n_changes
from levers.core.space import Codes
from levers.errors import InvalidSettingError, InvalidSpaceError
from levers.studies.analysis.doubts import SHARES, checks, doubts, share
from levers.studies.spec import StudySpec
from levers.studies.storage.memory import MemoryStorage
from levers.studies.study import Study
from levers.web.app import make_app
from levers.web.service import Service

SPACE: dict[str, list[Any]] = {"speed": [1, 2, 3], "mould": ["A", "B", "C"], "heat": ["low", "high"], "oil": [1, 2]}
TODAY = {"speed": 1, "mould": "A", "heat": "low", "oil": 1}


def line(**settings: Any) -> Study:
    given = {"budget": 48, "block_size": DAY, "seed": 1, "hard_to_change": ["mould"], **settings}
    if given.get("tolerance") is not None:
        del given["budget"]
    return levers.create_study("line", SPACE, **given)


def value(codes: Codes) -> np.ndarray:
    """An outcome that follows from the row alone."""
    place = codes.astype(np.float64) @ [1.0, 0.7, 1.9, 0.3]
    return np.asarray(codes @ np.array([0.4, 1.0, 0.5, 0.0]) + np.sin(37.0 * place))


def run(study: Study) -> Codes:
    """All runs of a study in the order in which they are asked for."""
    rows = []
    while study.state.open_block is not None:
        trials = study.ask(DAY)
        rows.append(np.array([trial.params.codes for trial in trials], dtype=np.int16))
        study.tell_many(zip(trials, value(rows[-1]).tolist(), strict=True))
    return np.concatenate(rows)


# The order of runs


def test_a_lever_is_changed_once_a_day_for_each_of_its_other_levels_and_stays_in_place_overnight() -> None:
    study = line()
    codes = run(study)
    mould = codes[:, 1]
    days = [mould[i : i + DAY] for i in range(0, len(mould), DAY)]
    gone = sum(day[-1] not in following for day, following in pairwise(days))  # a level that the next day has not
    assert n_changes(codes)[1] == sum(len(np.unique(day)) - 1 for day in days) + gone
    assert n_changes(run(line(hard_to_change=[])))[1] > 1.5 * n_changes(codes)[1]
    assert study.verify().ok
    assert levers.verify(study.verdict(), value(codes)).ok


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"aim": "certify"},
        {"tolerance": 1.5, "noise_sd": 1.0},
        {"aim": "certify", "block_size": None},
        {"aim": "certify", "baseline": TODAY},
        {"aim": "certify", "forbidden": [{"mould": "A", "heat": "high"}]},
        {"aim": "certify", "merged": [["mould", "oil"]]},
        {"aim": "certify", "hard_to_change": ["mould", "heat"]},
    ],
)
def test_days_have_the_same_rows_and_the_verdict_the_same_numbers(settings: dict[str, Any]) -> None:
    hard, usual = line(**settings), line(**{**settings, "hard_to_change": []})
    ordered, before = hard.state.blocks[0].batch.codes, usual.state.blocks[0].batch.codes
    lengths = hard.spec.solver.block_lengths(hard.state.known[-1], len(ordered))
    for one, other in zip(*(np.split(rows, np.cumsum(lengths)[:-1]) for rows in (ordered, before)), strict=True):
        assert sorted(map(tuple, one.tolist())) == sorted(map(tuple, other.tolist()))
    codes, others = run(hard), run(usual)
    assert hard.verify().ok
    if "aim" in settings or "tolerance" in settings:  # no rows that were chosen by estimates
        assert len(codes) == len(others)
        found, same = hard.verdict(), usual.verdict()
        assert found.assignment == same.assignment
        assert found.tolerance == pytest.approx(same.tolerance)
        for one, other in zip(found.effects, same.effects, strict=True):
            assert one == pytest.approx(other)
    assert n_changes(codes)[1] < n_changes(others)[1]


def test_a_round_begins_with_what_the_one_before_left_in_place() -> None:
    study = line(budget=96, aim="best")
    codes = run(study)
    starts = np.cumsum([block.n_runs for block in study.state.blocks])[:-1]
    assert len(starts) > 2
    for at in starts.tolist():
        assert codes[at, 1] == codes[at - 1, 1] or codes[at - 1, 1] not in codes[at : at + DAY, 1]


def test_the_second_hardest_is_ordered_inside_the_first() -> None:
    codes = run(line(hard_to_change=["mould", "speed"]))
    for begin in range(0, len(codes), DAY):
        day = codes[begin : begin + DAY, [1, 0]]
        changed = int((day[1:] != day[:-1]).any(axis=1).sum())
        assert changed == len(np.unique(day, axis=0)) - 1


def test_runs_of_today_s_setting_stand_with_its_level() -> None:
    codes = run(line(baseline=TODAY, aim="certify"))
    for begin in range(0, len(codes), DAY):
        day = codes[begin : begin + DAY]
        assert (day == 0).all(axis=1).any()  # the baseline is run every day
        assert n_changes(day)[1] == len(np.unique(day[:, 1])) - 1


def test_levers_that_are_left_alone_and_others_that_are_hard_to_change_go_together() -> None:
    study = line(free=["heat"], budget=80, block_size=None)
    n = study.state.blocks[0].n_runs
    first = np.array([trial.params.codes for trial in study.ask(n)])
    assert n_changes(first)[1] == 2
    with pytest.raises(InvalidSettingError, match="'heat' is hard to change and may be left alone"):
        line(free=["heat"], hard_to_change=["heat"])


def test_a_sheet_shows_few_changes(tmp_path: Path) -> None:
    study = line(storage=f"sqlite:///{tmp_path / 'a.db'}")
    asked = CliRunner().invoke(
        app, ["ask", "line", "-n", "8", "--sheet", str(tmp_path / "runs.csv"), "--storage", study.storage.url]
    )
    assert asked.exit_code == 0, asked.output
    header, *rows = [row.split(",") for row in (tmp_path / "runs.csv").read_text(encoding="utf-8-sig").splitlines()]
    moulds = [row[header.index("mould")] for row in rows]
    assert len(moulds) == 8
    assert sum(one != other for one, other in pairwise(moulds)) == len(set(moulds)) - 1


# Every face


def test_a_study_keeps_it_in_the_order_given() -> None:
    assert line(hard_to_change=["oil", "mould"]).spec.hard_to_change == ("oil", "mould")
    assert line(hard_to_change="oil").spec.hard_to_change == ("oil",)
    assert line(hard_to_change=()).spec == line(hard_to_change=[]).spec
    spec = line(merged=[["mould", "oil"]], hard_to_change=["oil"]).spec
    assert spec.inner_hard == ((1, (0, 1, 0, 1, 0, 1)),)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"hard_to_change": ["mold"]}, "there is no factor 'mold'"),
        ({"hard_to_change": ["oil", "oil"]}, "'oil' is named twice as a lever that is hard to change"),
        ({"algorithm": "modl", "tolerance": 1.0, "noise_sd": 1.0}, "modl does not know levers that are hard to change"),
        ({"tolerance": 1.0, "noise_sd": 1.0, "min_effect": 0.5}, "leave out hard_to_change, and sort each sheet"),
        ({"tolerance": 1.0, "noise_sd": 1.0, "certificate": "proven"}, "leave out hard_to_change, and sort each sheet"),
    ],
)
def test_what_cannot_be_kept_in_place_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises((InvalidSettingError, InvalidSpaceError), match=says) as refused:
        line(**settings)
    assert refused.value.field == "hard_to_change"


def test_the_command_line_and_a_space_file_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEVERS_STORAGE", raising=False)
    file = 'hard_to_change = ["mould"]\n[factors]\nmould = ["A", "B"]\noil = [1, 2]\nheat = [1, 2]\n'
    Path("line.toml").write_text(file)
    create = ["create", "--space", "line.toml", "--budget", "16", "--seed", "1"]
    for name, more, expected in (
        ("one", [], ("mould",)),
        ("two", ["--hard-to-change", "oil, mould"], ("mould", "oil")),
        ("three", ["--hard-to-change", "heat", "--hard-to-change", "oil"], ("mould", "heat", "oil")),
    ):
        made = CliRunner().invoke(app, [*create, name, *more])
        assert made.exit_code == 0, made.output
        assert levers.load_study(name, "sqlite:///levers.db").spec.hard_to_change == expected
    refused = CliRunner().invoke(app, [*create, "four", "--hard-to-change", "oel"])
    assert "there is no factor 'oel'" in str(refused.exception)
    Path("line.toml").write_text(file.replace('["mould"]', '"mould"'))
    refused = CliRunner().invoke(app, [*create, "five"])
    assert "must be a list of factors, the hardest first" in str(refused.exception)
    Path("line.toml").write_text("hard_to_change = ['opt']\n[factors]\nopt = [1, 2]\nunroll = [1, 2]\n")
    ran = CliRunner().invoke(
        app, ["run", "bench", "--space", "line.toml", "--budget", "6", "--seed", "1", "--", "echo", "{opt}{unroll}"]
    )
    assert ran.exit_code in (0, 4), ran.output
    found = levers.load_study("bench", "sqlite:///levers.db")
    assert found.spec.hard_to_change == ("opt",)
    assert n_changes(found.state.blocks[0].batch.codes)[0] == 1


def test_the_service_the_client_and_the_form_take_it() -> None:
    storage = MemoryStorage()
    with TestClient(make_app(Service(storage)), base_url="http://127.0.0.1") as http:
        body = {"name": "line", "factors": SPACE, "budget": 48, "hard_to_change": ["mould", "oil"]}
        assert http.post("/api/v1/studies", json=body).json()["hard_to_change"] == ["mould", "oil"]
        assert http.get("/api/v1/studies/line").json()["hard_to_change"] == ["mould", "oil"]
        wrong = http.post("/api/v1/studies", json={**body, "name": "b", "hard_to_change": ["mold"]})
        assert wrong.status_code == 422
        assert "there is no factor 'mold'" in wrong.json()["error"]["message"]
        assert wrong.json()["error"]["field"] == "hard_to_change"
        http.get("/login")
        levels = ["A, B", "1, 2"]
        form = {"name": "typed", "factor": ["mould", "oil"], "levels": levels, "budget": "16", "hard_to_change": "oil"}
        form |= {"form_token": http.cookies["levers_form"]}
        page = http.post("/studies", data=form).text
        assert levers.load_study("typed", storage).spec.hard_to_change == ("oil",)
        assert "hard to change" in page


def test_the_client_reads_it_and_sends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}

    def made(self: Client, path: str, body: dict[str, Any]) -> None:
        sent.update(body)

    monkeypatch.setattr(Client, "_made", made)
    Client("http://127.0.0.1:9").create_study("line", SPACE, budget=48, hard_to_change="mould")
    assert sent["hard_to_change"] == ["mould"]


def test_a_merged_study_keeps_it() -> None:
    storage = MemoryStorage()
    study = line(storage=storage, tolerance=2.0, noise_sd=1.0)
    study.tell_many((trial, 1.0) for trial in study.ask(DAY))
    merged = levers.merge_study("line", "line 2", ["mould", "oil"], storage)
    assert merged.spec.hard_to_change == ("mould",)
    rows = merged.state.blocks[0].batch.codes
    moulds = merged.spec.expand(rows)[:, 1]
    assert n_changes(moulds[:DAY, None])[0] == len(np.unique(moulds[:DAY])) - 1


def test_old_studies_know_nothing_of_it() -> None:
    spec = StudySpec(levers.Space.of(SPACE), tolerance=1.0, noise_sd=1.0)
    assert spec.hard_to_change == ()
    assert "hard_to_change" not in dict(line(hard_to_change=[], aim="certify").spec.options)


# What it rests on


def measured(study: Study, size: float, seed: int) -> Study:
    """A whole study with a set-up error of so many sds of its noise."""
    rng, memory = np.random.default_rng(seed), dict[str, Any]()
    while study.state.open_block is not None:
        trials = study.ask(1000)
        codes = np.array([trial.params.codes for trial in trials], dtype=np.int16)
        runs = Asked(codes[:, 1:2], np.zeros(len(codes), dtype=np.int64), 0, None, 1.0)  # type: ignore[arg-type]
        y = 0.3 * codes.sum(axis=1) + setups(size)(runs, rng, memory)
        study.tell_many(zip(trials, y.tolist(), strict=True))
    return study


def test_a_verdict_says_what_it_rests_on_and_a_set_up_error_is_a_doubt_that_names_the_lever() -> None:
    honest = measured(line(budget=120, aim="certify"), 0.0, 1)
    [remark] = [one for one in honest.verdict().provisos if one.kind == "hard to change"]
    assert remark.levers == ("mould",)
    assert "rests on setting mould adding no error of its own" in remark.text
    assert doubts(honest.state) == ()
    assert not [
        one for one in measured(line(hard_to_change=[]), 0.0, 1).verdict().provisos if one.kind == "hard to change"
    ]
    broken = measured(line(budget=120, aim="certify"), 2.0, 1)
    [doubt] = [one for one in doubts(broken.state) if one.kind == "set-up"]
    assert doubt.levers == ("mould",)
    assert "runs between two changes of mould are alike" in doubt.text
    assert broken.is_held
    assert broken.verify().ok


def test_the_check_takes_its_share_from_the_noise() -> None:
    stated, unknown = line(noise_sd=1.0).state, line().state
    assert share(stated, "set-up") == SHARES["set-up"]
    assert share(stated, "noise") + share(stated, "set-up") == pytest.approx(
        share(line(hard_to_change=[], noise_sd=1.0).state, "noise")
    )
    assert share(unknown, "set-up") == pytest.approx(SHARES["set-up"] + share(unknown, "noise"))
    kinds = {result.check.kind for result in checks(measured(line(aim="certify"), 0.0, 2).state)}
    assert "set-up" in kinds
    assert "noise" not in kinds  # whose share it has
