"""A progress bar on standard error, or none."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Advance: TypeAlias = Callable[[int, str], None]
"""Called with how much more is done, and what is being done now."""


@contextmanager
def progress_bar(title: str, total: int | None, shown: bool = True) -> Iterator[Advance]:
    """A bar that the caller advances. It writes to standard error and disappears into one line when done.

    >>> with progress_bar("runs", 10, shown=False) as advance:
    ...     advance(10, "phase 1")
    """
    if not shown:
        yield lambda done, now: None
        return
    from rich import progress as bars
    from rich.console import Console

    counts = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn(), bars.TimeRemainingColumn())
    columns = (bars.TextColumn("{task.description}"), *counts, bars.TextColumn("{task.fields[now]}", style="dim"))
    with bars.Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total, now="")
        yield lambda done, now: progress.update(task, advance=done, now=now)
        progress.update(task, now="", total=progress.tasks[0].completed)  # an early finish is a full bar
