"""A study that waits for somebody says for whom."""

import logging
import threading

import numpy as np
import pytest

import levers


def test_optimize_says_what_it_waits_for(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levers.studies.workers.loop._SAY_SO", 0.05)
    study = levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=1)
    mine = study.ask(worker="ann")[0]
    later = threading.Timer(0.6, study.tell, [mine, 1.0])
    later.start()
    with caplog.at_level(logging.WARNING, "levers"):
        assert study.optimize(lambda run: float(str(run["heat"]))) is not None
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "0 (ann)" in said[0]
    later.join()


def test_optimize_says_that_a_verdict_is_in_doubt(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(1)
    study = levers.create_study("oven", {"heat": [1, 2], "speed": [1, 2, 3]}, budget=60, noise_sd=1.0, seed=1)
    with caplog.at_level(logging.WARNING, "levers"):
        verdict = study.optimize(lambda run: 5.0 * float(rng.normal()))
    assert verdict is not None
    assert verdict.doubts
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert verdict.doubts[0].text in said[0]
    assert "Answer with correct, exclude, restate, go_on or finish" in said[0]


def test_a_setting_is_printed_with_its_names() -> None:
    setting = levers.Space.of({"heat": ["low", "high"], "speed": [1, 2]}).assignment([1, 0])
    assert str(setting) == "{'heat': 'high', 'speed': 1}"
