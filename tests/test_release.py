"""What a release rests on: the files that say its version, the hooks, the workflow, and the check of the wheel."""

import re
import tomllib
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = util.spec_from_file_location("release", ROOT / "scripts" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_citation_is_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = dict(re.findall(r"^(\w+): (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert said["version"] == project["version"]
    assert said["license"] == project["license"]


def test_what_is_missing_is_installed_as_the_readme_says_and_by_extras_that_exist() -> None:
    sources = {path: path.read_text() for path in (ROOT / "src" / "levers").rglob("*.py")}
    assert [path for path, text in sources.items() if "pip install" in text] == [ROOT / "src" / "levers" / "errors.py"]
    assert "`pip install '.[all]'`" in (ROOT / "README.md").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {extra for text in sources.values() for extra in re.findall(r"to_install\('(\w+)'\)", text)}
    assert {"excel", "postgresql", "dashboard"} <= named <= extras.keys()


def test_a_wheel_with_too_little_or_too_much_is_noticed(release: ModuleType) -> None:
    package = ["py.typed", "charts/charts.css", "web/templates/base.html", "studies/storage/migrations/env.py"]
    wheel = [f"levers/{name}" for name in package] + ["levers-0.1.0.dist-info/METADATA"]
    sdist = [f"src/levers/{name}" for name in package] + ["pyproject.toml", "PKG-INFO"]
    assert release.wrong_contents(wheel, sdist, package) == []
    assert release.wrong_contents(wheel[1:], sdist, package) == ["the wheel lacks levers/py.typed"]
    assert release.wrong_contents([*wheel, "harness/postgres.py"], sdist, package) == [
        "the wheel has harness/postgres.py"
    ]
    assert release.wrong_contents(wheel, [*sdist[1:], "tests/test_docs.py"], package) == [
        "the sdist lacks src/levers/py.typed",
        "the sdist has tests/test_docs.py",
    ]


def test_the_workflow_runs_scripts_that_exist_and_needs_no_secret() -> None:
    text = WORKFLOW.read_text()
    scripts = re.findall(r"run: (\./scripts/\w+)", text)
    assert "./scripts/test" in scripts
    assert all((ROOT / script).stat().st_mode & 0o100 for script in scripts)
    assert "secrets." not in text


def test_hooks_download_nothing() -> None:
    assert re.findall(r"repo: (\S+)", (ROOT / ".pre-commit-config.yaml").read_text()) == ["local"]
