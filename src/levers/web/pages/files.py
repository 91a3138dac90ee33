"""Files of a study: run sheets to fill in, filled-in ones back, exports."""

import re
import tempfile
from pathlib import Path
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.datastructures import FormData

from levers.charts.report import save_report
from levers.charts.view import StudyView
from levers.core.space import FREE
from levers.errors import InvalidSettingError, LeversError, SurprisingOutcomesError
from levers.studies.analysis import views
from levers.studies.analysis.describe import several
from levers.studies.analysis.tables import export_study
from levers.studies.sheets.cells import taken_codes
from levers.studies.sheets.files import MEDIA_TYPES
from levers.studies.sheets.read import Sheet
from levers.studies.sheets.runs import tell_sheet, write_runs
from levers.studies.study import Study
from levers.web.errors import RefusedError
from levers.web.limits import jobs
from levers.web.pages.runs import study_address
from levers.web.pages.site import answered, is_quiet, page, service_of
from levers.web.pages.study import open_runs, opened, panels_of, refused
from levers.web.security import Posted, file_of, text_of

_KINDS = {**MEDIA_TYPES, ".csv": f"{MEDIA_TYPES['.csv']}; charset=utf-8"}
_EXPORTS = ("trials.csv", "trials.xlsx", "trials.parquet", "verdict.json", "report.html")
router = APIRouter(include_in_schema=False)


@router.get("/studies/{name}/runs.{suffix}")
def run_sheet(request: Request, name: str, suffix: str) -> Response:
    """The runs that are out, as a sheet to print or fill in."""
    study, _ = opened(request, name)
    if f".{suffix}" not in (".csv", ".xlsx"):
        raise RefusedError(404, "run sheets are runs.csv or runs.xlsx")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"runs.{suffix}"
        write_runs(study, views.running(study.state), path)
        return _download(path, f"{study.name} runs.{suffix}")


@router.get("/studies/{name}/export/{what}.{suffix}")
def export(request: Request, name: str, what: str, suffix: str) -> Response:
    """All trials as a table, the verdict as JSON for `levers.verify`, or the report."""
    study, _ = opened(request, name)
    if f"{what}.{suffix}" not in _EXPORTS:
        raise RefusedError(404, f"there are {', '.join(_EXPORTS)}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{what}.{suffix}"
        (save_report if what == "report" else export_study)(study, path)
        return _download(path, f"{study.name} {what}.{suffix}")


@router.post("/studies/{name}/upload")
def upload(request: Request, name: str, form: Posted) -> Response:
    """Take in a filled-in sheet, all of it or nothing; surprising outcomes once they are said to be right."""
    study, view = opened(request, name, "write")
    try:
        insisted = text_of(form, "outcomes")
        sheet = _outcomes(study, insisted) if insisted else _uploaded(request, study, form)
        report = tell_sheet(study, sheet, insist=bool(insisted))
    except SurprisingOutcomesError as error:
        return _asked(request, study, view, sheet, error)
    except LeversError as error:
        return refused(request, study, view, error)
    said = f"{several(report.n_new, 'new outcome', 'new outcomes')}, {report.n_known:,} known before, "
    said += f"{several(report.n_empty, 'row', 'rows')} not run yet."
    if report.n_late:
        said += f" {several(report.n_late, 'row was', 'rows were')} done by someone else first; left out."
    return answered(request, study_address(study, "#runs"), said)


def _uploaded(request: Request, study: Study, form: FormData) -> Sheet:
    file = file_of(form, "sheet")
    if file is None:
        raise InvalidSettingError("choose a filled-in .csv or .xlsx sheet first; nothing was stored")
    shown = (file.filename or "")[:200]
    suffix = ".xlsx" if shown.lower().endswith((".xlsx", ".xlsm")) else ".csv"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"sheet{suffix}"
        path.write_bytes(file.file.read())
        # people know the file by their own name for it
        sheet = service_of(request).compute(request, jobs.sheet_of, path, study.space, repr(shown))
    service_of(request).check_rows(sheet.n_rows)
    return sheet


MOST_ASKED = 50
"""Surprising outcomes of a sheet that are listed."""


def _asked(request: Request, study: Study, view: StudyView, sheet: Sheet, error: SurprisingOutcomesError) -> Response:
    """The question about surprising outcomes of a sheet. A page cannot send a file again, so it holds the outcomes."""
    assert sheet.trials is not None  # read_sheet needs them unless told otherwise
    filled, free = sheet.filled, [study.space.position(name) for name in study.spec.free]
    taken = taken_codes(sheet.codes[filled][:, free]).tolist()
    rows = zip(sheet.trials[filled].tolist(), sheet.outcomes[filled].tolist(), taken, strict=True)
    held = " ".join(":".join([str(trial), repr(value), *map(str, codes)]) for trial, value, codes in rows)
    are = several(len(error.flags), "outcome is", "outcomes are")
    lines = [f"{are} far from what was expected. Nothing of the sheet was stored.", *map(str, error.flags[:MOST_ASKED])]
    if len(error.flags) > MOST_ASKED:
        lines.append(f"and {len(error.flags) - MOST_ASKED:,} more")
    if is_quiet(request):
        return JSONResponse({"ok": False, "kind": "problem", "message": "\n".join(lines), "held": held})
    shown = panels_of(view, open_runs(view, study))
    return page(request, "study.html", 409, wrong=lines, held=held, **shown)


def _outcomes(study: Study, text: str) -> Sheet:
    """The outcomes that a page held while it asked about them, each with the levels of what may be left alone."""
    try:
        rows = [part.split(":") for part in text.split()]
        trials = np.array([int(trial) for trial, *_ in rows], dtype=np.int64)
        values = np.array([float(value) for _, value, *_ in rows])
        free = [study.space.position(name) for name in study.spec.free]
        taken = np.array([[int(code) for code in codes] for _, _, *codes in rows], dtype=np.int16)
        taken = taken.reshape(len(rows), len(free))
        if (taken < FREE).any() or (taken >= np.array(study.space.n_levels)[free]).any():
            raise ValueError("a level that there is not")
    except (ValueError, OverflowError):
        raise InvalidSettingError("what came back with the form cannot be read; upload the sheet again") from None
    codes = np.full((len(trials), study.space.n_factors), FREE, dtype=np.int16)
    codes[:, free] = taken
    return Sheet(np.arange(len(trials)) + 1, trials, codes, values)


def _download(path: Path, name: str) -> Response:
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", name)
    where = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return Response(path.read_bytes(), media_type=_KINDS[path.suffix], headers={"content-disposition": where})
