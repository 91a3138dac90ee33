"""Levers that influence each other: studied as one from the start, or from when it was noticed."""

import json
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

import levers
from levers.algorithms.base import Verdict
from levers.charts.drawings import CHARTS
from levers.charts.html import page_text
from levers.charts.report import study_report
from levers.charts.view import StudyView
from levers.cli.app import app
from levers.core.merging import Merging, merged_groups
from levers.core.space import Level, Space
from levers.errors import InvalidSpaceError, StudyError, StudyExistsError
from levers.studies.analysis.diagnostics import additivity
from levers.studies.space_text import parse_space
from levers.studies.study import Study

FACTORS: dict[str, list[Level]] = {
    "heat": ["low", "mid", "high"],
    "speed": [1, 2, 3],
    "belt": ["A", "B"],
    "shift": ["day", "night"],
}
SPACE = Space.of(FACTORS)


def truth(run: dict[str, object]) -> float:
    """The best setting is high and 3 together; each alone is bad."""
    together = 1.5 * (run["heat"] == "high" and run["speed"] == 3)
    return together + 0.6 * (run["heat"] == "low") + 0.5 * (run["speed"] == 1) + 0.4 * (run["belt"] == "B")


def noisy(seed: int) -> Callable[[object], float]:
    rng = np.random.default_rng(seed)
    return lambda run: truth(dict(run)) + 0.7 * float(rng.normal())  # type: ignore[call-overload]


def oven(name: str = "oven", storage: str | None = None, **options: object) -> Study:
    given = {"tolerance": 0.4, "noise_sd": 0.7, "seed": 1, **options}
    return levers.create_study(name, FACTORS, storage=storage, **given)  # type: ignore[arg-type]


def finish(study: Study, seed: int) -> Verdict:
    """To the verdict, block by block, which is much faster than run by run."""
    outcome = noisy(seed)
    while not study.is_finished:
        study.tell_many([(trial, outcome(trial.params)) for trial in study.ask(10_000)])
    found = study.verdict()
    assert found is not None
    return found


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/levers.db"


def test_merged_levers_are_one_lever_of_all_combinations() -> None:
    merging = Merging.of(SPACE, (), (("speed", "heat"),))
    assert merging.inner.names == ("heat + speed", "belt", "shift")
    assert merging.inner.n_levels == (9, 2, 2)
    codes = np.array([[8, 1, 0], [3, 0, 1]], dtype=np.int16)
    assert (merging.contract(merging.expand(codes)) == codes).all()
    both = Merging.of(SPACE, ((("heat", "high"), ("speed", 3)),), (("speed", "belt"),))
    assert both.inner.names == ("heat + speed + belt", "shift")  # tied by one reason or the other
    assert both.inner.n_levels == (16, 2)


@pytest.mark.parametrize(
    "groups", [["heat"], [["heat"]], [["heat", "heat"]], [["heat", "oven"]], [3], [[["heat"], ["speed"]]]]
)
def test_groups_that_make_no_sense_are_refused(groups: list[object]) -> None:
    with pytest.raises(InvalidSpaceError):
        merged_groups(SPACE, groups)  # type: ignore[arg-type]
    with pytest.raises(InvalidSpaceError):
        oven(merged=groups)


def test_too_many_combinations_are_refused_before_anything_is_stored(storage: str) -> None:
    wide = {name: list(range(7)) for name in "abc"}
    with pytest.raises(InvalidSpaceError, match="343 combinations, more than 256"):
        levers.create_study("wide", wide, tolerance=1.0, merged=[["a", "b", "c"]], storage=storage)
    for n in (63, 64, 65):  # two to the power of 64 is nothing to a machine word
        many = {f"x{i}": [0, 1] for i in range(n)}
        with pytest.raises(InvalidSpaceError, match="combinations, more than 256"):
            levers.create_study("many", many, tolerance=1.0, merged=[list(many)], storage=storage)
    assert levers.list_studies(storage) == []


def test_names_and_levels_that_collide_are_told_apart() -> None:
    space = Space.of({"a": ["x", "x, y"], "b": ["y, z", "z"], "a + b": [1, 2]})
    inner = Merging.of(space, (), (("a", "b"),)).inner
    assert inner.names == ("a + b (merged)", "a + b")
    assert inner.factors[0].levels == ("'x', 'y, z'", "'x', 'z'", "'x, y', 'y, z'", "'x, y', 'z'")


def test_each_group_says_why_it_is_one_lever() -> None:
    study = oven(merged=[["belt", "shift"]], forbidden=[{"heat": "high", "speed": 3}])
    guarantee = finish(study, 2).statement
    assert "heat and speed are chosen together, among the combinations allowed; their effects add up" in guarantee
    assert "belt + shift studied as one lever, because of what they do to each other" in guarantee


def test_a_study_with_merged_levers_finds_what_they_do_together(storage: str) -> None:
    study = oven(storage=storage, merged=[["heat", "speed"]])
    verdict = finish(study, 3)
    assert dict(verdict.assignment) | {"shift": None} == {"heat": "high", "speed": 3, "belt": "B", "shift": None}
    assert "heat + speed studied as one lever, because of what they do to each other" in verdict.statement
    again = levers.load_study("oven", storage)
    assert again.spec.merged == (("heat", "speed"),)
    assert again.verdict() == verdict
    assert {row.factor for row in again.effects()} == {"heat + speed", "belt", "shift"}


def test_a_study_goes_on_with_its_runs_when_levers_turn_out_to_interact(storage: str) -> None:
    old = oven(storage=storage, tolerance=0.25)  # runs enough for the interaction to show
    finish(old, 0)
    found = additivity(old.state)
    assert found.in_doubt
    assert "levers merge" in found.summary
    new = levers.merge_study("oven", "oven 2", ["heat", "speed"], storage, seed=3, who="ann")
    assert [len(past.values) for past in new.state.past] == [block.n_runs for block in old.state.blocks]
    assert new.state.past[0].note == "round 1 of oven"
    assert new.status().n_complete == 0
    assert new.spec.options == old.spec.options
    verdict = finish(new, 5)
    assert truth(dict(verdict.assignment)) == 1.9
    assert dict(verdict.runs_by_stage)["past data"] == old.status().n_complete
    afresh = finish(oven("afresh", seed=3, tolerance=0.25, merged=[["heat", "speed"]]), 5)
    assert verdict.n_runs < 0.95 * afresh.n_runs  # the old runs were not made for nothing, see the next test
    assert levers.load_study("oven", storage).verdict() == old.verdict()  # the old study is as it was


@cache
def verdict_after_merge(seed: int) -> Verdict:
    """Of a study that went on with two levers as one, and the runs of the study before."""
    old = oven("old", seed=seed)
    finish(old, seed)
    return finish(levers.merge_study("old", "new", ["heat", "speed"], old.storage, seed=seed), 1000 + seed)


def test_old_runs_save_new_ones() -> None:
    with_past, without = 0, 0
    for seed in range(8):
        with_past += verdict_after_merge(seed).n_runs
        without += finish(oven("fresh", seed=seed, merged=[["heat", "speed"]]), 1000 + seed).n_runs
    assert with_past < 0.9 * without


def test_the_promise_holds_after_a_merge() -> None:
    n, failed = 26, 0
    for seed in range(n):
        failed += 1.9 - truth(dict(verdict_after_merge(seed).assignment)) > 0.4
    assert failed <= binom.ppf(0.999, n, 0.1)


def test_the_promise_holds_where_the_old_runs_decide() -> None:
    """Studies most of whose runs are often old ones, so that what is certified rests on them."""
    n, failed, mostly_old = 26, 0, 0
    space: dict[str, list[Level]] = {name: [0, 1] for name in "abc"}
    for seed in range(n):
        rng = np.random.default_rng(seed)

        def finished(study: Study, rng: np.random.Generator = rng) -> Verdict:
            while not study.is_finished:
                runs = [(t, dict(t.params)) for t in study.ask(10_000)]
                study.tell_many([(t, value(run) + 0.5 * float(rng.normal())) for t, run in runs])
            found = study.verdict()
            assert found is not None
            return found

        old = levers.create_study("old", space, tolerance=0.2, noise_sd=0.5, seed=seed)
        finished(old)
        verdict = finished(levers.merge_study("old", "new", ["a", "b"], old.storage, seed=seed))
        mostly_old += dict(verdict.runs_by_stage)["past data"] > verdict.n_runs
        failed += 4.5 - value(dict(verdict.assignment)) > 0.2
        assert "merged because of these very runs is not accounted for" in verdict.statement
    assert mostly_old > n / 3
    assert failed <= binom.ppf(0.999, n, 0.1)


def value(run: dict[str, Level]) -> float:
    return 3.0 * (run["a"] == run["b"]) + 0.5 * (run["a"] == 1) + (run["c"] == 1)


def test_what_is_known_of_parents_stays_true_when_levers_are_merged(storage: str) -> None:
    oven(storage=storage, max_parents=4)
    assert dict(levers.merge_study("oven", "b", ["heat", "speed"], storage).spec.options)["max_parents"] == 3
    oven("two", storage, max_parents=2)
    assert dict(levers.merge_study("two", "c", ["heat", "speed"], storage).spec.options)["max_parents"] == 2


def test_only_what_can_be_merged_is_advised() -> None:
    modl = oven("modl", algorithm="modl", tolerance=1.5)
    rng = np.random.default_rng(0)
    while not modl.is_finished:
        trials = modl.ask(10_000)
        modl.tell_many([(t, 3 * truth(dict(t.params)) + 0.1 * float(rng.normal())) for t in trials])
    found = additivity(modl.state)
    assert "heat and speed seem to interact" in found.summary
    assert "study them as one lever of 9 combinations" in found.summary
    assert "levers merge" not in found.summary


def test_runs_of_an_open_block_and_imports_go_along_and_failures_do_not(storage: str) -> None:
    old = oven(storage=storage)
    old.import_runs([{"heat": "low", "speed": 1, "belt": "A", "shift": "day"}], [1.0], "last year")
    trials = old.ask(6)
    for trial in trials[:4]:
        old.tell(trial.number, 2.0)
    old.fail(trials[4].number, "power cut")
    old.correct(trials[0].number, 3.0, "typing error")
    new = levers.merge_study("oven", "new", ["heat", "speed"], storage)
    assert [past.note for past in new.state.past] == ["last year", "round 1 of oven"]
    assert sorted(new.state.past[1].values) == [2.0, 2.0, 2.0, 3.0]
    twice = levers.merge_study("new", "newer", ["belt", "heat"], storage)
    assert twice.spec.merging.inner.names == ("heat + speed + belt", "shift")
    assert [past.note for past in twice.state.past] == ["last year", "round 1 of oven"]


def test_what_cannot_be_merged_is_refused_and_nothing_is_made(storage: str) -> None:
    oven(storage=storage)
    oven("modl", storage, algorithm="modl", noise_sd=0.7)
    oven("capped", storage, tolerance=None, budget=200)
    oven("joint", storage, merged=[["heat", "speed"]])
    for arguments, error, message in (
        (("oven", "oven", ["heat", "speed"]), StudyExistsError, "oven"),
        (("oven", "b", ["heat"]), InvalidSpaceError, "two or more"),
        (("oven", "b", ["heat", "x"]), InvalidSpaceError, "x"),
        (("modl", "b", ["heat", "speed"]), StudyError, "did not ask for"),
        (("joint", "b", ["speed", "heat"]), StudyError, "speed and heat are one lever already"),
        (("capped", "b", ["heat", "speed"]), StudyError, "give one for the runs from here on"),
    ):
        with pytest.raises(error, match=message):
            levers.merge_study(*arguments, storage)
    with pytest.raises(StudyError, match="leave it out"):
        levers.merge_study("oven", "b", ["heat", "speed"], storage, budget=50)
    assert levers.list_studies(storage) == ["oven", "modl", "capped", "joint"]
    assert dict(levers.merge_study("capped", "b", ["heat", "speed"], storage, budget=90).spec.options)["budget"] == 90


def test_space_files_name_merged_levers() -> None:
    text = 'merged = [["heat", "speed"]]\n[factors]\nheat = ["low", "high"]\nspeed = [1, 2]'
    assert parse_space(text).merged == [["heat", "speed"]]
    both = json.dumps({"factors": {"heat": ["low", "high"], "speed": [1, 2]}, "merged": [["heat", "speed"]]})
    assert parse_space(both, is_json=True).merged == [["heat", "speed"]]
    with pytest.raises(InvalidSpaceError, match="merged in the space file must be a list"):
        parse_space('merged = "heat"\n[factors]\nheat = ["low", "high"]')


def test_the_command_line_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEVERS_STORAGE", raising=False)

    def run(command: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, shlex.split(command))
        return result.exit_code, result.output

    levels = "--factor heat=low,mid,high --factor speed=1,2,3 --factor belt=A,B"
    assert run(f"create oven {levels} --tolerance .4 --noise-sd .7 --seed 1")[0] == 0
    assert run("ask oven -n 3")[0] == 0
    assert run("tell oven 0 1.5")[0] == 0
    code, said = run("merge oven oven-2 heat,speed --seed 4")
    assert code == 0
    assert "heat + speed as one lever of 9 levels, with 1 run of 'oven' as evidence" in said
    assert "levers ask oven-2" in said
    code, said = run("merge oven-2 oven-4 belt,heat")
    assert "heat + speed + belt as one lever of 18 levels" in said
    assert run("""create commas --factor 'a=1,2' --factor 'b c=1,2' --merge 'a,"b c",' --tolerance 1""")[0] == 0
    wrong = CliRunner().invoke(app, ["merge", "oven", "oven-3", "heat"])
    assert isinstance(wrong.exception, InvalidSpaceError)
    assert run(f"create joint {levels} --merge heat,speed --tolerance .4 --noise-sd .7")[0] == 0
    assert levers.load_study("joint", "sqlite:///levers.db").spec.merged == (("heat", "speed"),)


@pytest.mark.parametrize(
    "given", [{"tolerance": 0.4, "noise_sd": 0.5}, {"budget": 80}, {"budget": 80, "aim": "certify"}]
)
def test_a_lever_that_is_only_tied_to_one_that_matters_is_not_shown_to(given: dict[str, Any]) -> None:
    """All levers of a group were named, in every study; now none without effect may be, but with 10 %."""
    space: dict[str, list[Level]] = {
        "a": ["x", "y", "z"],
        "b": [1, 2, 3],
        "c": [True, False],
        "d": [0.5, 1.5, 2.5, 4.0],
    }
    n, wrong = 8, 0
    for seed in range(n):
        rng = np.random.default_rng(seed)
        verdict = levers.optimize(
            lambda run, r=rng: 1.0 * (run["a"] == "y") + 0.5 * r.normal(),  # type: ignore[misc]
            space, seed=seed, forbidden=[{"a": "x", "d": 0.5}], **given,
        )  # fmt: skip
        assert verdict.parents is not None
        assert "a" in verdict.parents
        wrong += verdict.parents != ("a",)
    assert wrong <= binom.ppf(0.999, n, 0.1)


TIED: dict[str, list[Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4], "belt": ["A", "B"]}


def test_page_status_and_verdict_name_the_same_levers(storage: str) -> None:
    """Only a combination that differs in both levers is shown to be worse here: one of the two matters, or both do."""
    forbidden: list[dict[str, Level]] = [{"heat": "high", "speed": 4}]
    study = levers.create_study("tied", TIED, budget=24, noise_sd=1.0, seed=0, forbidden=forbidden, storage=storage)
    rng = np.random.default_rng(0)
    while due := study.ask(200):
        means = (2.2 * (t.params["heat"] == "high") + 2.2 * (t.params["speed"] == 4) for t in due)
        study.tell_many((t, mean + float(rng.normal())) for t, mean in zip(due, list(means), strict=True))
    verdict = study.verdict()
    assert verdict.parents == ()
    assert verdict.parents_together == (("heat", "speed"),)
    assert set(verdict.on_parents) == {"heat", "speed"}
    page = CHARTS["evidence"].facts(StudyView("tied", study.state))
    assert page.alt.endswith("Shown to matter: heat + speed.")
    report = page_text(study_report(study))
    assert "Shown to matter: heat + speed." in report
    assert "heat: shown together with speed, not by itself (p = 0.0" in report
    said = CliRunner().invoke(app, ["verdict", "tied", "--storage", storage])
    assert "not by itself" in said.stdout
    assert said.stdout.count("not shown at this level") == 1  # the belt, which does nothing
    assert "heat: not shown" not in report
    effects = CliRunner().invoke(app, ["effects", "tied", "--storage", storage]).stdout
    assert "each by itself" in effects
    assert "each by itself" in report


def test_the_advice_to_merge_counts_what_is_merged_with_it() -> None:
    """Of three levers of which two are tied, the pair of the third with one of them makes one lever of all three."""
    space: dict[str, list[Level]] = {"resin": ["a", "b", "c"], "cooling": [1, 2], "mould": ["x", "y", "z"]}
    forbidden: list[dict[str, Level]] = [{"resin": "c", "mould": "z"}]
    study = levers.create_study("tied", space, tolerance=1.0, noise_sd=1.0, seed=2, forbidden=forbidden)
    rng = np.random.default_rng(2)
    while due := study.ask(200):
        works = [4.0 * (t.params["resin"] == "a") * (t.params["cooling"] == 2) for t in due]
        study.tell_many((t, mean + float(rng.normal())) for t, mean in zip(due, works, strict=True))
    (doubt,) = (one for one in study.status().doubts if one.kind == "additivity")
    assert set(doubt.levers) == {"resin", "cooling"}
    merged = levers.create_study("all", space, budget=40, forbidden=forbidden, merged=[("resin", "cooling")])
    assert f"one lever of {merged.state.spec.inner.n_levels[0]} combinations" in doubt.text
