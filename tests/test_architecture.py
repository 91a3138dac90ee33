import re
from pathlib import Path

import pytest

from levers.errors import InvalidSettingError

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"


def test_the_skeletons_run_as_they_stand() -> None:
    names: dict[str, object] = {"__name__": "my_package"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        assert callable(test)
        test()
    load = names["load_from_elsewhere"]
    assert callable(load)
    with pytest.raises(InvalidSettingError, match="pip install"):
        load("oven", "sqlite:///none.db")


@pytest.mark.parametrize(
    "page", sorted([*PAGE.parent.rglob("*.md"), ROOT / "CONTRIBUTING.md"]), ids=lambda page: page.stem
)
def test_files_that_the_docs_name_are_there(page: Path) -> None:
    files = re.findall(r"`([\w./]+/\w+\.(?:py|css|md))`", page.read_text())
    places = (ROOT, ROOT / "src" / "levers", ROOT / "src" / "levers" / "core")
    assert [name for name in files if not any((place / name).exists() for place in places)] == []
