"""A progress bar on standard error, or none."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Advance: TypeAlias = Callable[[int, str], None]
"""Called with how much more is done, and what is being done now."""


@contextmanager
def progress_bar(title: str, total: int | None, shown: bool = True) -> Iterator[Advance]:
    """A bar that the caller advances. It writes to standard error and disappears into one line when done.

    >>> with progress_bar("runs", 10, shown=False) as advance:
    ...     advance(10, "phase 1")
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[now]}", style="dim"),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as progress:
        task = progress.add_task(title, total=total, now="")

        def advance(done: int, now: str) -> None:
            progress.update(task, advance=done, now=now)

        yield advance
        done = progress.tasks[0].completed
        progress.update(task, now="", total=done)  # an early finish is a full bar
