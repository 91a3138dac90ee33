"""Frozen values to JSON text and back, without loss.

A value class opts in with ``@serialisable(tag)``. Tuples come back as tuples, arrays with the same bits and dtype,
and a text written by another class is refused.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np

from levers.core.packing import packed, unpacked
from levers.errors import StateMismatchError

T = TypeVar("T")
_CLASSES: dict[str, type[Any]] = {}  # the class that each tag stands for
_TAGS: dict[type[Any], str] = {}  # the tag of each class
FINDERS: list[Callable[[], Iterable[object]]] = []
"""Each imports modules that may define the class of a tag that is not known yet, one at every step."""


def serialisable(tag: str) -> Callable[[type[T]], type[T]]:
    """Let a dataclass be written by `to_json` under a tag. Saved files hold the tag, so it outlives the class's name.

    >>> @serialisable("codec example")
    ... @dataclasses.dataclass(frozen=True)
    ... class Dose:
    ...     grams: float
    >>> to_json(Dose(1.5))
    '{"$": "codec example", "grams": 1.5}'
    """

    def register(cls: type[T]) -> type[T]:
        known = _CLASSES.get(tag)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"two serialisable classes have the tag {tag!r}")
        _CLASSES[tag], _TAGS[cls] = cls, tag
        return cls

    return register


def to_json(value: object) -> str:
    """The JSON text of a value made of serialisable classes, tuples, arrays and plain values.

    >>> from levers.core.space import Factor
    >>> to_json(Factor("dose", (1, 2)))
    '{"$": "Factor", "name": "dose", "levels": [1, 2]}'
    """
    return json.dumps(_encode(value), allow_nan=False)


@cache
def _fields(cls: type[Any]) -> "dict[str, dataclasses.Field[Any]]":
    return {f.name: f for f in dataclasses.fields(cls)}


def tag_of(value: object) -> str:
    """The tag under which a value, or the values of a class, are saved.

    >>> from levers.core.space import Factor
    >>> tag_of(Factor("dose", (1, 2))), tag_of(Factor)
    ('Factor', 'Factor')
    """
    return _TAGS[value if isinstance(value, type) else type(value)]


def from_json(text: str, expected: type[T]) -> T:
    """The value that `to_json` wrote.

    >>> from levers.core.space import Factor
    >>> from_json(to_json(Factor("dose", (1, 2))), Factor)
    Factor(name='dose', levels=(1, 2))
    """
    try:
        value = _decode(json.loads(text))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise StateMismatchError(f"this is not a saved {expected.__name__}: {error}") from error
    if not isinstance(value, expected):
        raise StateMismatchError(f"expected a saved {expected.__name__}, found {type(value).__name__}")
    return value


def _encode(value: object) -> object:
    if isinstance(value, np.ndarray):
        return packed(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        tag = _TAGS.get(type(value))
        if tag is None:
            name = type(value).__name__
            raise TypeError(f"{name} is not serialisable; put @serialisable({name!r}) of levers.core.codec above it")
        fields = {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
        return {"$": tag, **fields}
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
    tag = cast(str, value["$"])
    if tag == "array":
        return unpacked(value)
    if tag not in _CLASSES:
        any(tag in _CLASSES for find in FINDERS for _ in find())  # stops at the first step that brings it
    if tag not in _CLASSES:
        raise KeyError(f"no value has the tag {tag!r}")
    saved = {key: _decode(item) if isinstance(item, list | dict) else item for key, item in value.items() if key != "$"}
    return restored(_CLASSES[tag], saved)


def restored(cls: type[T], saved: dict[str, Any]) -> T:
    """A value with these fields, made without its own checks.

    What was written passed the checks of its time. A check that becomes stricter later, or that plans a whole study,
    must not keep an old log from being read. Fields that are not saved come from the class's `derive_fields`. A class
    that was saved in another layout before has a static method `upgraded`, from its fields as saved to those of now.
    """
    if (upgraded := getattr(cls, "upgraded", None)) is not None:
        saved = upgraded(saved)
    value = object.__new__(cls)
    known = _fields(cast(Any, cls))
    if unknown := saved.keys() - known.keys():
        raise TypeError(f"a saved {cls.__name__} has no field {min(unknown)!r}")
    for name, content in saved.items():
        object.__setattr__(value, name, content)
    derived = False
    for f in [f for name, f in known.items() if name not in saved]:
        if not f.init:
            derived = True
        elif f.default is not dataclasses.MISSING:
            object.__setattr__(value, f.name, f.default)
        elif f.default_factory is not dataclasses.MISSING:
            object.__setattr__(value, f.name, f.default_factory())
        else:
            raise TypeError(f"a saved {cls.__name__} has no {f.name}")
    if derived:
        cast(Any, value).derive_fields()
    return value
