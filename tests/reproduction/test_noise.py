"""The paper's experiments with noise of other shapes than its own."""

import json
from pathlib import Path

import pytest

from levers.errors import InvalidSettingError
from levers.reproduction.claims import check_claims
from levers.reproduction.evidence import AGREES, NOT_MEASURED
from levers.reproduction.report import again
from levers.reproduction.run import all_tasks, reproduce
from levers.reproduction.sweeps import MANY_RUNS, SWEEPS
from levers.reproduction.tasks import run_task
from levers.worlds.outcome import BERNOULLI, NOISES


@pytest.mark.parametrize("noise", [*NOISES[1:], BERNOULLI])
def test_a_task_has_the_noise_that_was_asked_for(noise: str) -> None:
    first = {kind: run_task(all_tasks("elimination", "smoke", noise=kind)[1][0]) for kind in (NOISES[0], noise)}
    runs = [[(row.contender, row.n_runs, row.gap) for row in rows] for rows in first.values()]
    assert runs[0] != runs[1], "the outcomes are the same ones"
    assert [row.contender for row in first[noise]] == [row.contender for row in first[NOISES[0]]]


def test_lines_of_millions_of_runs_are_left_out(tmp_path: Path) -> None:
    found = reproduce("gaps", tmp_path, size="smoke", noise="two-point")
    many = {one.label for one in MANY_RUNS}
    assert many <= {one.label for one in SWEEPS["gaps"].points["smoke"][0].contenders}
    assert not many & set(found.runs["contender"])
    assert "modl" in set(found.runs["contender"])
    assert "--noise two-point" in again(found)
    claims = check_claims(found)
    assert {claim.verdict for claim in claims if "(proof)" in claim.name} == {NOT_MEASURED}
    assert not any(claim.name.startswith(AGREES) for claim in claims)
    with pytest.raises(InvalidSettingError, match="results of other settings"):
        reproduce("gaps", tmp_path, size="smoke")


def test_a_folder_from_before_holds_gaussian_results(tmp_path: Path) -> None:
    reproduce("gaps", tmp_path, size="smoke")
    path = tmp_path / "settings.json"
    path.write_text(
        json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != "noise"})
    )
    assert reproduce("gaps", tmp_path, size="smoke").n_resumed == 6


@pytest.mark.parametrize(("what", "noise"), [("hardness", "uniform"), ("interactions", BERNOULLI)])
def test_an_experiment_without_that_noise_is_refused(what: str, noise: str) -> None:
    with pytest.raises(InvalidSettingError, match=f"{what} has no {noise} noise; with it there are: parents, "):
        all_tasks(what, "smoke", noise=noise)
