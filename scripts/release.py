"""Build the wheel and the sdist, check what is in them, and walk a stranger's path with the wheel alone.

    ./scripts/release [FOLDER]     (dist/ if not given)

The wheel must hold every file of the package and nothing else, the sdist what it takes to build the same wheel. Then
the wheel is installed into an empty environment, and the tutorials are run there, in empty folders without the source
tree: every command must print what the page says. pip gets packages from wherever it is set up to.
`./scripts/test --lowest` and `--newest` try the wheel with other versions of what it needs.
"""

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/levers"
EXTRAS = "dashboard,figures,client"
"""What the tutorials need."""
BESIDES = {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff", "PKG-INFO", ".gitignore"}
"""What an sdist has beside the package. The build tool adds the last two."""


def wrong_contents(wheel: Iterable[str], sdist: Iterable[str], package: Iterable[str]) -> list[str]:
    """What is missing in the wheel and the sdist, or too much, where `package` has the files under src/levers.

    >>> wrong_contents(["levers/a.py", "tests/b.py"], ["src/levers/a.py"], ["a.py", "c.css"])
    ['the wheel lacks levers/c.css', 'the wheel has tests/b.py', 'the sdist lacks src/levers/c.css']
    """
    inside, files = {name for name in wheel if ".dist-info/" not in name}, sorted(package)
    problems = [f"the wheel lacks levers/{name}" for name in files if f"levers/{name}" not in inside]
    problems += [f"the wheel has {name}" for name in sorted(inside - {f"levers/{name}" for name in files})]
    held = set(sdist) - BESIDES
    problems += [f"the sdist lacks {PACKAGE}/{name}" for name in files if f"{PACKAGE}/{name}" not in held]
    return problems + [f"the sdist has {name}" for name in sorted(held - {f"{PACKAGE}/{name}" for name in files})]


def run(*words: str | Path, cwd: Path = ROOT) -> None:
    """Run a program; when it fails, so do we."""
    ended = subprocess.run([str(word) for word in words], cwd=cwd, check=False)
    if ended.returncode:
        sys.exit(ended.returncode)


def environment(folder: Path, *packages: str) -> Path:
    """The Python of a new environment with these packages."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
    return python


def built(python: Path, source: Path, into: Path) -> tuple[Path, Path]:
    """The wheel and the sdist of a source tree."""
    run(python, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", into, cwd=source)
    [wheel], [sdist] = into.glob("*.whl"), into.glob("*.tar.gz")
    return wheel, sdist


def main(into: Path) -> None:
    """Build, check, install, run the tutorials."""
    into.mkdir(parents=True, exist_ok=True)
    for old in (*into.glob("levers-*.whl"), *into.glob("levers-*.tar.gz")):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="levers-release-") as draft:
        folder = Path(draft)
        builder = environment(folder / "builder", "hatchling>=1.24")
        wheel, sdist = built(builder, ROOT, into.resolve())
        with tarfile.open(sdist) as archive:
            archive.extractall(folder / "sdist", filter="data")
        [again] = (folder / "sdist").iterdir()
        known = subprocess.run(["git", "ls-files", PACKAGE], cwd=ROOT, capture_output=True, text=True, check=True)
        package = [name.removeprefix(f"{PACKAGE}/") for name in known.stdout.splitlines()]
        names = zipfile.ZipFile(wheel).namelist()
        problems = wrong_contents(names, [str(p.relative_to(again)) for p in again.rglob("*") if p.is_file()], package)
        second, _ = built(builder, again, folder / "again")
        if sorted(zipfile.ZipFile(second).namelist()) != sorted(names):
            problems.append("the sdist builds another wheel")
        if problems:
            sys.exit("\n".join(problems))
        sys.stdout.write(f"{wheel.name}: {len(names)} files; {sdist.name} builds the same\n")
        sys.stdout.flush()

        python = environment(folder / "empty", f"levers[{EXTRAS}] @ {wheel.as_uri()}")
        stranger = folder / "stranger"
        stranger.mkdir()
        tutorials = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
        for file in (ROOT / "tests" / "support" / "harness" / "tutorials.py", *tutorials):
            (stranger / file.name).write_bytes(file.read_bytes())
        run(python, "-P", "tutorials.py", *(page.name for page in tutorials), cwd=stranger)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist")
