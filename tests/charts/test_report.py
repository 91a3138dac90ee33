"""A study's report: everything on one page that needs nothing else."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import levers
from levers.charts.report import save_report, study_report
from levers.core.outcome_scale import AS_TOLD
from levers.errors import InvalidSettingError
from levers.studies.study import Study

LEVERS: dict[str, list[levers.Level]] = {
    "heat": ["low", "<b>high</b>"],
    "time; zone": [10, 20, 30],
    "fan": ["off", "on"],
}
BASELINE: dict[str, levers.Level] = {"heat": "low", "time; zone": 10, "fan": "off"}


def told(study: Study, seed: int = 0) -> Study:
    rng = np.random.default_rng(seed)
    while trials := study.ask(200):
        study.tell_many((t, 3.0 * (t.params.get("heat", "low") != "low") + rng.normal()) for t in trials)
    return study


@pytest.fixture(scope="module")
def finished() -> Study:
    study = levers.create_study(
        "oven & <i>co</i>", LEVERS, tolerance=1.0, noise_sd=1.0, seed=1, baseline=BASELINE, who="ann"
    )
    first = study.ask(2)
    study.tell(first[0], 4.0)
    study.fail(first[1], "power cut")
    told(study)
    study.correct(first[0], 3.5, "misread & retyped")
    return told(study, 1)


class Tags(HTMLParser):
    """Every tag with its attributes, and whether all that were opened are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_report_has_everything(finished: Study) -> None:
    page, verdict = study_report(finished), finished.verdict()
    assert verdict.tolerance is not None
    for part in (
        "Set the levers so",
        f"within {AS_TOLD.certified(verdict.within)} of the best",
        "gain over the baseline",
        "misread &amp; retyped",
        "power cut",
        "What was ruled out, and when",
        "no drift",
        "in place today",
        f"{verdict.n_runs:,}",
        "created: 3 levers",
        finished.state.head,
        '<th scope="col">outcome</th><th scope="col">state</th>',
        "<td>failed</td>",
    ):
        assert part.lower() in page.lower(), part
    assert all(proviso.text.split(";")[0][:40] in page for proviso in verdict.provisos if "&" not in proviso.text)
    assert page.count("<svg") >= 10  # wide and narrow


def test_a_report_needs_nothing_and_runs_nothing(finished: Study) -> None:
    page = study_report(finished)
    tags = Tags(page)
    assert tags.open == []
    assert not {tag for tag, _ in tags.seen} & {"script", "link", "img", "iframe", "i", "b"}
    assert not [value for _, attributes in tags.seen for name, value in attributes.items() if name.startswith("on")]
    links = [value for _, given in tags.seen for name, value in given.items() if name in ("href", "src", "xlink:href")]
    assert all(value is not None and value.startswith("#") for value in links)
    ids = [given["id"] for _, given in tags.seen if "id" in given]
    assert len(ids) == len(set(ids))
    assert "url(" not in re.sub(r"url\(#", "", page)
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page


def test_a_report_before_the_end_says_so(tmp_path: Path) -> None:
    study = levers.create_study("new", LEVERS, tolerance=1.0, noise_sd=1.0, seed=1)
    assert "nothing leads yet" in study_report(study)
    save_report(study, tmp_path / "new.html")
    assert "Not finished yet" in (tmp_path / "new.html").read_text("utf-8")
    with pytest.raises(InvalidSettingError, match=r"must end in .html"):
        save_report(study, tmp_path / "new.pdf")


def test_a_report_does_not_speak_of_tables_that_it_has_not() -> None:
    study = levers.create_study("oven", {f"lever {k}": [1, 2] for k in range(7)}, tolerance=1.0, noise_sd=1.0, seed=1)
    told(study)
    page = study_report(study)
    assert "The 12 most suspicious of 21 pairs are drawn." in page
    assert "table has" not in page


def test_what_is_in_doubt_comes_first() -> None:
    study = levers.create_study("oven", LEVERS, tolerance=1.0, noise_sd=1.0, seed=1)
    rng = np.random.default_rng(3)
    while trials := study.ask(200):
        study.tell_many((t, 300.0 if t.number == 4 else float(rng.normal())) for t in trials)
    page = study_report(study)
    assert study.is_held
    assert page.index("In doubt") < page.index("The setting, in doubt")
    assert "trial 4" in page
    assert "Set the levers so" not in page
