"""What people read: one word for a lever, all that was said about a study, one line where it cannot be served."""

import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import levers
from levers.cli import options
from levers.cli.app import app
from levers.errors import InvalidSettingError, StorageError
from levers.web.app import make_app
from levers.web.service import Service

SPACE: dict[str, list[str] | list[int]] = {
    "heat": ["low", "mid", "high"],
    "speed": [1, 2, 3],
    "fan": ["off", "on"],
    "tray": ["a", "b"],
}
KEPT = "for factors of four levels or more"
"""Part of verdicts that were stored, which do not change."""


@pytest.fixture(scope="module")
def pages() -> TestClient:
    storage = levers.MemoryStorage()
    study = levers.create_study(
        "oven",
        SPACE,
        budget=30,
        seed=1,
        forbidden=[{"heat": "high", "speed": 3}],
        merged=[["fan", "tray"]],
        storage=storage,
    )
    for _ in range(30):
        for trial in study.ask(10):
            study.tell(trial, float(trial.params["heat"] == "mid") + 0.1 * (trial.number % 7))
    assert study.is_finished or study.is_held
    return TestClient(make_app(Service(storage)), base_url="http://127.0.0.1")


def visible(html: str) -> str:
    """The text of a page, with what is read aloud of its pictures."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", html.split("<body", 1)[1], flags=re.DOTALL)
    labels = re.findall(r'(?:aria-label|alt|placeholder|data-label|title)="([^"]*)"', body)
    return " ".join([re.sub(r"<[^>]*>", " ", body), *labels])


@pytest.mark.parametrize("page", ["", "new", "oven", "oven/trials", "oven/trials/0", "oven/verdict", "oven/checks"])
def test_a_lever_is_called_a_lever(pages: TestClient, page: str) -> None:
    answer = pages.get(f"/studies/{page}" if page else "/")
    assert answer.status_code == 200
    text = visible(answer.text).replace(KEPT, "")
    assert re.findall(r".{30}\bfactors?\b.{30}", text, re.IGNORECASE) == []


def test_the_page_of_a_study_says_what_cannot_be_run_together_and_what_is_studied_as_one(pages: TestClient) -> None:
    about = pages.get("/studies/oven").text.split("This study</h2>")[1].split("</section>")[0]
    said = " ".join(re.sub(r"<[^>]*>", " ", about).split())
    assert "cannot be run together heat high with speed 3" in said
    assert "studied as one fan with tray" in said


def test_a_port_that_is_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["dashboard", f"sqlite:///{tmp_path}/a.db", "--port", str(port)]
        command = [sys.executable, "-m", "levers.cli.app", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"error: cannot listen on 127.0.0.1 port {port}: it is in use, or not an address of this machine"
    ]


def test_figures_that_cannot_be_drawn_are_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidSettingError, match="figures need matplotlib"):
        CliRunner().invoke(
            app, ["reproduce", "recovery", "--size", "smoke", "-o", f"{tmp_path}/results"], catch_exceptions=False
        )
    assert list(tmp_path.iterdir()) == []


def test_a_command_does_not_wait_long_for_a_service_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert options.PATIENCE <= 10
    monkeypatch.setattr(options, "PATIENCE", 0.01)  # with the client's own it would be a minute
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(StorageError, match="does not answer"):
        CliRunner().invoke(app, ["status", "oven", "--url", f"http://127.0.0.1:{port}"], catch_exceptions=False)
    assert time.monotonic() - began < 30
