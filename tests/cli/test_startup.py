"""What starting brings along: a command is used many times a day, so it loads only what it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

import levers
from levers.cli.app import COMMANDS, load_command

HEAVY = {"joblib", "networkx", "polars", "sqlalchemy", "alembic", "matplotlib", "rich", "typer", "httpx", "fastapi"}
COMMAND = """
import sys
sys.argv[1:] = {words}
from levers.cli.app import main
try:
    main()
except SystemExit as end:
    assert not end.code
"""
STUDY: dict[str, list[levers.Level]] = {"heat": ["low", "high"], "speed": [1, 2, 3]}


def loaded(code: str, folder: Path) -> set[str]:
    """The modules that a process has loaded in the end."""
    code += "\nimport sys; print('loaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_importing_levers_loads_numpy_and_scipy_at_most(tmp_path: Path) -> None:
    assert not HEAVY & loaded("import levers", tmp_path)
    assert not HEAVY & loaded("import levers; levers.Space, levers.optimize, levers.Verdict", tmp_path)


def test_the_version_needs_no_numpy(tmp_path: Path) -> None:
    found = loaded(COMMAND.format(words=["--version"]), tmp_path)
    assert not {"numpy", "scipy", "sqlalchemy", "rich"} & found
    assert not {name for name in found if name.startswith(("levers.core", "levers.algorithms", "levers.studies"))}


def test_listing_studies_loads_what_it_reads_them_with(tmp_path: Path) -> None:
    levers.create_study("oven", STUDY, tolerance=1.0, noise_sd=1.0, storage=f"sqlite:///{tmp_path}/levers.db")
    found = loaded(COMMAND.format(words=["studies"]), tmp_path)
    unwanted = {"joblib", "networkx", "polars", "alembic", "matplotlib", "scipy.stats", "scipy.optimize", "httpx"}
    assert "sqlalchemy" in found
    assert not unwanted & found


def test_every_public_name_is_there() -> None:
    for name in levers.__all__:
        assert getattr(levers, name) is not None
    assert set(levers.__all__) <= set(dir(levers))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = levers.nothing


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    command = load_command(name)
    assert command.help.partition("\n\n")[0].replace("\n", " ") == COMMANDS[name][1]
