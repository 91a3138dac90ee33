"""Files out: exports, all trials as one table, and run sheets."""

import re
import tempfile
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from levers.studies.events import Numbers, numbers
from levers.studies.exporting import export_study
from levers.studies.frames import trials_frame
from levers.studies.sheet_runs import write_runs
from levers.studies.study import Study
from levers.web.api.answering import Absent, Key, Name, check_rows, once, responses, service_of, study_of
from levers.web.api.trials import Worker
from levers.web.api.wire import LONGEST_LEASE, MOST_ROWS

router = APIRouter(tags=["files"])
TYPES = {
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
}
_SHEETS = ("csv", "tsv", "xlsx")
RUNS = "Levers-Runs"
_RUNS = {RUNS: {"description": "How many runs are on the sheet.", "schema": {"type": "integer"}}}
ExportFormat = Annotated[Literal["csv", "tsv", "xlsx", "parquet", "json"], Path(alias="format")]
HowMany = Annotated[
    Annotated[int, Field(ge=1, le=MOST_ROWS)] | Absent, Query(description="The block size, or 1, if not given.")
]
ForWhom = Annotated[Annotated[str, Field(min_length=1, max_length=200)] | Absent, Query(description="Who makes them.")]
Seconds = Annotated[
    Annotated[float, Field(gt=0, le=LONGEST_LEASE, allow_inf_nan=False)] | Absent,
    Query(description="After how many seconds others may have them."),
]
SheetFormat = Annotated[Literal["csv", "tsv", "xlsx"], Query(description="The kind of file.")]


def _file(*formats: str, changes: bool = False) -> dict[int | str, dict[str, Any]]:
    """What an operation documents that answers with a file."""
    found = responses(404, 409, 413, changes=200 if changes else None)
    headers: dict[str, Any] = {
        "Content-Disposition": {"description": "A name for the file.", "schema": {"type": "string"}}
    }
    if set(formats) == set(_SHEETS):
        headers |= _RUNS
    found[200] = {
        "description": "The file.",
        "content": {TYPES[one]: {"schema": {"type": "string", "format": "binary"}} for one in formats if one != "json"},
        "headers": headers | found.get(200, {}).get("headers", {}),
    }
    if "json" in formats:
        found[200]["content"][TYPES["json"]] = {"schema": {"type": "object"}}
    return found


@router.get(
    "/studies/{name}/export/{format}",
    operation_id="exportStudy",
    summary="All runs, or the verdict, as a file",
    response_class=Response,
    responses=_file(*TYPES),
)
def export(
    request: Request,
    name: Name,
    kind: Annotated[Literal["csv", "tsv", "xlsx", "parquet", "json"], Path(alias="format")],
) -> Response:
    """Every trial that was handed out; as `json` the whole verdict, for `levers.verify`, once there is one."""
    study = study_of(request, name, "read")
    with service_of(request).slowly():
        return _written(study, kind, lambda path: export_study(study, path))


@router.get(
    "/studies/{name}/frame",
    operation_id="getFrame",
    summary="All trials as one Parquet table",
    response_class=Response,
    responses=_file("parquet"),
)
def frame(request: Request, name: Name) -> Response:
    """One row a trial, also those that wait, as `trials_dataframe` has it."""
    study = study_of(request, name, "read")
    with service_of(request).slowly():
        return _written(study, "parquet", lambda path: trials_frame(study.frozen()).write_parquet(path))


@router.get(
    "/studies/{name}/sheet",
    operation_id="getSheet",
    summary="The open runs as a run sheet",
    response_class=Response,
    responses=_file(*_SHEETS),
)
def open_sheet(request: Request, name: Name, format: SheetFormat = "csv", worker: Worker = None) -> Response:  # noqa: A002
    """Runs that are out, once more: all of them, or one worker's."""
    study = study_of(request, name, "read")
    return _sheet(study, numbers([trial.number for trial in study.running(worker)]), format)


@router.post(
    "/studies/{name}/sheet",
    operation_id="askSheet",
    summary="Get runs to make, as a run sheet",
    response_class=Response,
    responses=_file(*_SHEETS, changes=True),
)
def ask_sheet(
    request: Request,
    name: Name,
    n: HowMany = None,
    format: SheetFormat = "csv",  # noqa: A002
    worker: ForWhom = None,
    lease: Seconds = None,
    key: Key = None,
) -> Response:
    """Like `ask`; the answer is a file with a column `outcome` to fill in, and to hand back with PUT."""
    study = study_of(request, name, "write")
    wanted = n or study.spec.block_size or 1
    check_rows(request, wanted)

    def act() -> str:
        return " ".join(map(str, study.ask_numbers(wanted, worker=worker, lease=lease)))

    made = once(request, study, key, f"sheet {n} {worker} {lease}", act)
    sheet = _sheet(study, numbers([int(number) for number in made.text.split()]), format)
    sheet.headers.update(made.headers)
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
