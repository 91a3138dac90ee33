from types import MappingProxyType

import numpy as np
import pytest

from levers.core.codec import from_json, to_json
from levers.core.space import FREE, Assignment, Factor, Space
from levers.errors import InvalidSpaceError, LeversError


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "no levels"),
        (["only"], "at least two"),
        (["a", "a"], "twice"),
        ([1, 1.0], "twice"),
        (["a", " "], "empty level"),
        ([1.0, float("nan")], "finite"),
        ([1.0, float("inf")], "finite"),
        ([None, 1], "texts, numbers or booleans"),
        ("ab", "at least two"),
    ],
)
def test_bad_levels_are_refused_with_a_reason(levels: list[object], message: str) -> None:
    with pytest.raises(InvalidSpaceError, match=message):
        Factor("dose", levels)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "  ", None, 3])
def test_bad_names_are_refused(name: object) -> None:
    with pytest.raises(InvalidSpaceError, match="name must be a text"):
        Factor(name, [1, 2])  # type: ignore[arg-type]


def test_true_and_one_are_different_levels() -> None:
    factor = Factor("flag", [True, 1, "1"])
    assert [factor.code(level) for level in (True, 1, "1")] == [0, 1, 2]


def test_numpy_levels_become_plain_ones() -> None:
    assert Factor("dose", np.array([1.5, 2.5])).levels == (1.5, 2.5)  # type: ignore[arg-type]


def test_all_problems_of_a_space_are_reported_at_once() -> None:
    with pytest.raises(InvalidSpaceError) as caught:
        Space.of({"a": [], "b": [1], "c": [1, 2], "d": [2, 2]})
    assert "3 problems" in str(caught.value)
    assert all(f"'{name}'" in str(caught.value) for name in "abd")


def test_empty_space_and_doubled_names_are_refused() -> None:
    with pytest.raises(InvalidSpaceError, match="no factor"):
        Space([])
    with pytest.raises(InvalidSpaceError, match="two factors are named 'a'"):
        Space([Factor("a", [1, 2]), Factor("a", [3, 4])])
    with pytest.raises(InvalidSpaceError, match="Factor values"):
        Space([("a", [1, 2])])  # type: ignore[list-item]


def test_assignment_is_a_mapping_and_encodes_back() -> None:
    space = Space.of({"speed": ["slow", "fast"], "dose": [1, 2, 3]})
    assignment = space.assignment([1, 2])
    assert dict(assignment) == {"speed": "fast", "dose": 3}
    assert "dose" in assignment
    assert "colour" not in assignment
    assert space.encode(assignment) == assignment
    assert {assignment: 1}[space.assignment([1, 2])] == 1


def test_wrong_assignments_are_refused() -> None:
    space = Space.sized([2, 3])
    for codes, message in (((0,), "needs 2 levels"), ((0, 3), "levels 0 to 2"), ((-2, 0), "levels 0 to 1")):
        with pytest.raises(InvalidSpaceError, match=message):
            Assignment(space, codes)
    with pytest.raises(InvalidSpaceError, match=r"2 problems.*no factor 'X9'.*'X2' is not set"):
        space.encode({"X1": 1, "X9": 1})
    with pytest.raises(InvalidSpaceError, match="not a level of factor 'X1'"):
        space.encode({"X1": 7, "X2": 1})
    with pytest.raises(LeversError, match="there is no factor 'Z'"):
        space.position("Z")


def test_size_of_the_full_factorial_is_exact() -> None:
    assert Space.sized([6] * 100).n_assignments == 6**100


def test_an_assignment_may_leave_factors_to_nature() -> None:
    space = Space.of({"heat": ["low", "high"], "speed": [1, 2, 3]})
    one = space.assignment([FREE, 2])
    assert (dict(one), one.free, len(one)) == ({"speed": 3}, ("heat",), 1)
    assert [name in one for name in ("heat", "speed", "nothing")] == [False, True, False]
    with pytest.raises(KeyError, match="left to nature"):
        one["heat"]
    assert from_json(to_json(one), Assignment) == one


def test_an_assignment_is_a_mapping_like_any_other() -> None:
    space = Space.of({"a": [1, 2], "b": ["x", "y"]})
    run, partly = space.assignment([0, 1]), space.assignment([0, FREE])
    assert run.get("zz", 1.0) == 1.0
    assert partly.get("b") is None
    assert run == {"b": "y", "a": 1} == run
    assert run == MappingProxyType({"a": 1, "b": "y"})
    assert run != {"a": 1}
    assert run != [("a", 1), ("b", "y")]
    assert partly == {"a": 1}
    with pytest.raises(KeyError) as caught:
        run["zz"]
    assert isinstance(caught.value, InvalidSpaceError)
    assert str(caught.value) == "there is no factor 'zz'; the factors are 'a', 'b'"


def test_assignments_are_equal_in_equal_spaces_only() -> None:
    space, longer = Space.of({"a": [1, 2]}), Space.of({"a": [1, 2, 3]})
    assert space.assignment([0]) == Space.of({"a": [1, 2]}).assignment([0])
    assert space.assignment([0]) != longer.assignment([0])
    assert space.assignment([0]) != space.assignment([1])
    assert len({space.assignment([0]), Space.of({"a": [1, 2]}).assignment([0])}) == 1
