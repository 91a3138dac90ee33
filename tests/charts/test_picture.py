"""Pictures of studies: every kind as every file, at every point of a study, with names that mean harm."""

import importlib
import re
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread

import levers
from levers.charts import picture
from levers.charts.facts import LevelMark, cut_note
from levers.charts.looks import COLOURS
from levers.charts.picture import PLOTS, SUFFIXES, save_plot
from levers.charts.svg import clipped
from levers.charts.view import Outcomes, StudyView
from levers.core.space import Level
from levers.errors import InvalidSettingError
from levers.studies.analysis.views import EffectRow
from levers.studies.state import SET_ASIDE
from levers.studies.study import Study

SPACE: dict[str, Sequence[Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4], "supplier": ["A", "B"]}
HOSTILE: dict[str, Sequence[Level]] = {
    "$\\alpha_1^2$ <script>alert(1)</script>": ["a\nb", "$x$", "<b>", "&amp;"],
    "温度 \U0001f525 \U0010fffd \x07": ["低", "$\\frac{", "\ud800"],
    'x"_{1}^ y' * 20: ["]]>", "-->", "--"],
}


def new(space: dict[str, Sequence[Level]] = SPACE, name: str = "oven", **settings: object) -> Study:
    given = {"tolerance": 0.4, "noise_sd": 1.0, "seed": 1, **settings}
    with pytest.MonkeyPatch.context() as before:  # studies of before half a character was refused are drawn too
        before.setattr("levers.core.space.half_character", lambda text: None)
        return levers.create_study(name, space, **given)  # type: ignore[arg-type]


def tell(study: Study, n: int = 10**9) -> Study:
    """Up to n runs, of the sum of two levers and noise."""
    rng = np.random.default_rng(0)
    while n > 0 and not study.is_finished:
        due = study.ask_numbers(min(n, 10**6))
        state = study.state
        codes = state.blocks[-1].batch.codes[state.trials.row[due]]
        study.tell_arrays(due, 1.4 * (codes[:, 0] == 1) + 1.2 * (codes[:, 1] == 2) + rng.normal(size=len(due)))
        n -= len(due)
    return study


def imported() -> Study:
    study = new()
    study.import_runs([{"heat": "low", "speed": s, "supplier": "A"} for s in (1, 2, 3, 4)], [1.0] * 4, "last year")
    return tell(study, 30)


def set_aside() -> Study:
    study = tell(new(algorithm="modl"))
    study.correct(200, 5000.0, "a typing error")
    assert SET_ASIDE in {block.role for block in study.state.blocks}
    return study


STUDIES: dict[str, Callable[[], Study]] = {
    "empty": new,
    "a few outcomes": lambda: tell(new(), 5),
    "running": lambda: tell(new(goal="minimize", seed=6), 80),
    "finished": lambda: tell(new()),
    "noise not known": lambda: tell(new(noise_sd=None), 60),
    "budget": lambda: tell(new(tolerance=None, budget=120), 60),
    "modl": lambda: tell(new(algorithm="modl"), 50),
    "modl, empty": lambda: new(algorithm="modl"),
    "modl, finished": lambda: tell(new(algorithm="modl")),
    "successive elimination": lambda: tell(new(algorithm="successive-elimination"), 60),
    "forbidden": lambda: tell(new(forbidden=[{"heat": "high", "speed": 4}]), 40),
    "imported": imported,
    "set aside": set_aside,
    "hostile": lambda: tell(new(HOSTILE, "$x_1$ <script>alert(2)</script> 研究"), 60),
}


@pytest.fixture(scope="module")
def running() -> Study:
    return STUDIES["running"]()


def cells(page: str) -> list[list[str]]:
    body = page[page.index("<tbody>") :]
    return [re.findall("<td>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", body)]


FULLY = ("empty", "running")
ONCE = ("hostile", "finished", "modl, finished", "forbidden")


@pytest.mark.parametrize("name", [*FULLY, *ONCE])
def test_every_picture_as_every_file(name: str, tmp_path: Path) -> None:
    study = STUDIES[name]()
    for i, kind in enumerate(PLOTS):
        # the files differ in what is written, not in what is drawn: each as one of the three is enough elsewhere
        for suffix in SUFFIXES if name in FULLY else [SUFFIXES[(i + len(name)) % 3]]:
            path = tmp_path / f"{kind}{suffix}"
            save_plot(study, kind, path)
            check_file(path)
    assert {path.suffix for path in tmp_path.iterdir()} <= set(SUFFIXES)


@pytest.mark.parametrize("name", [name for name in STUDIES if name not in (*FULLY, *ONCE)])
def test_every_picture_of_other_studies(name: str) -> None:
    study = STUDIES[name]()
    for kind in PLOTS:
        facts, _ = picture.drawn(study.name, study.state, kind)
        assert facts.alt
        assert {len(row) for row in facts.rows} == {len(facts.header)}


def check_file(path: Path) -> None:
    if path.suffix == ".png":
        assert imread(path).shape[1] == 1200
        return
    text = path.read_text()
    root = ElementTree.fromstring(text[text.index("<svg ") : text.index("</svg>") + 6])
    assert root.get("role") == "img"
    assert len(root.get("aria-label") or "") > 20
    assert "<script" not in text
    assert not re.search(r'(src|href)="(?!#|data:)', text)


def test_nothing_to_show_is_said(tmp_path: Path) -> None:
    for kind in PLOTS:
        save_plot(new(), kind, tmp_path / "picture.html")
        page = (tmp_path / "picture.html").read_text()
        assert "There is nothing to show yet" in page
        assert "sk for runs and tell their outcomes" in page
        assert cells(page) == [["outcomes told", "0"], ["runs to go in this round", "18"]]


def test_tables_have_the_studys_numbers(running: Study, tmp_path: Path) -> None:
    pages = {kind: [list(row) for row in picture.drawn("oven", running.state, kind)[0].rows] for kind in PLOTS}
    save_plot(running, "effects", tmp_path / "effects.html")
    assert cells((tmp_path / "effects.html").read_text()) == pages["effects"]
    rows = running.effects()
    assert [row[:3] for row in pages["effects"]] == [[r.factor, str(r.level), str(r.n_runs)] for r in rows]
    assert [row[3] for row in pages["effects"]] == [f"{r.loss:.6g}" for r in rows]
    assert [row[6:8] for row in pages["effects"]] == [[f"{r.usual_low:.6g}", f"{r.usual_high:.6g}"] for r in rows]
    assert [row[8] for row in pages["effects"]] == [r.standing for r in rows]
    values = running.trials_dataframe()["outcome"].drop_nulls().to_list()
    assert [row[-1] for row in pages["history"]] == [f"{value:.6g}" for value in values]
    assert [row[2] for row in pages["elimination"]] == [str(r.ruled_out_after or 80) for r in rows]
    best, to_go = running.best(), running.forecast()
    assert best is not None
    assert to_go.worst_case is not None
    assert ["now", "80", f"{best.within:.6g}"] in pages["forecast"]
    assert ["end in the worst case", str(80 + to_go.worst_case), "0.4"] in pages["forecast"]


def test_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    study = STUDIES["hostile"]()
    save_plot(study, "effects", tmp_path / "effects.html")
    page = (tmp_path / "effects.html").read_text()
    assert "<td>$\\alpha_1^2$ &lt;script&gt;alert(1)&lt;/script&gt;</td><td>a b</td>" in page
    assert "<h1>$x_1$ &lt;script&gt;alert(2)&lt;/script&gt; 研究: what each level loses" in page
    assert "<td>低</td>" in page


@pytest.mark.parametrize("kind", PLOTS)
def test_the_same_study_gives_the_same_drawing(kind: str, running: Study, tmp_path: Path) -> None:
    save_plot(running, kind, tmp_path / "a.svg")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black", "svg.hashsalt": None}):
        save_plot(running, kind, str(tmp_path / "b.SVG"))
        assert matplotlib.rcParams["font.size"] == 30
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.SVG").read_bytes()
    assert "<dc:date>" not in (tmp_path / "a.svg").read_text()


def test_threads_do_not_mix_their_settings(running: Study, tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    jobs = [threading.Thread(target=save_plot, args=(running, "forecast", tmp_path / f"{i}.svg")) for i in range(2)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    assert dict(matplotlib.rcParams) == before


def test_very_many_outcomes_make_a_small_file(tmp_path: Path) -> None:
    study = tell(new(tolerance=None, budget=50_000))
    save_plot(study, "history", tmp_path / "history.html")
    page = (tmp_path / "history.html").read_text()
    assert len(page) < 1_000_000
    assert "drawn as one image" in page
    assert len(cells(page)) == len(study.state.blocks)


def test_outcomes_are_in_the_order_of_telling() -> None:
    study = new()
    trials = study.ask(4)
    clock = iter([5.0, 6.0, 6.0, 7.0])
    study._log.clock = lambda: next(clock)
    for i in (3, 2, 0, 1):
        study.tell(trials[i], float(i))
    found = Outcomes.of(study.state)
    assert found.trials.tolist() == [3, 0, 2, 1]
    assert found.values.tolist() == [3.0, 0.0, 2.0, 1.0]


def test_rows_grow_with_levels_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "MAX_ROWS", 100)
    levels = [EffectRow(f"lever {k}", j, 9, 0.1, 0.0, 0.2, "in play", None) for k in range(20) for j in range(8)]
    rows = [LevelMark(row, row.factor, str(row.level), "") for row in levels]
    few, many = picture.level_rows(rows[:16]), picture.level_rows(rows)
    assert many.figure.get_figheight() > 4 * few.figure.get_figheight()
    assert len(many.places) == picture.MAX_ROWS
    assert cut_note(len(many.places), len(rows)) == " The first 100 of 160 levels are drawn."
    assert cut_note(len(few.places), 16) == ""


def test_levels_that_are_ruled_out_are_struck_out(running: Study) -> None:
    struck = picture.drawn("oven", running.state, "effects")[1].struck
    assert [text.get_text() for text in struck] == [
        str(row.level) for row in running.effects() if row.standing == "ruled out"
    ]
    assert struck


@pytest.mark.parametrize("kind", ["effects", "elimination"])
def test_levels_in_play_have_the_same_colour_in_every_picture(kind: str, running: Study, tmp_path: Path) -> None:
    save_plot(running, kind, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert COLOURS["c-play"] in text
    assert COLOURS["c-now"] not in text


def test_imported_runs_count_and_are_said_to_be_missing() -> None:
    study = imported()
    assert StudyView("oven", study.state).n_runs == study.status().n_complete + 4
    assert "4 imported runs are not shown" in picture.drawn("oven", study.state, "history")[0].caption


def test_what_the_forecast_cannot_say_is_said() -> None:
    caption = picture.drawn("oven", STUDIES["modl"]().state, "forecast")[0].caption
    assert caption.startswith("modl certifies nothing before it ends")
    assert "ended after" in picture.drawn("oven", STUDIES["modl, finished"]().state, "forecast")[0].caption


def test_long_names_are_clipped_in_the_middle() -> None:
    assert len(clipped("x" * 1000)) == 30
    assert clipped("a" * 40 + " 17").endswith(" 17")


@pytest.mark.parametrize(
    ("kind", "path", "message"),
    [
        ("pie", "a.png", "effects, history, elimination, forecast"),
        ("effects", "a.gif", "must end in .png, .svg or .html"),
        ("effects", "effects", "must end in"),
        ("effects", "nowhere/a.png", "there is no folder"),
        ("effects", "a\0.png", "there is no folder"),
        ("effects", "folder.svg", "cannot write"),
    ],
)
def test_what_cannot_be_drawn_is_refused(kind: str, path: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(InvalidSettingError, match=message):
        save_plot(new(), kind, tmp_path / path)
    assert [found.name for found in tmp_path.iterdir()] == ["folder.svg"]


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "levers.charts.picture")
    with pytest.raises(InvalidSettingError, match=r"'\.\[figures\]'"):
        importlib.import_module("levers.charts.picture")
