"""`levers log`: everything that happened to a study, in words."""

from dataclasses import dataclass

from levers.cli.common import DEFAULT, FormatOption, Name, StorageOption, open_study, say_rows, when
from levers.cli.render import Format
from levers.studies.events import Record
from levers.studies.words import words


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
