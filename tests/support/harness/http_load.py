"""Many HTTP workers on one study at once. For tests and benchmarks.

with running_server(url, "--require-token") as server:
    report = run_load(server.address, token, "load", workers=64, seconds=60)

The workers speak HTTP/1.1 over plain sockets, so that what is measured is the service and not a client.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from harness.processes import SECONDS_TO_START, completed
from levers.errors import StudyError
from levers.studies.events import Asked, Told
from levers.studies.study import Study


@dataclass(frozen=True)
class RunningServer:
    """A service in a process of its own."""

    process: "subprocess.Popen[str]"
    address: str

    def stop(self, kind: int = signal.SIGTERM) -> int:
        """Ask it to stop, and wait; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(kind)
        return self.process.wait(SECONDS_TO_START)


@contextmanager
def running_server(storage: str, *options: str, port: int = 0) -> Iterator[RunningServer]:
    """`levers dashboard` on a loopback address, until the block ends."""
    command = [sys.executable, "-m", "levers.cli.app", "dashboard", storage, "--port", str(port), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None  # asked for above
        line = process.stdout.readline()
        if "http" not in line:
            process.wait(10)
            raise StudyError(f"the service did not start: {line.strip() or 'see its error above'}")
        server = RunningServer(process, line.split(" at ")[1].split()[0])
        try:
            yield server
        finally:
            server.stop()


@dataclass(eq=False)
class LoadReport:
    """What the workers were answered: told outcomes by trial, seconds of each ask and tell, and what went wrong."""

    told: dict[int, float] = field(default_factory=dict)
    unanswered: dict[int, float] = field(default_factory=dict)
    ask_seconds: list[float] = field(default_factory=list)
    tell_seconds: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    n_told_to_come_again: int = 0
    least: int = 0
    then: Callable[[], object] | None = None


def run_load(
    address: str,
    token: str | None,
    study: str,
    *,
    workers: int,
    seconds: float,
    least: int = 0,
    then: Callable[[], object] | None = None,
) -> LoadReport:
    """Ask and tell one trial after the other from many connections. A worker ends with what it holds told.

    On a slow machine they go on after these seconds until at least so many were told; `then` is called at that moment.
    """
    report = LoadReport(least=least, then=then)
    began = time.perf_counter()
    asyncio.run(_all(report, address, token, study, workers, began + seconds))
    report.seconds = time.perf_counter() - began
    return report


async def _all(report: LoadReport, address: str, token: str | None, study: str, workers: int, until: float) -> None:
    crew = [_Worker(report, address, token, study, i) for i in range(workers)]
    await asyncio.gather(*(worker.work(until) for worker in crew))


class _Worker:
    """One connection that asks for a trial and tells it, again and again."""

    def __init__(self, report: LoadReport, address: str, token: str | None, study: str, index: int) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._path = f"/api/v1/studies/{quote(study, safe='')}"
        self._token, self._index, self._report = token, index, report
        self._n_sent = 0

    async def work(self, until: float) -> None:
        try:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
            try:
                await self._ask_and_tell(until)
            finally:
                self._writer.close()
                await self._writer.wait_closed()
        except (OSError, EOFError) as error:
            self._report.problems.append(f"worker {self._index}: connection lost ({type(error).__name__})")

    async def _ask_and_tell(self, until: float) -> None:
        rng = np.random.default_rng([self._index, 3])
        while time.perf_counter() < until or len(self._report.told) < self._report.least:
            begin = time.perf_counter()
            asked = await self._post("ask", {"n": 1, "worker": f"w{self._index}", "lease": 600})
            self._report.ask_seconds.append(time.perf_counter() - begin)
            for trial in asked["trials"]:
                await self._tell(int(trial["trial"]), float(rng.normal()))
            if not asked["trials"]:  # the rest of the block is with others
                await asyncio.sleep(0.01)

    async def _tell(self, trial: int, value: float) -> None:
        if trial in self._report.told or trial in self._report.unanswered:
            self._report.problems.append(f"trial {trial} was handed out twice")
        begin = time.perf_counter()
        self._report.unanswered[trial] = value
        await self._post("tell", {"trial": trial, "value": value})
        self._report.tell_seconds.append(time.perf_counter() - begin)
        self._report.told[trial] = self._report.unanswered.pop(trial)
        if len(self._report.told) == self._report.least and self._report.then is not None:
            self._report.then()

    async def _post(self, verb: str, content: dict[str, Any]) -> Any:
        body = json.dumps(content).encode()
        self._n_sent += 1
        lines = [
            f"POST {self._path}/{verb} HTTP/1.1",
            f"Host: {self._host}:{self._port}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            f"Idempotency-Key: {self._index}-{self._n_sent}",
            *([] if self._token is None else [f"Authorization: Bearer {self._token}"]),
        ]
        self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        answer = await self._reader.readexactly(length)
        if verb == "ask" and head.split(" ")[1] == "503" and "retry-after:" in head:
            self._report.n_told_to_come_again += 1  # the next round is being designed; levers.Client does the same
            await asyncio.sleep(0.25)
            return {"trials": []}
        if head.split(" ")[1] != "200":
            self._report.problems.append(f"{verb}: {head.splitlines()[0]} {answer[:200].decode()}")
            return {"trials": []}
        return json.loads(answer)


def check_load(study: Study, report: LoadReport) -> list[str]:
    """What is wrong with a study after a load: outcomes lost, doubled or changed, trials handed out twice."""
    problems = []
    events = [stored.record().event for stored in study.storage.read(study.id, 0)]
    handed = [number for event in events if isinstance(event, Asked) for number in event.trials.tolist()]
    told = [number for event in events if isinstance(event, Told) for number in event.trials.tolist()]
    if len(set(handed)) != len(handed):
        problems.append(f"{len(handed) - len(set(handed))} trials were handed out twice")
    if len(set(told)) != len(told):
        problems.append(f"{len(told) - len(set(told))} outcomes were taken twice")
    known = dict(zip(*(found.tolist() for found in completed(study.state)), strict=True))
    lost = [number for number in report.told if number not in known]
    if lost:
        problems.append(f"{len(lost)} outcomes that were answered for are not there")
    sent = report.told | report.unanswered
    changed = [number for number, value in known.items() if sent.get(number) != value]
    if changed:
        problems.append(f"{len(changed)} outcomes are not those that were told")
    return problems
