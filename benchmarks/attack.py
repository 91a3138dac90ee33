"""Attacks on a live service: python benchmarks/attack.py [--seconds 8] [--only slow]

The service runs in a process of its own over SQLite, and needs a token. While each attack goes on, another process asks
/health over a new connection, and asks and tells a trial, again and again. Printed are the slowest answers, how many
did not come, the memory that the service and its processes took at most, and how much its log grew. Exit code 1 if an
answer took more than a second or did not come.
"""

import argparse
import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

MOST_SECONDS = 1.0
PAUSE = 0.05
PATIENCE = 30.0
FORM = "f" * 43
NAMES = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


# What is measured, from a process of its own


@dataclass
class Measured:
    """The slowest answers in seconds, how many came, and how many did not."""

    health: float = 0.0
    tell: float = 0.0
    n_health: int = 0
    n_tell: int = 0
    n_lost: int = 0


async def request(host: str, port: int, text: bytes) -> tuple[int, bytes]:
    """One request over a new connection."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(text)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        return int(head.split(" ")[1]), await reader.readexactly(length)
    finally:
        writer.close()


def message(method: str, path: str, host: str, token: str | None, body: bytes = b"", kind: str = "") -> bytes:
    """A request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    lines += [f"Content-Type: {kind}"] if kind else []
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def probe(address: str, token: str) -> Measured:
    """Look and tell until standard input ends."""
    parts, found, over = urlsplit(address), Measured(), asyncio.Event()
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    loop = asyncio.get_running_loop()
    threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(over.set)), daemon=True).start()

    async def timed(text: bytes) -> tuple[float, int, bytes]:
        began = time.perf_counter()
        try:
            status, body = await asyncio.wait_for(request(host, port, text), PATIENCE)
        except (OSError, EOFError, TimeoutError, asyncio.IncompleteReadError):
            status, body = 0, b""
        found.n_lost += status not in (200, 409)
        return time.perf_counter() - began, status, body

    async def health() -> None:
        while not over.is_set():
            seconds, _, _ = await timed(message("GET", "/health", host, None))
            found.health, found.n_health = max(found.health, seconds), found.n_health + 1
            await asyncio.sleep(PAUSE)

    async def tell() -> None:
        path, kind = "/api/v1/studies/probed", "application/json"
        while not over.is_set():
            asked, _, body = await timed(message("POST", f"{path}/ask", host, token, b'{"n": 1}', kind))
            trials = json.loads(body)["trials"] if body else []
            for trial in trials:
                told = json.dumps({"trial": trial["trial"], "value": 0.5}).encode()
                seconds, _, _ = await timed(message("POST", f"{path}/tell", host, token, told, kind))
                found.tell, found.n_tell = max(found.tell, seconds, asked), found.n_tell + 1
            await asyncio.sleep(PAUSE)

    await asyncio.gather(health(), tell())
    return found


@contextlib.contextmanager
def probing(address: str, token: str) -> Iterator[list[Measured]]:
    """Measure while the block goes on; what was found is in the list after it."""
    command = [sys.executable, __file__, "--probe", address, token]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        found: list[Measured] = []
        time.sleep(0.5)
        yield found
        told, _ = process.communicate(timeout=4 * PATIENCE)
        found.append(Measured(**json.loads(told)))


# Attacks


@dataclass(frozen=True)
class Target:
    """Whom to attack, with which tokens, and for how long."""

    address: str
    tokens: dict[str, str]
    seconds: float
    answers: Counter[int] = field(default_factory=Counter)

    @property
    def host(self) -> str:
        """The name of the machine."""
        return urlsplit(self.address).hostname or "127.0.0.1"

    @property
    def port(self) -> int:
        """Where it listens."""
        return urlsplit(self.address).port or 80

    async def send(self, text: bytes) -> None:
        """Send a request, and count what is answered; 0 stands for nothing."""
        status = 0
        with contextlib.suppress(OSError, EOFError, TimeoutError, IndexError, ValueError):
            status, _ = await asyncio.wait_for(request(self.host, self.port, text), self.seconds)
        self.answers[status] += 1

    def json(self, role: str, path: str, content: Any) -> bytes:
        """A request of a program."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return message("POST", f"/api/v1{path}", self.host, self.tokens[role], body, "application/json")

    def sheet(self, data: bytes, kind: str) -> bytes:
        """A sheet that is handed in."""
        return message("PUT", "/api/v1/studies/oven/sheet", self.host, self.tokens["write"], data, kind)

    def form(self, role: str, path: str, fields: dict[str, str]) -> bytes:
        """A form of a page."""
        body = urlencode({**fields, "form_token": FORM}).encode()
        made = message("POST", path, self.host, self.tokens[role], body, "application/x-www-form-urlencoded")
        return made.replace(b"\r\n", f"\r\nCookie: levers_form={FORM}\r\n".encode(), 1)


async def repeated(target: Target, make: Callable[[int], bytes], at_once: int) -> None:
    """The same kind of request again and again, so many at once, until the time is over."""
    until = time.monotonic() + target.seconds
    texts = [make(k) for k in range(min(at_once, 4))]

    async def one(k: int) -> None:
        while time.monotonic() < until:
            await target.send(texts[k % len(texts)])

    await asyncio.gather(*(one(k) for k in range(at_once)))


async def nothing(target: Target) -> None:
    """No attack, for comparison."""
    await asyncio.sleep(target.seconds)


async def newlines(target: Target) -> None:
    """A form field of 150,000 newlines."""
    fields = {"table": "\n" * 150_000 + "x", "factor": "heat", "levels": "1, 2", "budget": "20"}
    await repeated(target, lambda _: target.form("read", "/plan", fields), 4)


async def readers_json(target: Target) -> None:
    """62 MB of JSON from a token that may only read."""
    body = b'{"factors": [' + b"[]," * ((62 << 20) // 3) + b"[]]}"
    await repeated(target, lambda _: target.json("read", "/plan", body), 2)


async def writers_json(target: Target) -> None:
    """8 MB of JSON from a token that may write, of many small things."""
    body = b'{"outcomes": [' + b'{"trial": 1, "value": 1},' * ((7 << 20) // 25) + b'{"trial": 1, "value": 1}]}'
    await repeated(target, lambda _: target.json("write", "/studies/oven/tell", body), 3)


async def deep_json(target: Target) -> None:
    """JSON of a million brackets, and numbers of a million digits."""
    bodies = [b"[" * 1_000_000]
    bodies += [
        b'{"trial": ' + b"1" * 1_000_000 + b', "value": 1}',
        b'{"trial": 1, "value": 1e' + b"9" * 1_000_000 + b"}",
    ]
    await repeated(target, lambda k: target.json("write", "/studies/oven/tell", bodies[k % 3]), 3)


async def plan_of_levels(target: Target) -> None:
    """A plan of 1,000 different numbers of levels."""
    body = {"factors": list(range(2, 1_002)), "tolerance": 0.5, "noise_sd": 1.0}
    await repeated(target, lambda _: target.json("read", "/plan", body), 3)


async def many_plans(target: Target) -> None:
    """120 plans at once."""
    await repeated(target, lambda k: target.json("read", "/plan", {"factors": [3] * 40, "budget": 200 + k}), 120)


async def leaving(target: Target) -> None:
    """Clients that leave while their plan is worked out."""
    body = target.json("read", "/plan", {"factors": list(range(2, 60)), "tolerance": 0.5, "noise_sd": 1.0})
    until = time.monotonic() + target.seconds

    async def one() -> None:
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(target.host, target.port)
                writer.write(body)
                await writer.drain()
                await asyncio.sleep(0.2)
                writer.close()

    await asyncio.gather(*(one() for _ in range(10)))


async def large_studies(target: Target) -> None:
    """Studies of 150 levers of 5 levels, begun again and again."""
    factors = {f"x{k}": list(range(5)) for k in range(150)}
    names = iter(range(1_000_000))

    def make(_: int) -> bytes:
        body = {"name": f"large {next(names)}", "factors": factors, "tolerance": 0.5, "noise_sd": 1.0}
        return target.json("admin", "/studies", body)

    await repeated(target, make, 4)


async def idle_connections(target: Target) -> None:
    """1,500 connections that send nothing."""
    await held(target, b"", 1_500)


async def slow_heads(target: Target) -> None:
    """600 requests whose heads come a byte at a time."""
    await held(target, b"POST /api/v1/plan HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ", 600, b"a")


async def slow_bodies(target: Target) -> None:
    """600 requests whose bodies come a byte at a time."""
    head = message("POST", "/api/v1/studies/oven/tell", target.host, target.tokens["write"], b"", "application/json")
    await held(target, head.replace(b"Content-Length: 0", b"Content-Length: 8000000") + b"{", 600, b" ")


async def followers(target: Target) -> None:
    """600 pages that follow a study."""
    await held(target, message("GET", "/studies/oven/stream", target.host, target.tokens["read"]), 600)


async def held(target: Target, first: bytes, n: int, then: bytes = b"") -> None:
    """Connections that stay open, and now and then send a little."""
    until = time.monotonic() + target.seconds
    writers: list[asyncio.StreamWriter] = []
    for _ in range(n):
        with contextlib.suppress(OSError, TimeoutError):
            _, writer = await asyncio.wait_for(asyncio.open_connection(target.host, target.port), 5)
            writer.write(first)
            writers.append(writer)
    while time.monotonic() < until:
        for writer in writers:
            if then:
                writer.write(then)
        await asyncio.sleep(0.5)
    for writer in writers:
        writer.close()


async def large_head(target: Target) -> None:
    """A header of 126 MB."""
    await streamed(target, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ", b"a" * (1 << 20), 126)


async def large_trailer(target: Target) -> None:
    """A body that ends, and a trailer after it that does not."""
    head = message("POST", "/api/v1/studies/oven/tell", target.host, target.tokens["write"], b"", "application/json")
    head = head.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    await streamed(target, head + b"2\r\n{}\r\n0\r\nX-A: ", b"a" * (1 << 20), 126)


async def endless(target: Target) -> None:
    """A body in chunks that never ends."""
    head = message("POST", "/api/v1/plan", target.host, target.tokens["read"], b"", "application/json")
    await streamed(
        target, head.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked"), b"1\r\n \r\n" * 10_000, 10_000
    )


async def streamed(target: Target, first: bytes, piece: bytes, n: int) -> None:
    until = time.monotonic() + target.seconds
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(target.host, target.port)
            writer.write(first)
            for _ in range(n):
                writer.write(piece)
                await writer.drain()
                if time.monotonic() > until:
                    break
            writer.close()
        await asyncio.sleep(0.05)


async def long_addresses(target: Target) -> None:
    """Queries, cookies and names of 60 kB."""
    long = "a" * 60_000
    paths = [f"/studies/oven/trials?sort={long}", f"/studies/{long}", f"/studies/oven/panels?open={'1,' * 30_000}"]
    texts = [message("GET", path, target.host, target.tokens["read"]) for path in paths]
    cookie = message("GET", "/", target.host, target.tokens["read"])
    texts.append(cookie.replace(b"\r\n", b"\r\nCookie: " + b"a=b; " * 12_000 + b"\r\n", 1))
    await repeated(target, lambda k: texts[k % len(texts)], 4)


async def styles(target: Target) -> None:
    """A workbook of 30 kB with six million formats."""
    data = workbook("xl/styles.xml", f"<styleSheet {NAMES}><cellXfs>{'<xf/>' * 6_000_000}</cellXfs></styleSheet>")
    await repeated(target, lambda _: target.sheet(data, XLSX), 4)


async def strings(target: Target) -> None:
    """A workbook of 30 kB with six million texts."""
    data = workbook("xl/sharedStrings.xml", f"<sst {NAMES}>{'<si/>' * 6_000_000}</sst>")
    await repeated(target, lambda _: target.sheet(data, XLSX), 4)


async def cells(target: Target) -> None:
    """A workbook of 30 kB with six million cells."""
    rows = f"<row>{'<c/>' * 1_000}</row>" * 6_000
    data = workbook("xl/worksheets/sheet1.xml", f"<worksheet {NAMES}><sheetData>{rows}</sheetData></worksheet>")
    await repeated(target, lambda _: target.sheet(data, XLSX), 4)


async def wide_csv(target: Target) -> None:
    """A text file of a million columns, and one of a line of 60 MB."""
    sheets = [b"a," * 1_000_000 + b"\n" + b"1," * 1_000_000, b"a" * (60 << 20), b'"' + b"a" * (60 << 20)]
    await repeated(target, lambda k: target.sheet(sheets[k % 3], "text/csv"), 3)


async def multipart(target: Target) -> None:
    """A form of 30 MB that nearly has a boundary everywhere."""
    data = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n' + b"\r\n--" * (30 << 18)
    await repeated(target, lambda _: target.sheet(data, "multipart/form-data; boundary=b"), 2)


async def looking(target: Target) -> None:
    """Pages, charts, diagnostics and exports of a study of 200 levers."""
    paths = ["", "/panels", "/checks", "/verdict", "/trials?size=1000", "/export/trials.xlsx", "/export/trials.csv"]
    texts = [message("GET", f"/studies/wide{path}", target.host, target.tokens["read"]) for path in paths]
    texts.append(message("GET", "/api/v1/studies/wide/diagnostics", target.host, target.tokens["read"]))
    until = time.monotonic() + target.seconds

    async def one(k: int) -> None:
        while time.monotonic() < until:
            await target.send(texts[k])

    await asyncio.gather(*(one(k) for k in range(len(texts))))


XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def workbook(part: str, content: str) -> bytes:
    """A workbook in which one part is another."""
    import openpyxl

    book = openpyxl.Workbook()
    book.worksheets[0].append(["trial", "heat", "speed", "outcome"])
    good, bad = io.BytesIO(), io.BytesIO()
    book.save(good)
    with zipfile.ZipFile(good) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    if part not in parts:
        kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
        added = f'<Relationship Id="rId99" Type="{kind}" Target="sharedStrings.xml"/></Relationships>'
        links = parts["xl/_rels/workbook.xml.rels"].decode()
        parts["xl/_rels/workbook.xml.rels"] = links.replace("</Relationships>", added).encode()
    with zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, found in (parts | {part: content.encode()}).items():
            archive.writestr(name, found)
    return bad.getvalue()


ATTACKS = [
    nothing, newlines, readers_json, writers_json, deep_json, plan_of_levels, many_plans, leaving, large_studies,
    idle_connections, slow_heads, slow_bodies, followers, large_head, large_trailer, endless, long_addresses,
    styles, strings, cells, wide_csv, multipart, looking,
]  # fmt: skip


# The service and its processes


def family(pid: int) -> list[int]:
    """A process and those that it started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += family(int(child))
    return found


def memory(pid: int) -> int:
    """Megabytes that a process and those that it started have now."""
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError, IndexError):
            total += int(Path(f"/proc/{one}/status").read_text().split("VmRSS:")[1].split()[0])
    return total >> 10


def watched(pid: int, over: threading.Event, most: list[int]) -> None:
    while not over.wait(0.2):
        most[0] = max(most[0], memory(pid))


def measure(attack: Callable[[Target], Any], target: Target, pid: int, log: Path) -> tuple[Measured, int, int]:
    """Attack, and say how the others fared, how much memory it took, and how much was logged."""
    over, most, logged = threading.Event(), [0], log.stat().st_size
    threading.Thread(target=watched, args=(pid, over, most), daemon=True).start()
    with probing(target.address, target.tokens["write"]) as found:
        asyncio.run(attack(target))
    over.set()
    return found[0], most[0], log.stat().st_size - logged


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--only", default="", help="attacks whose name has this in it")
    parser.add_argument("--probe", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.probe:
        print(json.dumps(vars(asyncio.run(probe(*given.probe)))))
        return

    from harness.http_load import running_server
    from levers.studies.library import create_study, open_storage
    from levers.studies.storage.tokens import create_token

    chosen = [attack for attack in ATTACKS if given.only in attack.__name__]
    all_well = True
    with tempfile.TemporaryDirectory(prefix="levers-attack-") as folder:
        url, log = f"sqlite:///{folder}/levers.db", Path(folder) / "log"
        storage = open_storage(url)
        small: dict[str, list[Any]] = {"heat": ["low", "high"], "speed": [1, 2, 3]}
        create_study("probed", {f"x{k}": [1, 2, 3] for k in range(6)}, budget=500_000, noise_sd=1.0, storage=storage)
        create_study("oven", small, tolerance=0.5, noise_sd=1.0, storage=storage)
        levers_of_wide = {f"x{k}": [1, 2, 3] for k in range(200)}
        wide = create_study("wide", levers_of_wide, budget=3_000, noise_sd=1.0, storage=storage)
        for _ in range(2):
            wide.tell_many((trial, float(trial.number % 7)) for trial in wide.ask(1_000))
        tokens = {role: create_token(storage, role) for role in ("read", "write", "admin")}
        saved = os.dup(2)
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)  # where the service's log goes
        with running_server(url, "--require-token") as server:
            os.dup2(saved, 2)
            heads = ("health s", "tell s", "lost", "of", "MB", "log kB")
            print(f"{'attack':18}" + "".join(f"{head:>9}" for head in heads) + "  answers", flush=True)
            for attack in chosen:
                target = Target(server.address, tokens, given.seconds)
                found, megabytes, logged = measure(attack, target, server.process.pid, log)
                well = max(found.health, found.tell) <= MOST_SECONDS and not found.n_lost and found.n_tell
                all_well &= bool(well)
                answers = " ".join(f"{n}x{status or 'none'}" for status, n in target.answers.most_common(4))
                counts = (found.n_lost, found.n_health + 2 * found.n_tell, megabytes, logged >> 10)
                row = f"{attack.__name__:18}{found.health:9.3f}{found.tell:9.3f}" + "".join(f"{n:9}" for n in counts)
                print(f"{row}  {answers}{'' if well else '  <-- too slow, or lost'}", flush=True)
                time.sleep(1)
        storage.close()
    sys.exit(0 if all_well else 1)


if __name__ == "__main__":
    main()
