"""A study on a server: the same verbs, values and errors as a local one."""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from levers.algorithms.base import Verdict
from levers.client import decoding, sheets
from levers.client.reading import RemoteReading, known_number
from levers.core.checks import check_count, check_positive
from levers.core.space import Assignment, Level
from levers.errors import InvalidSettingError, TrialError
from levers.studies.accepting import outcome_number
from levers.studies.arrays import past_runs
from levers.studies.fold import Correction
from levers.studies.optimizing import run_study
from levers.studies.sheet_runs import SheetReport
from levers.studies.study import NoOutcomeWarning, no_outcomes
from levers.studies.trials import Trial

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
        return [decoding.correction(one) for one in made["corrections"]]

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
        sheets.check_new(path)
        params: dict[str, Any] = {"n": n, "worker": worker, "lease": _lease(lease), "format": sheets.kind_of(path)}
        return sheets.keep(path, self._transport.send("POST", f"{self.path}/sheet", **params))

    def open_sheet(self, path: FileName, *, worker: str | None = None) -> int:
        """Write the runs that are out into a new run sheet once more; returns how many."""
        sheets.check_new(path)
        return sheets.keep(path, self._transport.get(f"{self.path}/sheet", worker=worker, format=sheets.kind_of(path)))

    def tell_sheet(self, path: FileName) -> SheetReport:
        """The outcomes of a filled-in run sheet (.csv, .tsv, .xlsx), all or none; see docs/studies."""
        return decoding.made(SheetReport, self._upload("PUT", "sheet", path))

    def correct_sheet(self, path: FileName, reason: str) -> list[Correction]:
        """Correct the outcomes that are another in a sheet than was told."""
        made = self._upload("POST", "sheet/corrections", path, reason=reason)
        return [decoding.correction(one) for one in made["corrections"]]

    def import_sheet(self, path: FileName, note: str) -> int:
        """Take in past runs that the study did not ask for: a column for each factor, and `outcome`."""
        return int(self._upload("POST", "sheet/past", path, note=note)["n_imported"])

    def _change(self, verb: str, **body: Any) -> Any:
        return self._transport.change(f"{self.path}/{verb}", body)

    def _upload(self, method: str, where: str, path: FileName, **params: Any) -> Any:
        kind, content = sheets.content_of(path)
        return self._transport.send(method, f"{self.path}/{where}", content, kind, **params).json()


def _pairs(outcomes: Given) -> list[tuple[int, float]]:
    pairs = outcomes.items() if isinstance(outcomes, Mapping) else outcomes
    return [(number := known_number(trial), outcome_number(number, value)) for trial, value in pairs]


def _lease(seconds: float | None) -> float | None:
    return None if seconds is None else check_positive("lease", seconds)
