"""Levers typed by people mean the same on the command line and in the form."""

import pytest

from levers.core.space import Level, Space
from levers.errors import LeversError
from levers.studies.space_text import (
    parse_factor,
    parse_forbidden,
    parse_levels,
    parse_merged,
    parse_space,
    parse_text,
)

SPACE = Space.of({"heat": ["low", "high"], "speed": [1, 4], "pressure": [1.5, 2.0, 2.5], "grade": ["a, b", "c"]})


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("1,2,4", [1, 2, 4]),
        ("4.0,5", [4.0, 5.0]),
        ("1,5; 2,0; 2,5", [1.5, 2.0, 2.5]),
        ("1_000,2_000", ["1_000", "2_000"]),
        ("\u22121,2", [-1, 2]),
        ("1e3,2", [1000.0, 2.0]),
        ("nan,inf", ["nan", "inf"]),
        ("1,x", ["1", "x"]),
        ('"a, b",c', ["a, b", "c"]),
    ],
)
def test_levels_mean_the_same_everywhere(text: str, levels: list[Level]) -> None:
    assert parse_levels(text) == levels
    assert parse_factor(f"speed={text}") == ("speed", levels)
    assert parse_text(f"speed: {text}").factors == [("speed", levels)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("heat=high,speed=4", {"heat": "high", "speed": 4}),
        ("heat=high; speed=4.0", {"heat": "high", "speed": 4}),
        ("pressure=2,5", {"pressure": 2.5}),
        ("pressure=2,5, heat=low", {"pressure": 2.5, "heat": "low"}),
        ("heat=low; pressure=2,50", {"heat": "low", "pressure": 2.5}),
        ("grade=a, b, speed=1", {"grade": "a, b", "speed": 1}),
        ("heat=hot, speed=1", {"heat": "hot", "speed": 1}),
    ],
)
def test_a_forbidden_combination_has_levels_as_the_space_has_them(text: str, found: dict[str, Level]) -> None:
    assert parse_forbidden(SPACE, text) == [found]
    assert all(type(level) is type(found[name]) for name, level in parse_forbidden(SPACE, text)[0].items())


@pytest.mark.parametrize("text", ["heat", "heat=high, speed", "heat=high, 4", "oven=1, heat=low"])
def test_an_error_says_which_setting_it_is_about(text: str) -> None:
    with pytest.raises(LeversError) as caught:
        parse_forbidden(SPACE, text)
    assert caught.value.field == "forbidden"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('merged = "heat"\n[factors]\nheat = ["low", "high"]', "merged"),
        ('forbidden = "heat"\n[factors]\nheat = ["low", "high"]', "forbidden"),
        ('[factors]\nheat = "low"', "factors"),
        ("x", "factors"),
    ],
)
def test_an_error_in_a_space_file_says_where(text: str, field: str) -> None:
    with pytest.raises(LeversError) as caught:
        parse_space(text)
    assert caught.value.field == field


def test_names_of_merged_levers_may_hold_separators() -> None:
    space = Space.of({"heat; zone 1": [1, 2], "a, b": [1, 2], "speed": [1, 2]})
    assert parse_merged(space, "heat; zone 1, speed") == [["heat; zone 1", "speed"]]
    assert parse_merged(space, '"a, b", speed') == [["a, b", "speed"]]
    assert parse_merged(space, "a, b; speed") == [["a, b", "speed"]]
    assert parse_merged(space, "speed; other") == [["speed", "other"]]


@pytest.mark.parametrize("text", ["heat", "=low,high", " =1,2"])
def test_a_factor_without_a_name_or_levels_is_refused(text: str) -> None:
    with pytest.raises(LeversError, match="a factor looks like heat=low,mid,high") as caught:
        parse_factor(text)
    assert caught.value.field == "factors"
