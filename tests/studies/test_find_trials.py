"""Trials by filter and order: the same as polars finds in the frame of all trials."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from levers.core.space import Level
from levers.errors import LeversError
from levers.studies.analysis.tables import trials_frame
from levers.studies.analysis.trials import COLUMNS, HANDED_OUT, TrialFilter, find_trials, level_codes_of
from levers.studies.library import create_study
from levers.studies.sheets.cells import level_texts
from levers.studies.state import TrialState
from levers.studies.study import Study

SPACE: dict[str, list[Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4]}


def mixed() -> Study:
    study = create_study("oven", SPACE, tolerance=0.3, noise_sd=1.0, seed=1, who="ann")
    rng = np.random.default_rng(2)
    for i in range(200):
        trials = study.by(("ann", "bob")[i % 2]).ask(2)
        for trial in trials[: 1 + i % 2]:
            study.tell(trial, round(float(rng.normal()), 1))
        if i % 14 == 0 and len(trials) == 2:
            study.fail(trials[1], "x")
    return study


def test_trials_equal_the_frame() -> None:
    study = mixed()
    state, frame = study.frozen(), trials_frame(study.state)
    texts = {f.name: level_texts(f) for f in study.space.factors}
    for k, factor in enumerate(study.space.factors):
        found = [texts[factor.name][code] for code in level_codes_of(state, k)]
        assert found == [str(level) for level in frame[factor.name]]
    wants = [
        TrialFilter(),
        TrialFilter(HANDED_OUT),
        TrialFilter("COMPLETE", "bob"),
        TrialFilter(factor="heat", level="mid"),
        TrialFilter("FAIL"),
        TrialFilter(block=2),
    ]
    for want in wants:
        kept = frame
        if want.block is not None:
            kept = kept.filter(pl.col("block") == want.block)
        if want.state == HANDED_OUT:
            kept = kept.filter(pl.col("state") != "WAITING")
        elif want.state != "all":
            kept = kept.filter(pl.col("state") == want.state)
        if want.worker:
            kept = kept.filter(pl.col("worker") == want.worker)
        if want.factor:
            kept = kept.filter(pl.col(want.factor) == want.level)
        for sort in COLUMNS:
            for down in (False, True):
                ordered = kept
                if sort == "state":
                    ordered = kept.with_columns(
                        state=pl.col("state").replace_strict({s.name: int(s) for s in TrialState})
                    )
                ordered = ordered.sort([sort, "trial"] if sort != "trial" else ["trial"], nulls_last=True,
                                       descending=[down, False] if sort != "trial" else [down])  # fmt: skip
                got = find_trials(state, replace(want, sort=sort, descending=down))
                assert got.tolist() == ordered["trial"].to_list(), (want, sort, down)
    by_factor = [find_trials(state, TrialFilter(sort=sort)).tolist() for sort in ("speed", "factor:speed")]
    assert by_factor[0] == by_factor[1] == frame.sort("speed", maintain_order=True)["trial"].to_list()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (TrialFilter("x"), "there is no state 'x'; there are handed out, all, WAITING"),
        (TrialFilter(sort="x"), "cannot be sorted by 'x'; there are trial, block"),
        (TrialFilter(sort="factor:x"), "there is no factor 'x'"),
        (TrialFilter(factor="heat", level="x"), "'x' is not a level of 'heat'"),
    ],
)
def test_what_there_is_not_is_said(wanted: TrialFilter, message: str) -> None:
    with pytest.raises(LeversError, match=message):
        find_trials(mixed().state, wanted)
