"""`levers log`: everything that happened to a study, in words."""

from dataclasses import dataclass

from levers.cli.common import DEFAULT, FormatOption, Name, StorageOption, open_study, say_rows, several, when
from levers.cli.render import Format
from levers.studies.events import (
    Asked,
    Corrected,
    Created,
    Decided,
    Event,
    Expired,
    Failed,
    Imported,
    Numbers,
    Opened,
    Record,
    Revised,
    Told,
)


@dataclass(frozen=True, slots=True)
class LogRow:
    """An event: its place in the log, when, who, and what."""

    seq: int
    time: str
    who: str
    what: str

    @classmethod
    def of(cls, record: Record) -> "LogRow":
        """From the record."""
        return cls(record.seq, when(record.at), record.who, words(record.event))


def log(name: Name, storage: StorageOption = DEFAULT, output: FormatOption = Format.table) -> None:
    """Every event of a study: who did what, and when. Nothing is ever removed from it.

    \b
    Example:
      levers log oven --format csv
    """
    study = open_study(name, storage)
    stored = study.storage.read(study.storage.find(study.name), 0)
    say_rows([LogRow.of(one.record()) for one in stored], output, f"Log of {name}")


def words(event: Event) -> str:
    """What happened, in a few words.

    >>> words(Corrected(3, 1.5, 2.5, "typo"))
    'corrected trial 3: 1.5 -> 2.5 (typo)'
    """
    match event:
        case Created():
            spec = event.spec
            return f"created: {several(spec.space.n_factors, 'factor', 'factors')}, {spec.goal} with {spec.algorithm}"
        case Decided():
            return "decided"
        case Opened():
            return f"designed {several(event.batch.n_runs, 'run', 'runs')} ({event.batch.stage})"
        case Asked():
            until = "" if event.deadline is None else f" until {when(event.deadline)}"
            return f"asked {_trials(event.trials)} for {event.worker}{until}"
        case Told():
            if len(event.trials) == 1:
                return f"told {_trials(event.trials)}: {event.values[0]:g}"
            return f"told {len(event.trials)} outcomes"
        case Failed():
            return f"{_trials(event.trials)} failed{_because(event.reason)}"
        case Expired():
            return f"the deadline of {_trials(event.trials)} passed"
        case Corrected():
            return f"corrected trial {event.trial}: {event.before:g} -> {event.value:g}{_because(event.reason)}"
        case Revised():
            changes = "; ".join(event.changes) or "no decision changes"
            return f"decided again from block {event.first + 1} of the design on: {changes}"
        case Imported():
            return f"imported {several(len(event.values), 'run', 'runs')}{_because(event.note)}"


def _trials(trials: Numbers) -> str:
    return f"trial {trials[0]}" if len(trials) == 1 else f"{len(trials)} trials"


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""
