"""How values look in a notebook."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import levers
from levers.experiments.compare import Comparison
from levers.studies.study import Study

SPACE: dict[str, list[levers.Level]] = {"heat <b>": ["low", "high"], "time": [1, 2, 3]}


@pytest.fixture(scope="module")
def study() -> Study:
    study = levers.create_study("oven <i>", SPACE, tolerance=1.0, noise_sd=1.0, seed=1)
    rng = np.random.default_rng(0)
    while trials := study.ask(100):
        study.tell_many((t, 3.0 * (t.params["time"] == 2) + rng.normal()) for t in trials)
    return study


def shown(value: object) -> str:
    """What a notebook shows, checked: well-formed, nothing of a name is markup, nothing runs."""
    found = value._repr_html_()  # type: ignore[attr-defined]
    assert isinstance(found, str)
    ElementTree.fromstring(re.sub(r"<style>.*?</style>", "", found, flags=re.DOTALL))
    assert "<b>" not in found
    assert "<i>" not in found
    assert "<script" not in found
    return found


def test_every_value_is_shown(study: Study) -> None:
    assert "heat &lt;b&gt;" in shown(study.space)
    assert "6 settings" in shown(study.space)
    page = shown(study)
    assert page.count("<svg") == 4
    assert "within" in page
    assert "prefers-color-scheme: dark" in page
    assert "data-jp-theme-light" in page
    verdict = shown(study.verdict())
    assert "<td>2</td>" in verdict
    assert study.verdict().promise in verdict
    assert shown(study.effects()).count("<tr>") == 1 + 5
    assert "one shot runs" in shown(levers.plan([3, 4], tolerance=0.5))
    assert "typical loss" in shown(levers.plan([3, 4], budget=20))
    assert "n parents" in shown(Comparison(n_factors=4, n_parents=2, n_worlds=1))


def test_percent_on_a_log_scale() -> None:
    study = levers.create_study("oven", SPACE, goal="minimize", scale="log", tolerance="5%", noise_sd=0.1, seed=1)
    while trials := study.ask(100):
        study.tell_many((t, 10.0 if t.params["time"] == 2 else 12.5) for t in trials)
    assert "<td>25 %</td>" in shown(study.effects())
    assert re.search(r"[Ww]ithin [0-9.]+ % of the best", shown(study))
    assert re.search(r"within [0-9.]+ % of the best", shown(study.verdict()))
    assert " %</td>" in shown(levers.plan([3, 4], budget=20, scale="log"))


def test_two_cells_do_not_share_ids(study: Study) -> None:
    page = shown(study) + shown(study)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) > 4
    assert len(ids) == len(set(ids))
    for used in re.findall(r"url\(#([^)]+)\)", page) + " ".join(re.findall(r'labelledby="([^"]+)"', page)).split():
        assert used in ids


def test_a_study_in_doubt_says_so_first() -> None:
    study = levers.create_study("oven", SPACE, tolerance=1.0, noise_sd=1.0, seed=1)
    rng = np.random.default_rng(0)
    while trials := study.ask(100):
        study.tell_many((t, 400.0 if t.number == 3 else float(rng.normal())) for t in trials)
    assert "trial 3" in shown(study)
    assert shown(study.verdict()).index("In doubt") < shown(study.verdict()).index("<table>")


def test_a_study_without_runs_is_shown() -> None:
    assert "0 runs" in shown(levers.create_study("new", SPACE, tolerance=1.0, seed=1))
