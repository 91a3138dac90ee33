import subprocess
import sys
from dataclasses import make_dataclass

import numpy as np
import pytest

from levers.algorithms.base import Batch, Problem
from levers.algorithms.registry import make_algorithm
from levers.core.codec import from_json, to_json
from levers.core.model.moments import Moments
from levers.core.space import Factor, Space
from levers.errors import StateMismatchError


def test_arrays_keep_every_bit(rng: np.random.Generator) -> None:
    moments = Moments.empty([2, 3]).add(rng.integers(0, 2, size=(50, 2)), rng.normal(size=50) * 1e-7)
    back = from_json(to_json(moments), Moments)
    assert back.sums.tobytes() == moments.sums.tobytes()
    assert back.counts.dtype == moments.counts.dtype
    assert (back.counts == moments.counts).all()
    assert (back.n_levels, back.n_runs, back.mean, back.square) == ((2, 3), 50, moments.mean, moments.square)


def test_space_comes_back_whole() -> None:
    space = Space.of({"a": [True, 1, "x"], "b": [0.1, 2]})
    back = from_json(to_json(space), Space)
    assert back == space
    assert back.position("b") == 1


ARRAY = '{"$": "array", "dtype": "<f8", "shape": [2], '


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1, 2]", "7", '{"$": "Nothing"}', '{"name": "a"}', '{"$": "Factor"}'),
        *(ARRAY + '"data": "AAAA"}', ARRAY + '"data": "!"}', ARRAY.replace("<f8", "<q9") + '"data": ""}'),
        ARRAY + '"values": "AAAAAAAAAAAAAAAAAADwPw==", "data": "CQk="}',  # the ninth of two values
    ],
)
def test_what_was_not_saved_here_is_refused(text: str) -> None:
    with pytest.raises(StateMismatchError):
        from_json(text, Factor)


def test_another_class_is_refused() -> None:
    with pytest.raises(StateMismatchError, match="expected a saved Space, found Factor"):
        from_json(to_json(Factor("a", [1, 2])), Space)


def test_infinite_numbers_and_unknown_classes_are_not_written() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json((float("inf"),))
    stranger = make_dataclass("Stranger", ["a"])(1)
    with pytest.raises(TypeError, match="not serialisable"):
        to_json(stranger)


def test_batch_round_trip() -> None:
    batch = Batch(np.array([[0, -1]], dtype=np.int16), "test", focus=3)
    back = from_json(to_json(batch), Batch)
    assert back.codes.dtype == np.int16
    assert back.codes.tolist() == [[0, -1]]
    assert (back.stage, back.focus) == ("test", 3)


def test_a_state_is_read_before_anybody_asked_for_its_algorithm() -> None:
    """Algorithms are imported when they are asked for; a saved state must not wait for that."""
    modl = make_algorithm("modl", Problem(Space.sized([2, 2]), 0.5, 0.1, 1.0))
    program = "import sys, levers; print(levers.from_json(sys.argv[1], object))"
    text = to_json(modl.start())
    said = subprocess.run([sys.executable, "-c", program, text], capture_output=True, text=True, check=True).stdout
    assert said.startswith("ModlState(phase=0")
