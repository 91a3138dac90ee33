"""Agents: the real client of the protocol against real servers, over standard input and output and over HTTP."""

import asyncio
import json
import os
import queue
import re
import runpy
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import numpy as np
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

import levers
from levers.integrations import agent_answers
from levers.integrations import mcp as mcp_server
from levers.integrations.agent_answers import MOST_TEXT
from levers.integrations.agent_tools import TOOLS
from levers.integrations.mcp import PATH, agents_app, agents_server, listed
from levers.studies.library import open_storage
from levers.studies.storage.memory import MemoryStorage
from levers.studies.storage.tokens import create_token, revoke_token
from levers.studies.study import Study
from levers.web.limits import Limits
from levers.web.limits.admission import AGENTS, AGENTS_READS, Lane, lanes
from levers.web.limits.pool import Job
from levers.web.server import Address, Server
from levers.web.service import Access, Service

FACTORS: dict[str, list[levers.Level]] = {"heat": ["low", "high"], "time": [10, 20, 30]}
SECONDS = 120
"""How long anything here may take before it counts as hanging."""


@dataclass
class Agent:
    """An agent that calls tools."""

    client: Client

    async def __call__(self, tool: str, **given: Any) -> tuple[str, dict[str, Any]]:
        """What a tool says, as text and as data, which are the same."""
        result = await self.client.call_tool(tool, given)
        assert not result.is_error, text_of(result)
        if len(result.content) > 1:  # some clients read the texts only
            assert json.loads(text_of(result, 1)) == result.structured_content
        else:
            assert result.structured_content["text"] == text_of(result)
        return text_of(result), result.structured_content

    async def refused(self, tool: str, **given: Any) -> str:
        """The one line that a call is refused with."""
        result = await self.client.call_tool(tool, given)
        assert result.is_error
        line = text_of(result)
        assert "\n" not in line
        assert result.structured_content["error"]["message"] == line
        return line


def text_of(result: CallToolResult, block: int = 0) -> str:
    found = result.content[block]
    assert isinstance(found, TextContent)
    return found.text


def within_time(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work(), SECONDS)

    asyncio.run(bounded())


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@asynccontextmanager
async def over_stdio(storage: str, *more: str, mode: str = "auto") -> AsyncIterator[Agent]:
    arguments = ["-m", "levers.cli.app", "mcp", "--storage", storage, *more]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment())
    async with Client(server, mode=mode) as client:
        yield Agent(client)


@asynccontextmanager
async def in_process(storage: MemoryStorage, role: str = "admin") -> AsyncIterator[Agent]:
    async with Client(agents_server(Service(storage), Access("ann", role))) as client:
        yield Agent(client)


async def run_all(agent: Agent, name: str, outcome: Callable[[dict[str, Any]], float]) -> str:
    """Make all runs that are asked for; returns what is said when there are none left."""
    while True:
        text, asked = await agent("ask", name=name, n=8)
        if not asked["trials"]:
            return text
        told = [{"trial": trial["trial"], "value": outcome(trial["params"])} for trial in asked["trials"]]
        await agent("tell", name=name, outcomes=told)


def noisy(seed: int, sd: float = 1.0) -> Callable[[dict[str, Any]], float]:
    rng = np.random.default_rng(seed)
    return lambda params: 3.0 * (params["heat"] == "high") + float(rng.normal(0, sd))


def test_a_whole_study_over_stdio(tmp_path: Path) -> None:
    storage, name = f"sqlite:///{tmp_path}/levers.db", "oven a/b 100%"

    async def work() -> None:
        async with over_stdio(storage) as agent:
            words = agent.client.instructions or ""
            assert "plan -> create -> (ask, run, tell) until no runs are left -> verdict -> report" in words
            assert [tool.name for tool in (await agent.client.list_tools()).tools] == [tool.name for tool in TOOLS]
            text, planned = await agent("plan", factors=FACTORS, tolerance=1.5)
            assert planned == {**planned_here(), "next": text.splitlines()[-1]}
            assert f"{planned['worst_case_runs']:,} at most" in text
            assert (await agent("studies"))[1]["total"] == 0  # a plan keeps nothing

            assert "either a tolerance or a budget" in await agent.refused("create", name=name, factors=FACTORS)
            assert "Extra inputs" in await agent.refused("create", name=name, factors=FACTORS, budget=9, tempo=1)
            assert (await agent("studies"))[1]["total"] == 0  # and neither does what is refused
            await agent("create", name=name, factors=FACTORS, tolerance=1.5, seed=1)
            assert "already" in await agent.refused("create", name=name, factors=FACTORS, tolerance=1.5)
            assert "not finished" in await agent.refused("verdict", name=name)

            text, asked = await agent("ask", name=name, n=3)
            first = [trial["trial"] for trial in asked["trials"]]
            assert [line for line in text.splitlines() if line.startswith("trial")] == [
                f"trial {one['trial']}: heat={one['params']['heat']}, time={one['params']['time']}"
                for one in asked["trials"]
            ]
            assert (await agent("ask", name=name, again=True))[1]["trials"] == asked["trials"]
            wrong = [{"trial": first[0], "value": 1.0}, {"trial": 999, "value": 1.0}]
            assert "nothing was stored" in await agent.refused("tell", name=name, outcomes=wrong)
            assert (await agent("status", name=name))[1]["n_complete"] == 0
            await agent("fail", name=name, trial=first[0], reason="the door was open")
            told = [{"trial": number, "value": 1.0 + i} for i, number in enumerate(first[1:])]
            assert (await agent("tell", name=name, outcomes=told))[1]["n_new"] == 2
            assert (await agent("tell", name=name, outcomes=told))[1]["n_new"] == 0

            assert "Next: verdict" in await run_all(agent, name, noisy(3))
            text, verdict = await agent("verdict", name=name)
            assert verdict["assignment"]["heat"] == "high"
            assert verdict["promise"] in text
            assert len(verdict["provisos"]) > 1
            assert all(proviso["text"] in text for proviso in verdict["provisos"])
            assert (await agent("status", name=name))[1]["state"] == "finished"
            assert len((await agent("effects", name=name))[1]["effects"]) == 5
            assert (await agent("checks", name=name))[1]["checks"]
            page = tmp_path / "oven.html"
            assert "## What the guarantee rests on" in (await agent("report", name=name))[0]
            assert (await agent("report", name=name, path=str(page)))[1]["path"] == str(page)
            assert "is there already" in await agent.refused("report", name=name, path=str(page))
            with pytest.raises(MCPError, match="there is no tool 'delete'"):
                await agent.client.call_tool("delete", {"name": name})

    within_time(work)
    assert (tmp_path / "oven.html").read_text().startswith("<!DOCTYPE html>")
    study = levers.load_study(name, storage)  # and everything is there for everybody else
    assert study.verdict().assignment["heat"] == "high"
    done = [entry for entry in study.log() if entry.what.startswith(("created", "asked", "told", "trial"))]
    assert {entry.who.endswith("(agent)") for entry in done} == {True}  # what follows from it, the server decides
    assert any("the door was open" in entry.what for entry in done)


def planned_here() -> dict[str, Any]:
    from pydantic import TypeAdapter

    found: dict[str, Any] = json.loads(TypeAdapter(levers.Plan).dump_json(levers.plan(FACTORS, tolerance=1.5)))
    return found


def test_a_reader_over_stdio_changes_nothing(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/levers.db"
    study = levers.create_study("oven", FACTORS, tolerance=1.5, seed=1, storage=storage)
    before = study.log()

    async def work() -> None:
        async with over_stdio(storage, "--role", "read", mode="legacy") as agent:  # the handshake of older agents
            tools = {tool.name for tool in (await agent.client.list_tools()).tools}
            assert tools == {tool.name for tool in TOOLS if tool.role == "read"}
            assert "create" not in tools
            changes: dict[str, dict[str, Any]] = {
                "ask": {"name": "oven"},
                "tell": {"name": "oven", "outcomes": [{"trial": 0, "value": 1.0}]},
                "exclude": {"name": "oven", "trials": [0], "reason": "why not"},
                "finish": {"name": "oven"},
                "create": {"name": "other", "factors": FACTORS, "tolerance": 1.0},
                "report": {"name": "oven", "path": str(tmp_path / "x.html")},
            }
            for tool, given in changes.items():
                assert "the role read; this needs" in await agent.refused(tool, **given)
            assert (await agent("status", name="oven"))[1]["n_waiting"] > 0

    within_time(work)
    assert study.log() == before
    assert levers.list_studies(storage) == ["oven"]
    assert not (tmp_path / "x.html").exists()


def test_a_surprise_is_flagged_and_can_be_corrected_but_is_not_lost() -> None:
    storage = MemoryStorage()

    async def work() -> None:
        async with in_process(storage) as agent:
            await agent("create", name="oven", factors=FACTORS, tolerance=0.5, noise_sd=1.0, seed=1)
            _, asked = await agent("ask", name="oven", n=40)
            outcome = noisy(1)
            told = [{"trial": one["trial"], "value": outcome(one["params"])} for one in asked["trials"]]
            await agent("tell", name="oven", outcomes=told[:-1])
            odd = [{"trial": told[-1]["trial"], "value": 1000.0}]
            line = await agent.refused("tell", name="oven", outcomes=odd, insist=False)
            assert "nothing was stored" in line
            text, taken = await agent("tell", name="oven", outcomes=odd)
            assert [flag["trial"] for flag in taken["flags"]] == [odd[0]["trial"]]
            assert "SURPRISE" in text
            assert "Stored as told" in text
            assert "reason" in await agent.refused("correct", name="oven", outcomes=told[-1:], reason=" ")
            text, _ = await agent("correct", name="oven", outcomes=told[-1:], reason="a comma too far")
            assert "1 outcome corrected" in text

    within_time(work)
    study = levers.load_study("oven", storage)
    assert [(one.before, one.reason) for one in study.corrections()] == [(1000.0, "a comma too far")]


def test_a_doubt_is_said_first_and_can_be_answered() -> None:
    storage = MemoryStorage()

    async def work() -> None:
        async with in_process(storage) as agent:
            await agent("create", name="oven", factors=FACTORS, tolerance=0.5, noise_sd=0.2, seed=1)
            step = await run_all(agent, "oven", noisy(1, sd=2.0))  # ten times the noise that was stated
            assert "contradict what the guarantee rests on" in step
            text, verdict = await agent("verdict", name="oven")
            assert text.startswith("IN DOUBT")
            assert verdict["promise"].startswith("in doubt")
            assert verdict["doubts"]
            assert "restate" in verdict["next"]
            text, stands = await agent("restate", name="oven", noise_sd=None, reason="it is larger than we thought")
            assert stands["changes"]
            assert stands["next"].startswith("Next: ask")
            assert (await agent("ask", name="oven"))[1]["trials"]

    within_time(work)
    assert levers.load_study("oven", storage).spec.noise_sd is None


def test_when_all_runs_are_out_it_says_which_and_whose() -> None:
    async def work() -> None:
        async with in_process(MemoryStorage()) as agent:
            await agent("create", name="oven", factors={"heat": ["low", "high"]}, tolerance=1.0, noise_sd=0.1, seed=1)
            assert len((await agent("ask", name="oven", n=200, worker="bob"))[1]["trials"]) == 7
            text, asked = await agent("ask", name="oven")
            assert asked["trials"] == []
            assert "trials 0 (bob), 1 (bob)" in text
            assert (await agent("ask", name="oven", again=True))[1]["trials"] == []  # they are not this agent's
            assert len((await agent("ask", name="oven", again=True, worker="bob"))[1]["trials"]) == 7
            assert "less than or equal to 200" in await agent.refused("ask", name="oven", n=201)

    within_time(work)


def test_an_agent_reads_percent_on_a_log_scale() -> None:
    async def work() -> None:
        async with in_process(MemoryStorage()) as agent:
            given = {"factors": FACTORS, "goal": "minimize", "scale": "log", "tolerance": "5%", "noise_sd": 0.1}
            planned, _ = await agent("plan", **{k: v for k, v in given.items() if k != "factors"}, factors=FACTORS)
            assert "To be within 5 % of the best" in planned
            created, data = await agent("create", name="oven", seed=1, **given)
            assert "minimize, on a log scale." in created
            assert data["scale"] == "log"
            await agent("ask", name="oven", n=1)
            refused = await agent.refused("tell", name="oven", outcomes=[{"trial": 0, "value": 0}])
            assert "the outcome of trial 0 is 0; on a log scale every outcome is above 0" in refused
            await agent("tell", name="oven", outcomes=[{"trial": 0, "value": 12.5}])
            await run_all(agent, "oven", lambda params: 12.5 if params["heat"] == "high" else 10.0)
            text, data = await agent("effects", name="oven")
            assert re.search(r"heat=high: .*, loses 2\d\.?\d* % \(", text)
            assert data["scale"] == "log"
            text, data = await agent("verdict", name="oven")
            assert re.search(r"Promise: within [0-9.]+ % of the best", text)
            assert "Typical outcome (median) to expect there: " in text
            assert data["scale"] == "log"

    within_time(work)


def test_runs_that_leave_levers_alone_say_so() -> None:
    async def work() -> None:
        async with in_process(MemoryStorage()) as agent:
            given = {"factors": FACTORS, "free": ["heat"], "tolerance": 2.0, "noise_sd": 1.0, "seed": 1}
            await agent("create", name="oven", **given)
            outcome = noisy(1)
            for _ in range(100):
                text, asked = await agent("ask", name="oven", n=200)
                alone = [one for one in asked["trials"] if one["free"]]
                if alone or not asked["trials"]:
                    break
                told = [{"trial": one["trial"], "value": outcome(one["params"])} for one in asked["trials"]]
                await agent("tell", name="oven", outcomes=told)
            assert alone
            assert "leave alone heat, and tell as `observed` which level each took" in text
            number = alone[0]["trial"]
            await agent.refused("tell", name="oven", outcomes=[{"trial": number, "value": 1.0}])
            told = [{"trial": number, "value": 1.0, "observed": {"heat": "low"}}]
            assert (await agent("tell", name="oven", outcomes=told))[1]["n_new"] == 1

    within_time(work)


def test_long_answers_are_cut_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_answers, "MOST_ROWS", 7)
    storage = MemoryStorage()
    space: dict[str, list[levers.Level]] = {f"x{k}": [f"{'long ' * 60}{j}" for j in range(4)] for k in range(20)}
    levers.create_study("many", space, tolerance=1.0, storage=storage, seed=1)

    async def work() -> None:
        async with in_process(storage, "read") as agent:
            text, about = await agent("report", name="many")
            assert about["is_cut"]
            assert text.endswith("(cut here; the page has all of it)")
            assert 20_000 < len(text) <= MOST_TEXT + 100
            text, found = await agent("effects", name="many")
            assert (len(found["effects"]), found["n_levels"]) == (7, 80)

    within_time(work)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(levers.LeversError, match=r"'\.\[mcp\]'"):
        runpy.run_path(mcp_server.__file__)


def test_every_tool_is_described_and_refuses_what_it_does_not_know() -> None:
    for tool in TOOLS:
        shown = listed(tool)
        assert len(shown.description or "") > 40
        assert shown.input_schema["type"] == "object"
        assert shown.input_schema["additionalProperties"] is False
        assert ("name" in shown.input_schema.get("required", [])) == (tool.is_about_study or tool.name == "create")
        assert shown.annotations is not None
        assert shown.annotations.read_only_hint == (tool.role == "read" and tool.name != "report")
    assert "never invent" in (listed(next(t for t in TOOLS if t.name == "tell")).description or "")
    settings = listed(next(t for t in TOOLS if t.name == "create")).input_schema["properties"]
    assert all(settings[name].get("description") for name in ("tolerance", "budget", "noise_sd", "goal", "baseline"))


def test_the_page_lists_the_tools_with_their_roles() -> None:
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", page, re.MULTILINE)
    assert rows == [(tool.name, tool.role) for tool in TOOLS]
    configurations = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    assert [list(one["mcpServers"]) for one in configurations] == [["levers"], ["levers"]]


@dataclass
class Served:
    """A server over HTTP, and the storage behind it."""

    url: str
    storage: str

    @asynccontextmanager
    async def agent(self, token: str | None, mode: str = "auto") -> AsyncIterator[Agent]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with Client(transport, mode=mode) as client:
                yield Agent(client)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    storage = f"sqlite:///{tmp_path_factory.mktemp('mcp')}/levers.db"
    levers.create_study("oven", FACTORS, tolerance=1.5, seed=1, storage=storage)
    levers.create_study("line", FACTORS, tolerance=1.5, seed=2, storage=storage)
    create_token(open_storage(storage), "admin")
    command = [sys.executable, "-m", "levers.cli.app", "mcp", "--http", "--port", "0", "--require-token"]
    with subprocess.Popen([*command, "--storage", storage], stdout=subprocess.PIPE, env=environment()) as process:
        try:
            yield Served(_first_address(process), storage)
        finally:
            process.terminate()
            process.wait(SECONDS)


def _first_address(process: "subprocess.Popen[bytes]") -> str:
    """Where the server says it is; a server that says nothing fails the test, it does not hang it."""
    assert process.stdout is not None
    said: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=lambda out=process.stdout: said.put(out.readline()), daemon=True).start()
    found = re.search(r"http://\S+/mcp", said.get(timeout=SECONDS).decode())
    assert found is not None
    return found[0]


def test_tokens_over_http_say_who_may_do_what(served: Served) -> None:
    storage = open_storage(served.storage)
    reader, writer = create_token(storage, "read"), create_token(storage, "write", note="agent 7")
    other = create_token(storage, "write", study="line")
    admin = create_token(storage, "admin")

    async def work() -> None:
        for token in (None, "levers_000000000000_wrong", reader[:-1]):
            with pytest.raises((MCPError, ExceptionGroup)) as refused:
                async with served.agent(token, mode="legacy"):
                    pass
            assert "token" in said_by(refused.value)

        async with served.agent(reader) as agent:
            assert "ask" not in {tool.name for tool in (await agent.client.list_tools()).tools}
            assert (await agent("status", name="oven"))[1]["n_complete"] == 0
            assert "role read; this needs write" in await agent.refused("ask", name="oven")

        async with served.agent(writer, mode="legacy") as agent:
            given = {"name": "new", "factors": FACTORS, "tolerance": 1.0}
            assert "this needs admin" in await agent.refused("create", **given)
            _, asked = await agent("ask", name="oven")
            told = [{"trial": asked["trials"][0]["trial"], "value": 1.5}]
            assert (await agent("tell", name="oven", outcomes=told))[1]["n_new"] == 1
            assert "stdio" in await agent.refused("report", name="oven", path="/tmp/x.html")
            assert "there is no study 'nothing'" in await agent.refused("status", name="nothing")
            revoke_token(open_storage(served.storage), writer.split("_")[1])
            with pytest.raises(MCPError, match="revoked"):
                await agent("ask", name="oven")  # in the middle of what it was doing

        async with served.agent(other) as agent:
            assert [one["name"] for one in (await agent("studies"))[1]["items"]] == ["line"]
            assert "for another study" in await agent.refused("status", name="oven")
            assert (await agent("ask", name="line"))[1]["trials"]

        async with served.agent(admin) as agent:
            await agent("create", name="new", factors=FACTORS, tolerance=1.0, seed=3)

    within_time(work)
    study: Study = levers.load_study("oven", served.storage)
    assert study.status().n_complete == 1
    assert study.log()[-1].who.startswith("agent 7")
    assert levers.list_studies(served.storage) == ["oven", "line", "new"]


def said_by(error: BaseException) -> str:
    """All that an error and those inside of it say."""
    inside = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return " ".join([str(error), *map(said_by, inside)])


def test_another_sites_page_reaches_nothing_and_nothing_is_left_open(served: Served) -> None:
    token = create_token(open_storage(served.storage), "admin")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    good = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    with httpx2.Client(timeout=SECONDS) as http:
        assert http.post(served.url, json=message, headers=good).status_code == 200
        rebound = http.post(served.url, json=message, headers={**good, "Host": "evil.example"})
        assert rebound.status_code == 421
        other = http.post(served.url, json=message, headers={**good, "Origin": "https://evil.example"})
        assert other.status_code == 403
        stream = http.get(served.url, headers=good)
        assert (stream.status_code, stream.headers["allow"]) == (405, "POST")
        without = http.post(served.url, json=message, headers={**good, "Authorization": ""})
        assert (without.status_code, without.headers["www-authenticate"]) == (401, "Bearer")


@contextmanager
def serving(service: Service) -> Iterator[str]:
    """A server over HTTP in this process; gives the address of its tools."""
    ready: queue.Queue[str] = queue.Queue()
    running = Server(service, Address(port=0), ready.put, agents_app)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        yield f"{ready.get(timeout=SECONDS)}{PATH}"
    finally:
        service.stopping.set()
        running.should_exit = True
        thread.join(SECONDS)


def call_of(tool: str, **given: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": given}}


class Gate:
    """Stands for a tool that takes as long as the test says."""

    def __init__(self) -> None:
        self.opened, self.lock = threading.Event(), threading.Lock()
        self.n_inside = self.most_inside = 0

    def act(self, call: agent_answers.Call) -> agent_answers.Answer:
        with self.lock:
            self.n_inside += 1
            self.most_inside = max(self.most_inside, self.n_inside)
        assert self.opened.wait(SECONDS)
        with self.lock:
            self.n_inside -= 1
        return agent_answers.Answer("done", {"name": call.name, "text": "done"})

    def put(self, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
        monkeypatch.setitem(mcp_server._BY_NAME, tool, replace(mcp_server._BY_NAME[tool], act=self.act))


async def first(n: int, calls: "list[asyncio.Task[httpx2.Response]]") -> list[httpx2.Response]:
    """The first so many that are answered."""
    found: list[httpx2.Response] = []
    for answer in asyncio.as_completed(calls):
        found.append(await answer)
        if len(found) == n:
            break
    return found


ACCEPT = {"Accept": "application/json, text/event-stream"}


def test_few_long_tools_are_worked_on_at_once_and_nobody_else_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, storage = Gate(), MemoryStorage()
    gate.put(monkeypatch, "report")
    levers.create_study("oven", FACTORS, tolerance=1.5, seed=1, storage=storage)
    reader = {**ACCEPT, "Authorization": f"Bearer {create_token(storage, 'read')}"}

    async def work(url: str) -> None:
        async with httpx2.AsyncClient(headers=reader, timeout=SECONDS) as http:
            calls = [asyncio.ensure_future(http.post(url, json=call_of("report", name="oven"))) for _ in range(40)]
            refused = await first(30, calls)  # two are worked on, and eight wait
            assert all("try again" in one.json()["result"]["content"][0]["text"] for one in refused)
            status = (await http.post(url, json=call_of("status", name="oven"))).json()["result"]
            assert status["structuredContent"]["n_complete"] == 0
            gate.opened.set()
            texts = [one.json()["result"]["content"][0]["text"] for one in await asyncio.gather(*calls)]
            assert texts.count("done") == 10

    with serving(Service(storage, needs_token=True)) as url:
        within_time(lambda: work(url))
    assert gate.most_inside == 2


def test_agents_have_places_of_their_own_and_are_told_when_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, storage = Gate(), MemoryStorage()
    gate.put(monkeypatch, "status")
    levers.create_study("oven", FACTORS, tolerance=1.5, seed=1, storage=storage)
    monkeypatch.setattr("levers.web.security.lanes", lambda limits: {**lanes(limits), AGENTS: Lane(1, 1, SECONDS)})

    async def work(url: str) -> None:
        async with httpx2.AsyncClient(headers=ACCEPT, timeout=SECONDS) as http:
            calls = [asyncio.ensure_future(http.post(url, json=call_of("status", name="oven"))) for _ in range(5)]
            refused = await first(3, calls)
            assert [(one.status_code, one.headers["retry-after"]) for one in refused] == [(503, "5")] * 3
            gate.opened.set()
            assert sorted(one.status_code for one in await asyncio.gather(*calls)) == [200, 200, 503, 503, 503]

    with serving(Service(storage)) as url:
        within_time(lambda: work(url))


def test_tools_that_take_long_leave_places_for_the_others() -> None:
    found = lanes(Limits())
    long = found["computing"].most + found[AGENTS_READS].most
    assert {tool.lane for tool in TOOLS} == {"", "computing", AGENTS_READS}
    assert found[AGENTS].places >= long + 10


def test_a_plan_ends_when_its_agent_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is ended, which is asked here, and not how soon: that is the machine's."""
    cancelled: list[Job] = []
    plain = Job.cancel

    def cancel(job: Job) -> None:
        cancelled.append(job)
        plain(job)

    monkeypatch.setattr(Job, "cancel", cancel)
    service = Service(MemoryStorage(), limits=Limits(workers=1, waiting=3))
    plan = call_of("plan", factors={f"x{k}": list(range(k)) for k in range(2, 62)}, tolerance=0.5, noise_sd=1.0)
    body = json.dumps(plan).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: {ACCEPT['Accept']}\r\n"
    )
    with serving(service) as url:
        where = urlsplit(url)
        with socket.create_connection((where.hostname, where.port), SECONDS) as connection:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert becomes(lambda: service.pool.n_taken == 1, SECONDS)
            assert not cancelled
        assert becomes(lambda: service.pool.n_taken == 0, SECONDS)
        assert len(cancelled) == 1
        assert not cancelled[0].is_late
    service.pool.close()


def becomes(holds: Callable[[], bool], seconds: float) -> bool:
    """Whether something becomes true in time."""
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.02)
    return holds()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--role", "owner"], "role"),
        (["--require-token"], "--http"),
        (["--http", "--role", "read"], "tokens"),
        (["--http", "--host", "0.0.0.0"], "a token is needed"),
    ],
)
def test_wrong_options_are_refused_in_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    from typer.testing import CliRunner

    from levers.cli.app import app

    found = CliRunner().invoke(app, ["mcp", "--storage", f"sqlite:///{tmp_path}/x.db", *arguments])
    assert isinstance(found.exception, levers.LeversError)
    assert says in str(found.exception)
