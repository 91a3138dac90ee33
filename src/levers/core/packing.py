"""Arrays as JSON, without loss and without what need not be said twice.

States of studies hold matrices that are symmetric, counts that are small, and numbers of which few are different. A
matrix that equals its transpose is kept as its upper half; whole numbers are kept as short as the largest of them;
other numbers of which few are different are kept as these, and which one each entry is. The same array always gives the
same text, on any machine, and comes back with every bit and its own type.
"""

import base64
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LEAST_BYTES = 512
"""Arrays up to this size are kept as they are: most are a few outcomes, and reading them should take no time."""
_FIRST = 1024
"""Entries that are looked at first: where most of these are different, no more are compared."""
_MOST_DIFFERENT = 65_536
"""Different numbers that two bytes can tell apart."""

Array = NDArray[Any]


def packed(array: Array) -> dict[str, object]:
    """The array as values that JSON has.

    `dtype` and `shape` are the array's own, `data` are its bytes in base64. With `half` they are those of the upper
    half, row by row; with `as` those of shorter integers; with `values` those of each entry's place among the values.

    >>> packed(np.arange(3))
    {'$': 'array', 'dtype': '<i8', 'shape': [3], 'data': 'AAAAAAAAAAABAAAAAAAAAAIAAAAAAAAA'}
    >>> saved = packed(np.eye(40))
    >>> saved["half"], saved["values"], len(saved["data"])  # 40 * 41 / 2 bytes in base64
    (True, 'AAAAAAAAAAAAAAAAAADwPw==', 1096)
    """
    kept: dict[str, object] = {"$": "array", "dtype": _little(array.dtype), "shape": list(array.shape)}
    if array.nbytes <= _LEAST_BYTES:
        return {**kept, "data": _text(array)}
    entries = array
    if array.ndim == 2 and array.shape[0] == array.shape[1] and _same_bits(array, array.T):
        kept["half"], entries = True, array[_half(len(array))]
    if _same_bits(entries, np.broadcast_to(entries.flat[0], entries.shape)):
        return {**kept, "values": _text(entries.flat[:1]), "data": ""}  # all are the same: mostly nothing yet
    if array.dtype.kind == "i":
        short = _shortest(entries)
        if short.itemsize < array.dtype.itemsize:
            kept["as"], entries = _little(short), entries.astype(short)
    elif array.dtype == np.float64:
        found = _different(np.ascontiguousarray(entries).ravel())
        if found is not None:
            kept["values"], entries = _text(found[0]), found[1]
    return {**kept, "data": _text(entries)}


def unpacked(saved: dict[str, Any]) -> Array:
    """The array that `packed` was given.

    >>> once = np.array([[0.5, -0.0], [-0.0, 0.5]]).repeat(20, axis=0).repeat(20, axis=1)
    >>> unpacked(packed(once)).tobytes() == once.tobytes()
    True
    """
    dtype, shape = np.dtype(saved["dtype"]), saved["shape"]
    if "values" in saved:
        values = np.frombuffer(base64.b64decode(saved["values"]), dtype=dtype)
        if len(values) == 1:
            return np.full(shape, values[0], dtype=dtype.newbyteorder("="))
        entries = values[np.frombuffer(base64.b64decode(saved["data"]), dtype=_place_type(len(values)))]
    elif "as" in saved:
        entries = np.frombuffer(base64.b64decode(saved["data"]), dtype=saved["as"]).astype(dtype)
    else:
        entries = np.frombuffer(base64.b64decode(saved["data"]), dtype=dtype)
    if not entries.dtype.isnative:
        entries = entries.astype(entries.dtype.newbyteorder("="))
    if "half" in saved:
        whole = np.empty(shape, dtype=entries.dtype)
        these, those = _half(shape[0])
        whole[these, those] = whole[those, these] = entries
        return whole
    # logs hold many small flat arrays, and reshaping them would take as long as decoding them
    return entries if shape == [len(entries)] else entries.reshape(shape)


def _text(array: Array) -> str:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode("ascii")


def _little(dtype: np.dtype[Any]) -> str:
    return dtype.newbyteorder("<").str


def _same_bits(one: Array, other: Array) -> bool:
    """Equal to the last bit: 0.0 is not -0.0."""
    if one.dtype != np.float64:
        return bool(np.array_equal(one, other))
    return bool(np.array_equal(one.view(np.int64), other.view(np.int64)))


@lru_cache(maxsize=4)
def _half(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of the upper half of a square matrix, the diagonal included."""
    return np.triu_indices(n)


def _shortest(entries: Array) -> np.dtype[Any]:
    """The shortest integers that hold these."""
    return np.promote_types(np.min_scalar_type(entries.min()), np.min_scalar_type(entries.max()))


def _different(entries: Array) -> tuple[Array, Array] | None:
    """The different numbers among these, and which of them each one is; None where that is no shorter."""
    bits = entries.view(np.int64)
    if len(np.unique(bits[:_FIRST])) > min(len(bits), _FIRST) / 2:
        return None
    values, places = np.unique(bits, return_inverse=True)
    if len(values) > _MOST_DIFFERENT or 8 * len(values) + _place_type(len(values)).itemsize * len(bits) > bits.nbytes:
        return None
    return values.view(np.float64), places.astype(_place_type(len(values)))


def _place_type(n_values: int) -> np.dtype[Any]:
    return np.dtype("<u1") if n_values <= 256 else np.dtype("<u2")
