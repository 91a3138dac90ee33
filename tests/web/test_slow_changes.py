"""What takes long to work out holds up nobody, over whichever face it comes."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

import levers
import levers.studies.study
from levers.integrations.mcp import _BY_NAME, _called, _request_of
from levers.studies.storage.base import Storage
from levers.studies.study import Study
from levers.web.limits.admission import lanes
from levers.web.service import DESIGN_SECONDS, WAITING, Access, Limits, Service

SECONDS = 60
"""So that a failure ends; nothing here takes that long."""


class Slow:
    """A function of studies that waits, once it `is_asked`, until it `may_go_on`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.is_asked, self.may_go_on = threading.Event(), threading.Event()
        self._patch = patch

    def make(self, name: str) -> None:
        real = getattr(levers.studies.study, name)

        def waiting(*given: Any) -> Any:
            self.is_asked.set()
            assert self.may_go_on.wait(SECONDS)
            return real(*given)

        self._patch.setattr(levers.studies.study, name, waiting)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    found = Slow(monkeypatch)
    monkeypatch.setattr(levers.studies.study, "QUICK_TRIALS", -1)  # as in large studies, which are known to take long
    yield found
    found.may_go_on.set()


def in_thread(act: Callable[[], Any]) -> "Future[Any]":
    pool = ThreadPoolExecutor(1)
    found = pool.submit(act)
    pool.shutdown(wait=False)
    return found


def new_study(storage: Storage, name: str) -> Study:
    factors = {"heat": [1, 2, 3], "time": [10, 20]}
    return levers.create_study(name, factors, tolerance=0.5, noise_sd=1.0, seed=3, storage=storage, who="ann")


def outcome(trial: int) -> float:
    return 0.1 * ((7 * trial) % 13)


def a_round_is_told(study: Study) -> None:
    study.tell_many([(trial, outcome(trial.number)) for trial in study.ask(10_000)])


def nobody_waits(client: TestClient, slow: Slow, under_way: "Future[Any]") -> None:
    """While it is worked out, runs of that study and of others are handed out."""
    assert slow.is_asked.wait(SECONDS)
    for name in ("farm", "oven"):
        asking = partial(client.post, f"/api/v1/studies/{name}/ask", json={"n": 1})
        answer = in_thread(asking).result(SECONDS)
        assert answer.status_code == 200, answer.text
    assert not under_way.done()
    slow.may_go_on.set()


def test_corrections_by_sheet_hold_up_nobody(client: TestClient, storage: Storage, slow: Slow) -> None:
    study, _ = new_study(storage, "oven"), new_study(storage, "farm")
    a_round_is_told(study)
    had = study.trial(0).params
    sheet = f"trial,heat,time,outcome\n0,{had['heat']},{had['time']},1.25\n"
    slow.make("revision")
    headers = {"content-type": "text/csv", "idempotency-key": "k-1"}
    where = "/api/v1/studies/oven/sheet/corrections?reason=misread"
    corrected = in_thread(lambda: client.post(where, content=sheet, headers=headers))
    nobody_waits(client, slow, corrected)
    assert corrected.result(SECONDS).status_code == 200
    assert study.trial(0).value == 1.25
    assert client.post(where, content=sheet, headers=headers).headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize(
    ("tool", "function", "given"),
    [
        ("correct", "revision", {"outcomes": [{"trial": 0, "value": 1.25}], "reason": "misread"}),
        ("exclude", "revision", {"trials": [0], "reason": "spilt"}),
        ("finish", "finishing", {"reason": "enough"}),
        ("restate", "restating", {"tolerance": 0.75, "reason": "enough"}),
    ],
)
def test_what_agents_change_holds_up_nobody(
    client: TestClient, service: Service, storage: Storage, slow: Slow, tool: str, function: str, given: dict[str, Any]
) -> None:
    study, _ = new_study(storage, "oven"), new_study(storage, "farm")
    a_round_is_told(study)
    slow.make(function)
    request = _request_of(service, Access("ann", "write"))
    changed = in_thread(lambda: _called(_BY_NAME[tool], request, {"name": "oven", **given}, True))
    nobody_waits(client, slow, changed)
    assert changed.result(SECONDS).data["next"]


def test_those_who_wait_for_a_design_take_nobodys_place(
    serve: Callable[..., AbstractContextManager[str]],
    database: str,
    storage: Storage,
    slow: Slow,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """More ask for runs of a round that is being designed than the service has places for changes."""
    study, other = new_study(storage, "oven"), new_study(storage, "farm")
    *rest, last = study.ask(10_000)
    study.tell_many([(trial, outcome(trial.number)) for trial in rest])
    mine = other.ask()[0].number
    n_places = lanes(Limits())["changes"].places
    with serve(database) as url, ThreadPoolExecutor(n_places + 20) as many, httpx.Client(timeout=SECONDS) as http:
        slow.make("following_events")

        def post(name: str, verb: str, **body: Any) -> httpx.Response:
            return http.post(f"{url}/api/v1/studies/{name}/{verb}", json=body)

        told = many.submit(post, "oven", "tell", trial=last.number, value=1.0)
        assert slow.is_asked.wait(SECONDS)
        asked = [many.submit(post, "oven", "ask", n=1) for _ in range(n_places + 10)]
        refused = [one.result(SECONDS) for one in islice(as_completed(asked, SECONDS), n_places + 10 - WAITING)]
        assert {one.status_code for one in refused} == {503}
        assert {one.headers["retry-after"] for one in refused} == {str(DESIGN_SECONDS)}
        assert "is being designed" in refused[0].text
        assert post("farm", "tell", trial=mine, value=1.0).status_code == 200
        assert post("farm", "ask", n=1).status_code == 200
        assert post("oven", "tell", trial=last.number, value=1.0).json()["n_new"] == 0
        patient = many.submit(levers.Client(url).load_study("oven").ask)
        while not any("status 503" in record.getMessage() for record in caplog.records):
            assert not patient.done()
        slow.may_go_on.set()
        assert told.result(SECONDS).status_code == 200
        waited = [one for one in (each.result(SECONDS) for each in asked) if one not in refused]
        assert [one.status_code for one in waited] == [200] * WAITING
        handed_out = [trial["trial"] for one in waited for trial in one.json()["trials"]]
        handed_out += [trial.number for trial in patient.result(SECONDS)]
        assert sorted(handed_out) == [trial.number for trial in study.running() if trial.number > last.number]
        assert handed_out
