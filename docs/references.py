"""The reference pages, from the code: every command, every HTTP operation, every public name.

`write_references` writes them as Markdown into docs/reference, which git ignores.
"""

import json
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import levers
from levers.cli.app import COMMANDS, app, load_command
from levers.cli.schema import SCHEMAS

PACKAGES = ("levers.worlds", "levers.integrations", "levers.testing")
"""Packages whose modules people import by name."""
MODULES = ("levers.errors",)
GROUPS = {
    "Values": ("Assignment", "Factor", "Level", "Space", "from_json", "to_json"),
    "Studies": (
        *("create_study", "load_study", "list_studies", "copy_study", "merge_study", "delete_study"),
        *("Study", "Trial", "TrialState", "MemoryStorage", "Client"),
    ),
    "Loops": ("optimize", "plan", "Plan", "run_on_world", "Comparison"),
    "Algorithms": (
        *("ALGORITHMS", "make_algorithm", "Algorithm", "Batch", "Problem", "Verdict", "run_to_verdict"),
        *("Verification", "verify"),
    ),
}
"""Public names in the order in which the reference has them; those that are in none of the groups come last."""


def write_references(folder: Path) -> None:
    """Write all pages; a page that is as before is left alone, so that Sphinx does not read it again."""
    folder.mkdir(exist_ok=True)
    for name, text in {"commands": commands(), "http": http(), "python": python(), "schemas": schemas()}.items():
        page = folder / f"{name}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def command_names() -> list[tuple[str, ...]]:
    """Every command that can be typed: `create`, `token create`, ...

    >>> ("token", "create") in command_names()
    True
    """
    found: list[tuple[str, ...]] = []
    for name in COMMANDS:
        inner = getattr(load_command(name), "commands", None)
        found += [(name,)] if inner is None else [(name, one) for one in inner]
    return found


def help_of(*words: str) -> str:
    """What `levers WORDS --help` prints."""
    width = {"COLUMNS": "100", "TERMINAL_WIDTH": "100"}
    result = CliRunner().invoke(app, [*words, "--help"], prog_name="levers", env=width)
    assert result.exit_code == 0, result.output
    return result.output


def commands() -> str:
    """Every command with its help, its arguments and its options."""
    parts = ["# Command line", "", "Made from the commands themselves: `levers COMMAND --help` says the same.", ""]
    parts += ["```text", help_of().strip(), "```", ""]
    for words in command_names():
        parts += [f"## levers {' '.join(words)}", "", *_command(help_of(*words)), ""]
    return "\n".join(parts)


def _command(text: str) -> Iterator[str]:
    """The help of one command as Markdown: sentences as such, examples, arguments and options as they are printed."""
    usage, rest = text.split("\n\n", 1)
    sentences, *lists = re.split(r"^(?=Arguments:|Options:)", rest, flags=re.MULTILINE)
    yield from ("```text", usage.strip(), "```", "")
    for part in re.split(r"\n\s*\n", sentences.strip("\n")):
        lines = [line.strip() for line in part.splitlines()]
        if lines and re.fullmatch(r"Examples?:", lines[0]):
            yield from ("```sh", *lines[1:], "```", "")
        else:
            yield from (*lines, "")
    yield from ("```text", "".join(lists).rstrip(), "```")


def document() -> dict[str, Any]:
    """The OpenAPI document that the service serves."""
    from starlette.testclient import TestClient

    from levers.web.app import make_app
    from levers.web.service import Service

    served = TestClient(make_app(Service(levers.MemoryStorage())), base_url="http://127.0.0.1")
    found: dict[str, Any] = served.get("/api/v1/openapi.json").json()
    return found


def http() -> str:
    """Every operation of the service with its parameters, body and answers, then the models."""
    found = document()
    parts = ["# HTTP", "", "Made from the OpenAPI document, which a service has at `/api/v1/openapi.json`.", ""]
    parts += ["[Studies over HTTP](../api.md) says how to use it: tokens, roles, errors, keys.", ""]
    operations = [(path, how, one) for path, ways in found["paths"].items() for how, one in ways.items()]
    for tag in dict.fromkeys(one["tags"][0] for _, _, one in operations):
        parts += [f"## {tag.capitalize()}", ""]
        for path, how, one in operations:
            if one["tags"][0] == tag:
                parts += [f"### {one['summary']}", "", f"`{how.upper()} {path}` (`{one['operationId']}`)", ""]
                parts += [*_operation(one), ""]
    parts += ["## Models", ""]
    for name, model in found["components"]["schemas"].items():
        parts += [f"(model-{name.lower()})=", f"### {name}", "", _line(model.get("description", "")), ""]
        if "properties" in model:
            needed = model.get("required", ())
            rows = [(key, _type(of), key in needed, of) for key, of in model["properties"].items()]
            parts += [*_table(rows), ""]
    return "\n".join(parts)


def _operation(one: dict[str, Any]) -> Iterator[str]:
    yield from (_line(one.get("description", "")), "")
    rows = [(f"{of['name']} ({of['in']})", _type(of["schema"]), of["required"], of) for of in one.get("parameters", ())]
    if rows:
        yield from (*_table(rows), "")
    if "requestBody" in one:
        bodies = [f"{_type(of.get('schema', {}))} as `{kind}`" for kind, of in one["requestBody"]["content"].items()]
        yield from (f"Body: {', or '.join(bodies)}.", "")
    good = {code: answer for code, answer in one["responses"].items() if code.startswith("2")}
    for code, answer in good.items():
        kinds = [f"{_type(of.get('schema', {}))} as `{kind}`" for kind, of in answer.get("content", {}).items()]
        yield f"Answer {code}: {', or '.join(kinds) or 'nothing'}. "
    yield f"Refusals: {', '.join(code for code in one['responses'] if code not in good)}."


def _table(rows: list[tuple[str, str, bool, dict[str, Any]]]) -> Iterator[str]:
    yield from ("| name | type | |", "|---|---|---|")
    for name, kind, needed, of in rows:
        said = [*(["required"] if needed else []), _line(of.get("description", ""))]
        default = of.get("default", of.get("schema", {}).get("default"))
        said += [f"default `{default}`"] if default not in (None, [], "") else []
        yield f"| `{name}` | {kind} | {'; '.join(one for one in said if one)} |"


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words, with links to models."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#model-{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[key]))
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "anything"))


def _line(text: str) -> str:
    """Text as one line of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def python() -> str:
    """Every public name with its signature and docstring, then the modules that people import by name."""
    groups = {**GROUPS, "More": tuple(name for name in levers.__all__ if not any(name in of for of in GROUPS.values()))}
    parts = ["# Python", "", "Everything here is `levers.NAME`, imported when it is first used.", ""]
    for title, names in groups.items():
        parts += [f"## {title}", "", *(line for name in names for line in _name(name))]
    parts += ["## Modules", "", "Imported by their names: `from levers.worlds.named import coin_world`.", ""]
    for module in modules():
        parts += [f"### {module}", "", *_rst(f".. automodule:: {module}", "   :members:")]
    return "\n".join(parts)


def modules() -> list[str]:
    """The modules that the reference has beside the public names."""
    inside = [(package, import_module(package).__path__) for package in PACKAGES]
    names = [*MODULES, *(f"{package}.{one.name}" for package, at in inside for one in pkgutil.iter_modules(at))]
    for name in names:  # autodoc imports with TYPE_CHECKING on, which the models of some packages do not survive
        import_module(name)
    return names


def _name(name: str) -> list[str]:
    value = getattr(levers, name)
    kind = "class" if isinstance(value, type) else "function" if callable(value) else "data"
    members = ["   :members:", "   :undoc-members:", "   :inherited-members: tuple, int, str, object"]
    return _rst(f".. auto{kind}:: levers.{name}", *(members[:1] if kind == "class" else []))


def _rst(*lines: str) -> list[str]:
    return ["```{eval-rst}", *lines, "```", ""]


def schemas() -> str:
    """The JSON Schemas that `levers schema` prints."""
    parts = ["# JSON Schemas", "", "`levers schema space|sheet|study` prints them, for editors and checks.", ""]
    for name, schema in SCHEMAS.items():
        parts += [f"## {name.capitalize()}", "", "```json", json.dumps(schema(), indent=2), "```", ""]
    return "\n".join(parts)
