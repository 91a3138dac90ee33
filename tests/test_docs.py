"""Nothing goes undocumented, and links between pages lead somewhere, on the site and on GitHub."""

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import levers
from levers.cli.app import load_command

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(page for page in ROOT.glob("docs/**/*.md") if "reference" not in page.parts)])


def module_of_docs(name: str) -> ModuleType:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return __import__(name)
    finally:
        sys.path.pop(0)


references = module_of_docs("references")
build = module_of_docs("build")


def missing(wanted: list[str], text: str) -> list[str]:
    """The names that a text does not have as words of their own."""
    return [name for name in wanted if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]


@pytest.fixture(scope="module")
def by_hand() -> str:
    return "\n".join(page.read_text() for page in PAGES if page.name != "CHANGELOG.md")


def test_every_command_is_shown_at_work_on_a_page(by_hand: str) -> None:
    commands = [f"levers {' '.join(words)}" for words in references.command_names()]
    assert missing(commands, by_hand) == []


def test_the_reference_has_every_command_with_all_its_options() -> None:
    page = references.commands()
    for words in references.command_names():
        section = "".join(page.split(f"## levers {' '.join(words)}\n")[1].split("\n## ")[0].split())
        command = load_command(words[0])
        command = command.commands[words[1]] if words[1:] else command
        assert command.help, words
        for option in command.params:
            assert option.help, f"{words} {option.name} has no help"
            assert "".join(option.help.split()) in section, f"{words} {option.name} is missing"


def test_the_reference_has_every_public_name() -> None:
    page = references.python()
    assert missing([f"levers.{name}" for name in levers.__all__], page) == []
    assert sorted(name for names in references.GROUPS.values() for name in names) == sorted(
        set(levers.__all__) - {"LeversError"}
    ), "a new name goes into a group of docs/references.py"


@pytest.mark.parametrize("name", sorted(levers.__all__))
def test_a_public_name_says_what_it_is(name: str) -> None:
    value = getattr(levers, name)
    if not isinstance(value, type):
        assert value.__doc__
        return
    said = value.__dict__.get("__doc__")
    assert said
    assert not said.startswith(f"{name}("), "that is what a dataclass writes where nobody has"
    silent = [
        key
        for key, member in inspect.getmembers(value)
        if not key.startswith("_") and key in value.__dict__ and (callable(member) or isinstance(member, property))
        if not inspect.getdoc(member)
    ]
    assert silent == []


def test_the_reference_has_every_operation_with_all_it_takes() -> None:
    document = references.document()
    page = references.http()
    for path, ways in document["paths"].items():
        for how, one in ways.items():
            section = page.split(f"`{how.upper()} {path}` (`{one['operationId']}`)\n")[1].split("\n### ")[0]
            assert {"summary", "description"} <= set(one), f"{how} {path} does not say what it does"
            for parameter in one.get("parameters", ()):
                assert parameter["in"] == "path" or parameter.get("description"), f"{how} {path}: {parameter['name']}"
                assert parameter["name"] in section


def places(page: str) -> set[str]:
    """The places of a page as GitHub names them, from its headings."""
    code = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    headings = [re.sub(r"[^\w\- ]", "", text.lower()) for text in re.findall(r"^#+ (.*?)\s*$", code, re.MULTILINE)]
    return {heading.strip().replace(" ", "-") for heading in headings}


def dead(page: Path) -> list[str]:
    """The links of a page to files and places that are not there."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", link):
            continue
        path, _, place = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (place and place not in places(target.read_text())):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_places_that_exist(page: Path) -> None:
    assert dead(page) == []


def test_dead_links_are_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n[a](page.md#a-page) [b](page.md#b) [c](none.md) [d](https://none.example/x)\n")
    assert dead(page) == ["page.md#b", "none.md"]


def test_the_site_is_searched_for_dead_links_and_for_what_it_loads_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="top"><a href="b.html#end">b</a> <a href="b.html#no">b</a> <a href="c.html">c</a> '
        '<a href="https://none.example">far</a> <a href="#top">up</a><script src="https://none.example/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<p id="end">')
    assert build.dead_links(tmp_path) == [
        "a.html: there is no place b.html#no",
        "a.html: there is no c.html",
        "a.html: loads https://none.example/x.js",
    ]


def prose(page: Path) -> list[tuple[int, str]]:
    """A page's lines with their numbers, without code, tables, formulas and what holds an address."""
    lines, in_code = [], False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        in_code ^= line.lstrip().startswith("```")
        if not in_code and "http" not in line and not line.lstrip().startswith(("|", "$$")):
            lines.append((number, line))
    return lines


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "reproduction"], ids=lambda p: p.stem)
def test_lines_of_prose_are_short(page: Path) -> None:
    """Pages of the reproduction are written by the command that makes them."""
    assert [number for number, line in prose(page) if len(line) > 120] == []
