"""Files of a study: run sheets to fill in, filled-in ones back, exports."""

import re
import tempfile
from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData

from levers.errors import InvalidSettingError, LeversError
from levers.studies.analysis import views
from levers.studies.analysis.describe import several
from levers.studies.analysis.tables import export_study
from levers.studies.sheets.files import MEDIA_TYPES
from levers.studies.sheets.read import read_sheet
from levers.studies.sheets.runs import tell_sheet, write_runs
from levers.studies.study import Study
from levers.web.errors import RefusedError
from levers.web.pages.runs import study_address
from levers.web.pages.site import answered, service_of
from levers.web.pages.study import opened, refused
from levers.web.security import Posted, file_of

_KINDS = {**MEDIA_TYPES, ".csv": f"{MEDIA_TYPES['.csv']}; charset=utf-8"}
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
    """All trials as a table, or the verdict as JSON for `levers.verify`."""
    study, _ = opened(request, name)
    if (what, suffix) not in (("trials", "csv"), ("trials", "xlsx"), ("trials", "parquet"), ("verdict", "json")):
        raise RefusedError(404, "there are trials.csv, trials.xlsx, trials.parquet and verdict.json")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{what}.{suffix}"
        with service_of(request).slowly():
            export_study(study, path)
        return _download(path, f"{study.name} {what}.{suffix}")


@router.post("/studies/{name}/upload")
def upload(request: Request, name: str, form: Posted) -> Response:
    """Take in a filled-in sheet, all of it or nothing."""
    study, view = opened(request, name, "write")
    try:
        said = _taken(request, study, form)
    except LeversError as error:
        return refused(request, study, view, error)
    return answered(request, study_address(study, "#runs"), said)


def _taken(request: Request, study: Study, form: FormData) -> str:
    file = file_of(form, "sheet")
    if file is None:
        raise InvalidSettingError("choose a filled-in .csv or .xlsx sheet first; nothing was stored")
    shown = (file.filename or "")[:200]
    suffix = ".xlsx" if shown.lower().endswith((".xlsx", ".xlsm")) else ".csv"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"sheet{suffix}"
        path.write_bytes(file.file.read())
        with service_of(request).slowly():  # people know the file by their own name for it
            sheet = read_sheet(path, study.space, name=repr(shown))
        service_of(request).check_rows(sheet.n_rows)
        report = tell_sheet(study, sheet)
    said = f"{several(report.n_new, 'new outcome', 'new outcomes')}, {report.n_known:,} known before, "
    said += f"{several(report.n_empty, 'row', 'rows')} not run yet."
    if report.n_late:
        said += f" {several(report.n_late, 'row was', 'rows were')} done by someone else first; left out."
    return said


def _download(path: Path, name: str) -> Response:
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", name)
    where = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return Response(path.read_bytes(), media_type=_KINDS[path.suffix], headers={"content-disposition": where})
