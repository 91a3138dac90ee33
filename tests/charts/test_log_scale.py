"""Charts of a study on a log scale: percent on axes and in words, medians in the outcome's own unit."""

from pathlib import Path
from typing import Any

import pytest

import levers
from levers.charts.drawings import CHARTS, COMPARE
from levers.charts.picture import save_plot
from levers.charts.view import StudyView
from levers.studies.study import Study


def time_of(run: Any) -> float:
    return 10.0 * (1.25 if run["a"] == "off" else 1.0) * {1: 1.0, 2: 1.1, 3: 4.0}[run["b"]]


@pytest.fixture(scope="module")
def study() -> Study:
    space: dict[str, list[levers.Level]] = {"a": ["on", "off"], "b": [1, 2, 3]}
    made = levers.create_study(
        "oven", space, goal="minimize", scale="log", tolerance="5%", noise_sd=0.1, seed=1, baseline={"a": "off", "b": 2}
    )
    made.optimize(time_of)
    made.confirm(4)
    made.optimize(time_of)
    return made


def test_every_chart_is_drawn_in_percent(study: Study) -> None:
    view = StudyView("oven", study.state)
    drawn = {key: kind.both(view)[0] for key, kind in CHARTS.items()}
    assert all(chart.facts.data is not None for key, chart in drawn.items() if key != "additivity")
    data: dict[str, Any] = {key: chart.facts.data for key, chart in drawn.items()}
    effects = drawn["effects"]
    assert "estimated loss in percent (right of zero is worse)" in effects.svg
    assert "tolerance 5 %" in effects.svg
    losses = {row[:2]: row[3] for row in effects.facts.rows}
    assert (losses["a", "off"], losses["b", "3"]) == ("25 %", "300 %")
    marks = {(mark.row.factor, mark.row.level): mark.row.loss for mark in data["effects"].marks}
    assert marks["a", "off"] == pytest.approx(25.0)
    assert "how far from the best it can be, in percent" in drawn["forecast"].svg
    assert drawn["forecast"].facts.rows[-1][2].endswith(" %")
    assert data["forecast"].tolerance == pytest.approx(5.0)
    assert "It is the typical outcome, the median." in drawn["history"].facts.caption
    assert "logarithm of outcome over expected (0.1 is about 10 %)" in drawn["residuals"].svg
    assert ("noise sd stated", "10 %") in drawn["residuals"].facts.rows
    assert "loses 25 % against on" in " ".join(bar.words for bar in data["evidence"].bars)
    assert "gain over the baseline in percent" in drawn["confirmation"].svg
    said = {row[0]: row[2] for row in drawn["confirmation"].facts.rows}
    assert (said["median at the setting"], said["gain over the baseline"]) == ("10", "27.2727 %")
    compared = COMPARE.both([view])[0]
    assert "Studies on a log scale are drawn in percent." in compared.facts.caption
    assert compared.facts.rows[0][4] == "5 %"


@pytest.mark.parametrize("kind", ["effects", "history", "elimination", "forecast"])
def test_pictures_are_drawn(study: Study, kind: str, tmp_path: Path) -> None:
    save_plot(study, kind, tmp_path / f"{kind}.svg")
    text = (tmp_path / f"{kind}.svg").read_text()
    if kind in ("effects", "forecast"):
        assert "percent" in text or "%" in text


def test_a_study_under_way_is_drawn(study: Study) -> None:
    begun = levers.create_study("new", study.space, scale="log", tolerance=0.02, noise_sd=0.1, seed=1)
    for _ in range(2):
        begun.tell_many([(trial, time_of(trial.params)) for trial in begun.ask(9)])
        view = StudyView("new", begun.state)
        assert all(kind.both(view) for kind in CHARTS.values())
