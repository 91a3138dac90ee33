"""Files out and in: exports, tables, run sheets."""

import hashlib
import re
import tempfile
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field
from starlette.background import BackgroundTask
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse

from levers.charts.report import save_report
from levers.studies.analysis.tables import export_study, trials_frame
from levers.studies.events import Numbers, numbers
from levers.studies.sheets.files import MEDIA_TYPES
from levers.studies.sheets.read import Sheet
from levers.studies.sheets.runs import SheetReport, correct_sheet, import_sheet, tell_sheet, write_runs
from levers.studies.study import Study
from levers.web.api.deps import Absent, F, Insist, Key, Name, answer, of_study, once, responses, service_of, study_of
from levers.web.api.runs import CorrectionsMade, Imported
from levers.web.api.schemas import LONGEST_LEASE, MOST_ROWS
from levers.web.api.trials import Worker
from levers.web.errors import RefusedError
from levers.web.limits import jobs
from levers.web.limits.large import form_of

router = APIRouter(tags=["files"])
TYPES = {suffix[1:]: kind for suffix, kind in MEDIA_TYPES.items()}
_SHEETS = ("csv", "tsv", "xlsx")
_EXPORTS = (*_SHEETS, "parquet", "json")
_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
RUNS = "Levers-Runs"
_RUNS = {RUNS: {"description": "How many runs are on the sheet.", "schema": {"type": "integer"}}}
ExportFormat = Annotated[Literal["csv", "tsv", "xlsx", "parquet", "json"], Path(alias="format")]
HowMany = Annotated[
    Annotated[int, Field(ge=1, le=MOST_ROWS)] | Absent, Query(description="The block size, or 1, if not given.")
]
AtMost = Annotated[Annotated[int, Field(ge=1, le=MOST_ROWS)] | Absent, Query(description="How many at most.")]
ForWhom = Annotated[Annotated[str, Field(min_length=1, max_length=200)] | Absent, Query(description="Who makes them.")]
Seconds = Annotated[
    Annotated[float, Field(gt=0, le=LONGEST_LEASE, allow_inf_nan=False)] | Absent,
    Query(description="After how many seconds others may have them."),
]
SheetFormat = Annotated[Literal["csv", "tsv", "xlsx"], Query(alias="format", description="The kind of file.")]


def _with_file(
    method: Any, where: str, operation: str, summary: str, *formats: str, changes: bool = False
) -> Callable[[F], F]:
    """An operation that answers with a file."""
    documented = responses(404, 409, 413, changes=200 if changes else None)
    headers = {"Content-Disposition": {"description": "A name for the file.", "schema": {"type": "string"}}}
    documented[200] = {
        "description": "The file.",
        "content": {TYPES[one]: {"schema": {"type": "object"}} if one == "json" else _BINARY for one in formats},
        "headers": headers | (_RUNS if formats == _SHEETS else {}) | documented.get(200, {}).get("headers", {}),
    }
    return of_study(method, where, operation, summary, None, responses=documented, response_class=Response)


def _with_sheet(method: Any, where: str, operation: str, summary: str, model: Any, errors: Any) -> Callable[[F], F]:
    """An operation whose body is a sheet."""
    return of_study(method, where, operation, summary, model, responses=errors, openapi_extra={"requestBody": _BODY})


@_with_file(router.get, "export/{format}", "exportStudy", "All runs, or the verdict, as a file", *_EXPORTS)
def export(request: Request, name: Name, kind: ExportFormat) -> Response:
    """Every trial that was handed out; as `json` the whole verdict, for `levers.verify`, once there is one."""
    study = study_of(request, name, "read")
    return _written(study, kind, lambda path: export_study(study, path))


@_with_file(router.get, "report", "getReport", "The report as one HTML page", "html")
def report(request: Request, name: Name) -> Response:
    """Question, setting, guarantee, effects, checks and log, on a page that needs no other file."""
    study = study_of(request, name, "read")
    return _written(study, "html", lambda path: save_report(study, path))


@_with_file(router.get, "frame", "getFrame", "All trials as one Parquet table", "parquet")
def frame(request: Request, name: Name) -> Response:
    """One row a trial, also those that wait, as `trials_dataframe` has it."""
    study = study_of(request, name, "read")
    return _written(study, "parquet", lambda path: trials_frame(study.frozen()).write_parquet(path))


@_with_file(router.get, "sheet", "getSheet", "The open runs as a run sheet", *_SHEETS)
def open_sheet(
    request: Request, name: Name, n: AtMost = None, kind: SheetFormat = "csv", worker: Worker = None
) -> Response:
    """Runs that are out, once more: all of them, or one worker's."""
    study = study_of(request, name, "read")
    return _sheet(study, numbers([trial.number for trial in study.running(worker)][:n]), kind)


@_with_file(router.post, "sheet", "askSheet", "Get runs to make, as a run sheet", *_SHEETS, changes=True)
def ask_sheet(
    request: Request,
    name: Name,
    n: HowMany = None,
    kind: SheetFormat = "csv",
    worker: ForWhom = None,
    lease: Seconds = None,
    key: Key = None,
) -> Response:
    """Like `ask`; the answer is a file with a column `outcome` to fill in, and to hand back with PUT."""
    study = study_of(request, name, "write")
    wanted = n or study.spec.block_size or 1
    service_of(request).check_rows(wanted)

    def act() -> str:
        return " ".join(map(str, study.ask_numbers(wanted, worker=worker, lease=lease)))

    text, headers = once(request, study, key, f"sheet {n} {worker} {lease}", act)
    sheet = _sheet(study, numbers([int(number) for number in text.split()]), kind)
    sheet.headers.update(headers)
    return sheet


def _sheet(study: Study, due: Numbers, kind: str) -> Response:
    made = _written(study, kind, lambda path: write_runs(study, due, path))
    made.headers[RUNS] = str(len(due))
    return made


def _written(study: Study, kind: str, write: Any) -> FileResponse:
    """A file made just for this answer, and gone after it."""
    folder = tempfile.TemporaryDirectory(prefix="levers-")
    try:
        path = FilePath(folder.name) / f"file.{kind}"
        write(path)
    except BaseException:
        folder.cleanup()
        raise
    stem = re.sub(r"[^\w.-]+", "_", study.name)
    return FileResponse(
        path, media_type=TYPES[kind], filename=f"{stem}.{kind}", background=BackgroundTask(folder.cleanup)
    )


_SUFFIXES = {TYPES[kind]: f".{kind}" for kind in _SHEETS}
_FORM = "multipart/form-data"
_FIELDS = {"type": "object", "properties": {"file": _BINARY["schema"]}, "required": ["file"]}
_BODY = {
    "required": True,
    "description": "The sheet itself, or a form with the field `file`, whose name says what kind of sheet it is.",
    "content": {**dict.fromkeys(_SUFFIXES, _BINARY), _FORM: {"schema": _FIELDS}},
}
_ERRORS = responses(400, 404, 409, 413, 415)
_CHANGES = responses(400, 404, 409, 413, 415, changes=200)
Reason = Annotated[str, Query(max_length=10_000, pattern=r"[^\s\x00-\x1f]", description="Why; kept in the log.")]
Note = Annotated[str, Query(max_length=10_000, description="Where the runs come from; it is kept in the log.")]


@_with_sheet(router.put, "sheet", "tellSheet", "Hand in a filled-in run sheet", SheetReport, _ERRORS)
async def upload(request: Request, name: Name, insist: Insist = True) -> Response:
    """All of it, or nothing when a row is wrong: the message lists rows and reasons. Handing it in twice is fine."""

    def act(study: Study, sheet: Sheet) -> SheetReport:
        return tell_sheet(study, sheet, insist=insist)

    return await _changed(request, name, None, "tell", act)


@_with_sheet(
    router.post, "sheet/corrections", "correctSheet", "Correct outcomes with a sheet", CorrectionsMade, _CHANGES
)
async def correct(request: Request, name: Name, reason: Reason, key: Key = None) -> Response:
    """The outcomes that are another in the sheet than was told. Rows are checked as when it is handed in."""

    def act(study: Study, sheet: Sheet) -> CorrectionsMade:
        return CorrectionsMade(corrections=correct_sheet(study, sheet, reason))

    return await _changed(request, name, key, f"correct sheet {reason}", act, apart=True)


@_with_sheet(router.post, "sheet/past", "importSheet", "Take in past runs from a sheet", Imported, _CHANGES)
async def import_past(
    request: Request, name: Name, note: Note = "", insist: Insist = True, key: Key = None
) -> Response:
    """A column for each factor, and `outcome`."""

    def act(study: Study, sheet: Sheet) -> Imported:
        return Imported.read(import_sheet(study, sheet, note, insist=insist))

    return await _changed(request, name, key, f"import sheet {note}", act, apart=True, need_trials=False)


async def _changed(
    request: Request,
    name: str,
    key: str | None,
    what: str,
    act: Callable[[Study, Sheet], Any],
    *,
    apart: bool = False,
    **reading: bool,
) -> Response:
    """Change a study by the sheet that came, once if it has a key; on a thread, because sheets take a while."""
    study = await to_thread.run_sync(study_of, request, name, "write")
    suffix, data = await _uploaded(request)

    def work() -> tuple[str, dict[str, str]]:
        with tempfile.TemporaryDirectory(prefix="levers-") as folder:
            path = FilePath(folder) / f"sheet{suffix}"
            path.write_bytes(data)
            # before anybody has to wait for the study; whoever sent it does not know the file by that path
            sheet = service_of(request).compute(request, jobs.sheet_of, path, study.space, "the sheet", **reading)
        service_of(request).check_rows(sheet.n_rows)
        digest = hashlib.sha256(data).hexdigest()
        return once(request, study, key, f"{what} {digest}", lambda: act(study, sheet), apart=apart)

    text, headers = await to_thread.run_sync(work)
    return answer(text, headers=headers)


async def _uploaded(request: Request) -> tuple[str, bytes]:
    """The kind of sheet, and its bytes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _SUFFIXES:
        return _SUFFIXES[kind], await request.body()
    if kind != _FORM:
        raise RefusedError(415, f"a sheet comes as {', '.join(_SUFFIXES)} or {_FORM}, not as {kind or 'nothing'}")
    form = await form_of(request, max_files=1, max_fields=10)
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise RefusedError(422, "the form has no file called `file`")
        suffix = FilePath(file.filename or "").suffix.lower()
        if suffix not in _SUFFIXES.values():
            raise RefusedError(422, f"the name of the file must end in {', '.join(_SUFFIXES.values())}")
        return suffix, await file.read()
    finally:
        await form.close()
