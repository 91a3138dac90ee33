"""A study on a server: the same verbs, values and errors as a local one."""

import dataclasses
import io
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import quote

import numpy as np

from levers.algorithms.base import Remark, Verdict
from levers.client.transport import Transport, surprises_of
from levers.core.codec import from_json, restored
from levers.core.merging import forbidden_combinations, merged_groups
from levers.core.space import FREE, Assignment, Factor, Level, Space
from levers.core.validation import check_count, check_positive
from levers.errors import NoSuchTrialError, ObservedLevelError, SheetError, StorageError
from levers.studies.analysis.estimates import Gain
from levers.studies.analysis.views import AWAITS, Best, EffectRow, Effects, Forecast, Status
from levers.studies.events import Record
from levers.studies.outcomes import past_runs
from levers.studies.run import AnyStudy, ByTrial, LogEntry, Outcomes, observed_levels, outcome_pairs, trial_number
from levers.studies.sheets.files import MEDIA_TYPES, target_of, whole_file
from levers.studies.spec import StudySpec
from levers.studies.state import Correction, Exclusion, StudyState, Trial, TrialState
from levers.studies.study import NoOutcomeWarning, SurprisingOutcomeWarning, callers_level, no_outcomes

if TYPE_CHECKING:
    import polars

    from levers.studies.analysis.verification import StudyVerification
    from levers.studies.sheets.runs import SheetReport

FileName: TypeAlias = str | os.PathLike[str]
T = TypeVar("T")


def built(kind: type[T], data: Mapping[str, Any], **more: Any) -> T:
    """A dataclass from its fields. A newer service may send more than is known here.

    >>> built(Forecast, {"now": 3, "likely": None, "worst_case": 9, "new": 1})
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
    given = {
        **data,
        "space": space,
        "options": tuple(sorted(data["options"].items())),
        "forbidden": forbidden_combinations(space, data["forbidden"]),
        "merged": merged_groups(space, data["merged"]),
        "free": tuple(data.get("free", ())),
        "hard_to_change": tuple(data.get("hard_to_change", ())),
        "baseline": None if data.get("baseline") is None else space.encode(data["baseline"]).codes,
    }
    known = {field.name for field in dataclasses.fields(StudySpec) if field.init}
    return restored(StudySpec, {key: value for key, value in given.items() if key in known})  # the service checked it


def status(data: Mapping[str, Any]) -> Status:
    """Where a study stands."""
    doubts = tuple(
        built(Remark, one, levers=tuple(one["levers"]), trials=tuple(one["trials"])) for one in data["doubts"]
    )
    return built(Status, data, to_go=built(Forecast, data["to_go"]), doubts=doubts)


def _exclusions(data: Mapping[str, Any]) -> list[Exclusion]:
    return [built(Exclusion, one, changes=tuple(one["changes"])) for one in data["exclusions"]]


def _corrections(data: Mapping[str, Any]) -> list[Correction]:
    return [
        built(Correction, one, changes=tuple(one["changes"]), observed=tuple(map(tuple, one.get("observed", ()))))
        for one in data["corrections"]
    ]


def setting(space: Space, params: Mapping[str, Level], free: Iterable[str]) -> Assignment:
    """A setting from the levels of what is set, and the names of what is left alone.

    >>> setting(Space.of({"heat": ["low", "high"], "speed": [1, 2]}), {"speed": 2}, ["heat"]).codes
    (-1, 1)
    """
    alone = set(free)
    named = [space.factors[k] for k, name in enumerate(space.names) if name not in alone]
    levels = dict(Space(named).encode(params)) if named else {}
    return space.assignment([FREE if f.name in alone else f.code(levels[f.name]) for f in space.factors])


_TYPES = {suffix: MEDIA_TYPES[suffix] for suffix in (".csv", ".tsv", ".xlsx")}


def study_path(name: str) -> str:
    """Where a study is on a service.

    >>> study_path("line 3/4")
    '/studies/line%203%2F4'
    """
    return f"/studies/{quote(name, safe='')}"


class RemoteStudy(AnyStudy):
    """A study that a service keeps. `Client.load_study` makes one; any number of programs may hold the same.

    It has the verbs of `levers.Study`. Every change is sent with a key until it is answered, so nothing is lost and
    nothing happens twice.
    """

    def __init__(self, name: str, transport: Transport) -> None:
        self.name = name
        self._transport = transport
        self._path = study_path(name)
        self._state = StudyState()

    def __repr__(self) -> str:
        return f"RemoteStudy({self.name!r}, {self._transport.url!r})"

    @property
    def address(self) -> str | None:
        """Where it is kept: the address of the service, which never has the token in it."""
        return self._transport.url

    @cached_property
    def spec(self) -> StudySpec:
        """What is asked for."""
        return spec(self._transport.get_json(self._path))

    @property
    def is_finished(self) -> bool:
        """Whether there is a verdict, and no run is awaited."""
        return self.status().state not in AWAITS

    @property
    def is_held(self) -> bool:
        """Whether it has come to its end on outcomes that contradict what the verdict rests on; see `Study.is_held`."""
        return self.status().state == "in doubt"

    @property
    def n_running(self) -> int:
        """How many trials were handed out and not told."""
        return self.status().n_running

    @property
    def state(self) -> StudyState:
        """The state as of now, worked out here from the study's events: read it, do not change it."""
        known = self._state
        if known.seq:
            last = next(self._transport.pages(f"{self._path}/events", known.seq - 1, 1), None)
            if last is None or last["digest"] != known.head:
                self._state = StudyState()  # the service's storage was rolled back or replaced
        for one in self._transport.pages(f"{self._path}/events", self._state.seq, 1000):
            event: Any = from_json(one["data"], object)
            self._state.apply(Record(one["seq"], one["at"], one["who"], event))
            self._state.head = one["digest"]
        return self._state

    def frozen(self) -> StudyState:
        """A copy of the state as of now."""
        return self.state.copy()

    def trial(self, number: int) -> Trial:
        """One trial."""
        return self._trial(self._get(f"trials/{_known(number)}"))

    def running(self, worker: str | None = None) -> list[Trial]:
        """The trials that were handed out and not told, all of them or one worker's."""
        return self._trials(self._get("running", worker=worker))

    def status(self) -> Status:
        """Where the study stands."""
        return status(self._get("status"))

    def effects(self) -> Effects:
        """What each level loses against the leading one, with intervals that all hold at once."""
        return Effects(built(EffectRow, row) for row in self._get("effects"))

    def part_effects(self) -> Effects:
        """What each level of levers that are tied together loses by itself, where their effects add up."""
        return Effects(built(EffectRow, row) for row in self._get("part-effects"))

    def forecast(self) -> Forecast:
        """How many runs are still to go."""
        return built(Forecast, self._get("forecast"))

    def best(self) -> Best | None:
        """The setting that the estimates favour, and how far it may be from the best; None before any decision."""
        found = self._get("best")
        if found["params"] is None:
            return None
        gain = None if found.get("gain") is None else built(Gain, found["gain"])
        params = setting(self.space, found["params"], found.get("free") or ())
        return built(Best, found, params=params, gain=gain)

    def verdict(self) -> Verdict:
        """The verdict of a finished study."""
        return from_json(self._transport.get(f"{self._path}/export/json").text, Verdict)

    def corrections(self) -> list[Correction]:
        """Outcomes that were corrected, oldest first."""
        return _corrections(self._get("corrections"))

    def log(self) -> list[LogEntry]:
        """Everything that happened, oldest first."""
        return [built(LogEntry, one) for one in self._transport.pages(f"{self._path}/log", limit=1000)]

    def _verify(self, head: str | None, seconds: float, progress: bool | None) -> "StudyVerification":
        from levers.studies.analysis.verification import Difference, StudyVerification

        found = self._get("verification", head=head, seconds=seconds)
        wrong, remarks = (tuple(built(Difference, one) for one in found[key]) for key in ("differences", "remarks"))
        return built(StudyVerification, found, differences=wrong, remarks=remarks)

    def export(self, path: FileName) -> None:
        """Write all trials that were handed out (.csv, .tsv, .xlsx, .parquet), or the verdict (.json) to a file."""
        from levers.studies.analysis.tables import SUFFIXES

        target, suffix = target_of(path, SUFFIXES, SheetError)
        answer = self._transport.get(f"{self._path}/export/{suffix[1:]}")
        with whole_file(target, SheetError) as file:
            file.write(answer.content)

    def trials_dataframe(self, *, pandas: bool = False) -> "polars.DataFrame | Any":
        """One row per trial, with a column for each factor. With `pandas`, as a pandas frame."""
        import polars

        from levers.studies.analysis.tables import as_pandas

        frame = polars.read_parquet(io.BytesIO(self._transport.get(f"{self._path}/frame").content))
        return as_pandas(frame) if pandas else frame

    def ask(self, n: int = 1, *, worker: str | None = None, lease: float | None = None) -> list[Trial]:
        """Up to n runs to make. Fewer, or none, when the rest of the round is with others or the study is finished."""
        return self._trials(self._change("ask", n=check_count("n", n), worker=worker, lease=_lease(lease)))

    def renew(self, trials: Iterable[Trial | int], *, lease: float) -> list[int]:
        """Keep trials that are still being run for `lease` seconds more; returns the numbers of those that are kept."""
        wanted = [_known(trial) for trial in trials]
        return [int(number) for number in self._change("renew", trials=wanted, lease=_lease(lease))["trials"]]

    def tell_many(self, outcomes: Outcomes, *, observed: ByTrial | None = None, insist: bool = True) -> int:
        """Many outcomes at once, all or none of them; returns how many were new. See `Study.tell_many`."""
        pairs = [(t, None if np.isnan(y) else y) for t, y in outcome_pairs(outcomes)]
        told = _with_observed(pairs, observed)
        taken = self._change("tell", _unless(insist), outcomes=told)
        if taken["n_failed"]:
            warnings.warn(no_outcomes(taken["n_failed"]), NoOutcomeWarning, stacklevel=callers_level())
        _warn_of(taken)
        return int(taken["n_new"])

    def fail(self, trial: Trial | int, reason: str = "") -> None:
        """A run that gave no outcome; its row of the design is asked for again."""
        self._change("fail", trial=_known(trial), reason=reason)

    def _correct(self, wanted: list[tuple[int, float]], reason: str, observed: ByTrial | None) -> list[Correction]:
        sent = _with_observed(wanted, observed)
        return _corrections(self._change("correct", outcomes=sent, reason=reason))

    def _exclude(self, wanted: list[int], reason: str) -> list[Exclusion]:
        return _exclusions(self._change("exclude", trials=[_known(trial) for trial in wanted], reason=reason))

    def exclusions(self) -> list[Exclusion]:
        """Outcomes that do not count, oldest first."""
        return _exclusions(self._get("exclusions"))

    def finish(self, reason: str = "") -> Verdict:
        """End the study now: its verdict, with what is certified by the runs made so far."""
        self._change("finish", reason=reason)
        return self.verdict()

    def go_on(self, n_runs: int | None = None, reason: str = "") -> None:
        """More runs after the end: so many, or as many as the algorithm likes."""
        self._change("continue", n_runs=None if n_runs is None else check_count("n_runs", n_runs), reason=reason)

    def _confirm(self, n_runs: int, reason: str) -> None:
        self._change("confirm", n_runs=n_runs, reason=reason)

    def restate(self, *, reason: str = "", **terms: Any) -> tuple[str, ...]:
        """Change what is asked for, or known, under way; see `Study.restate`."""
        changes = self._change("restate", reason=reason, **terms)["changes"]
        self.__dict__.pop("spec", None)  # which is another one now
        return tuple(changes)

    def import_runs(
        self, rows: Sequence[Mapping[str, Level]], values: Sequence[float], note: str, *, insist: bool = True
    ) -> int:
        """Runs that were made before or beside the study; see `Study.import_runs` for what they must be."""
        settings = [self.space.encode(row) for row in rows]
        codes = np.array([one.codes for one in settings], dtype=np.int16).reshape(-1, self.space.n_factors)
        _, y = past_runs(self.space, codes, values)
        sent = [dict(one) for one in settings]
        made = self._change("import", _unless(insist), rows=sent, values=y.tolist(), note=note)
        _warn_of(made)
        return int(made["n_imported"])

    def ask_sheet(
        self, path: FileName, n: int | None = None, *, worker: str | None = None, lease: float | None = None
    ) -> int:
        """Write runs to make into a new run sheet (.csv, .tsv, .xlsx); returns how many, and none write no file."""
        return self._sheet("POST", path, n=n, worker=worker, lease=_lease(lease))

    def open_sheet(self, path: FileName, n: int | None = None, *, worker: str | None = None) -> int:
        """Write the runs that are out into a new run sheet once more; returns how many."""
        return self._sheet("GET", path, n=n, worker=worker)

    def tell_sheet(self, path: FileName, *, insist: bool = True) -> "SheetReport":
        """The outcomes of a filled-in run sheet (.csv, .tsv, .xlsx), all or none; see docs/studies."""
        from levers.studies.sheets.runs import SheetReport

        found = self._upload("PUT", "sheet", path, **_unless(insist))
        _warn_of(found)
        return built(SheetReport, found, flags=surprises_of(found))

    def correct_sheet(self, path: FileName, reason: str) -> list[Correction]:
        """Correct the outcomes that are another in a sheet than was told."""
        return _corrections(self._upload("POST", "sheet/corrections", path, reason=reason))

    def import_sheet(self, path: FileName, note: str, *, insist: bool = True) -> int:
        """Take in past runs that the study did not ask for: a column for each factor, and `outcome`."""
        made = self._upload("POST", "sheet/past", path, note=note, **_unless(insist))
        _warn_of(made)
        return int(made["n_imported"])

    def _get(self, what: str, **params: Any) -> Any:
        return self._transport.get_json(f"{self._path}/{what}", **params)

    def _trial(self, data: Mapping[str, Any]) -> Trial:
        own = {"number": data["trial"], "block": data["block"] - 1, "state": TrialState[data["state"]]}
        observed = data.get("observed") and self._observed(data["observed"])
        params = setting(self.space, data["params"], data.get("free", ()))
        return built(Trial, data, params=params, observed=observed, **own)

    def _observed(self, levels: Mapping[str, Level]) -> Assignment:
        """What levers took that were left alone."""
        return self.space.subspace([self.space.position(name) for name in levels]).encode(levels)

    def _trials(self, data: Any) -> list[Trial]:
        return [self._trial(one) for one in data["trials"]]

    def _change(self, verb: str, params: Mapping[str, Any] | None = None, /, **body: Any) -> Any:
        return self._transport.change(f"{self._path}/{verb}", body, **(params or {}))

    def _sheet(self, method: str, path: FileName, **params: Any) -> int:
        """Write a sheet that the service makes to a new file, unless there is nothing on it."""
        target, suffix = target_of(path, tuple(_TYPES), SheetError)
        if target.exists():
            raise SheetError(f"{target} is there already; choose another file")
        if not os.access(target.parent, os.W_OK):
            raise SheetError(f"cannot write {str(target)!r}: its folder cannot be written to")
        answer = self._transport.send(method, f"{self._path}/sheet", format=suffix[1:], **params)
        n = int(answer.headers["levers-runs"])
        if n:
            try:
                with whole_file(target, SheetError) as file:
                    file.write(answer.content)
            except SheetError as error:
                raise SheetError(f"{error}; the runs are out, `ask --again` writes them once more") from None
        return n

    def _upload(self, method: str, where: str, path: FileName, **params: Any) -> Any:
        kind = _TYPES.get(Path(path).suffix.lower())
        if kind is None:
            raise SheetError(f"the name of a sheet must end in .csv, .tsv or .xlsx, not {os.fspath(path)!r}")
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise SheetError(f"cannot read {os.fspath(path)!r}: {error.strerror or error}") from None
        return self._transport.send(method, f"{self._path}/{where}", content, kind, **params).json()


def _known(trial: Trial | int) -> int:
    """The number of a trial, if there can be one."""
    number = trial_number(trial)
    if number < 0:
        raise NoSuchTrialError(f"there is no trial {number}; trials are counted from 0")
    return number


def _with_observed(pairs: Sequence[tuple[int, float | None]], observed: ByTrial | None) -> list[dict[str, Any]]:
    """Outcomes as they are sent, each with what levers took that its trial left alone."""
    levels = observed_levels(observed) or {}
    without = sorted(set(levels) - {trial for trial, _ in pairs})
    if without:
        raise ObservedLevelError(f"levels came for trial {without[0]}, and no outcome; tell both at once")
    return [
        {"trial": _known(t), "value": y, **({"observed": dict(levels[t])} if t in levels else {})} for t, y in pairs
    ]


def _unless(insist: bool) -> dict[str, str]:
    """That nobody insists, for the address of a request; said only where it is so."""
    return {} if insist else {"insist": "false"}


def _warn_of(answer: Mapping[str, Any]) -> None:
    """Warn of outcomes that were stored and are a surprise."""
    flags = surprises_of(answer)
    if flags:
        warnings.warn(SurprisingOutcomeWarning(flags), stacklevel=callers_level())


def _lease(seconds: float | None) -> float | None:
    return None if seconds is None else check_positive("lease", seconds)
