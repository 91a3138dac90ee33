"""Charts of studies: well-formed, harmless whatever names say, and true to the study's numbers."""

import math
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import levers
from levers.charts.check_facts import additivity_facts
from levers.charts.drawings import CHARTS, COMPARE, MOST_BINS, MOST_LEVELS, Chart
from levers.charts.facts import Bins
from levers.charts.html import style_sheet
from levers.charts.looks import COLOURS, SERIES, STANDINGS
from levers.charts.svg import NARROW, WIDE, Scale, fitted, spanned, text_width
from levers.charts.view import StudyView
from levers.core.space import Level
from levers.studies.analysis import views
from levers.studies.analysis.views import EffectRow
from levers.studies.state import SET_ASIDE
from levers.studies.study import Study

SVG = "{http://www.w3.org/2000/svg}"
SPACE: dict[str, Sequence[Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4], "supplier": ["A", "B"]}
HOSTILE: dict[str, Sequence[Level]] = {
    "<script>alert(1)</script>": ["a\nb", "</svg><img src=x onerror=alert(1)>", "<b>", "&amp;"],
    "温度 \U0001f525 \U0010fffd \x07": ["低", '" onload="alert(1)', "\ud800"],
    "x" * 3000: ["]]>", "-->", "{{ 7 * 7 }}"],
    "درجة الحرارة": ["منخفض", "\u202eevil", "W" * 500],
}


def new(space: dict[str, Sequence[Level]] = SPACE, name: str = "oven", **settings: object) -> Study:
    given = {"tolerance": 0.4, "noise_sd": 1.0, "seed": 1, **settings}
    with pytest.MonkeyPatch.context() as before:  # studies of before half a character was refused are drawn too
        before.setattr("levers.core.space.half_character", lambda text: None)
        return levers.create_study(name, space, **given)  # type: ignore[arg-type]


def tell(study: Study, n: int = 10**9) -> Study:
    rng = np.random.default_rng(0)
    while n > 0 and not study.is_finished:
        due = study.ask_numbers(min(n, 10**6))
        state = study.state
        codes = state.blocks[-1].batch.codes[state.trials.row[due]]
        study.tell_arrays(due, 1.4 * (codes[:, 0] == 1) + 1.2 * (codes[:, -1] == 1) + rng.normal(size=len(due)))
        n -= len(due)
    return study


def imported() -> Study:
    study = new()
    study.import_runs([{"heat": "low", "speed": s, "supplier": "A"} for s in (1, 2, 3, 4)], [1.0] * 4, "last year")
    return tell(study, 30)


def set_aside() -> Study:
    study = tell(new(algorithm="modl", tolerance=1.0))
    study.correct(20, 500.0, "a typing error")
    assert SET_ASIDE in {block.role for block in study.state.blocks}
    return study


def same_outcomes() -> Study:
    study = new()
    due = study.ask_numbers(30)
    study.tell_arrays(due, np.full(len(due), 3.0))
    return study


STUDIES: dict[str, Callable[[], Study]] = {
    "empty": new,
    "one lever": lambda: tell(new({"heat": ["low", "high"]}), 20),
    "a few outcomes": lambda: tell(new(), 5),
    "running": lambda: tell(new(goal="minimize", seed=5), 80),
    "finished": lambda: tell(new()),
    "noise not known": lambda: tell(new(noise_sd=None), 60),
    "budget": lambda: tell(new(tolerance=None, budget=120), 60),
    "same outcomes": same_outcomes,
    "modl": lambda: tell(new(algorithm="modl"), 50),
    "modl, empty": lambda: new(algorithm="modl"),
    "modl, finished": lambda: tell(new(algorithm="modl", tolerance=1.0)),
    "parents-first": lambda: tell(new(algorithm="parents-first", max_parents=2), 60),
    "oracle": lambda: tell(new(algorithm="oracle", parents=["heat"]), 60),
    "successive-elimination": lambda: tell(new(algorithm="successive-elimination", tolerance=1.5), 200),
    "naive-search": lambda: tell(new(algorithm="naive-search"), 60),
    "rage": lambda: tell(new(algorithm="rage", tolerance=1.5), 60),
    "xy-adaptive": lambda: tell(new(algorithm="xy-adaptive", tolerance=1.5), 150),
    "lingape": lambda: tell(new(algorithm="lingape", tolerance=1.5), 40),
    "modl-unions": lambda: tell(new(algorithm="modl-unions", tolerance=1.5)),
    "ucb": lambda: tell(new(algorithm="ucb", tolerance=1.5), 60),
    "thompson": lambda: tell(new(algorithm="thompson", budget=20)),
    "random": lambda: tell(new(algorithm="random", budget=20)),
    "tpe": lambda: tell(new(algorithm="tpe", budget=12)),
    "fractional-factorial": lambda: tell(new(algorithm="fractional-factorial", budget=24)),
    "one-at-a-time": lambda: tell(new(algorithm="one-at-a-time", budget=40)),
    "forbidden": lambda: tell(new(forbidden=[{"heat": "high", "speed": 4}]), 60),
    "imported": imported,
    "set aside": set_aside,
    "hostile": lambda: tell(new(HOSTILE, "<script>alert(2)</script> 研究"), 70),
}


def drawn(study: Study, width: int = WIDE) -> dict[str, Chart]:
    view = StudyView(study.name, study.state)
    charts = {key: kind.chart(kind.facts(view), width) for key, kind in CHARTS.items()}
    return charts | {"compare": compare([view], width)}


def compare(views: Sequence[StudyView], width: int = WIDE) -> Chart:
    return COMPARE.chart(COMPARE.facts(views), width)


def parsed(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(str(chart.svg))


def marks(chart: Chart, kind: str) -> list[str]:
    """The words of the groups of a class."""
    groups = [(group, (group.get("class") or "").split()) for group in parsed(chart).iter(f"{SVG}g")]
    return [g.findtext(f"{SVG}title") or "" for g, kinds in groups if kind in kinds and "c-key" not in kinds]


def texts(chart: Chart, kind: str) -> list[str]:
    return [e.text or "" for e in parsed(chart).iter(f"{SVG}text") if kind in (e.get("class") or "").split()]


def path_places(d: str) -> list[tuple[float, float]]:
    """The points that a path goes through."""
    found, x, y = [], 0.0, 0.0
    for command, rest in re.findall("([A-Za-z])([^A-Za-z]*)", d):
        numbers = [float(n) for n in rest.split()]
        match command:
            case "M" | "L":
                x, y = numbers
            case "H":
                x = numbers[0]
            case "V":
                y = numbers[0]
            case "a":
                x, y = x + numbers[-2], y + numbers[-1]
            case _:
                assert command == "Z"
        found.append((x, y))
    return found


def places(root: ElementTree.Element) -> list[tuple[float, float]]:
    """Every corner of everything that is drawn outside patterns."""
    found = []
    for e in (e for child in root if child.tag != f"{SVG}defs" for e in child.iter()):
        if e.tag in (f"{SVG}rect", f"{SVG}text"):
            x, y = float(e.attrib["x"]), float(e.attrib["y"])
            found += [(x, y), (x + float(e.get("width", 0)), y + float(e.get("height", 0)))]
        found += path_places(e.get("d", ""))
    return found


def check(charts: Sequence[Chart]) -> None:
    """Well-formed, inert, inside its frame, and without an id that another drawing of the page has."""
    ids: list[str] = []
    for chart in charts:
        text, root = str(chart.svg), parsed(chart)
        _, _, width, height = (float(n) for n in root.attrib["viewBox"].split())
        assert all(-0.11 <= x <= width + 0.11 and -0.11 <= y <= height + 0.11 for x, y in places(root))
        tags = {e.tag.removeprefix(SVG) for e in root.iter()}
        assert tags <= {"svg", "title", "desc", "defs", "pattern", "g", "text", "path", "rect"}
        names = {name for e in root.iter() for name in e.attrib}
        assert not {name for name in names if name in ("style", "href", "src") or name.startswith("on")}
        assert root.get("role") == "img"
        mine = [e.attrib["id"] for e in root.iter() if "id" in e.attrib]
        assert set((root.get("aria-labelledby") or "").split()) <= set(mine)
        assert set(re.findall(r'fill="url\(#([^"]*)\)"', text)) == {i for i in mine if "hatch" in i}
        assert root.findtext(f"{SVG}title") == chart.facts.title
        assert root.findtext(f"{SVG}desc") == chart.facts.alt
        assert {len(row) for row in chart.facts.rows} <= {len(chart.facts.header)}
        assert chart.facts.struck <= set(range(len(chart.facts.rows)))
        assert "nan" not in re.sub(r"<(title|desc|text).*?</\1>", "", text)
        ids += mine
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", STUDIES)
def test_every_chart_of_every_study_is_sound(name: str) -> None:
    study = STUDIES[name]()
    check([chart for width in (WIDE, NARROW) for chart in drawn(study, width).values()])


def test_every_algorithm_that_asks_for_runs_is_among_the_studies() -> None:
    from levers.algorithms.registry import ALGORITHMS

    asked = {study().state.spec.algorithm for study in STUDIES.values()}
    assert asked == set(ALGORITHMS) - {"observational-regression"}


def test_nothing_to_show_is_said() -> None:
    for key, chart in drawn(new()).items():
        assert chart.facts.alt.startswith("There is nothing to show yet"), key
        assert " ".join(texts(chart, "c-muted")) == chart.facts.alt


def test_names_are_text_and_nothing_else() -> None:
    charts = drawn(STUDIES["hostile"]())
    for chart in charts.values():
        assert "<script" not in str(chart.svg)
        assert "<img" not in str(chart.svg)
        assert "\u202e" not in str(chart.svg)
    labels = texts(charts["effects"], "c-bold")
    assert labels[0] == "<script>alert(1)</script>"
    assert len(labels[2]) < 100
    assert labels[3] == "\u2068درجة الحرارة\u2069"
    levels = texts(charts["effects"], "c-text")
    assert "a b" in levels or "a b" in texts(charts["effects"], "c-struck")


@pytest.fixture(scope="module")
def running() -> Study:
    return STUDIES["running"]()


def test_effects_have_a_mark_for_each_level(running: Study) -> None:
    chart, rows = drawn(running)["effects"], running.effects()
    words = marks(chart, "c-row")
    assert len(words) == len(rows)
    for said, row, cells in zip(words, rows, chart.facts.rows, strict=True):
        assert said.startswith(f"{row.factor}: {row.level}, {row.standing}")
        assert f"loses {row.loss:.6g}" in said
        assert cells[:4] == (row.factor, str(row.level), str(row.n_runs), f"{row.loss:.6g}")
    gone = [str(row.level) for row in rows if row.standing == "ruled out"]
    assert gone
    assert texts(chart, "c-struck") == gone
    assert [chart.facts.rows[i][1] for i in sorted(chart.facts.struck)] == gone
    assert f"{len(gone)} levels are ruled out" in chart.facts.alt


def test_marks_are_where_the_numbers_are(running: Study) -> None:
    root, losses, at = parsed(drawn(running)["effects"]), [row.loss or 0.0 for row in running.effects()], []
    for group in (g for g in root.iter(f"{SVG}g") if "c-row" in (g.get("class") or "")):
        [mark] = [p for p in group.iter(f"{SVG}path") if "c-mark" in (p.get("class") or "")]
        across = [x for x, _ in path_places(mark.attrib["d"])]
        at.append((min(across) + max(across)) / 2)
    slope, start = np.polyfit(losses, at, 1)
    assert slope > 0
    assert np.allclose(np.array(losses) * slope + start, at, atol=0.2)


def test_elimination_says_when(running: Study) -> None:
    chart, rows = drawn(running)["elimination"], running.effects()
    said = marks(chart, "c-row")
    assert [f"ruled out after {row.ruled_out_after} runs" in words for row, words in zip(rows, said, strict=True)] == [
        row.ruled_out_after is not None for row in rows
    ]
    assert len(chart.facts.struck) == sum(row.ruled_out_after is not None for row in rows)


def test_forecast_has_a_point_for_each_block(running: Study) -> None:
    chart, best, to_go = drawn(running)["forecast"], running.best(), running.forecast()
    assert best is not None
    assert to_go.worst_case is not None
    assert len(marks(chart, "c-point")) == len(running.state.known) - 1
    assert marks(chart, "c-now") == [f"now, 80 runs: within {best.said()[0]} of the best"]
    assert ("end in the worst case", str(80 + to_go.worst_case), "0.4") in chart.facts.rows


def test_forecast_of_other_algorithms_has_bars_of_runs() -> None:
    study = STUDIES["modl"]()
    to_go = study.forecast()
    assert to_go.worst_case is not None
    assert marks(drawn(study)["forecast"], "c-point") == [
        "runs so far: 50",
        f"in this round: {to_go.now:,}",
        f"then in the worst case: {to_go.worst_case - to_go.now:,}",
    ]
    ahead = f"{to_go.worst_case:,} runs to go in the worst case, {to_go.now} of them in this round."
    assert drawn(study)["forecast"].facts.caption.endswith(ahead)


def test_imported_runs_count_on_the_axis_of_runs() -> None:
    study = imported()
    view = StudyView(study.name, study.state)
    assert view.n_runs == study.status().n_complete + 4
    assert view.steps[-1][0] <= view.n_runs
    assert {row.ruled_out_after or 0 for row in view.effects} <= {0, *(n for n, _ in view.steps)}


def test_history_has_a_dot_for_each_outcome(running: Study) -> None:
    chart = drawn(running)["history"]
    values = running.trials_dataframe()["outcome"].drop_nulls().to_list()
    assert [words.rsplit(" ", 1)[1] for words in marks(chart, "c-outcome")] == [f"{v:.6g}" for v in values]
    assert [row[-1] for row in chart.facts.rows] == [f"{v:.6g}" for v in values]
    assert f"{len(values)} outcomes" in chart.facts.alt


def test_outcomes_that_were_set_aside_have_another_mark() -> None:
    study = set_aside()
    aside = sum(len(b.values) for b in study.state.blocks if b.role == SET_ASIDE)
    assert aside
    found = StudyView("oven", study.state).outcomes
    bins = Bins.of(found, 7)
    assert int(bins.n_aside.sum()) == aside
    assert marks(drawn(study)["history"], "c-aside")


def test_very_many_outcomes_are_binned() -> None:
    study = tell(new(tolerance=None, budget=100_000))
    chart = drawn(study)["history"]
    assert len(marks(chart, "c-outcome")) == MOST_BINS
    assert len(str(chart.svg)) < 100_000
    assert len(chart.facts.rows) == len(study.state.blocks)
    found = StudyView("oven", study.state).outcomes
    bins = Bins.of(found, 10)
    assert bins.low.min() == found.values.min()
    assert bins.high.max() == found.values.max()
    assert np.isclose(np.average(bins.mean, weights=np.diff(bins.edges)), found.values.mean())
    assert (bins.low <= bins.middle[:, 0]).all()


def test_residuals_quantiles_pairs_and_factors_are_all_drawn(running: Study) -> None:
    view, charts = StudyView(running.name, running.state), drawn(running)
    assert len(marks(charts["residuals"], "c-point")) == len(view.residuals.residual) == 80
    assert len(marks(charts["residuals"], "c-quantile")) == len(view.residuals.observed)
    assert (
        len(marks(charts["additivity"], "c-bar")) == len(view.additivity.checks) == len(charts["additivity"].facts.rows)
    )
    assert len(marks(charts["evidence"], "c-bar")) == len(view.evidence)
    assert {row[0] for row in charts["evidence"].facts.rows} == set(SPACE)
    shown = {row[0] for row in charts["evidence"].facts.rows if row[-1] == "yes"}
    assert shown == {one.factor for one in view.evidence if one.shown}
    ratios = [one.ratio or 0 for one in view.evidence]
    assert charts["evidence"].facts.rows[0][5] == f"{max(ratios):.6g}"


def test_residuals_in_order_show_days_and_what_stands_out() -> None:
    study, rng = new(tolerance=None, budget=40, block_size=8), np.random.default_rng(0)
    study.warns = False
    while due := study.ask(100):
        study.tell_many((t, 60.0 * (t.number == 21) + float(rng.normal())) for t in due)
    view = StudyView("oven", study.state)
    chart = CHARTS["order"].both(view)[0]
    assert len(marks(chart, "c-run")) == len(chart.facts.rows) == 40
    assert chart.svg.count('class="c-block"') == 4  # between five days of eight runs
    assert "trial 21 stands out" in chart.facts.caption
    assert [row[0] for row in chart.facts.rows if row[-1] == "yes"] == ["21"]
    assert chart.facts.rows[21][:2] == ("21", "3")
    assert ">21</text>" in chart.svg
    from levers.charts.picture import drawn as picture_of  # not above: charts of pages need no matplotlib

    said, picture = picture_of("oven", study.state, "residuals")
    axes = picture.figure.axes[0]
    assert said.rows == chart.facts.rows
    assert [text.get_text() for text in axes.texts] == ["21"]
    assert sum(np.size(line.get_xdata()) for line in axes.lines if line.get_linestyle() == "None") == 40


def test_interacting_factors_stand_out() -> None:
    study = new({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, tolerance=None, budget=400)
    rng = np.random.default_rng(1)
    while not study.is_finished:
        due = study.ask_numbers(10**6)
        codes = study.state.blocks[-1].batch.codes[study.state.trials.row[due]]
        study.tell_arrays(due, 3.0 * (codes[:, 0] ^ codes[:, 1]) + rng.normal(size=len(due)))
    chart = drawn(study)["additivity"]
    assert [row[:2] for row in chart.facts.rows if row[-1] == "yes"] == [("a", "b")]
    assert marks(chart, "c-bar")[0].startswith("a and b")
    assert "A and b interact" in chart.facts.caption
    assert "set together" in chart.facts.caption
    assert marks(chart, "c-now")


def test_the_line_of_alarm_is_where_the_test_is() -> None:
    study = new({"a": [0, 1], "b": [0, 1], "c": [0, 1], "d": [0, 1, 2]}, tolerance=None, budget=200, aim="best")
    rng, levels = np.random.default_rng(3), set()
    while not study.is_finished:
        due = study.ask_numbers(10**6)
        codes = study.state.blocks[-1].batch.codes[study.state.trials.row[due]]
        study.tell_arrays(due, 0.5 * (codes[:, 0] ^ codes[:, 1]) + rng.normal(size=len(due)))
        view = StudyView("oven", study.state)
        found, facts = view.additivity, additivity_facts(view)
        if facts.data is None:
            continue
        levels.add(found.level)
        assert facts.data.limit == -math.log10(found.level)
        assert facts.data.most > facts.data.limit
        assert facts.data.legend[-1].label == f"alarm: p below {found.level:.2g}"
        suspected = {(pair.first, pair.second) for pair in found.suspects}
        for check in found.checks:
            assert check.adjusted >= found.level or suspected
        assert [bar.strong for bar in facts.data.bars].count(True) == len(suspected)
        worst = max(bar.value or 0.0 for bar in facts.data.bars)
        assert (worst > -math.log10(found.level)) == bool(suspected) == found.in_doubt
    assert len(levels) > 3, "every look has a level of its own"


def test_many_levels_are_cut_and_the_strongest_come_first(running: Study) -> None:
    rows = [
        EffectRow(f"lever {k}", j, 9, float(k == 700) * j, None, None, "leading" if j == 0 else "in play", None)
        for k in range(1000)
        for j in range(2)
    ]
    view = StudyView("oven", running.state)
    view.keep("effects", lambda: rows)
    for key in ("effects", "elimination"):
        chart, _ = CHARTS[key].both(view)
        assert len(marks(chart, "c-row")) == MOST_LEVELS
        assert len(chart.facts.rows) == 2000
        assert "150 of 2000 levels are drawn" in chart.facts.caption
        assert chart.facts.in_table == "The table has all."
        check([chart])
    assert texts(CHARTS["effects"].both(view)[0], "c-bold")[0] == "lever 700"


def test_an_interval_that_goes_on_outside_ends_in_an_arrow(running: Study) -> None:
    view = StudyView("oven", running.state)
    rows = [
        EffectRow("heat", "low", 9, 0.0, None, None, "leading", None),
        EffectRow("heat", "high", 9, 1.0, -1e6, 1e300, "in play", None),
        EffectRow("heat", "mid", 9, None, None, None, "in play", None),
    ]
    view.keep("effects", lambda: rows)
    chart, _ = CHARTS["effects"].both(view)
    check([chart])
    assert "not known" in texts(chart, "c-muted")


def test_compare_has_a_line_for_each_study_that_certified_something() -> None:
    names = ("running", "finished", "modl", "modl, finished", "forbidden", "empty", "one lever")
    views_of = [StudyView(name, STUDIES[name]().state) for name in names]
    chart = compare(views_of)
    check([chart, compare(views_of, NARROW)])
    assert marks(chart, "c-series") == ["running", "finished", "modl, finished", "forbidden", "one lever"]
    assert "Nothing certified yet: modl, empty" in chart.facts.caption
    assert [row[0] for row in chart.facts.rows] == list(names)
    found = views.certified(views_of[1].state)
    assert found is not None
    assert chart.facts.rows[1][2:4] == (str(found.n_runs), f"{found.tolerance:.6g}")
    assert any("the verdict" in words for words in marks(chart, "c-point"))
    many = compare([StudyView(f"study {i}", views_of[0].state) for i in range(12)])
    assert len(marks(many, "c-series")) == 7
    assert "The first 7 of 12 lines are drawn" in many.facts.caption
    assert compare([]).facts.alt.startswith("There is nothing to show yet: choose studies")


def test_views_are_worked_out_once(running: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(name: str) -> Callable[..., object]:
        plain = getattr(views, name)

        def call(*given: object) -> object:
            calls.append(name)
            return plain(*given)

        return call

    for name in ("effects", "best"):
        monkeypatch.setattr(views, name, counted(name))
    view = StudyView(running.name, running.state)
    for kind in CHARTS.values():
        kind.both(view)
    assert sorted(calls) == ["best", "effects"]


def test_the_style_sheet_knows_every_class() -> None:
    sheet = style_sheet()
    # these say what something is, for scripts and tests, and look like the rest
    unstyled = {"c-outcome", "c-point", "c-run", "c-quantile", "c-bar", "c-series", "c-key", "c-mark"}
    charts = [chart for study in STUDIES.values() for chart in drawn(study()).values()]
    used = {kind for chart in charts for kind in re.findall(r"\bc-[a-z0-9]+", chart.svg)}
    assert used - unstyled <= set(re.findall(r"\.(c-[a-z0-9]+)", sheet))
    assert set(re.findall(r"var\((--[a-z0-9-]+)", sheet)) <= set(re.findall(r"(--[a-z0-9-]+):", sheet))
    assert "url(" not in sheet
    assert "@import" not in sheet


def test_the_style_sheet_has_the_colours_of_the_table() -> None:
    sheet = style_sheet()
    light, dark, chosen = [
        dict(re.findall(r"--(c-[a-z0-9]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root[^{]*\{([^}]*#[^}]*)\}", sheet)
    ]
    assert {css: light[css] for css in COLOURS} == COLOURS
    assert dark == chosen  # dark because the system is, and because somebody chose so
    assert set(dark) == set(light)
    assert {css for css, _ in SERIES} | set(COLOURS) <= set(light)
    assert {look.css for look in STANDINGS.values()} <= set(COLOURS)


def test_every_standing_has_a_look() -> None:
    found = {row.standing for name in ("running", "finished") for row in STUDIES[name]().effects()}
    assert found == set(STANDINGS)


def test_charts_need_no_matplotlib() -> None:
    code = "import sys, levers.charts.drawings; sys.exit(any(m.startswith('matplotlib') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


numbers = st.floats(-1e300, 1e300)


@given(st.lists(numbers, min_size=1, max_size=5), st.booleans(), st.integers(2, 12))
def test_scales_hold_their_numbers_and_have_round_marks(values: list[float], zero: bool, most: int) -> None:
    scale = spanned(values, 10, 110, zero=zero)
    assert all(10 <= scale(v) <= 110 for v in values)
    ticks = scale.ticks(most)
    assert 1 <= len(ticks) <= 2 * most + 2
    assert all(10 - 1e-6 <= scale(v) <= 110 + 1e-6 for v, _ in ticks)
    assert len({text for _, text in ticks}) == len(ticks)


@given(st.floats(1e-6, 1e6), st.floats(9.0, 1e9), st.integers(2, 8))
def test_logarithmic_scales_always_have_marks(low: float, times: float, most: int) -> None:
    ticks = Scale(low, low * times, 0, 100, log=True).ticks(most)
    assert 1 <= len(ticks) <= max(most, 2)
    assert all(low * 0.999 <= v <= low * times * 1.001 for v, _ in ticks)


@given(st.text(max_size=200), st.floats(30, 300))
def test_names_fit_their_room(name: str, room: float) -> None:
    assert text_width(fitted(name, room)) <= max(room, 40)


WORDS = ("medium, 2.5", "injection speed + hold time", "C, 60", "0.414", "Rückführung %", "MAX WARM", "estimated loss")


@pytest.mark.parametrize("text", WORDS)
def test_texts_are_taken_to_be_as_wide_as_a_wide_font_draws_them(text: str) -> None:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    font = FT2Font(font_manager.findfont("DejaVu Sans"))
    font.set_size(100, 72)
    drawn = sum(font.load_char(ord(c)).linearHoriAdvance for c in text) / 2**16 / 100
    assert 0.98 * drawn < text_width(text, 1.0) < 1.15 * drawn
