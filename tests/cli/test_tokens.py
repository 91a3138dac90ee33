"""Tokens and the network of the service on the command line."""

import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from levers.cli import service as cli_service
from levers.cli.app import app
from levers.errors import LeversError
from levers.studies.library import open_storage
from levers.studies.storage.base import Token
from levers.studies.storage.sessions import start_session
from levers.studies.storage.tokens import DAY, find_token


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEVERS_STORAGE", f"sqlite:///{tmp_path}/a.db")
    return tmp_path


def levers_(command: str) -> Result:
    return CliRunner().invoke(app, shlex.split(command))


def made(command: str) -> str:
    """The id of a token that a command printed."""
    result = levers_(command)
    assert result.exit_code == 0, result.output
    found = re.search(r"levers_([0-9a-f]{12})_\S{43}", result.stdout)
    assert found is not None
    return found[1]


def listed() -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in json.loads(levers_("token list --format json").stdout)}


def test_a_token_ends_after_90_days_if_nothing_else_is_said(here: Path) -> None:
    usual, short, endless = (
        made(f"token create --role read {how}") for how in ("", "--expires 12h", "--expires never")
    )
    storage = open_storage(f"sqlite:///{here}/a.db")
    storage.add_token(Token("0123456789ab", "read", None, "of before", "0" * 64, time.time()))
    rows = listed()
    assert rows[usual]["days_left"] == pytest.approx(90, abs=0.1)
    assert rows[short]["days_left"] == pytest.approx(0.5, abs=0.1)
    for one in (endless, "0123456789ab"):
        assert (rows[one]["expires"], rows[one]["days_left"]) == ("never", None)
    assert "days_left" in levers_("token list").stdout
    said = levers_("token create --role read --expires 2w")
    assert "works until" in said.stderr


@pytest.mark.parametrize("expires", ["30", "d", "-1d", "0d", "1y", "for ever", "999999w"])
def test_a_time_that_makes_no_sense_is_refused(expires: str) -> None:
    result = levers_(f"token create --role read --expires '{expires}'")
    assert isinstance(result.exception, LeversError), result.output
    assert json.loads(levers_("token list --format json").stdout or "[]") == []


def test_a_token_is_rotated(here: Path) -> None:
    old = made("token create --role write --note 'bench 2' --expires 30d")
    new = made(f"token rotate {old} --grace 1d")
    rows = listed()
    assert (rows[new]["role"], rows[new]["note"]) == ("write", "bench 2")
    assert rows[new]["days_left"] == pytest.approx(30, abs=0.1)
    assert rows[old]["days_left"] == pytest.approx(1, abs=0.1)
    newest = made(f"token rotate {new} --expires never")
    rows = listed()
    assert rows[new]["revoked"]
    assert rows[newest]["expires"] == "never"
    last = made(f"token rotate {newest}")
    assert listed()[last]["days_left"] == pytest.approx(90, abs=0.1)
    refused = levers_(f"token rotate {old}x")
    assert isinstance(refused.exception, LeversError)
    assert isinstance(levers_(f"token rotate {old} --grace never").exception, LeversError)


def test_the_list_counts_browsers_that_are_logged_in(here: Path) -> None:
    text = levers_("token create --role read").stdout.strip()
    storage = open_storage(f"sqlite:///{here}/a.db")
    token = find_token(storage, text)
    assert token is not None
    for at in (time.time(), time.time() - 60, time.time() - 8 * DAY):
        start_session(storage, token, at)
    assert listed()[token.id]["sessions"] == 2
    storage.revoke_token(token.id, time.time())
    assert listed()[token.id]["sessions"] == 0


def test_hosts_and_proxies_are_given_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(cli_service, "serve_storage", lambda storage, address, **more: given.append(address))
    names = "--allow-host lab.example.org --allow-host bench --trust-proxy 10.0.0.7"
    assert levers_(f"dashboard {names} --public-url https://lab.example.org").exit_code == 0
    assert given[0].hosts == ("lab.example.org", "bench")
    assert given[0].proxies == ("10.0.0.7",)
    for wrong in (
        "--allow-host https://lab.example.org",
        "--allow-host '*'",
        "--trust-proxy lab",
        "--trust-proxy 10.0.0.7/8",
    ):
        result = levers_(f"dashboard {wrong}")
        assert isinstance(result.exception, LeversError), wrong
    assert len(given) == 1
