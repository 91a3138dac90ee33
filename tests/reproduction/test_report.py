"""Figures and reports of a reproduction, on small tables made by hand."""

import builtins
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from levers.errors import InvalidSettingError
from levers.reproduction.evidence import Claim
from levers.reproduction.figures import STYLES, alt_text, draw_figures, figures
from levers.reproduction.report import markdown, own_ids, runs_at_points, write_report
from levers.reproduction.results import Row, Settings, table
from levers.reproduction.run import Reproduction
from levers.reproduction.sweeps import SWEEPS

HOSTILE = "<script>alert('1')</script> & \"x\" | $a_b$ --> [y](z)"
CLAIMS = (
    Claim("parents", "falls", "Runs fall with the number of parents.", "15,000 to 8,000", "holds", "at every point"),
    Claim("parents", HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE),
    Claim("support", "grows", "Runs grow with levels.", "not run", "not measured", ""),
)
RUNS = {"cfs": 900, "modl": 12_000, "modl, proof": 30_000_000, "oracle": 500, "naive search": 7}


def row(experiment: str, panel: str, x: float, contender: str, world: int = 0, **other: Any) -> Row:
    n_runs = RUNS.get(contender, 2_000) + 50 * world
    values: dict[str, Any] = {"n_runs": n_runs, "gap": 0.02 * world, "limit": 800.0, "repeat": 0} | other
    values = {"failed": values["gap"] > 0.5, "parents_exact": None, **values}
    return Row(experiment, panel, x, contender, world, **values)


def made_of(rows: Sequence[Row], size: str = "smoke", seconds: float = 12.5) -> Reproduction:
    names = tuple(name for name in SWEEPS if name in {row.experiment for row in rows})
    return Reproduction(names, Settings(size, 3, "0.0", "x"), table(list(rows)), seconds, 1, 4)


@pytest.fixture(scope="module")
def usual() -> Reproduction:
    """Two experiments; the second panel lacks a contender, and has one point only."""
    first = [
        row("parents", "K = 10", x, contender, world, bound=9e5, ceiling=5e4, parents_exact=world > 0)
        for x in (1.0, 5.0, 10.0)
        for contender in ("modl", "cfs", "modl, proof", "oracle")
        for world in range(3)
    ]
    second = [row("parents", "K = 30", 10.0, contender, world) for contender in ("cfs", "modl") for world in range(3)]
    third = [
        row("hardness", "2 levels", x, "naive search", w, limit=2.0**x, bound=4.0**x) for x in (2, 4) for w in range(2)
    ]
    return made_of(first + second + third)


@pytest.fixture(scope="module")
def written(usual: Reproduction, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(usual, CLAIMS, tmp_path_factory.mktemp("report")).parent


def legend(svg: str) -> str:
    return svg[svg.index('<g id="legend">') :]


def test_figures_are_there_and_their_legends_are_whole(usual: Reproduction, written: Path) -> None:
    folder = written / "figures"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{name}{suffix}" for name in ("hardness", "parents-others", "parents") for suffix in (".png", ".svg")
    ]
    computed = {
        "parents": ("limit of balanced designs", "bound on modl, corrected"),
        "parents-others": ("limit of balanced designs", "bound on modl of the theorem"),
        "hardness": ("lower bound if told the height", "theorem's bound, flat world"),
    }
    for name, points in figures(usual).items():
        svg = (folder / f"{name}.svg").read_text()
        shown = set(points["contender"])
        for label in (*shown, *computed[name], "tolerance 0.5 (gap)"):
            assert legend(svg).count(f"<!-- {label} -->") == 1
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_lines_that_the_paper_has_not_are_in_a_second_figure(usual: Reproduction) -> None:
    shown = figures(usual)
    assert list(shown) == ["parents", "parents-others", "hardness"]
    assert set(shown["parents"]["contender"]) == {"cfs", "modl", "oracle"}
    assert set(shown["parents-others"]["contender"]) == {"modl", "modl, proof"}
    assert set(shown["parents-others"]["panel"]) == {"K = 10"}  # the other panel has no others


def test_no_figure_has_more_than_five_lines() -> None:
    everybody = [
        row(sweep.name, point.panel, point.x, contender.label)
        for sweep in SWEEPS.values()
        for point in sweep.points["paper"]
        for contender in point.contenders
    ]
    assert max(points["contender"].n_unique() for points in figures(made_of(everybody)).values()) <= 5


def test_figures_are_the_same_every_time(usual: Reproduction, written: Path, tmp_path: Path) -> None:
    again = draw_figures(usual, tmp_path)
    names = ("parents", "parents-others", "hardness")
    assert [path.name for path in again] == [f"{name}{suffix}" for name in names for suffix in (".png", ".svg")]
    for path in again:
        assert path.read_bytes() == (written / "figures" / path.name).read_bytes()
    assert "dc:date" not in again[1].read_text()


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([row("degree", "K = 30", 1.0, "cfs")], id="one run"),
        pytest.param([row("degree", "K = 30", 1.0, "cfs", limit=None, gap=40.0)], id="no limit, large gap"),
        pytest.param([row("degree", "K = 30", x, "cfs", n_runs=0) for x in (1.0, 2.0)], id="no runs at all"),
        pytest.param([row("support", "p", 2.0, "modl"), row("support", "q", 3.0, "oracle")], id="nothing in common"),
        pytest.param([row("degree", HOSTILE, 1.0, HOSTILE, w, n_runs=9**w) for w in (1, 9)], id="hostile, wide error"),
    ],
)
def test_odd_tables_are_drawn(rows: list[Row], tmp_path: Path) -> None:
    page = write_report(made_of(rows), (), tmp_path)
    assert "<svg " in page.read_text()
    assert "No claims were checked." in page.read_text()
    assert "<script" not in page.read_text()
    assert "<script" not in (tmp_path / "report.md").read_text()


def test_no_results_are_no_figures(tmp_path: Path) -> None:
    nothing = Reproduction(("degree",), Settings("smoke", 0, "0.0", "x"), table([]), 0.0, 0, 0)
    assert draw_figures(nothing, tmp_path) == []
    assert "There are no results." in write_report(nothing, CLAIMS, tmp_path).read_text()


def test_the_page_is_whole_and_safe(usual: Reproduction, written: Path) -> None:
    page = (written / "report.html").read_text()
    assert "<script" not in page.lower()
    assert not re.search(r'(src|href)="(?!#)', page)  # links within a drawing only
    for name, points in figures(usual).items():
        assert f'role="img" aria-label="{alt_text(name, points)}"' in page
    for claim in (CLAIMS[0], CLAIMS[2]):
        for text in (claim.name, claim.sentence, claim.measured, claim.verdict, claim.why):
            assert text in page
    assert page.count("&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt; &amp; &quot;x&quot;") >= 5
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert "950 ± 29<small>gap 0.020</small><small>0 of 3 failed</small>" in page
    assert "<small>parents exact: 66.7 %</small>" in page
    assert "4, of which 1 were there already" in page
    assert "12.5 s in this session" in page


def test_markdown_has_only_what_the_results_say(usual: Reproduction, written: Path) -> None:
    text = (written / "report.md").read_text()
    later = Reproduction(usual.names, usual.settings, usual.runs, 99.0, 4, 4)
    assert markdown(later, CLAIMS, Path("figures")) == text
    for name in figures(usual):
        [link] = re.findall(rf"!\[[^\]]+\]\((figures/{name}\.png)\)", text)
        assert (written / link).is_file()
    assert (
        "| parents | falls: Runs fall with the number of parents. | 15,000 to 8,000 | holds | at every point |" in text
    )
    assert "&lt;script>" in text
    assert "<script" not in text
    assert "| K = 30 | 10 | 950 ± 29 | 12,050 ± 29 |  |  |" in text
    assert "| K = 30 | 10 | 0.0200 (0 of 3) | 0.0200 (0 of 3) |  |  |" in text
    assert "| K = 10 | 5 | 66.7 % | 66.7 % | 66.7 % | 66.7 % |" in text
    for line in text.splitlines():  # a bar in a name must not make a cell
        if line.startswith("| parents |"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 6


def test_who_has_fewer_runs_is_counted() -> None:
    def all_worlds(experiment: str, contender: str, repeats: int, n_worlds: int = 20) -> list[Row]:
        return [
            row(experiment, "p", 1.0, contender, world=world, repeat=repeat)
            for world in range(n_worlds)
            for repeat in range(repeats)
        ]

    rows = all_worlds("degree", "modl", 5) + all_worlds("degree", "cfs", 1, n_worlds=10)
    rows += all_worlds("degree", "oracle", 1)
    said = runs_at_points(made_of(rows, "notebook").summary)
    assert said == "Runs at each point: 100 of modl, 20 of oracle, 10 of cfs."


def test_every_contender_has_a_look_of_its_own() -> None:
    points = [point for sweep in SWEEPS.values() for points in sweep.points.values() for point in points]
    assert {contender.label for point in points for contender in point.contenders} == set(STYLES)
    for looks in zip(*((s.colour, s.marker, s.dashes) for s in STYLES.values()), strict=True):
        assert len(set(looks)) == len(STYLES)


def test_ids_of_two_drawings_differ() -> None:
    assert own_ids('<g id="a"/>', "x") != own_ids('<g id="a"/>', "y")


def test_without_matplotlib_it_says_what_to_install(
    usual: Reproduction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "matplotlib":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InvalidSettingError, match=r"'\.\[figures\]'"):
        draw_figures(usual, tmp_path)


def test_a_folder_that_cannot_be_written_is_named(usual: Reproduction, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidSettingError, match="cannot write to"):
        write_report(usual, (), tmp_path / "file")
