"""A command as a function of a setting: what it takes to measure one run."""

import os
import shutil
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from levers.core.space import Assignment, Space
from levers.core.validation import check_count, check_positive
from levers.errors import FailedRunError, InvalidSettingError
from levers.experiments.commands.process import Ran, run_process
from levers.experiments.commands.reading import InstructionCounter, Reading
from levers.experiments.commands.template import Template, check_variables

_SECRET = ("LEVERS_TOKEN",)
"""Variables that a command does not get."""


@dataclass(frozen=True, slots=True)
class Command:
    """Runs a command at a setting and returns its outcome; a run that gave none raises FailedRunError.

    Before each run, `setup` is run once and the command itself `warmup` times, which nobody counts; after it, nothing
    happens for `cooldown` seconds. All of them have `timeout` seconds each.

    >>> space = Space.of({"a": [1, 2], "b": [10, 20]})
    >>> Command.of(["echo", "sum:", "{a}{b}"], space)(space.assignment([1, 0]))
    210.0
    """

    template: Template
    reading: Reading
    setup: Template | None = None
    warmup: int = 0
    timeout: float | None = None
    cooldown: float = 0.0
    counter: InstructionCounter | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    """Set by somebody who ends the work: what runs is ended."""

    @classmethod
    def of(
        cls,
        words: Sequence[str],
        space: Space,
        *,
        reading: Reading | None = None,
        setup: Sequence[str] | None = None,
        shell: bool = False,
        warmup: int = 0,
        timeout: float | None = None,
        cooldown: float = 0.0,
    ) -> "Command":
        """A command as it was typed, checked before anything runs."""
        read = reading or Reading()
        check_variables(space)
        template = Template.of(words, space, shell=shell)
        prepared = None if setup is None else Template.of(setup, space, shell=shell)
        for one in (template, prepared):
            program = None if one is None else one.program
            is_made = prepared is not None and one is template and program is not None and os.sep in program
            if program is not None and not is_made and shutil.which(program) is None:
                raise InvalidSettingError(f"there is no program {program!r} that can be run here")
        if warmup:
            check_count("warmup", warmup)
        if timeout is not None:
            check_positive("timeout", timeout)
        if cooldown:
            check_positive("cooldown", cooldown)
        counter = InstructionCounter.find() if read.time == "instructions" else None
        return cls(template, read, prepared, warmup, timeout, cooldown, counter)

    @property
    def unused(self) -> tuple[str, ...]:
        """The levers that have no placeholder, so that only their variables say what they are set to."""
        prepared = self.setup.levers if self.setup is not None else set()
        return tuple(name for name in self.template.unused if name not in prepared)

    def __call__(self, run: Assignment) -> float:
        """The outcome of one run."""
        try:
            return self._measured(run)
        finally:
            if self.cooldown:
                self.stop.wait(self.cooldown)

    def _measured(self, run: Assignment) -> float:
        if self.setup is not None:
            self._run(self.setup.arguments(run), run, "the setup")
        arguments = self.template.arguments(run)
        for _ in range(self.warmup):
            self._run(arguments, run, "the warmup")
        if self.counter is None:
            ran = self._run(arguments, run)
        else:
            with self.counter.counting(arguments) as (counting, count):
                ran = self._run(counting, run)
                return count()
        try:
            return self.reading.value(ran)
        except FailedRunError as error:
            raise ran.failure(str(error)) from None

    def _run(self, arguments: Sequence[str], run: Assignment, what: str = "") -> Ran:
        plain = {name: value for name, value in os.environ.items() if name not in _SECRET}
        environment = {**plain, **self.template.environment(run)}
        before = f"{what}: " if what else ""
        try:
            ran = run_process(arguments, environment=environment, timeout=self.timeout, stop=self.stop)
        except FailedRunError as error:
            raise FailedRunError(f"{before}{error}") from None
        if ran.code:
            how = f"exit code {ran.code}" if ran.code > 0 else f"ended by {_signal(-ran.code)}"
            raise ran.failure(f"{before}{how}")
        return ran


def _signal(number: int) -> str:
    """A signal's name.

    >>> _signal(11)
    'SIGSEGV'
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
