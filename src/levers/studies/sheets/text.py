"""Texts as files and spreadsheets hold them: encodings, and texts that a spreadsheet would take for formulas."""

import codecs
import re

from levers.errors import SheetError

_FORMULA = re.compile(r"'*(?:\s*[=+\-@]| *[\t\r\n])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_PIECE = 1 << 24


def utf8(data: bytes) -> bytes:
    """The text of a file as UTF-8 without a mark, whatever a spreadsheet saved it as.

    >>> utf8("heat °C".encode("cp1252")).decode()
    'heat °C'
    """
    try:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            data = data.decode("utf-16").encode()
        elif data.startswith(codecs.BOM_UTF8):
            data = data[len(codecs.BOM_UTF8) :]
            data.decode()
        elif not _is_utf8(data):
            text = data.decode("cp1252")
            if _CONTROL.search(text):
                raise SheetError("it is not a text file; save the sheet as .csv (UTF-8) or .xlsx")
            data = text.encode()
    except UnicodeError:
        raise SheetError("its text is in an encoding that is not known; save the sheet as CSV UTF-8 or .xlsx") from None
    if b"\0" in data:
        raise SheetError("it has NUL characters, so it is damaged or not a text file; save it as .csv (UTF-8) or .xlsx")
    return data


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _PIECE):  # in pieces: the text of a whole file can take four times its size
            decoder.decode(data[start : start + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def neutral(text: str) -> str:
    """A text that no spreadsheet takes for a formula; `plain` undoes it.

    >>> neutral("=1+1"), neutral("low")
    ("'=1+1", 'low')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def plain(text: str) -> str:
    """The text that `neutral` was given.

    >>> plain("'=1+1"), plain("'tis")
    ('=1+1', "'tis")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text, 1) else text


def trimmed(text: str) -> str:
    """A text without what spreadsheets change about it: spaces around it, and the kind of its line ends.

    >>> trimmed(" first\\r\\nsecond ")
    'first\\nsecond'
    """
    return text.strip().replace("\r\n", "\n").replace("\r", "\n")
