"""What can be asked of a study on a server without changing it."""

import io
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from levers.algorithms.base import Verdict
from levers.client import decoding
from levers.client.transport import Transport
from levers.core.codec import from_json
from levers.core.space import Assignment, Space
from levers.errors import NoSuchTrialError, StudyError
from levers.studies.spec import StudySpec
from levers.studies.study import trial_number
from levers.studies.trials import Trial
from levers.studies.views import Best, EffectRow, Forecast, Status

if TYPE_CHECKING:
    import polars


class RemoteReading:
    """A study on a server, as far as it can be looked at. `RemoteStudy` adds the verbs that change it."""

    def __init__(self, name: str, transport: Transport) -> None:
        self.name = name
        self._transport = transport
        self.path = f"/studies/{quote(name, safe='')}"

    def __repr__(self) -> str:
        return f"RemoteStudy({self.name!r}, {self._transport.url!r})"

    @cached_property
    def spec(self) -> StudySpec:
        """What is asked for."""
        return decoding.spec(self._transport.get_json(self.path))

    @property
    def space(self) -> Space:
        """The levers."""
        return self.spec.space

    @property
    def is_finished(self) -> bool:
        """Whether there is a verdict."""
        return self.status().state == "finished"

    def trial(self, number: int) -> Trial:
        """One trial."""
        return decoding.trial(self.space, self._get(f"trials/{known_number(number)}"))

    def running(self, worker: str | None = None) -> list[Trial]:
        """The trials that were handed out and not told, all of them or one worker's."""
        return self._trials(self._get("running", worker=worker))

    def status(self) -> Status:
        """Where the study stands."""
        return decoding.status(self._get("status"))

    def effects(self) -> list[EffectRow]:
        """What each level loses against the leading one, with intervals that all hold at once."""
        return [decoding.made(EffectRow, row) for row in self._get("effects")]

    def forecast(self) -> Forecast:
        """How many runs are still to go."""
        return decoding.made(Forecast, self._get("forecast"))

    def best(self) -> Best | None:
        """The setting that the estimates favour, and how far it may be from the best; None before any decision."""
        return decoding.best(self.space, self._get("best"))

    @property
    def best_params(self) -> Assignment:
        """The setting that the estimates favour: never the one of the luckiest run."""
        found = self.best()
        if found is None:
            raise StudyError("no block of runs is complete yet, so there is no estimate; see status()")
        return found.params

    def verdict(self) -> Verdict:
        """The verdict of a finished study."""
        return from_json(self._transport.get(f"{self.path}/export/json").text, Verdict)

    def trials_dataframe(self, *, pandas: bool = False) -> "polars.DataFrame | Any":
        """One row per trial, with a column for each factor. With `pandas`, as a pandas frame."""
        import polars

        from levers.studies.frames import as_pandas

        frame = polars.read_parquet(io.BytesIO(self._transport.get(f"{self.path}/frame").content))
        return as_pandas(frame) if pandas else frame

    def _get(self, what: str, **params: Any) -> Any:
        return self._transport.get_json(f"{self.path}/{what}", **params)

    def _trials(self, data: Any) -> list[Trial]:
        return [decoding.trial(self.space, one) for one in data["trials"]]


def known_number(trial: Trial | int) -> int:
    """The number of a trial, if there can be one.

    >>> known_number(3)
    3
    """
    found = trial_number(trial)
    if found < 0:
        raise NoSuchTrialError(f"there is no trial {found}; trials are counted from 0")
    return found
