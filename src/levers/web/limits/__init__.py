"""What keeps one client from taking the service away from the others."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a request may bring or take. docs/api.md has them as a table."""

    body_bytes: int = 64 << 20
    """Of a sheet, the largest that anybody sends."""
    json_bytes: int = 8 << 20
    """Of any other change: rows, or a space."""
    read_bytes: int = 256 << 10
    """Of what a token that may only read sends: a space to plan."""
    held_bytes: int = 512 << 20
    """Of all requests that are under way."""
    head_bytes: int = 64 << 10
    """Of an address and headers."""
    head_seconds: float = 15.0
    body_seconds: float = 30.0
    """How long a request may take to arrive; its body a second more for each half MB that it has."""
    stalled_seconds: float = 60.0
    """How long a client may take no part of its answer."""
    health_seconds: float = 2.0
    """How long the storage may take to answer before /health says that it does not."""
    connections: int = 1_000
    """Of all clients; of one address that is not this machine's, half."""
    followers: int = 200
    """Pages that follow studies live."""
    workers: int = 2
    """Processes for what takes long: plans, first rounds of studies, sheets."""
    waiting: int = 8
    """How many more of these may wait for a process."""
    computing_seconds: float = 60.0
    worker_bytes: int = 4 << 30
    """Of addresses that a process for long computations may use; libraries take one of these without using it."""
    rows: int = 100_000
    page_rows: int = 1_000
    open_studies: int = 64
