"""The client does what a local study does, gives the same values and errors, and survives a server that dies."""

import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

import levers
from levers.cli.app import app
from levers.client import Client, RemoteStudy
from levers.client.transport import Transport
from levers.errors import (
    InvalidOutcomeError,
    InvalidSettingError,
    InvalidSpaceError,
    LeversError,
    NoSuchStudyError,
    NoSuchTrialError,
    NotFinishedError,
    SheetError,
    StorageError,
    StudyError,
    StudyExistsError,
    TokenError,
    TrialError,
)
from levers.studies.library import list_studies, open_storage
from levers.studies.log import freeze
from levers.studies.storage.tokens import create_token
from levers.studies.study import NoOutcomeWarning

Serve = Callable[..., AbstractContextManager[str]]
FACTORS: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2.5], "on": [True, False]}


def outcome(run: levers.Assignment) -> float:
    return {"low": 0.0, "mid": 1.5, "high": 0.5}[str(run["heat"])] + (run["speed"] == 2.5) + 0.01 * bool(run["on"])


@pytest.fixture
def client(server: str) -> Iterator[levers.Client]:
    with levers.Client(server, patience=20) as made:
        yield made


def test_the_client_is_the_local_study(client: levers.Client, database: str) -> None:
    settings: dict[str, Any] = {"tolerance": 0.5, "noise_sd": 0.5, "seed": 7, "noise": "subgaussian"}
    forbidden: list[dict[str, levers.Level]] = [{"heat": "low", "speed": 1}]
    there = client.create_study("a/b %", FACTORS, forbidden=forbidden, goal="minimize", block_size=4, **settings)
    here = levers.create_study("a/b %", FACTORS, forbidden=forbidden, goal="minimize", block_size=4, **settings)
    assert there.spec == here.spec == client.load_study("a/b %").spec
    assert there.best() is None
    assert (there.forecast(), there.effects()) == (here.forecast(), here.effects())
    first, other = there.ask(3, worker="ann", lease=60), here.ask(3, worker="ann", lease=60)
    assert [t.params for t in first] == [t.params for t in other]
    assert [(t.number, t.block, t.stage, t.state) for t in first] == [
        (t.number, t.block, t.stage, t.state) for t in other
    ]
    same = levers.load_study("a/b %", database)
    assert there.running() == same.running() == first
    for study in (there, here):
        study.tell(first[0], 2.0)
        assert study.tell_many({1: 1.0, 2: 3.0}) == 2
        assert study.correct(0, 2.5, "typo").before == 2.0
        assert study.import_runs([{"heat": "mid", "speed": 2.5, "on": True}], [1.5], "2025") == 1
    assert there.trial(0) == same.trial(0)
    assert there.status() == same.status()
    assert there.trials_dataframe().equals(same.trials_dataframe())
    assert len(there.trials_dataframe(pandas=True)) == len(there.trials_dataframe())
    verdict = there.optimize(outcome)
    assert verdict == here.optimize(outcome) == there.verdict() == same.verdict()
    assert there.is_finished
    assert there.best_params == here.best_params
    assert there.best() == same.best()
    assert there.effects() == here.effects()
    assert there.ask() == []


def test_workers_share_the_runs(client: levers.Client) -> None:
    there = client.create_study("oven", FACTORS, tolerance=0.5, noise_sd=0.5, seed=7)
    here = levers.create_study("oven", FACTORS, tolerance=0.5, noise_sd=0.5, seed=7)
    runs: list[levers.Assignment] = []

    def counted(run: levers.Assignment) -> float:
        runs.append(run)
        return outcome(run)

    threads = [threading.Thread(target=there.optimize, args=(counted,), kwargs={"workers": 2}) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert there.verdict() == here.optimize(outcome)
    assert len(runs) == there.verdict().n_runs


def test_managing_studies(client: levers.Client) -> None:
    for i in range(60):
        client.create_study(f"s{i}", FACTORS, tolerance=1)
    assert [status.name for status in client.studies()] == [f"s{i}" for i in range(60)]
    copy = client.copy_study("s0", "copy")
    assert copy.spec == client.study("s0").spec
    client.delete_study("s0")
    with pytest.raises(NoSuchStudyError):
        client.delete_study("s0")
    with pytest.raises(NoSuchStudyError):
        client.load_study("s0")
    assert client.plan([4] * 5, tolerance=0.5) == levers.plan([4] * 5, tolerance=0.5)
    assert client.plan(FACTORS, budget=12) == levers.plan(FACTORS, budget=12)  # a short one is simulated sooner
    names = list(FACTORS)[:2]
    forbidden = [{name: FACTORS[name][0] for name in names}]
    tied: dict[str, Any] = {"tolerance": 0.5, "noise_sd": 1.0, "forbidden": forbidden}
    assert client.plan(FACTORS, **tied) == levers.plan(FACTORS, **tied)
    assert client.plan(FACTORS, tolerance=0.5, merged=[names]) == levers.plan(FACTORS, tolerance=0.5, merged=[names])


def test_errors_are_those_of_a_local_study(client: levers.Client) -> None:
    there = client.create_study("oven", FACTORS, tolerance=0.5, noise_sd=0.5, seed=7)
    here = levers.create_study("oven", FACTORS, tolerance=0.5, noise_sd=0.5, seed=7)
    wrong: list[tuple[type[levers.LeversError], Callable[[Any], Any]]] = [
        (TrialError, lambda s: s.tell(99_999, 1.0)),
        (TrialError, lambda s: s.tell(0, 1.0)),
        (TrialError, lambda s: s.tell("x", 1.0)),
        (TrialError, lambda s: s.tell(-1, 1.0)),
        (InvalidOutcomeError, lambda s: s.tell(0, float("inf"))),
        (InvalidOutcomeError, lambda s: s.tell(0, "many")),
        (NoSuchTrialError, lambda s: s.fail(99_999)),
        (NoSuchTrialError, lambda s: s.trial(99_999)),
        (NoSuchTrialError, lambda s: s.fail(-1)),
        (TrialError, lambda s: s.correct(0, 1.0, "x")),
        (InvalidSettingError, lambda s: s.correct(0, 1.0, " ")),
        (TrialError, lambda s: s.correct_many([], "x")),
        (InvalidSettingError, lambda s: s.ask(0)),
        (InvalidSettingError, lambda s: s.ask(1, lease=-1)),
        (NotFinishedError, lambda s: s.verdict()),
        (StudyError, lambda s: s.best_params),
        (InvalidSpaceError, lambda s: s.import_runs([{"heat": "none"}], [1.0], "x")),
        (TrialError, lambda s: s.import_runs([], [], "x")),
        (SheetError, lambda s: s.tell_sheet("none.csv")),
        (SheetError, lambda s: s.tell_sheet("none.pdf")),
        (InvalidSettingError, lambda s: s.optimize(3)),
        (TrialError, lambda s: s.exclude(0, "x")),
        (InvalidSettingError, lambda s: s.exclude(0, " ")),
        (TrialError, lambda s: s.exclude_many([], "x")),
        (StudyError, lambda s: s.finish()),
        (StudyError, lambda s: s.go_on()),
        (InvalidSettingError, lambda s: s.go_on(0)),
        (InvalidSettingError, lambda s: s.restate(tolerance=1.0, budget=40)),
        (InvalidSettingError, lambda s: s.restate(seed=3)),
        (StudyError, lambda s: s.restate(noise_sd=0.5)),
    ]
    for kind, act in wrong:
        for study in (there, here):
            with pytest.raises(levers.LeversError) as caught:
                act(study)
            assert type(caught.value) is kind or isinstance(caught.value, kind), (kind, caught.value)
    assert there.status().n_complete == 0
    with pytest.raises(StudyExistsError):
        client.create_study("oven", FACTORS, tolerance=0.5)
    for space in ({"heat": [1]}, {"outcome": [1, 2]}):
        with pytest.raises(InvalidSpaceError):
            client.create_study("x", space, tolerance=0.5)
    for setting in ({"tolerance": float("nan")}, {"tolerance": -1}, {}, {"tolerance": 1, "budget": 3}):
        with pytest.raises(InvalidSettingError):
            client.create_study("x", FACTORS, **setting)


def test_an_outcome_that_is_none_warns_and_fails(client: levers.Client) -> None:
    there = client.create_study("oven", FACTORS, tolerance=0.5, noise_sd=0.5)
    trial = there.ask()[0]
    with pytest.warns(NoOutcomeWarning, match="1 outcome was NaN"):
        there.tell(trial, float("nan"))
    assert there.trial(trial.number).state is levers.TrialState.FAIL
    there.fail(there.ask()[0], "sample lost")
    assert there.status().n_failed == 2


def test_a_function_that_breaks_lets_its_run_go(client: levers.Client) -> None:
    there = client.create_study("oven", FACTORS, tolerance=0.5, noise_sd=0.5)

    def broken(run: levers.Assignment) -> float:
        raise RuntimeError("no power")

    with pytest.raises(RuntimeError, match="no power"):
        there.optimize(broken)
    assert (there.status().n_running, there.status().n_failed) == (0, 1)
    assert there.optimize(outcome, timeout=1e-9) is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoOutcomeWarning)
        with pytest.raises(StudyError, match="no outcome"):
            there.optimize(lambda run: float("nan"))


@pytest.mark.filterwarnings("ignore::UserWarning")  # a typo may be asked about; here it is meant
def test_doubts_and_the_end_travel(client: levers.Client) -> None:
    settings: dict[str, Any] = {"tolerance": 0.5, "noise_sd": 0.5, "seed": 7}
    there, here = client.create_study("oven", FACTORS, **settings), levers.create_study("oven", FACTORS, **settings)
    for study in (there, here):
        while not study.is_finished:
            study.tell_many(
                (t, 300.0 if t.number == 4 else outcome(t.params) + 0.5 * (-1) ** (t.number // 2))
                for t in study.ask(100)
            )
        assert study.is_held
    assert there.status().doubts == here.status().doubts
    assert there.verdict() == here.verdict()
    for study in (there, here):
        study.go_on(6, "more")
        assert not study.is_held
        assert study.status().to_go.now == 6
        assert study.exclude(4, "typo").value == 300.0
        assert study.restate(budget=60, noise_sd=None, reason="days") == (
            "budget: 60, none before",
            "noise sd: not known, 0.5 before",
            "tolerance: none, 0.5 before",
        )
        assert study.spec.tolerance is None
    first, second = there.finish("enough"), here.finish("enough")
    assert (first.assignment, first.statement) == (second.assignment, second.statement)
    assert [one.trial for one in there.exclusions()] == [one.trial for one in here.exclusions()] == [4]
    assert [one.what for one in there.log()] == [one.what for one in here.log()]


def test_sheets_travel(client: levers.Client, tmp_path: Path) -> None:
    there = client.create_study("oven", FACTORS, tolerance=0.5, noise_sd=0.5, block_size=4)
    sheet = tmp_path / "runs.csv"
    assert there.ask_sheet(sheet) == 4
    with pytest.raises(SheetError, match="already"):
        there.ask_sheet(sheet)
    assert there.status().n_running == 4
    assert there.open_sheet(tmp_path / "again.csv") == 4
    assert (tmp_path / "again.csv").read_text() == sheet.read_text()
    assert there.open_sheet(tmp_path / "none.csv", worker="nobody") == 0
    assert not (tmp_path / "none.csv").exists()
    sheet.write_text(sheet.read_text().replace(",\n", ",1.5\n"))
    assert there.tell_sheet(sheet).n_new == 4
    sheet.write_text(sheet.read_text().replace("1.5\n", "2\n", 1))
    assert [one.value for one in there.correct_sheet(sheet, "typo")] == [2.0]
    past = tmp_path / "past.csv"
    past.write_text("heat,speed,on,outcome\nlow,1,true,3\n")
    assert there.import_sheet(past, "2025") == 1


def test_a_token_is_sent_and_never_shown(serve: Serve, database: str) -> None:
    study = levers.create_study("oven", FACTORS, tolerance=0.5, noise_sd=0.5, storage=database)
    text = create_token(open_storage(database), "read")
    with serve(database, needs_token=True) as url:
        reader = levers.Client(url, text)
        assert reader.load_study("oven").status() == study.status()
        assert text not in repr(reader) + repr(reader.study("oven")) + str(vars(reader))
        with pytest.raises(TokenError, match="needs write"):
            reader.study("oven").ask()
        with pytest.raises(TokenError, match="needs a token"):
            levers.Client(url).studies()
        with pytest.raises(TokenError, match="wrong or was revoked"):
            levers.Client(url, text[:-1]).studies()
        reader.close()
    for wrong in ("", "a\nb", "ü"):
        with pytest.raises(TokenError):
            levers.Client(url, wrong)
    for address in ("", "127.0.0.1:80", "ftp://a", "http://", "http://a?x=1", "http://a:port", "http://u:p@a", 3):
        with pytest.raises(InvalidSettingError):
            levers.Client(address)  # type: ignore[arg-type]


def test_no_server_is_said_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StorageError, match="is it running there"):
            levers.Client(url, patience=0.3).studies()


def test_something_else_that_answers_is_said_so(server: str) -> None:
    with pytest.raises(StorageError, match=r"address right|Not Found"):
        levers.Client(f"{server}/elsewhere").studies()


class Flaky(httpx.BaseTransport):
    """Loses answers: the request arrives, and nobody hears of it."""

    def __init__(self, lose: int) -> None:
        self._real = httpx.HTTPTransport()
        self._lose = lose
        self.n_sent = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.n_sent += 1
        answer = self._real.handle_request(request)
        answer.read()
        if self.n_sent % (self._lose + 1):
            kinds = [httpx.ReadError("lost"), httpx.ReadTimeout("late"), httpx.RemoteProtocolError("cut")]
            if self.n_sent % 4 == 3:
                return httpx.Response(503)
            raise kinds[self.n_sent % 3]
        return answer

    def close(self) -> None:
        self._real.close()


def test_lost_answers_lose_nothing_and_double_nothing(
    server: str, database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("levers.client.transport._SHORTEST_WAIT", 0.001)
    flaky = Flaky(lose=2)
    monkeypatch.setattr(Transport, "_new", lambda self: httpx.Client(base_url=self.url, transport=flaky))
    with levers.Client(server) as client:
        there = client.create_study("oven", FACTORS, tolerance=0.5, noise_sd=0.5, seed=7)
        trials = [trial for _ in range(4) for trial in there.ask(1)]
        assert [trial.number for trial in trials] == [0, 1, 2, 3]
        assert there.status().n_running == 4
        there.tell(trials[0], 1.0)
        there.fail(trials[1])
        assert there.correct(trials[0], 2.0, "typo").value == 2.0
        assert there.status().n_corrections == 1
        row = dict(trials[0].params)
        assert there.import_runs([row], [2.0], "") == 1
        assert there.ask_sheet(tmp_path / "a.csv", 2) == 2
        client.copy_study("oven", "copy")
        client.delete_study("copy")
        assert [status.name for status in client.studies()] == ["oven"]
    study = levers.load_study("oven", database)
    assert [record.kind for record in study.storage.read(study.id, 0)].count("Asked") == 5
    assert flaky.n_sent > 30


@contextmanager
def process(database: str, port: int) -> Iterator["subprocess.Popen[str]"]:
    """A server of its own, which can be killed."""
    command = [sys.executable, "-m", "levers.cli.app", "dashboard", database, "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert "dashboard is at" in server.stdout.readline()
        yield server
    finally:
        server.send_signal(signal.SIGKILL)
        server.communicate()


def test_a_server_that_is_killed_and_comes_back(database: str) -> None:
    settings: dict[str, Any] = {"tolerance": 0.15, "noise_sd": 0.5, "seed": 7}
    study = levers.create_study("oven", FACTORS, storage=database, **settings)
    expected = levers.create_study("oven", FACTORS, **settings).optimize(outcome)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    runs: list[levers.Assignment] = []
    found: list[levers.Verdict | None] = []

    def counted(run: levers.Assignment) -> float:
        runs.append(run)
        return outcome(run)

    client = levers.Client(f"http://127.0.0.1:{port}", patience=60)
    worker = threading.Thread(target=lambda: found.append(client.study("oven").optimize(counted, workers=2)))
    n_kills = 0
    while n_kills < 2:
        with process(database, port) as running:
            if not n_kills:
                worker.start()
            before = study.status().n_complete
            while worker.is_alive() and study.state.n_complete < before + 15:
                time.sleep(0.01)
            os.kill(running.pid, signal.SIGKILL)
            n_kills += 1
    with process(database, port):
        worker.join(60)
    client.close()
    assert found == [expected]
    assert len(runs) == study.status().n_complete == study.verdict().n_runs
    asked = [record for record in study.storage.read(study.id, 0) if record.kind == "Asked"]
    assert len(asked) <= len(runs)


def test_levers_does_not_import_httpx_until_it_is_needed() -> None:
    code = (
        "import sys, levers; assert 'httpx' not in sys.modules; levers.Client; assert 'httpx' not in sys.modules; "
        "sys.modules['httpx'] = None\n"
        "try:\n    levers.Client('http://127.0.0.1:1').studies()\n"
        "except levers.LeversError as error:\n    print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ".[client]" in told.stdout
    with pytest.raises(AttributeError):
        _ = levers.nothing


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=True)


def test_studies_are_begun_copied_merged_and_deleted_on_a_service(serve: Serve, database: str, tmp_path: Path) -> None:
    token = create_token(open_storage(database), "admin", note="lab")
    levels = ("--factor", "heat=low,high", "--factor", "speed=1,2")
    with serve(database, needs_token=True) as url:
        there = ("--url", url, "--token", token)
        made = run("create", "oven", *levels, "--tolerance", ".5", "--seed", 3, *there)
        assert f"created 'oven' in {url}: 2 levers, seed 3" in made.stdout
        assert f"next: levers ask oven -n 8 --sheet runs.csv --url {url}" in made.stdout
        assert f"copied 'oven' to 'kiln' in {url}: 0 outcomes" in run("copy", "oven", "kiln", *there).stdout
        to = run("copy", "oven", "kiln", "--to", f"sqlite:///{tmp_path}/other.db", *there)
        assert isinstance(to.exception, InvalidSettingError)
        merged = run("merge", "oven", "one", "heat,speed", *there)
        assert "heat + speed as one lever of 4 levels, with 0 runs of 'oven' as evidence" in merged.stdout
        assert sorted(list_studies(database)) == ["kiln", "one", "oven"]
        assert "deleted 'kiln'" in run("delete", "kiln", "--yes", *there).stdout
        assert sorted(list_studies(database)) == ["one", "oven"]
        assert run("delete", "oven", "--yes", "--url", url).exit_code == 1
        assert token not in made.output + merged.output


def test_the_command_line_works_on_a_service(serve: Serve, database: str, tmp_path: Path) -> None:
    levers.create_study("line 3", FACTORS, tolerance=0.5, noise_sd=0.5, seed=7, block_size=4, storage=database)
    token = create_token(open_storage(database), "write", note="bench 2")
    sheet = tmp_path / "runs.csv"
    with serve(database, needs_token=True) as url:
        there = ("--url", url, "--token", token)
        here = ("--storage", database)
        shown = run("ask", "line 3", *there)
        for where in (here, there):
            assert run("ask", "line 3", "--again", *where).stdout == shown.stdout
        asked = run("ask", "line 3", "-n", 3, "--sheet", sheet, *there)
        assert f"levers tell 'line 3' --sheet {sheet} --url {url}" in asked.stdout
        assert token not in asked.output + shown.output
        assert run("ask", "line 3", "--sheet", sheet, *there).exit_code == 1
        sheet.write_text(sheet.read_text().replace(",\n", ",1.5\n"))
        assert "3 new outcomes" in run("tell", "line 3", "--sheet", sheet, *there).stdout
        assert "trial 0: -2.5" in run("tell", "line 3", 0, "-2.5", *there).stdout
        assert "failed" in run("fail", "line 3", 1, "--reason", "lost", *there).stdout
        assert "-2.5 -> 3" in run("correct", "line 3", 0, 3, "--reason", "typo", *there).stdout
        sheet.write_text(sheet.read_text().replace("1.5\n", "2\n", 1))
        assert "1.5 -> 2" in run("correct", "line 3", "--sheet", sheet, "--reason", "typo", *there).stdout
        past = tmp_path / "past.csv"
        past.write_text("heat,speed,on,outcome\nlow,1,true,3\n")
        assert "1 past run is in; it counts" in run("import", "line 3", past, *there).stdout
        assert "1 imported run" in run("status", "line 3", *there).stdout
        assert isinstance(run("verdict", "line 3", *there).exception, NotFinishedError)
        study = levers.load_study("line 3", database)
        study.tell_many([(trial, outcome(trial.params)) for trial in study.running()])
        study.optimize(outcome)
        assert run("verdict", "line 3", *there).stdout == run("verdict", "line 3", *here).stdout
        assert (
            run("status", "line 3", *there, "--format", "json").stdout
            == run("status", "line 3", *here, "--format", "json").stdout
        )
        assert "finished" in run("ask", "line 3", *there).stderr
        assert isinstance(run("ask", "line 3", *there, *here).exception, InvalidSettingError)
        assert isinstance(run("tell", "line 3", 0, 1, *there, "--by", "ann").exception, InvalidSettingError)
    mine = f"bench 2 (token {token.split('_')[1]})"
    assert mine in {record.who for record in open_storage(database).read(1, 0)}


def test_the_address_and_the_token_may_be_variables(
    serve: Serve, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    levers.create_study("oven", FACTORS, tolerance=0.5, noise_sd=0.5, seed=7, storage=database)
    token = create_token(open_storage(database), "write")
    with serve(database, needs_token=True) as url:
        monkeypatch.setenv("LEVERS_URL", url)
        monkeypatch.setenv("LEVERS_TOKEN", token)
        assert json.loads(run("ask", "oven", "--format", "json").stdout)[0]["trial"] == 0
        assert token not in run("ask", "--help").output
        monkeypatch.setenv("LEVERS_URL", "http://127.0.0.1:1")
        assert json.loads(run("ask", "oven", "--format", "json", "--storage", database).stdout)[0]["trial"] == 1


ONLY_HERE = {
    *("storage", "id", "who", "by", "once", "writing", "shares_log_with", "warns", "n_free"),
    *("apart", "decide", "decide_quietly"),  # about the storage and its log
    *(
        "ask_numbers",
        "tell_arrays",
        "import_arrays",
        "accept",
        "take",
        "take_past",
        "surprises",
        "warn_of",
        "log_page",
    ),  # what the service itself answers with
}


def public(kind: type) -> dict[str, Any]:
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}


def test_a_study_on_a_service_has_the_verbs_of_one_here() -> None:
    here, there = public(levers.Study), public(RemoteStudy)
    assert set(here) - set(there) == ONLY_HERE - {"storage", "id", "who"}  # which are attributes of each study
    assert set(there) <= set(here)
    for name, verb in there.items():
        assert inspect.isfunction(verb) == inspect.isfunction(here[name]), name
        if inspect.isfunction(verb):
            ours, theirs = (
                [(one.name, one.kind, one.default) for one in inspect.signature(kind).parameters.values()]
                for kind in (here[name], verb)
            )
            assert ours == theirs, name


def test_everything_that_a_command_says_of_a_study_here_it_says_of_one_there(
    serve: Serve, database: str, tmp_path: Path
) -> None:
    study = levers.create_study("oven", FACTORS, tolerance=0.5, noise_sd=0.5, seed=7, block_size=4, storage=database)
    study.optimize(outcome)
    study.correct(3, 2.5, "typo")
    study.exclude(2, "door was open")
    with serve(database) as url:
        for words in (
            ("effects", "--format", "csv"),
            ("forecast", "--format", "json"),
            ("trials", "--format", "csv"),
            ("trials", "--state", "complete"),
            ("log", "--format", "csv"),
            ("status",),
        ):
            told = [run(words[0], "oven", *words[1:], *where) for where in (("--storage", database), ("--url", url))]
            assert told[0].exit_code == 0
            assert told[0].stdout == told[1].stdout, words
        assert "corrected" in run("status", "oven", "--url", url).stdout
        assert run("studies", "--url", url).stdout == run("studies", "--storage", database).stdout
        for command, suffix in (("export", "csv"), ("export", "parquet"), ("plot", "svg")):
            files: list[Path] = []
            for where in (("--storage", database), ("--url", url)):
                files.append(tmp_path / f"{command}{len(files)}.{suffix}")
                kind = ["effects"] if command == "plot" else []
                assert f"wrote {files[-1]}" in run(command, "oven", *kind, "-o", files[-1], *where).stdout
            if suffix != "svg":
                assert files[0].read_bytes() == files[1].read_bytes()
        remote = Client(url).load_study("oven")
        assert freeze(remote.state) == freeze(study.state)
        assert remote.log() == study.log()
        assert remote.corrections() == study.corrections()


def test_errors_say_over_http_what_they_are_about(serve: Serve, database: str, tmp_path: Path) -> None:
    study = levers.create_study("oven", FACTORS, tolerance=0.5, noise_sd=0.5, seed=7, storage=database)
    sheet = tmp_path / "runs.csv"
    study.ask_sheet(sheet, 3)
    sheet.write_text(sheet.read_text().replace(",\n", ",x\n"))
    with serve(database) as url:
        remote = Client(url).load_study("oven")
        caught = []
        for one in (study, remote):
            with pytest.raises(SheetError) as error:
                one.tell_sheet(sheet)
            caught.append(error.value)
        here, there = caught
        assert there.n_wrong == here.n_wrong == 3
        assert (there.rows, there.problems, str(there)) == (here.rows, here.problems, str(here))
        with pytest.raises(LeversError) as refused:
            Client(url).create_study("two", FACTORS, tolerance=0.5, max_parents=9)
        assert refused.value.field == "max_parents"
