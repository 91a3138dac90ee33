import re
from pathlib import Path

import pytest

from levers.errors import InvalidSettingError

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
SOURCE = Path(__file__).parents[1] / "src" / "levers"


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


def test_the_files_on_the_map_are_there() -> None:
    files = re.findall(r"`([a-z_/]+/[a-z_]+\.py)`", PAGE.read_text())
    assert len(files) > 20
    assert [name for name in files if not (SOURCE / name).exists()] == []
