"""`levers schema`: JSON Schemas of what people and programs write, for editors and for checks before sending.

A schema says how a value is spelt. What needs the whole of it, as whether a forbidden combination names factors that
are there, is said by `levers create`.
"""

import json
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from levers.core.space import MAX_LEVELS, Factor, Space
from levers.errors import InvalidSettingError
from levers.studies.outcomes import MAX_OUTCOME
from levers.studies.settings import CREATE, Setting, settings_of
from levers.studies.space_text import read_space
from levers.studies.spec import LEAVE_ALONE, STAMP

Schema: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MOST = 2**53 - 1
"""The largest whole number that every JSON reader keeps exact."""
LEVEL: Schema = {"type": ["string", "number", "boolean"]}
_LEVELS: Schema = {
    "description": "The levels of a lever.",
    "type": "array",
    "items": LEVEL,
    "minItems": 2,
    "maxItems": MAX_LEVELS,
    "uniqueItems": True,
}
_NAME: Schema = {"type": "string", "pattern": r"\S"}
_ROW: Schema = {"type": "object", "additionalProperties": LEVEL}
_GROUP: Schema = {"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True}
_FORBIDDEN: Schema = {"type": "array", "items": {**_ROW, "minProperties": 2}}
_KINDS: dict[str, Schema] = {
    "text": {"type": "string"},
    "choice": {"type": "string"},
    "positive": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_OUTCOME},
    "amount": {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_OUTCOME},
            {"type": "string", "pattern": r"^[0-9]+([.,][0-9]+)? ?%$"},
        ]
    },
    "number": {"type": "number", "minimum": -MAX_OUTCOME, "maximum": MAX_OUTCOME},
    "probability": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "count": {"type": "integer", "minimum": 1, "maximum": MOST},
    "whole": {"type": "integer", "minimum": 0, "maximum": MOST},
    "combinations": _FORBIDDEN,
    "groups": {"type": "array", "items": _GROUP},
    "names": {"type": "array", "items": {"type": "string"}},
    "assignment": {**_ROW, "minProperties": 1},
}
"""What a setting of each kind takes."""


def space_schema() -> Schema:
    """What a space file holds: `levers create --space FILE`, as TOML or JSON.

    >>> space_schema()["required"]
    ['factors']
    """
    table = _object(
        {
            "levels": _LEVELS,
            "free": {"description": "Whether runs may leave it alone.", "type": "boolean"},
        },
        ["levels"],
    )
    found = {
        "factors": {
            "description": "The levers by name, each with its levels.",
            "type": "object",
            "propertyNames": _NAME,
            "minProperties": 1,
            "additionalProperties": {"anyOf": [_LEVELS, table]},
        },
        "forbidden": {"description": "Levels that cannot be run together.", **_FORBIDDEN},
        "merged": {"description": "Levers that influence each other, studied as one.", **_KINDS["groups"]},
        "hard_to_change": {"description": "Levers to change seldom, the hardest first.", **_KINDS["names"]},
    }
    return {"$schema": DIALECT, "title": "A space of levers", **_object(found, ["factors"])}


def sheet_schema(space: Space | None = None) -> Schema:
    """The rows of a run sheet, one object for each, with the columns of its levers if the space is known.

    >>> list(sheet_schema(Space.of({"heat": ["low", "high"]}))["items"]["properties"])
    ['trial', 'block', 'study', 'heat', 'outcome']
    """
    columns: Schema = {
        "trial": {"description": "The run's number.", "type": "integer", "minimum": 0, "maximum": MOST},
        "block": {"description": "The day or sheet that the run belongs to.", "type": "integer", "minimum": 1},
        STAMP: {"description": "Whose sheet it is: the study's name and a mark of its beginning.", "type": "string"},
    }
    columns |= {} if space is None else {factor.name: _column(factor) for factor in space.factors}
    columns["outcome"] = {
        "description": "What the run gave; empty if it has not been made.",
        "type": ["number", "null"],
        "minimum": -MAX_OUTCOME,
        "maximum": MAX_OUTCOME,
    }
    needed = ["trial", "outcome", *(() if space is None else space.names)]
    row = {"type": "object", "properties": columns, "required": needed}
    if space is None:
        row["additionalProperties"] = {"description": "The level of a lever, under its name.", **LEVEL}
    return {"$schema": DIALECT, "title": "A run sheet", "type": "array", "items": row}


def _column(factor: Factor) -> Schema:
    text = {"type": "string", "pattern": f"^({LEAVE_ALONE}|left alone: .+)$"}
    return {"description": f"The level of {factor.name}.", "anyOf": [{"enum": list(factor.levels)}, text]}


def study_schema() -> Schema:
    """What begins a study: the body of `POST /api/v1/studies`; its settings are those of `levers create`.

    >>> study_schema()["properties"]["goal"]["enum"]
    ['maximize', 'minimize']
    """
    listed = _object({"name": _NAME, "levels": _LEVELS}, ["name", "levels"])
    by_name = {"type": "object", "propertyNames": _NAME, "additionalProperties": _LEVELS, "minProperties": 1}
    found: Schema = {
        "name": {"description": "A name for the study.", **_NAME},
        "factors": {
            "description": "Levels by the levers' names, or a list where it is not certain that their order is kept.",
            "anyOf": [by_name, {"type": "array", "items": listed, "minItems": 1}],
        },
        "options": {
            "description": "Further options of the algorithm.",
            "type": "object",
            "additionalProperties": {"type": [*LEVEL["type"], "null"]},
        },
    }
    found |= {setting.name: _setting(setting) for setting in settings_of(CREATE)}
    return {"$schema": DIALECT, "title": "A new study", **_object(found, ["name", "factors"])}


def _setting(setting: Setting) -> Schema:
    kind = {"enum": list(setting.choices)} if setting.choices else _KINDS[setting.kind]
    described: Schema = {"description": setting.help}
    if setting.default is None:
        return {**described, "anyOf": [kind, {"type": "null"}], "default": None}
    return {**described, **kind, "default": list(setting.default) if setting.default == () else setting.default}


def _object(properties: Schema, required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


SCHEMAS = {"space": space_schema, "sheet": sheet_schema, "study": study_schema}


def schema(
    what: Annotated[str, typer.Argument(help="space, sheet or study.", metavar="WHAT")],
    space: Annotated[Path | None, typer.Option(help="A space file, for a sheet with its levers as columns.")] = None,
) -> None:
    """Print the JSON Schema of a space file, of a run sheet, or of a new study.

    \b
    Examples:
      levers schema space > space.schema.json
      levers schema sheet --space oven.toml
      levers schema study
    """
    if what not in SCHEMAS:
        raise InvalidSettingError(f"there are the schemas space, sheet and study, not {what!r}", field="what")
    if space is not None and what != "sheet":
        raise InvalidSettingError(f"--space is for the columns of a sheet; the schema {what} has none", field="space")
    found = sheet_schema(read_space(space).space) if space is not None else SCHEMAS[what]()
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
