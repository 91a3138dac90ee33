"""Whatever happens to a run, the same call ends with the same bytes."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl
import pytest
from joblib.externals.loky import get_reusable_executor

from levers.errors import InvalidSettingError
from levers.reproduction import backends, results
from levers.reproduction.run import reproduce
from levers.reproduction.sweeps import Task

QUICK, LONGER = "hardness", "misspecification"
N_TASKS = 6
CALL = """
import sys
from levers.reproduction.run import reproduce

def hold(task, done, of):
    if done >= 5:  # so that it cannot end before somebody ends it
        sys.stdin.read()

reproduce(sys.argv[1], sys.argv[2], size="smoke", workers=int(sys.argv[3]), on_task=hold)
"""


def tables(folder: Path) -> dict[str, bytes]:
    """What a run ends with, byte for byte."""
    return {name: (folder / name).read_bytes() for name in ("results.parquet", "results.csv", "summary.csv")}


def n_parts(folder: Path) -> int:
    return len(list(folder.glob("parts/*.parquet")))


def until(true: Callable[[], object], seconds: float = 60) -> None:
    """Wait for something that is sure to come."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def processes() -> list[list[str]]:
    """All processes that live, as id, parent, group and command."""
    found = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,pgid=,stat=,args="], capture_output=True, text=True)
    rows = [line.split(maxsplit=4) for line in found.stdout.splitlines()]
    return [[pid, parent, group, args] for pid, parent, group, stat, args in rows if not stat.startswith("Z")]


def is_gone(group: int) -> bool:
    return not any(row[2] == str(group) for row in processes())


@contextmanager
def running(*command: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process group of its own, of which nothing is left at the end."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, **more},
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        until(lambda: is_gone(process.pid))


def calling(what: str, folder: Path, workers: int) -> AbstractContextManager[subprocess.Popen[str]]:
    """An experiment in a process of its own, which does not end by itself."""
    return running(sys.executable, "-c", CALL, what, str(folder), str(workers))


@pytest.fixture(scope="module")
def quick_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the quick experiment when nothing happens."""
    folder = tmp_path_factory.mktemp("quick")
    reproduce(QUICK, folder, size="smoke")
    return folder


@pytest.fixture(scope="module")
def quick(quick_folder: Path) -> dict[str, bytes]:
    """The tables of the quick experiment when nothing happens."""
    return tables(quick_folder)


@pytest.fixture
def done(quick_folder: Path, tmp_path: Path) -> Path:
    """A copy of its folder for a test of its own."""
    return Path(shutil.copytree(quick_folder, tmp_path, dirs_exist_ok=True))


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The tables of the longer experiment when nothing happens."""
    folder = tmp_path_factory.mktemp("longer")
    reproduce(LONGER, folder, size="smoke")
    return tables(folder)


@pytest.fixture(scope="module", autouse=True)
def workers_are_ended() -> Iterator[None]:
    yield
    get_reusable_executor().shutdown(wait=True)


@dataclass
class Cluster:
    """A dask scheduler and its workers, as processes that talk over loopback."""

    address: str
    folder: Path

    @contextmanager
    def worker(self, *options: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        name = uuid4().hex
        command = (sys.executable, "-m", "dask", "worker", self.address, "--host", "127.0.0.1", "--no-dashboard")
        where = ("--local-directory", str(self.folder), "--name", name)
        with running(*command, *where, *options, **environment) as process:
            until(lambda: name in self.ask(lambda dask_scheduler: set(dask_scheduler.aliases)))
            yield process

    def ask(self, question: Callable[[Any], Any]) -> Any:
        """Ask the scheduler about itself; dask wants the argument to be called dask_scheduler."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            return client.run_on_scheduler(question)


@contextmanager
def starting_scheduler(folder: Path) -> Iterator[tuple[Cluster, subprocess.Popen[str]]]:
    pytest.importorskip("distributed")
    path = folder / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(path))
    with running(sys.executable, "-m", "dask", "scheduler", *options) as process:
        until(path.exists)
        until(lambda: path.read_text().endswith("}"))
        yield Cluster(json.loads(path.read_text())["address"], folder), process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers: one with two threads, one with a nanny."""
    with (
        starting_scheduler(tmp_path_factory.mktemp("cluster")) as (cluster, _),
        cluster.worker("--nthreads", "2", "--no-nanny"),
        cluster.worker("--nthreads", "1"),
    ):
        yield cluster


def test_workers_do_not_change_a_byte(tmp_path: Path, quick: dict[str, bytes]) -> None:
    reproduce(QUICK, tmp_path, size="smoke", workers=2)
    assert tables(tmp_path) == quick


def stop(task: Task, done: int, of: int) -> None:
    raise KeyboardInterrupt


class Fatal:
    """Kills something when the first task is done, and notes what is reported as done."""

    def __init__(self, kill: Callable[[], None]) -> None:
        self.kill = kill
        self.keys: list[str] = []

    def __call__(self, task: Task, done: int, of: int) -> None:
        self.keys.append(task.key)
        if len(self.keys) == 1:
            self.kill()


def local_workers() -> list[int]:
    return [int(pid) for pid, parent, _, args in processes() if parent == str(os.getpid()) and "LokyProcess" in args]


def test_a_killed_worker_is_replaced(tmp_path: Path, longer: dict[str, bytes]) -> None:
    fatal = Fatal(lambda: os.kill(local_workers()[0], signal.SIGKILL))
    reproduce(LONGER, tmp_path, size="smoke", workers=2, on_task=fatal)
    assert len(fatal.keys) == len(set(fatal.keys)) == N_TASKS
    assert tables(tmp_path) == longer


def test_workers_that_keep_dying_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "MOST_RETRIES", 0)
    monkeypatch.setattr(backends, "_run_in_worker", lambda task, parent: os._exit(1))
    with pytest.raises(InvalidSettingError, match="killed 1 times in a row"):
        reproduce(QUICK, tmp_path, size="smoke", workers=2)


def test_killed_at_any_moment_it_goes_on(tmp_path: Path, longer: dict[str, bytes]) -> None:
    moments = random.Random(20230)
    for n_done, workers in ((0, 1), (1, 2), (3, 1)):
        with calling(LONGER, tmp_path, workers) as process:
            until((tmp_path / "settings.json").exists)
            until(lambda n=n_done: n_parts(tmp_path) >= n)  # type: ignore[misc]
            time.sleep(moments.uniform(0, 0.4))
            os.killpg(process.pid, signal.SIGKILL)
    kept = n_parts(tmp_path)
    assert kept >= 3
    assert reproduce(LONGER, tmp_path, size="smoke").n_resumed == kept
    assert tables(tmp_path) == longer


def test_killed_while_it_writes_the_tables_it_writes_them_again(done: Path, quick: dict[str, bytes]) -> None:
    (done / "results.csv").write_bytes(quick["results.csv"][:100])
    (done / "results.parquet").unlink()
    (done / ".results.writing").write_bytes(quick["results.parquet"][:100])
    assert reproduce(QUICK, done, size="smoke").n_resumed == N_TASKS
    assert tables(done) == quick


@pytest.mark.parametrize(("send", "what"), [(os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM)])
def test_stopped_it_leaves_no_process_and_goes_on(
    tmp_path: Path, longer: dict[str, bytes], send: Callable[[int, int], None], what: int
) -> None:
    """Ctrl-C reaches the workers too. Being terminated does not, and leaves no time to end them."""
    with calling(LONGER, tmp_path, workers=2) as process:
        until(lambda: n_parts(tmp_path))
        send(process.pid, what)
        assert process.wait(60) == -what
        until(lambda: is_gone(process.pid))
    kept = n_parts(tmp_path)
    assert 1 <= kept < N_TASKS
    assert reproduce(LONGER, tmp_path, size="smoke").n_resumed == kept
    assert tables(tmp_path) == longer


def test_interrupted_in_a_notebook_the_same_call_goes_on(tmp_path: Path, quick: dict[str, bytes]) -> None:
    for n_kept, workers in enumerate((1, 2)):
        with pytest.raises(KeyboardInterrupt) as kept_as_notebooks_do:
            reproduce(QUICK, tmp_path, size="smoke", workers=workers, on_task=stop)
        assert kept_as_notebooks_do.traceback
        assert n_parts(tmp_path) == n_kept + 1
        until(lambda: not local_workers())
    assert reproduce(QUICK, tmp_path, size="smoke").n_resumed == 2
    assert tables(tmp_path) == quick


def test_a_cluster_does_not_change_a_byte(tmp_path: Path, cluster: Cluster, quick: dict[str, bytes]) -> None:
    reproduce(QUICK, tmp_path, size="smoke", scheduler=cluster.address)
    assert tables(tmp_path) == quick


def test_a_killed_cluster_worker_is_done_without(tmp_path: Path, cluster: Cluster, longer: dict[str, bytes]) -> None:
    with cluster.worker("--nthreads", "1", "--no-nanny") as victim:
        fatal = Fatal(victim.kill)
        reproduce(LONGER, tmp_path, size="smoke", scheduler=cluster.address, on_task=fatal)
        assert victim.wait(60) == -signal.SIGKILL
    assert len(fatal.keys) == len(set(fatal.keys)) == N_TASKS
    assert tables(tmp_path) == longer


def test_interrupted_it_withdraws_its_tasks_from_a_cluster(
    tmp_path: Path, cluster: Cluster, longer: dict[str, bytes]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        reproduce(LONGER, tmp_path, size="smoke", scheduler=cluster.address, on_task=stop)
    until(lambda: cluster.ask(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0)
    assert reproduce(LONGER, tmp_path, size="smoke", scheduler=cluster.address).n_resumed == 1
    assert tables(tmp_path) == longer


def test_seeds_do_not_meet_on_a_cluster(tmp_path: Path, cluster: Cluster, quick: dict[str, bytes]) -> None:
    def other_seed(task: Task, done: int, of: int) -> None:
        if done == 1:
            reproduce(QUICK, tmp_path / "other", size="smoke", seed=1, scheduler=cluster.address)

    reproduce(QUICK, tmp_path, size="smoke", scheduler=cluster.address, on_task=other_seed)
    reproduce(QUICK, tmp_path / "alone", size="smoke", seed=1)
    assert tables(tmp_path) == quick
    assert tables(tmp_path / "other") == tables(tmp_path / "alone") != quick


def test_a_cluster_that_is_lost_is_named_and_the_call_goes_on(tmp_path: Path, longer: dict[str, bytes]) -> None:
    (tmp_path / "cluster").mkdir()
    with (
        starting_scheduler(tmp_path / "cluster") as (cluster, scheduler),
        cluster.worker("--no-nanny"),
        pytest.raises(InvalidSettingError, match="was lost; the same call goes on"),
    ):
        reproduce(LONGER, tmp_path, size="smoke", scheduler=cluster.address, on_task=Fatal(scheduler.kill))
    assert reproduce(LONGER, tmp_path, size="smoke").n_resumed >= 1
    assert tables(tmp_path) == longer


def test_workers_with_another_version_are_refused(tmp_path: Path, cluster: Cluster) -> None:
    metadata = tmp_path / "levers-9.9.9.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: levers\nVersion: 9.9.9\n")
    with (
        cluster.worker("--no-nanny", PYTHONPATH=str(tmp_path)),
        pytest.raises(InvalidSettingError, match=r"workers of the cluster have 9\.9\.9"),
    ):
        reproduce(QUICK, tmp_path / "run", size="smoke", scheduler=cluster.address)


def test_a_worker_that_comes_later_is_checked_too() -> None:
    with pytest.raises(InvalidSettingError, match=r"this is levers 9\.9\.9, but workers of the cluster have"):
        backends._run_on_cluster(Task(QUICK, 0, 0, "smoke"), expected="9.9.9")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense", "tls://127.0.0.1:1", "silent"])
def test_a_wrong_address_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(backends, "SECONDS_TO_CONNECT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        if address == "silent":  # something listens, but it is no scheduler
            address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(InvalidSettingError, match=f"no dask scheduler at {address}"):
            reproduce(QUICK, tmp_path, size="smoke", scheduler=address)


def test_without_dask_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidSettingError, match=r"'\.\[cluster\]'"):
        reproduce(QUICK, tmp_path, size="smoke", scheduler="tcp://127.0.0.1:1")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def replaced(path: Path) -> None:
    pl.DataFrame({"other": [1]}).write_parquet(path)


@pytest.mark.parametrize("damage", [emptied, cut, zeroed, replaced])
def test_a_damaged_part_is_run_again(done: Path, quick: dict[str, bytes], damage: Callable[[Path], None]) -> None:
    first, second, *_ = sorted(done.glob("parts/*.parquet"))
    damage(first)
    second.rename(second.with_name(f".{second.name}.writing"))
    assert reproduce(QUICK, done, size="smoke").n_resumed == N_TASKS - 2
    assert tables(done) == quick
    assert not list(done.rglob("*.writing"))


def test_a_part_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def noted(name: str) -> Callable[..., None]:
        done = getattr(os, name)

        def call(*arguments: object) -> None:
            calls.append(name)
            done(*arguments)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, noted(name))
    results.write_whole(tmp_path / "part", b"data")
    assert calls == ["fsync", "replace"]


def test_one_process_at_a_time(tmp_path: Path, quick: dict[str, bytes]) -> None:
    with calling(QUICK, tmp_path, workers=1):
        until(lambda: n_parts(tmp_path))
        with pytest.raises(InvalidSettingError, match="another process writes to"):
            reproduce(QUICK, tmp_path, size="smoke")
    assert reproduce(QUICK, tmp_path, size="smoke").n_resumed >= 1
    assert tables(tmp_path) == quick


def test_one_thread_at_a_time(tmp_path: Path, quick: dict[str, bytes]) -> None:
    refused: list[InvalidSettingError] = []

    def also() -> None:
        try:
            reproduce(QUICK, tmp_path, size="smoke")
        except InvalidSettingError as error:
            refused.append(error)

    def on_task(task: Task, done: int, of: int) -> None:
        thread = threading.Thread(target=also)
        thread.start()
        thread.join()

    reproduce(QUICK, tmp_path, size="smoke", on_task=on_task)
    assert len(refused) == N_TASKS
    assert tables(tmp_path) == quick


@pytest.mark.usefixtures("done")
def test_results_of_other_settings_are_refused(tmp_path: Path) -> None:
    before, path = tables(tmp_path), tmp_path / "settings.json"
    with pytest.raises(InvalidSettingError, match="other settings"):
        reproduce(QUICK, tmp_path, size="smoke", seed=1)
    with pytest.raises(InvalidSettingError, match="other settings"):
        reproduce(QUICK, tmp_path, size="notebook")
    settings = json.loads(path.read_text())
    for text in (json.dumps({**settings, "version": "0.0.0"}), json.dumps({**settings, "sweeps": "x"}), ""):
        path.write_text(text)
        with pytest.raises(InvalidSettingError, match="other settings"):
            reproduce(QUICK, tmp_path, size="smoke")
    path.unlink()  # results of which nobody knows the settings
    with pytest.raises(InvalidSettingError, match="other settings"):
        reproduce(QUICK, tmp_path, size="smoke")
    path.write_text(json.dumps(settings))
    assert reproduce(QUICK, tmp_path, size="smoke").n_resumed == N_TASKS
    assert tables(tmp_path) == before


@pytest.mark.usefixtures("done")
def test_what_is_done_needs_no_cluster(tmp_path: Path) -> None:
    assert reproduce(QUICK, tmp_path, size="smoke", scheduler="tcp://127.0.0.1:1").n_resumed == N_TASKS


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidSettingError, match="cannot write to"):
        reproduce(QUICK, tmp_path / "file", size="smoke")
