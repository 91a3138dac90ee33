"""Worlds from TOML files, their expressions, and worlds of Python functions."""

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levers.core.space import Level
from levers.errors import InvalidSettingError, InvalidWorldError
from levers.worlds.expressions import MAX_NODES, Expression
from levers.worlds.files import load_world, world_from_text
from levers.worlds.functions import function_world
from levers.worlds.outcome import AdditiveOutcome, BernoulliOutcome
from levers.worlds.scm import (
    World,
    best_assignment,
    best_mean,
    distribution_under,
    estimate_mean_under,
    gap,
    mean_under,
    true_parents,
)

PAGE = Path(__file__).parents[2] / "docs" / "worlds.md"
SMALL = """
[nodes.heat]
levels = [200, 220, 240]
[nodes.steam]
levels = ["off", "on"]
"""


def world_of_the_page(tmp_path: Path) -> World:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert text == (PAGE.parents[1] / "examples" / "bakery.toml").read_text()
    (tmp_path / "bakery.toml").write_text(text)
    return load_world(tmp_path / "bakery.toml")


def test_the_file_of_the_page_is_what_the_page_says(tmp_path: Path) -> None:
    world = world_of_the_page(tmp_path)
    assert world.space.names == ("heat", "steam", "proofing time", "inspection")
    assert world.causes["steam"] == ("flour",)
    assert world.causes["inspection"] == ("Y",)
    assert true_parents(world) == ("heat", "steam", "proofing time")
    np.testing.assert_allclose(distribution_under(world, ["steam"], {}), [0.4, 0.6])
    best = best_assignment(world)
    assert best.free == ("steam",)
    assert best["heat"] == 220
    assert best["proofing time"] == 45
    assert best_mean(world) == pytest.approx(2.5)
    assert gap(world, {"heat": 220, "proofing time": 45, "steam": "on"}) == pytest.approx(0.4)  # right for dry flour
    runs = world.observe(50_000, np.random.default_rng(0))
    assert runs.outcomes.mean() == pytest.approx(mean_under(world, {}), abs=5 * runs.outcomes.std() / 50_000**0.5)
    assert ((runs.outcomes < 1) == (runs.codes[:, 3] == 1)).all()
    elsewhere = pickle.loads(pickle.dumps(world)).observe(50, np.random.default_rng(0))
    assert (elsewhere.outcomes == world.observe(50, np.random.default_rng(0)).outcomes).all()


def test_the_same_world_from_functions(tmp_path: Path) -> None:
    """Every mean under every intervention is the same, and so are the draws' frequencies."""
    world = function_world(
        {
            "heat": [200, 220, 240],
            "steam": ["off", "on"],
            "proofing time": [30, 45, 60],
            "inspection": ["usual", "tight"],
        },
        outcome=lambda heat, proofing_time, steam, flour: (
            1.5 * (heat == 220) - 0.02 * abs(proofing_time - 45) + ((steam == "on") == (flour == "dry"))
        ),
        nature={
            "flour": lambda: {"dry": 0.6, "moist": 0.4},
            "heat": lambda flour: dict(
                zip([200, 220, 240], [0.2, 0.6, 0.2] if flour == "dry" else [0.1, 0.3, 0.6], strict=True)
            ),
            "steam": lambda flour: "on" if flour == "dry" else "off",
            "proofing time": lambda heat: {30: 0.5, 45: 0.3, 60: 0.2} if heat > 210 else {30: 0.2, 45: 0.3, 60: 0.5},
            "inspection": lambda Y: "tight" if Y < 1 else "usual",
        },
        hidden={"flour": ["dry", "moist"]},
        noise_sd=0.5,
    )
    # the page's table: steam off is worth 1 with moist flour, steam on with dry flour
    file = world_of_the_page(tmp_path)
    tried: list[dict[str, Level]] = [{}, {"heat": 200}, {"steam": "on"}, {"heat": 240, "steam": "off"}]
    for settings in tried:
        assert mean_under(file, settings) == pytest.approx(mean_under(world, settings))
    assert best_assignment(file).codes == best_assignment(world).codes
    runs = world.observe(5000, np.random.default_rng(1))
    assert ((runs.outcomes < 1) == (runs.codes[:, 3] == 1)).all()


def test_functions_with_randomness_are_sampled() -> None:
    world = function_world(
        {"speed": ["slow", "fast"], "load": [1, 2]},
        outcome=lambda speed, load: float(load) if speed == "fast" else 0.0,
        nature={"speed": lambda load, rng: "fast" if rng.random() < load / 4 else "slow"},
    )
    assert mean_under(world, {"speed": "fast"}) == 1.5
    with pytest.raises(InvalidWorldError, match=r"randomness of its own.*estimate_mean_under"):
        mean_under(world, {"load": 2})
    estimate = estimate_mean_under(world, {"load": 2}, 20_000, np.random.default_rng(0))
    assert abs(estimate.mean - 1.0) < 5 * estimate.standard_error
    binary = function_world({"a": [0, 1]}, outcome=lambda a: 0.2 + 0.5 * a, noise="bernoulli")
    assert best_mean(binary) == pytest.approx(0.7)
    assert set(binary.observe(100, np.random.default_rng(0)).outcomes.tolist()) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outcome": lambda heat: heat}, "'Y' reads 'heat'; there are a, b"),
        ({"outcome": lambda *rows: 0.0}, "must name what it reads"),
        ({"nature": {"c": lambda: 1}}, "neither a factor nor hidden"),
        ({"nature": {"a": lambda: 7}}, "'a' returned a wrong level: 7 is not a level"),
        ({"nature": {"a": lambda: {0: 0.5, 1: 0.6}}}, "'a' returned probabilities that are not"),
        ({"nature": {"a": lambda b: b, "b": lambda a: a}}, "in a circle"),
        ({"factors": {"a b": [0, 1], "a_b": [0, 1]}}, "both written a_b"),
        ({"factors": {"rng": [0, 1], "a": [0, 1]}}, "no variable may be called 'rng'"),
        ({"noise": "cauchy"}, "noise must be one of"),
        ({"outcome": lambda a: float("nan")}, "one finite number for each row"),
    ],
)
def test_wrong_functions_are_refused(changes: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"factors": {"a": [0, 1], "b": [0, 1]}, "outcome": lambda a: a, **changes}
    with pytest.raises((InvalidWorldError, InvalidSettingError), match=message):
        best_mean(function_world(**given))


def test_kinds_of_outcomes_and_levels() -> None:
    additive = world_from_text(SMALL + "[outcome]\nnoise = 'uniform'\n[outcome.effects]\nheat = [0, 1.5, 0.5]\n")
    assert additive.outcome.parents == (0,)
    assert isinstance(additive.outcome, AdditiveOutcome)
    assert additive.outcome.noise.kind == "uniform"
    binary = world_from_text(SMALL + "[outcome]\nbase=0.1\nnoise='bernoulli'\n[outcome.effects]\nsteam = [0, 0.5]\n")
    assert isinstance(binary.outcome, BernoulliOutcome)
    mixed = world_from_text(SMALL + "[outcome]\nnoise='bernoulli'\nexpression = '0.5 if steam == \"on\" else heat/240'")
    assert best_mean(mixed) == 1.0
    assert set(mixed.observe(50, np.random.default_rng(0)).outcomes.tolist()) == {0.0, 1.0}
    shifted = world_from_text(SMALL + "[outcome]\nbase = 10\nexpression = '2'\n[outcome.effects]\nheat = [0, 1, 2]\n")
    assert best_mean(shifted) == 14.0
    either_way = "[nodes.vent]\nlevels = [true, false]\nexpression = 'heat > 210'\n"
    vented = world_from_text(SMALL + either_way + "[outcome]\nexpression = '1 if vent else 0'\n")
    assert [mean_under(vented, {"heat": heat}) for heat in (200, 220)] == [0.0, 1.0]
    nearest = "[nodes.oven]\nlevels = [190, 230]\nexpression = 'heat + 1'\n"
    world = world_from_text(SMALL + nearest + "[outcome]\n[outcome.effects]\noven = [0, 1]\n")
    assert [mean_under(world, {"heat": heat}) for heat in (200, 220, 240)] == [0.0, 1.0, 1.0]
    effect = "[nodes.grade]\nlevels=['b','a']\nparents=['steam','Y']\nbins=[0,1]\ntable=[[1,0],[0,1],[1,0],[1,0]]\n"
    graded = world_from_text(SMALL + effect + "[outcome]\nnoise_sd=1e-9\n[outcome.effects]\nheat=[0,1,1]\n")
    runs = graded.observe(200, np.random.default_rng(0))
    expected = (runs.codes[:, 0] > 0) & (runs.codes[:, 1] == 0)
    assert (runs.codes[:, 2] == expected).all()


def test_a_long_sum_is_many_small_tables() -> None:
    """Sixteen factors of 4 levels have 4 billion settings; their sum is exact all the same."""
    nodes = "".join(f"[nodes.x{k}]\nlevels = [0, 1, 2, 3]\n" for k in range(16))
    terms = " + ".join(f"{k + 1} * x{k}" for k in range(15)) + " - x0 * x15"
    world = world_from_text(f"{nodes}[outcome]\nexpression = '{terms}'\n")
    assert best_mean(world) == 3.0 * sum(range(1, 16))
    assert best_assignment(world)["x15"] == 0
    assert mean_under(world, {}) == pytest.approx(1.5 * sum(range(1, 16)) - 1.5 * 1.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes = 3", "the file has no nodes"),
        ("= 3", "not TOML"),
        ("a = 1", "not 'a'"),
        ("[nodes.heat]\nlevels = [1, 2]", r"no \[outcome\]"),
        (SMALL + "[outcome]", "the outcome: it needs effects"),
        (SMALL + "[outcome]\nexpresion = '1'", "'expresion'; known are base, effects"),
        (SMALL + "[outcome]\nexpression = 'heet'", "the outcome: 'heet' reads 'heet'; there are heat, steam, Y"),
        (SMALL + "[outcome]\nexpression = 'Y'", "reads itself"),
        (SMALL + "[outcome]\nexpression = 'steam * 2'", "mixes texts and numbers"),
        (SMALL + "[outcome]\nexpression = 'steam'", "'steam' is not a number"),
        (SMALL + "[outcome]\nexpression = 'log(heat - 200)'", "not a finite number"),
        (SMALL + "[outcome]\nexpression = \"steam == 'onn'\"", "compares steam with 'onn', which is not a level"),
        (SMALL + "[outcome]\nnoise_sd = 0\nexpression = 'heat'", "the outcome: noise_sd must be"),
        (SMALL + "[outcome]\nnoise = 'cauchy'\nexpression = 'heat'", "noise must be one of"),
        (SMALL + "[outcome]\nnoise = 'bernoulli'\nnoise_sd = 1\nexpression = 'heat'", "no noise_sd"),
        (SMALL + "[outcome]\nnoise = 'bernoulli'\nexpression = 'heat / 200'", "not numbers from 1 to 1.2"),
        (SMALL + "[outcome]\n[outcome.effects]\nheat = [0, 1]", "'heat' has 3 levels and needs as many effects"),
        (SMALL + "[outcome]\n[outcome.effects]\nheet = [0, 1]", "no node 'heet'; the nodes are heat, steam"),
        (SMALL + "[[outcome.tables]]\nparents = ['heat']\nvalues = [1]", "table over heat needs"),
        ("[nodes.a]\nlevels = 3\n[outcome]", "node 'a': levels is a list"),
        ("[nodes.a]\nlevels = [1]\n[outcome]", "node 'a': factor 'a' has 1 level"),
        ("[nodes.a]\nlevel = [1, 2]\n[outcome]", "node 'a' has 'level'; known are"),
        ("[nodes.Y]\nlevels = [1, 2]\n[outcome]", "no node may be called 'Y'"),
        ("[nodes.a]\nhidden = true\nlevels = [1, 2]\n[outcome]", "all nodes are hidden"),
        ("[nodes.a]\nlevels = [1, 2]\ntable = [[0.5, 0.6]]\n[outcome]", "node 'a': every row"),
        (
            "[nodes.a]\nlevels = [1, 2]\ntable = [[0.5], [0.6, 1]]\n[outcome]",
            "node 'a': table must be lists of numbers",
        ),
        (
            "[nodes.a]\nlevels = [1, 2]\ntable = [[0.5, 0.5], [1, 0]]\n[outcome]",
            "node 'a': its table needs 1 rows of 2",
        ),
        ("[nodes.a]\nlevels = [1, 2]\nparents = ['b']\ntable = [[1, 0]]\n[outcome]", "node 'a': there is no node 'b'"),
        ("[nodes.a]\nlevels = [1, 2]\nparents = ['b']\n[outcome]", "node 'a': it has parents, so it needs a table"),
        ("[nodes.a]\nlevels = [1, 2]\nprobabilities = [1]\n[outcome]", "node 'a': probabilities is a list of 2"),
        (
            "[nodes.a]\nlevels=[1, 2]\ntable=[[1, 0]]\nexpression='1'\n[outcome]",
            "node 'a': it has table and expression",
        ),
        ("[nodes.a]\nlevels = ['u', 'v']\nexpression = '5'\n[outcome]", "node 'a': '5' gives the positions 5 to 5"),
        ("[nodes.a]\nlevels = ['u', 'v']\nexpression = \"'w'\"\n[outcome]", "gives 'w', which is not a level of 'a'"),
        (SMALL + "[nodes.c]\nlevels=[1,2]\nparents=['heat']\nexpression='steam'\n[outcome]", "reads steam, which"),
        (
            SMALL + "[nodes.c]\nlevels=[1,2]\nparents=['Y']\ntable=[[1,0]]\n[outcome]",
            "node 'c': a table that reads the",
        ),
    ],
)
def test_wrong_files_are_refused_with_the_nodes_name(text: str, message: str) -> None:
    with pytest.raises(InvalidWorldError, match=message):
        world_from_text(text)


def test_circles_and_files_that_cannot_be_read(tmp_path: Path) -> None:
    circle = (
        "[nodes.a]\nlevels=[0,1]\nexpression='b'\n[nodes.b]\nlevels=[0,1]\nexpression='a'\n[outcome]\nexpression='a'"
    )
    with pytest.raises(InvalidWorldError, match="in a circle: a -> b -> a"):
        world_from_text(circle)
    with pytest.raises(InvalidWorldError, match=r"from a \.toml or a \.bif file, not from 'x\.json'"):
        load_world(tmp_path / "x.json")
    with pytest.raises(InvalidWorldError, match="cannot be read: No such file"):
        load_world(str(tmp_path / "x.toml"))
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidWorldError, match="not text in UTF-8"):
        load_world(tmp_path / "x.toml")
    with pytest.raises(InvalidWorldError, match="says itself what its outcome is"):
        load_world(tmp_path / "x.toml", outcome="a")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__",
        "a.real",
        "a[0]",
        "[a for b in a]",
        "lambda: a",
        "(a := 2)",
        "f'{a}'",
        "open('x')",
        "max(*a)",
        "max(a, key=a)",
        "round(a, 2)",
        "a if a else",
        "a; b",
        "import os",
        "1j",
        "None",
        "b'x'",
        "a in a",
        "a is a",
        "a @ a",
        "a << 3",
        "~a",
        "",
        "-" * 1500 + "1",
        "(" * 300 + "1" + ")" * 300,
        "a" * 5000,
        "+".join(["a"] * MAX_NODES),
    ],
)
def test_expressions_can_do_nothing_but_compute(text: str) -> None:
    with pytest.raises(InvalidWorldError):
        Expression.parse(text)


def test_expressions_compute_what_python_computes() -> None:
    a, b = np.array([1.0, -2.5, 7.0]), np.array([2.0, 3.0, 0.5])
    functions = {"exp": np.exp, "sqrt": np.sqrt, "log": np.log, "abs": abs, "min": min, "max": max}
    for text in (
        "a + b * 2 - a / b",
        "-a ** 2 // b % 3",
        "a if a > b else b - 1",
        "(a < b) + (a <= b) * 2 + (a != b) * 4",
        "0 < a < 5 and not b == 3 or a == 7",
        "min(a, b, 1) + max(a, b) - abs(a)",
        "sqrt(abs(a)) + exp(-b) + log(b)",
    ):
        found = Expression.parse(text).evaluate({"a": a, "b": b}).tolist()
        names = [functions | {"a": float(x), "b": float(y)} for x, y in zip(a, b, strict=True)]
        assert found == pytest.approx([float(eval(text, {"__builtins__": {}}, given)) for given in names]), text
    for endless in ("9 ** 9 ** 9 ** 9", "1 / (a - a)", "(-1) ** 0.5"):
        with pytest.raises(InvalidWorldError, match="not a finite number"):
            Expression.parse(endless).evaluate({"a": a})
