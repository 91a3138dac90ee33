"""A space from a file: TOML or JSON with a table of factors, combinations that cannot be run, levers to be merged."""

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from levers.core.space import Level, Space
from levers.errors import InvalidSpaceError

_EXAMPLE = '[factors]\nheat = ["low", "high"]\nspeed = [1, 2, 3]'


class SpaceFile(NamedTuple):
    """What a file says: the factors, combinations that cannot be run, and groups of levers to be studied as one."""

    space: Space
    forbidden: list[Mapping[str, Level]]
    merged: list[list[str]]


def read_space(path: str | os.PathLike[str]) -> SpaceFile:
    """The space, the forbidden combinations and the merged levers in a .toml or .json file.

    A `[factors]` table has one line `name = [levels]` for each lever; `[[forbidden]]` tables name levels that cannot be
    run together; `merged = [["heat", "speed"]]`, before the tables, names levers that influence each other.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidSpaceError(f"cannot read {file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InvalidSpaceError(f"{file} is not UTF-8 text; save it as UTF-8") from None
    return parse_space(text, is_json=file.suffix.lower() == ".json", name=str(file))


def parse_space(text: str, *, is_json: bool = False, name: str = "the space file") -> SpaceFile:
    """The same from text.

    >>> found = parse_space('[factors]\\nheat = ["low", "high"]\\nspeed = [1, 2]')
    >>> found.space.names, found.forbidden, found.merged
    (('heat', 'speed'), [], [])
    """
    try:
        found = json.loads(text) if is_json else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        kind = "JSON" if is_json else "TOML"
        raise InvalidSpaceError(f"{name} is not {kind}: {error}. A space looks like this:\n{_EXAMPLE}") from None
    factors = found.get("factors") if isinstance(found, dict) else None
    if not isinstance(factors, dict) or not factors:
        raise InvalidSpaceError(f"{name} has no table of factors. A space looks like this:\n{_EXAMPLE}")
    unknown = sorted(set(found) - {"factors", "forbidden", "merged"})
    if unknown:
        raise InvalidSpaceError(
            f"{name} has {unknown[0]!r}, which is not known; there are factors, forbidden and merged"
        )
    wrong = [key for key, levels in factors.items() if not isinstance(levels, list)]
    if wrong:
        raise InvalidSpaceError(f"the levels of {wrong[0]!r} in {name} must be a list, as in\n{_EXAMPLE}")
    forbidden, merged = found.get("forbidden", []), found.get("merged", [])
    if not isinstance(forbidden, list):
        raise InvalidSpaceError(f"forbidden in {name} must be a list of tables, each naming a level of two factors")
    if not isinstance(merged, list):
        raise InvalidSpaceError(f'merged in {name} must be a list of groups of factors, as in [["heat", "speed"]]')
    return SpaceFile(Space.of(factors), forbidden, merged)
