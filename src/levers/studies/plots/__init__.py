"""Pictures of a study: what each level loses, the outcomes so far, what was ruled out when, how far it is to the end.

Everything that needs matplotlib is imported when a picture is made, so that studies work without it.
"""

import os
import uuid
from contextlib import suppress
from pathlib import Path

from levers.core.checks import check_choice
from levers.errors import InvalidSettingError
from levers.studies.study import Study

PLOTS = ("effects", "history", "elimination", "forecast")
"""The pictures there are."""

SUFFIXES = (".png", ".svg", ".html")
"""How the name of a picture's file may end."""

__all__ = ["PLOTS", "SUFFIXES", "save_plot"]


def save_plot(study: Study, kind: str, path: str | os.PathLike[str]) -> None:
    """Write one of `PLOTS` as .png, .svg or .html, by the path's suffix. The file is there whole or not at all.

    >>> import levers, tempfile
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_plot(study, "effects", Path(folder) / "effects.svg")
    ...     [file.name for file in Path(folder).iterdir()]
    ['effects.svg']
    >>> save_plot(study, "effects", "effects.pdf")
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: cannot write 'effects.pdf': its name must end in .png, .svg or .html
    """
    check_choice("kind", kind, PLOTS)
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidSettingError(f"cannot write {str(target)!r}: its name must end in .png, .svg or .html")
    if "\0" in str(target) or not target.parent.is_dir():
        raise InvalidSettingError(f"cannot write {str(target)!r}: there is no folder {str(target.parent)!r}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InvalidSettingError("pictures need matplotlib; install it with: pip install 'levers[figures]'") from error
    from levers.studies.plots.rendering import rendered

    _write(target, rendered(study.name, study.state, kind, suffix))


def _write(target: Path, content: bytes) -> None:
    draft = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with open(draft, "xb") as file:
            file.write(content)
        os.replace(draft, target)
    except OSError as error:
        raise InvalidSettingError(f"cannot write {str(target)!r}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            draft.unlink()
