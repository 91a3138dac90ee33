"""A real PostgreSQL server on loopback, for tests and benchmarks.

    with running_postgres() as url, new_database(url) as storage: ...

The cluster is new and goes away with the block. Its durability settings are PostgreSQL's own: a commit is on disk.
"""

import os
import pwd
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from levers.errors import StorageError

PROGRAMS = ("initdb", "pg_ctl", "postgres")
USER = "levers"
SECONDS_TO_START = 60
LOG_END = 2_000  # characters of the server's log that an error shows
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C"}  # for the programs: not the caller's PGDATA, PGPORT or language
DEBIAN = Path("/usr/lib/postgresql")

# Stopping is left to a process of its own that waits for a line or for the end of its input. The input ends when this
# process does, so a test run that is killed outright leaves no server behind. It cleans up for the same reason.
STOP = """
read -r _
"$1" stop --silent -D "$2/data" -m fast -t 20 || "$1" stop --silent -D "$2/data" -m immediate -t 20
rm -rf "$2"
"""


def find_programs() -> Path | None:
    """Return the folder of the server programs: from PATH, Debian's newest, or where pg_config points."""
    candidates = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    candidates += sorted(DEBIAN.glob("*/bin"), key=_version, reverse=True)
    if config := shutil.which("pg_config"):
        answer = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        candidates += [Path(line) for line in answer.stdout.splitlines()]
    return next((folder for folder in candidates if all((folder / name).is_file() for name in PROGRAMS)), None)


def postgres_available() -> bool:
    """Return whether the server programs are on this machine."""
    return find_programs() is not None


@contextmanager
def running_postgres(folder: Path | None = None) -> Iterator[str]:
    """Run a new PostgreSQL server, listening on 127.0.0.1 only, and yield the SQLAlchemy URL of an empty database.

    The cluster lives in a temporary folder inside ``folder`` (the system's temporary folder if None), which is removed
    with it. Started by root, the server runs as the user ``postgres``, who must then be able to enter ``folder``.
    """
    programs = find_programs()
    if programs is None:
        raise StorageError(
            f"PostgreSQL's server programs ({', '.join(PROGRAMS)}) are not on this machine: "
            "install them (Debian, Ubuntu: apt-get install postgresql), or put their folder on PATH"
        )
    account = _account()
    home = Path(tempfile.mkdtemp(prefix="levers-postgres-", dir=folder)).resolve()
    if account is not None:
        os.chown(home, account.pw_uid, account.pw_gid)
    keeper = subprocess.Popen(
        ["sh", "-c", STOP, "sh", str(programs / "pg_ctl"), str(home)],
        cwd="/",
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the tests; the keeper must outlive them
        user=account and account.pw_uid,
        group=account and account.pw_gid,
        extra_groups=account and [],
    )
    try:
        port = _start(programs, home, account)
        _administer(f"postgresql://{USER}@127.0.0.1:{port}/postgres", sql.SQL("CREATE DATABASE levers"))
        yield f"postgresql+psycopg://{USER}@127.0.0.1:{port}/levers"
    finally:
        keeper.communicate(b"\n")  # a line, not only the end: a forked child may still hold the pipe
        shutil.rmtree(home, ignore_errors=True)  # when the parent folder is not the server user's to change


@contextmanager
def new_database(url: str) -> Iterator[str]:
    """Make an empty database on the server of ``url``, yield its URL, and drop it whoever is still connected."""
    server, _, _ = url.rpartition("/")
    admin = url.replace("+psycopg", "", 1)
    name = f"levers_{uuid.uuid4().hex}"
    _administer(admin, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield f"{server}/{name}"
    finally:
        _administer(admin, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _administer(url: str, statement: sql.SQL | sql.Composed) -> None:
    with psycopg.connect(url, autocommit=True) as connection:  # databases are not made inside a transaction
        connection.execute(statement)


def _start(programs: Path, home: Path, account: pwd.struct_passwd | None) -> int:
    """Make the cluster in ``home``, start its server and return the port."""
    log, data = home / "server.log", home / "data"

    def run(program: str, *arguments: str) -> str | None:
        """Run one server program; return what it said if it failed."""
        try:
            answer = subprocess.run(
                [programs / program, "-D", data, *arguments],
                cwd=home,  # the server's user may not be allowed into ours
                env=ENVIRONMENT,
                capture_output=True,
                text=True,
                check=False,
                user=account and account.pw_uid,
                group=account and account.pw_gid,
                extra_groups=account and [],
            )
        except OSError as error:
            return str(error)
        return answer.stderr.strip() if answer.returncode else None

    # --no-sync concerns only the making of the cluster, which nobody needs after a power cut
    failure = run("initdb", "--no-sync", "--auth=trust", f"--username={USER}", "--encoding=UTF8", "--no-locale")
    if failure is not None:
        who = f"the user {account.pw_name}" if account else "you"
        raise StorageError(f"initdb could not make a cluster in {data}; it must be a place {who} can enter: {failure}")
    for _ in range(3):  # somebody else may take the free port first
        port = _free_port()
        options = f"-h 127.0.0.1 -p {port} -k {shlex.quote(str(home))} -N 100"
        failure = run("pg_ctl", "start", f"--timeout={SECONDS_TO_START}", f"--log={log}", f"--options={options}")
        if failure is None:
            return port
        said = log.read_text(errors="replace") if log.exists() else ""
        if "Address already in use" not in said:
            break
    raise StorageError(
        f"PostgreSQL from {programs} did not start: {failure}\nThe end of its log:\n{said[-LOG_END:].strip()}\n"
        "Mend what the log names, or install PostgreSQL anew (Debian, Ubuntu: apt-get install --reinstall postgresql)"
    )


def _account() -> pwd.struct_passwd | None:
    """Return whom to run the server as when that is not the current user: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError as error:
        raise StorageError(
            "PostgreSQL does not run as root and there is no user postgres: make one (useradd --system postgres), "
            "or run this as another user"
        ) from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", folder.parent.name))


def restart_postgres(url: str) -> None:
    """Stop the server of ``url``, which ends all its connections, and start it again on the same port."""
    programs, account = find_programs(), _account()
    assert programs is not None  # the server runs
    with psycopg.connect(url.replace("+psycopg", "", 1)) as connection:
        found = connection.execute("SHOW data_directory").fetchone()
    assert found is not None
    data = Path(str(found[0]))
    subprocess.run(
        [programs / "pg_ctl", "restart", "-D", data, "-m", "fast", "-w", "--silent", f"--log={data.parent}/server.log"],
        cwd=data.parent,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,  # the server keeps what it inherits, and a pipe would never end
        check=True,
        user=account and account.pw_uid,
        group=account and account.pw_gid,
        extra_groups=account and [],
    )
