"""What can happen in a study. The log of these is the truth; everything else follows from it."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.base import Batch, Remark
from levers.core.codec import serialisable
from levers.core.space import Codes
from levers.studies.spec import StudySpec

EDITION = 4
"""The edition of the rules by which rounds are designed, decisions taken and checks made. It is kept with every event.

Increase it whenever one of these may come out otherwise for the same log. Whoever recomputes a study then knows which
events are of other rules than today's, and does not take them for forged. 0 is everything before logs were chains;
since 3, rounds are divided into days alike on every processor; since 4, a round without an outcome is no look at fresh
runs, and what rounding leaves is allowed for before outcomes are called far out.
"""
KEPT_EDITIONS = (2, 3, EDITION)
"""Editions whose rules this version knows, so that their events come out the same."""
Numbers: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[np.float64]


def numbers(trials: ArrayLike) -> Numbers:
    """Trial numbers as an array."""
    return np.atleast_1d(np.asarray(trials, dtype=np.int64))


@serialisable("Created")
@dataclass(frozen=True, eq=False)
class Created:
    """A study began."""

    spec: StudySpec


@serialisable("Decided")
@dataclass(frozen=True, eq=False)
class Decided:
    """The algorithm took in everything up to here; `past` counts the imports it has used. None before any block."""

    state: Any
    past: int = 0


@serialisable("Opened")
@dataclass(frozen=True, eq=False)
class Opened:
    """A block of runs was designed. Its rows are kept before any of them is handed out."""

    batch: Batch


@serialisable("Asked")
@dataclass(frozen=True, eq=False)
class Asked:
    """Trials were handed to a worker, until a deadline (seconds since 1970) if there is one."""

    trials: Numbers
    worker: str
    deadline: float | None = None


@serialisable("Renewed")
@dataclass(frozen=True, eq=False)
class Renewed:
    """Trials that are still being run have a later deadline. Whoever had them, and since when, stays the same."""

    trials: Numbers
    deadline: float


@serialisable("Told")
@dataclass(frozen=True, eq=False)
class Told:
    """Outcomes came.

    `observed` has the levels of all levers in these runs, where some were left to nature: what was set, and what nature
    took. None where everything was set.
    """

    trials: Numbers
    values: Values
    observed: Codes | None = None


@serialisable("Failed")
@dataclass(frozen=True, eq=False)
class Failed:
    """Runs that gave no outcome; their rows are asked again."""

    trials: Numbers
    reason: str


@serialisable("Expired")
@dataclass(frozen=True, eq=False)
class Expired:
    """Trials whose deadline passed; their rows are asked again."""

    trials: Numbers


@serialisable("Corrected")
@dataclass(frozen=True, eq=False)
class Corrected:
    """An outcome turned out to be another one. `who` and when are kept with every event.

    `observed` has the levels of all levers in that run, if what nature took was corrected too.
    """

    trial: int
    before: float
    value: float
    reason: str
    observed: tuple[int, ...] | None = None


@serialisable("Revised")
@dataclass(frozen=True, eq=False)
class Revised:
    """Decisions from block `first` on were taken again after a correction.

    `states[i]` is what the algorithm knows after block first + i, and `roles[i]` how that block's runs were used.
    """

    first: int
    roles: tuple[str, ...]
    states: tuple[Any, ...]
    changes: tuple[str, ...]


@serialisable("Imported")
@dataclass(frozen=True, eq=False)
class Imported:
    """Runs made before or beside the study: level positions of all factors, and outcomes."""

    codes: Codes
    values: Values
    note: str


@serialisable("Excluded")
@dataclass(frozen=True, eq=False)
class Excluded:
    """An outcome counts no more. Its row is asked for again while its round is open."""

    trial: int
    before: float
    reason: str


@serialisable("Checked")
@dataclass(frozen=True, eq=False)
class Checked:
    """What was decided on was checked; `doubts` is where the outcomes of `n_runs` runs contradict what it rests on."""

    doubts: tuple[Remark, ...]
    n_runs: int


@serialisable("Finished")
@dataclass(frozen=True, eq=False)
class Finished:
    """Somebody ended the study. `state` is what the algorithm knew then, None where it had ended by itself."""

    state: Any
    reason: str


@serialisable("Continued")
@dataclass(frozen=True, eq=False)
class Continued:
    """A study that had ended goes on; `state` is what the algorithm goes on from, and `n_runs` what was asked for."""

    state: Any
    reason: str
    n_runs: int | None = None


@serialisable("Restated")
@dataclass(frozen=True, eq=False)
class Restated:
    """What is asked for, or known, changed under way. `state` is what all runs so far say under the new terms."""

    spec: StudySpec
    state: Any
    changes: tuple[str, ...]
    reason: str


@serialisable("ConfirmationOpened")
@dataclass(frozen=True, eq=False)
class ConfirmationOpened:
    """Fresh runs at the verdict's setting, `n_runs` of them, and as many at the baseline if there is one.

    Their rows are in `batch`, in the order in which they are to be run. No decision or fit ever rests on them.
    """

    batch: Batch
    n_runs: int
    reason: str = ""


@serialisable("ConfirmationClosed")
@dataclass(frozen=True, eq=False)
class ConfirmationClosed:
    """The fresh runs have come in, or somebody gave up what is left of them and said why."""

    reason: str = ""


Event: TypeAlias = (
    Created
    | Decided
    | Opened
    | Asked
    | Renewed
    | Told
    | Failed
    | Expired
    | Corrected
    | Revised
    | Imported
    | Excluded
    | Checked
    | Finished
    | Continued
    | Restated
    | ConfirmationOpened
    | ConfirmationClosed
)


@dataclass(frozen=True, slots=True)
class Record:
    """An event in the log: its place, when (seconds since 1970), who, and what."""

    seq: int
    at: float
    who: str
    event: Event
