"""A progress bar on standard error, or none."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeAlias

Advance: TypeAlias = Callable[[int, str], None]
"""Called with how much more is done, and what is being done now."""


@contextmanager
def progress_bar(title: str, total: int | None, shown: bool | None = True) -> Iterator[Advance]:
    """A bar that the caller advances. It writes to standard error and disappears into one line when done.

    With `shown=None` it is shown where somebody sees it: when standard error is a terminal.

    >>> with progress_bar("runs", 10, shown=False) as advance:
    ...     advance(10, "phase 1")
    """
    if not (_is_terminal(sys.stderr) if shown is None else shown):
        yield lambda done, now: None
        return
    from rich import progress as bars
    from rich.console import Console

    counts = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn(), bars.TimeRemainingColumn())
    columns = (bars.TextColumn("{task.description}"), *counts, bars.TextColumn("{task.fields[now]}", style="dim"))
    # what is printed meanwhile appears above the bar, unless standard output goes elsewhere: there it must arrive
    out = _is_terminal(sys.stdout)
    with bars.Progress(*columns, console=Console(stderr=True), redirect_stdout=out) as progress:
        task = progress.add_task(title, total=total, now="")
        yield lambda done, now: progress.update(task, advance=done, now=now)
        progress.update(task, now="", total=progress.tasks[0].completed)  # an early finish is a full bar


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()  # a program without a console has no streams
