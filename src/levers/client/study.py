"""A study on a server: the same verbs, values and errors as a local one."""

import dataclasses
import io
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import numpy as np

from levers.algorithms.base import Verdict
from levers.client.transport import Transport
from levers.core.codec import from_json
from levers.core.merging import forbidden_combinations, merged_groups
from levers.core.space import Assignment, Factor, Level, Space
from levers.core.validation import check_count, check_positive
from levers.errors import InvalidSettingError, NoSuchTrialError, SheetError, StorageError, StudyError, TrialError
from levers.experiments.plan import Plan, TradeOff
from levers.studies.analysis.views import Best, EffectRow, Forecast, Status
from levers.studies.outcomes import outcome_number, past_runs
from levers.studies.run import run_study
from levers.studies.sheets.runs import SheetReport
from levers.studies.spec import StudySpec
from levers.studies.state import Correction, Trial, TrialState
from levers.studies.study import NoOutcomeWarning, no_outcomes, trial_number

if TYPE_CHECKING:
    import httpx
    import polars

T = TypeVar("T")


def made(kind: type[T], data: Mapping[str, Any], **more: Any) -> T:
    """A dataclass from its fields. A newer service may send more than is known here.

    >>> made(Forecast, {"now": 3, "likely": None, "worst_case": 9, "new": 1})
    Forecast(now=3, likely=None, worst_case=9)
    """
    names = [field.name for field in dataclasses.fields(kind) if field.name not in more]  # type: ignore[arg-type]
    try:
        return kind(**{name: data[name] for name in names}, **more)
    except (KeyError, TypeError):
        raise StorageError(f"the service is of another version: its {kind.__name__} is not known here") from None


def spec(data: Mapping[str, Any]) -> StudySpec:
    """What a study is asked to find."""
    space = Space([Factor(factor["name"], factor["levels"]) for factor in data["factors"]])
    return made(
        StudySpec,
        data,
        space=space,
        options=tuple(sorted(data["options"].items())),
        forbidden=forbidden_combinations(space, data["forbidden"]),
        merged=merged_groups(space, data["merged"]),
    )


def trial(space: Space, data: Mapping[str, Any]) -> Trial:
    """One trial."""
    return made(
        Trial,
        data,
        number=data["trial"],
        params=space.encode(data["params"]),
        block=data["block"] - 1,
        state=TrialState[data["state"]],
    )


def status(data: Mapping[str, Any]) -> Status:
    """Where a study stands."""
    return made(Status, data, to_go=made(Forecast, data["to_go"]))


def best(space: Space, data: Mapping[str, Any]) -> Best | None:
    """The setting that the estimates favour."""
    return None if data["params"] is None else made(Best, data, params=space.encode(data["params"]))


def correction(data: Mapping[str, Any]) -> Correction:
    """A corrected outcome."""
    return made(Correction, data, changes=tuple(data["changes"]))


def plan(data: Mapping[str, Any]) -> Plan:
    """How many runs a study takes."""
    return made(Plan, data, trade_off=tuple(made(TradeOff, one) for one in data["trade_off"]))


_TYPES = {
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def kind_of(path: str | os.PathLike[str]) -> str:
    """The kind of sheet, by the file's name.

    >>> kind_of("runs.XLSX")
    'xlsx'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _TYPES:
        raise SheetError(f"the name of a sheet must end in .csv, .tsv or .xlsx, not {os.fspath(path)!r}")
    return suffix[1:]


def check_new(path: str | os.PathLike[str]) -> None:
    """Refuse a file that cannot be written, or is there, before any run is handed out."""
    kind_of(path)
    target = Path(path)
    if target.exists():
        raise SheetError(f"{target} is there already; choose another file")
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise SheetError(f"cannot write {str(target)!r}: its folder is not there, or cannot be written to")


def keep(path: str | os.PathLike[str], answer: "httpx.Response") -> int:
    """Write a sheet that came, unless there is nothing on it; returns how many runs it has."""
    n = int(answer.headers["levers-runs"])
    if n:
        try:
            with open(path, "xb") as file:
                file.write(answer.content)
        except OSError as error:
            reason = error.strerror or error
            raise SheetError(
                f"cannot write {os.fspath(path)!r}: {reason}; the runs are out, `ask --again` writes them once more"
            ) from None
    return n


def content_of(path: str | os.PathLike[str]) -> tuple[str, bytes]:
    """The type and the bytes of a sheet to send."""
    kind = _TYPES["." + kind_of(path)]
    try:
        return kind, Path(path).read_bytes()
    except OSError as error:
        raise SheetError(f"cannot read {os.fspath(path)!r}: {error.strerror or error}") from None


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
        return spec(self._transport.get_json(self.path))

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
        return trial(self.space, self._get(f"trials/{known_number(number)}"))

    def running(self, worker: str | None = None) -> list[Trial]:
        """The trials that were handed out and not told, all of them or one worker's."""
        return self._trials(self._get("running", worker=worker))

    def status(self) -> Status:
        """Where the study stands."""
        return status(self._get("status"))

    def effects(self) -> list[EffectRow]:
        """What each level loses against the leading one, with intervals that all hold at once."""
        return [made(EffectRow, row) for row in self._get("effects")]

    def forecast(self) -> Forecast:
        """How many runs are still to go."""
        return made(Forecast, self._get("forecast"))

    def best(self) -> Best | None:
        """The setting that the estimates favour, and how far it may be from the best; None before any decision."""
        return best(self.space, self._get("best"))

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

        from levers.studies.analysis.tables import as_pandas

        frame = polars.read_parquet(io.BytesIO(self._transport.get(f"{self.path}/frame").content))
        return as_pandas(frame) if pandas else frame

    def _get(self, what: str, **params: Any) -> Any:
        return self._transport.get_json(f"{self.path}/{what}", **params)

    def _trials(self, data: Any) -> list[Trial]:
        return [trial(self.space, one) for one in data["trials"]]


def known_number(trial: Trial | int) -> int:
    """The number of a trial, if there can be one.

    >>> known_number(3)
    3
    """
    found = trial_number(trial)
    if found < 0:
        raise NoSuchTrialError(f"there is no trial {found}; trials are counted from 0")
    return found


Given = Mapping[int, float] | Iterable[tuple[Trial | int, float]]
FileName = str | os.PathLike[str]


class RemoteStudy(RemoteReading):
    """A study that a service keeps. `Client.load_study` makes one; any number of programs may hold the same.

    Every change is sent with a key until it is answered, so nothing is lost and nothing happens twice.
    """

    def ask(self, n: int = 1, *, worker: str | None = None, lease: float | None = None) -> list[Trial]:
        """Up to n runs to make. Fewer, or none, when the rest of the block is with others or the study is finished."""
        return self._trials(self._change("ask", n=check_count("n", n), worker=worker, lease=_lease(lease)))

    def tell(self, trial: Trial | int, value: float) -> None:
        """The outcome of a trial; NaN says that there is none. See `Study.tell`."""
        self.tell_many([(trial, value)])

    def tell_many(self, outcomes: Given) -> int:
        """Many outcomes at once, all or none of them; returns how many were new."""
        told = [{"trial": t, "value": None if np.isnan(y) else y} for t, y in _pairs(outcomes)]
        taken = self._change("tell", outcomes=told)
        if taken["n_failed"]:
            warnings.warn(no_outcomes(taken["n_failed"]), NoOutcomeWarning, stacklevel=3)
        return int(taken["n_new"])

    def fail(self, trial: Trial | int, reason: str = "") -> None:
        """A run that gave no outcome; its row of the design is asked for again."""
        self._change("fail", trial=known_number(trial), reason=reason)

    def correct(self, trial: Trial | int, value: float, reason: str) -> Correction:
        """Another outcome for a trial that was told. Decisions that rested on it are taken again; see `changes`."""
        return self.correct_many([(trial, value)], reason)[0]

    def correct_many(self, outcomes: Given, reason: str) -> list[Correction]:
        """Correct several outcomes at once, all or none; decisions are taken again once, after the last."""
        wanted = [{"trial": t, "value": y} for t, y in _pairs(outcomes)]
        if not isinstance(reason, str) or not reason.strip():
            raise InvalidSettingError("a correction needs a reason, for whoever reads the log later")
        if not wanted:
            raise TrialError("there is nothing to correct; give at least one trial and its outcome")
        made = self._change("correct", outcomes=wanted, reason=reason)
        return [correction(one) for one in made["corrections"]]

    def import_runs(self, rows: Sequence[Mapping[str, Level]], values: Sequence[float], note: str) -> int:
        """Runs that were made before or beside the study; see `Study.import_runs` for what they must be."""
        settings = [self.space.encode(row) for row in rows]
        codes = np.array([one.codes for one in settings], dtype=np.int16).reshape(-1, self.space.n_factors)
        _, y = past_runs(self.space, codes, values)
        made = self._change("import", rows=[dict(one) for one in settings], values=y.tolist(), note=note)
        return int(made["n_imported"])

    def optimize(
        self,
        fn: Callable[[Assignment], float],
        *,
        workers: int = 1,
        timeout: float | None = None,
        lease: float | None = None,
        progress: bool = False,
    ) -> Verdict | None:
        """Run `fn` here on what the study asks for, until there is a verdict; see `Study.optimize`."""
        return run_study(self, fn, workers=workers, timeout=timeout, lease=lease, progress=progress)

    def ask_sheet(
        self, path: FileName, n: int | None = None, *, worker: str | None = None, lease: float | None = None
    ) -> int:
        """Write runs to make into a new run sheet (.csv, .tsv, .xlsx); returns how many, and none write no file."""
        check_new(path)
        params: dict[str, Any] = {"n": n, "worker": worker, "lease": _lease(lease), "format": kind_of(path)}
        return keep(path, self._transport.send("POST", f"{self.path}/sheet", **params))

    def open_sheet(self, path: FileName, *, worker: str | None = None) -> int:
        """Write the runs that are out into a new run sheet once more; returns how many."""
        check_new(path)
        return keep(path, self._transport.get(f"{self.path}/sheet", worker=worker, format=kind_of(path)))

    def tell_sheet(self, path: FileName) -> SheetReport:
        """The outcomes of a filled-in run sheet (.csv, .tsv, .xlsx), all or none; see docs/studies."""
        return made(SheetReport, self._upload("PUT", "sheet", path))

    def correct_sheet(self, path: FileName, reason: str) -> list[Correction]:
        """Correct the outcomes that are another in a sheet than was told."""
        made = self._upload("POST", "sheet/corrections", path, reason=reason)
        return [correction(one) for one in made["corrections"]]

    def import_sheet(self, path: FileName, note: str) -> int:
        """Take in past runs that the study did not ask for: a column for each factor, and `outcome`."""
        return int(self._upload("POST", "sheet/past", path, note=note)["n_imported"])

    def _change(self, verb: str, **body: Any) -> Any:
        return self._transport.change(f"{self.path}/{verb}", body)

    def _upload(self, method: str, where: str, path: FileName, **params: Any) -> Any:
        kind, content = content_of(path)
        return self._transport.send(method, f"{self.path}/{where}", content, kind, **params).json()


def _pairs(outcomes: Given) -> list[tuple[int, float]]:
    pairs = outcomes.items() if isinstance(outcomes, Mapping) else outcomes
    return [(number := known_number(trial), outcome_number(number, value)) for trial, value in pairs]


def _lease(seconds: float | None) -> float | None:
    return None if seconds is None else check_positive("lease", seconds)
