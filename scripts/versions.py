"""Whether pyproject.toml is true: a fresh environment with the lowest versions it declares, or the newest there are.

    python scripts/versions.py lowest      (also: ./scripts/test --lowest)
    python scripts/versions.py newest      (also: ./scripts/test --newest)

The package is built as a wheel and installed, so that a file which the wheel lacks is missed here. Every package that
pyproject.toml names is pinned to its lower bound, or to nothing; what these packages need themselves is pip's choice.
Then tests/smoke/smoke.py runs there. pip gets packages from wherever it is set up to. LEVERS_VERSIONS_FOLDER keeps the
environment in that folder; otherwise it goes away. Exit code 75: pip found no such versions.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOT_THERE = 75
"""The exit code where pip does not find the lowest versions: that says nothing about this package."""
EXTRA = "all"
LEFT_OUT = ("mcp",)
"""Extras that are not tried: the package for agents needs newer versions than everything else can do with."""
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?P<extras>\[[\w,-]+\])?>=(?P<version>[\w.]+)")


def requirements(project: dict[str, object], extra: str = EXTRA) -> list[str]:
    """Every package that the project and one of its extras name, with those of the extras which that one names.

    >>> requirements({"name": "x", "dependencies": ["a>=1"], "optional-dependencies": {"all": ["x[b]"], "b": ["c>=2"]}})
    ['a>=1', 'c>=2']
    """
    found, extras = list(project["dependencies"]), [extra]  # type: ignore[call-overload]
    own = re.compile(rf"{re.escape(str(project['name']))}\[([\w,-]+)\]")
    while extras:
        for one in project["optional-dependencies"][extras.pop(0)]:  # type: ignore[index]
            named = own.fullmatch(one)
            if named:
                extras += [one for one in named[1].split(",") if one not in LEFT_OUT]
            else:
                found.append(one)
    return found


def pinned(requirement: str) -> str:
    """A requirement at its lower bound.

    >>> pinned("psycopg[binary]>=3.2.1")
    'psycopg[binary]==3.2.1'
    """
    found = _REQUIREMENT.fullmatch(requirement)
    if found is None:
        sys.exit(f"{requirement!r} in pyproject.toml has no plain lower bound: write name>=version")
    return f"{found['name']}{found['extras'] or ''}=={found['version']}"


def run(*words: str | Path, **more: object) -> None:
    """Run a program; when it fails, so do we."""
    ended = subprocess.run([str(word) for word in words], check=False, **more)  # type: ignore[call-overload]
    if ended.returncode:
        sys.exit(ended.returncode)


def main(which: str) -> None:
    """Make the environment, and run the smoke test in it."""
    if which not in ("lowest", "newest"):
        sys.exit("usage: versions.py lowest | newest")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = requirements(project)
    wanted = [pinned(one) for one in wanted] if which == "lowest" else wanted
    kept = os.environ.get("LEVERS_VERSIONS_FOLDER")
    with tempfile.TemporaryDirectory(prefix="levers-versions-") as draft:
        folder, began = Path(kept or draft), time.monotonic()
        python, wheels = folder / "venv" / "bin" / "python", folder / "wheels"
        run(sys.executable, "-m", "venv", "--clear", folder / "venv")
        quiet = ("-q", "--disable-pip-version-check")
        run(python, "-m", "pip", "wheel", *quiet, "--no-deps", "-w", wheels, ROOT)
        how = ("--upgrade", "--upgrade-strategy", "eager") if which == "newest" else ()
        words = [python, "-m", "pip", "install", *quiet, *how, *wanted]
        found = subprocess.run(words, check=False, stderr=subprocess.PIPE, text=True)
        sys.stderr.write("".join(line for line in found.stderr.splitlines(True) if not line.startswith("WARNING")))
        if found.returncode:
            sys.stderr.write(f"pip cannot install the {which} versions here, so nothing was tried\n")
            # bounds that contradict each other are this package's fault; an index without these versions is not
            sys.exit(1 if "ResolutionImpossible" in found.stderr else NOT_THERE)
        (wheel,) = wheels.glob("*.whl")
        run(python, "-m", "pip", "install", *quiet, "--no-deps", "--force-reinstall", wheel)
        run(python, "-m", "pip", "check", *quiet[1:])
        sys.stdout.write(f"{which} versions, installed in {time.monotonic() - began:.0f} s: {' '.join(wanted)}\n")
        sys.stdout.flush()
        # the tests' harness, and not src: what is tested is what was installed
        run(python, ROOT / "tests/smoke/smoke.py", env={**os.environ, "PYTHONPATH": str(ROOT / "tests/support")})


if __name__ == "__main__":
    main(*sys.argv[1:2] or [""])
