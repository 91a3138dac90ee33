"""What can be asked of a study without changing it."""

import getpass
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from levers.algorithms.base import Verdict
from levers.core.space import Assignment, Space
from levers.errors import NotFinishedError, StudyError
from levers.studies import views
from levers.studies.fold import StudyState
from levers.studies.log import StudyLog
from levers.studies.spec import StudySpec
from levers.studies.storage.base import Storage
from levers.studies.trials import Trial

if TYPE_CHECKING:
    import polars


class StudyReading:
    """A study in a storage, as far as it can be looked at. `Study` adds the verbs that change it."""

    def __init__(
        self,
        name: str,
        storage: Storage,
        study: int,
        *,
        who: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.storage = storage
        self.who = who if who is not None else login_name()
        self.id = study
        self._log = StudyLog(storage, study, clock)
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"Study({self.name!r}, {self.storage.url!r})"

    @property
    def state(self) -> StudyState:
        """The state as of now: read it, do not change it. Other threads do; `frozen` gives a copy."""
        with self._lock:
            return self._log.current()

    def frozen(self) -> StudyState:
        """A copy of the state as of now, for looking at it at length while other threads go on."""
        with self._lock:
            return self._log.current().copy()

    @property
    def spec(self) -> StudySpec:
        """What is asked for."""
        return self.state.spec

    @property
    def space(self) -> Space:
        """The levers."""
        return self.spec.space

    @property
    def is_finished(self) -> bool:
        """Whether there is a verdict."""
        return self.state.open_block is None

    def shares_log_with(self, other: "StudyReading") -> bool:
        """Whether two handles follow the log together, so that one can join the other's transaction."""
        return self._log is other._log

    def trial(self, number: int) -> Trial:
        """One trial."""
        with self._lock:
            return views.trial(self.state, number)

    def running(self, worker: str | None = None) -> list[Trial]:
        """The trials that were handed out and not told, all of them or one worker's."""
        with self._lock:
            state = self.state
            return [t for t in views.trials(state, views.running(state)) if worker is None or t.worker == worker]

    def status(self) -> views.Status:
        """Where the study stands."""
        with self._lock:
            return views.status(self.name, self.state)

    def effects(self) -> list[views.EffectRow]:
        """What each level loses against the leading one, with intervals that all hold at once."""
        with self._lock:
            return views.effects(self.state)

    def forecast(self) -> views.Forecast:
        """How many runs are still to go."""
        with self._lock:
            return views.forecast(self.state)

    def best(self) -> views.Best | None:
        """The setting that the estimates favour, and how far it may be from the best; None before any decision."""
        with self._lock:
            return views.best(self.state)

    @property
    def best_params(self) -> Assignment:
        """The setting that the estimates favour: never the one of the luckiest run."""
        found = self.best()
        if found is None:
            raise StudyError("no block of runs is complete yet, so there is no estimate; see status()")
        return found.params

    def verdict(self) -> Verdict:
        """The verdict of a finished study."""
        with self._lock:
            found = views.verdict(self.state)
        if found is None:
            to_go = self.forecast()
            raise NotFinishedError(f"the study is not finished: {to_go}; `status` says where it stands")
        return found

    def trials_dataframe(self, *, pandas: bool = False) -> "polars.DataFrame | Any":
        """One row per trial, with a column for each factor. With `pandas`, as a pandas frame."""
        from levers.studies.frames import as_pandas, trials_frame

        frame = trials_frame(self.frozen())
        return as_pandas(frame) if pandas else frame


def login_name() -> str:
    """Who works here, for the log."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
