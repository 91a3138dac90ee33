"""Frozen values to JSON text and back, without loss.

A value class opts in with ``@serialisable``. Tuples come back as tuples, arrays with the same bits and dtype,
and a text written by another class is refused.
"""

import base64
import dataclasses
import json
from typing import Any, TypeVar, cast

import numpy as np

from levers.errors import StateMismatchError

T = TypeVar("T")
_CLASSES: dict[str, type[Any]] = {}


def serialisable(cls: type[T]) -> type[T]:
    """Let a dataclass be written by `to_json`. Its class name is its name in the file."""
    known = _CLASSES.get(cls.__name__)
    if known is not None and known.__module__ != cls.__module__:
        raise TypeError(f"two serialisable classes are named {cls.__name__}")
    _CLASSES[cls.__name__] = cls
    return cls


def to_json(value: object) -> str:
    """The JSON text of a value made of serialisable classes, tuples, arrays and plain values.

    >>> from levers.core.space import Factor
    >>> to_json(Factor("dose", (1, 2)))
    '{"$": "Factor", "name": "dose", "levels": [1, 2]}'
    """
    return json.dumps(_encode(value), allow_nan=False)


def from_json(text: str, expected: type[T]) -> T:
    """The value that `to_json` wrote.

    >>> from levers.core.space import Factor
    >>> from_json(to_json(Factor("dose", (1, 2))), Factor)
    Factor(name='dose', levels=(1, 2))
    """
    try:
        value = _decode(json.loads(text))
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise StateMismatchError(f"this is not a saved {expected.__name__}: {error}") from error
    if not isinstance(value, expected):
        raise StateMismatchError(f"expected a saved {expected.__name__}, found {type(value).__name__}")
    return value


def _encode(value: object) -> object:
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")
        return {
            "$": "array",
            "dtype": value.dtype.newbyteorder("<").str,
            "shape": list(value.shape),
            "data": data,
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__
        if _CLASSES.get(name) is not type(value):
            raise TypeError(f"{name} is not serialisable")
        fields = {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
        return {"$": name, **fields}
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _decode(value: object) -> object:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    name = cast(str, value["$"])
    if name == "array":
        return _decode_array(value["data"], value["dtype"], value["shape"])
    if name not in _CLASSES:
        raise KeyError(f"no value is called {name}")
    fields = {
        key: _decode(item) if isinstance(item, list | dict) else item for key, item in value.items() if key != "$"
    }
    return _CLASSES[name](**fields)


def _decode_array(data: str, dtype: str, shape: list[int]) -> np.ndarray[Any, Any]:
    array = np.frombuffer(base64.b64decode(data), dtype=dtype)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    # logs hold many small flat arrays, so what they do not need is left out
    return array if shape == [len(array)] else array.reshape(shape)
