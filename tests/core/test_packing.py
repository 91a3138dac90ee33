"""Arrays in the log: every bit comes back, whatever they are packed as, and nothing is longer than it was."""

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from levers.core.packing import packed, unpacked


def as_before(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """What earlier versions wrote."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"$": "array", "dtype": array.dtype.newbyteorder("<").str, "shape": list(array.shape), "data": data}


def comes_back(array: np.ndarray[Any, Any]) -> None:
    """Through JSON and back: the same type, shape and bytes, and never longer than before."""
    text = json.dumps(packed(array))
    for saved in (json.loads(text), as_before(array)):
        back = unpacked(saved)
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        assert back.tobytes() == array.tobytes()
    assert len(text) <= len(json.dumps(as_before(array))) + 70  # the names of what is said besides


FEW = np.array([0.0, -0.0, 1.5, -2.25, np.nan, np.inf, 5e-324])


@given(arrays(np.float64, array_shapes(max_dims=2, max_side=24), elements=st.sampled_from(FEW.tolist())))
@settings(max_examples=25, deadline=None)
def test_numbers_of_which_few_are_different(array: np.ndarray[Any, Any]) -> None:
    comes_back(array)
    comes_back(np.tile(array, 9))


@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.int32, np.uint8, np.bool_, np.float64, np.float32])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (1,), (700,), (40, 40), (30, 41), (2, 30, 30)])
def test_all_kinds(rng: np.random.Generator, dtype: type, shape: tuple[int, ...]) -> None:
    for most in (1, 2, 120, 30_000):
        comes_back((rng.normal(size=shape) * most).astype(np.int64).astype(dtype))
    comes_back(rng.normal(size=shape).astype(dtype))


@pytest.mark.parametrize("values", [[-129, 127], [-128, 128], [0, 255], [0, 65_536], [-(2**63), 2**63 - 1]])
def test_integers_at_the_ends_of_their_types(values: list[int]) -> None:
    comes_back(np.array(values * 200))


def test_a_matrix_that_is_symmetric_but_for_a_sign_of_zero_is_kept_whole() -> None:
    array = np.zeros((30, 30))
    assert "half" in packed(array)
    array[3, 7] = -0.0
    assert "half" not in packed(array)
    comes_back(array)


def test_more_different_numbers_than_two_bytes_tell_apart(rng: np.random.Generator) -> None:
    comes_back(np.repeat(rng.normal(size=70_000), 3))
    comes_back(np.concatenate([np.zeros(2000), rng.normal(size=5000)]))
    comes_back(np.repeat(rng.normal(size=300), 9))  # more than one byte tells apart


def test_what_is_packed_is_shorter() -> None:
    counts = np.full((60, 60), 7)
    assert len(json.dumps(packed(counts))) < len(json.dumps(as_before(counts))) / 10
