"""The paper's experiments from the command line."""

from pathlib import Path

import polars as pl
from typer.testing import CliRunner

from levers.cli.app import app
from levers.errors import InvalidSettingError
from levers.reproduction.results import SCHEMA


def test_an_experiment_from_run_to_report(tmp_path: Path) -> None:
    command = ["reproduce", "hardness", "--size", "smoke", "--workers", "1", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "exponential in the parents" in result.output
    runs = pl.read_csv(tmp_path / "out" / "results.csv", schema=SCHEMA)
    assert runs.equals(pl.read_parquet(tmp_path / "out" / "results.parquet"))
    assert set(runs["contender"]) == {"naive search", "modl", "cfs"}
    for name in ("report.html", "report.md", "figures/hardness.png", "figures/hardness.svg"):
        assert (tmp_path / "out" / name).stat().st_size > 500, name
    before = (tmp_path / "out" / "results.csv").read_bytes()
    assert CliRunner().invoke(app, command).exit_code == 0
    assert (tmp_path / "out" / "results.csv").read_bytes() == before


def test_wrong_input_says_what_to_do(tmp_path: Path) -> None:
    for wrong, message in (
        (["everything"], "must be one of all, parents"),
        (["all", "--size", "huge"], "smoke, notebook, paper"),
        (["all", "--workers", "0"], "workers"),
        (["all", "--seed", "-1"], "seed"),
    ):
        result = CliRunner().invoke(app, ["reproduce", *wrong, "-o", str(tmp_path / "out")])
        assert isinstance(result.exception, InvalidSettingError)
        assert message in str(result.exception)
