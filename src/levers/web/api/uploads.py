"""Filled-in run sheets in."""

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from starlette.datastructures import UploadFile

from levers.errors import SheetError
from levers.studies.sheet_runs import SheetReport, correct_sheet, import_sheet, tell_sheet
from levers.studies.sheets import Sheet, read_sheet
from levers.studies.study import Study
from levers.web.api.answering import (
    Key,
    Made,
    Name,
    answer,
    answer_value,
    check_rows,
    once,
    responses,
    service_of,
    study_of,
)
from levers.web.api.files import TYPES
from levers.web.api.runs import CorrectionsMade, Imported
from levers.web.api.shapes import Shape
from levers.web.refusing import RefusedError

router = APIRouter(tags=["files"])
_SUFFIXES = {TYPES[kind]: f".{kind}" for kind in ("csv", "tsv", "xlsx")}
_FORM = "multipart/form-data"
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FIELDS = {"type": "object", "properties": {"file": _BINARY["schema"]}, "required": ["file"]}
_BODY = {
    "required": True,
    "description": "The sheet itself, or a form with the field `file`, whose name says what kind of sheet it is.",
    "content": {**dict.fromkeys(_SUFFIXES, _BINARY), _FORM: {"schema": _FIELDS}},
}


_ERRORS = responses(400, 404, 409, 413, 415)
_CHANGES = responses(400, 404, 409, 413, 415, changes=200)
_EXTRA = {"requestBody": _BODY}
Reason = Annotated[str, Query(max_length=10_000, pattern=r"[^\s\x00-\x1f]", description="Why; kept in the log.")]
Note = Annotated[str, Query(max_length=10_000, description="Where the runs come from; it is kept in the log.")]


@router.put(
    "/studies/{name}/sheet",
    operation_id="tellSheet",
    summary="Hand in a filled-in run sheet",
    response_model=SheetReport,
    responses=_ERRORS,
    openapi_extra=_EXTRA,
)
async def upload(request: Request, name: Name) -> Response:
    """All of it, or nothing when a row is wrong: the message lists rows and reasons. Handing it in twice is fine."""
    study = await to_thread.run_sync(study_of, request, name, "write")
    suffix, data = await _uploaded(request)

    def work() -> SheetReport:
        sheet = _rows(request, study, suffix, data)
        return service_of(request).change(study, lambda: tell_sheet(study, sheet))

    return answer_value(SheetReport, await to_thread.run_sync(work))


@router.post(
    "/studies/{name}/sheet/corrections",
    operation_id="correctSheet",
    summary="Correct outcomes with a sheet",
    response_model=CorrectionsMade,
    responses=_CHANGES,
    openapi_extra=_EXTRA,
)
async def correct(request: Request, name: Name, reason: Reason, key: Key = None) -> Response:
    """The outcomes that are another in the sheet than was told. Rows are checked as when it is handed in."""

    def act(study: Study, sheet: Sheet) -> Shape:
        return CorrectionsMade(corrections=correct_sheet(study, sheet, reason))

    return await _changed(request, name, key, f"correct sheet {reason}", act)


@router.post(
    "/studies/{name}/sheet/past",
    operation_id="importSheet",
    summary="Take in past runs from a sheet",
    response_model=Imported,
    responses=_CHANGES,
    openapi_extra=_EXTRA,
)
async def import_past(request: Request, name: Name, note: Note = "", key: Key = None) -> Response:
    """A column for each factor, and `outcome`."""

    def act(study: Study, sheet: Sheet) -> Shape:
        return Imported(n_imported=import_sheet(study, sheet, note))

    return await _changed(request, name, key, f"import sheet {note}", act, need_trials=False)


async def _changed(
    request: Request,
    name: str,
    key: str | None,
    what: str,
    act: Callable[[Study, Sheet], Shape],
    *,
    need_trials: bool = True,
) -> Response:
    """Change a study by the sheet that came, once if it has a key; on a thread, because sheets take a while."""
    study = await to_thread.run_sync(study_of, request, name, "write")
    suffix, data = await _uploaded(request)

    def work() -> Made:
        sheet = _rows(request, study, suffix, data, need_trials=need_trials)
        digest = hashlib.sha256(data).hexdigest()
        return once(request, study, key, f"{what} {digest}", lambda: act(study, sheet).model_dump_json())

    made = await to_thread.run_sync(work)
    return answer(made.text, headers=made.headers)


def _rows(request: Request, study: Study, suffix: str, data: bytes, *, need_trials: bool = True) -> Sheet:
    """Read a sheet, before anybody has to wait for the study."""
    with tempfile.TemporaryDirectory(prefix="levers-") as folder, service_of(request).slowly():
        path = FilePath(folder) / f"sheet{suffix}"
        path.write_bytes(data)
        try:
            sheet = read_sheet(path, study.space, need_trials=need_trials)
        except SheetError as error:  # whoever sent it does not know the file by that name
            raise SheetError(str(error).replace(repr(str(path)), "the sheet")) from None
    check_rows(request, sheet.n_rows)
    return sheet


async def _uploaded(request: Request) -> tuple[str, bytes]:
    """The kind of sheet, and its bytes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _SUFFIXES:
        return _SUFFIXES[kind], await request.body()
    if kind != _FORM:
        raise RefusedError(415, f"a sheet comes as {', '.join(_SUFFIXES)} or {_FORM}, not as {kind or 'nothing'}")
    async with request.form(max_files=1, max_fields=10) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise RefusedError(422, "the form has no file called `file`")
        suffix = FilePath(file.filename or "").suffix.lower()
        if suffix not in _SUFFIXES.values():
            raise RefusedError(422, f"the name of the file must end in {', '.join(_SUFFIXES.values())}")
        return suffix, await file.read()
