"""Cells of sheets as levels, trial numbers and outcomes, and back, without guessing what a person meant."""

import codecs
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from levers.core.space import FREE, Factor
from levers.errors import InvalidSettingError, SheetError
from levers.studies.spec import reads_alone

if TYPE_CHECKING:
    import polars as pl  # takes a while to import, and what a person types is read without it

LEFT_ALONE = "left alone"
"""What people read of a lever that a run did not set; before the run it is LEAVE_ALONE."""
MAX_LISTED = 20
"""How many wrong rows an error lists; the others are counted."""


@dataclass(frozen=True, eq=False)
class Fault:
    """One kind of mistake: where it is, and what to say about each place."""

    places: NDArray[np.int64]
    reason: Callable[[int], str]


@dataclass
class Problems:
    """Wrong rows in the order of the file: the first few with reasons, all of them counted."""

    listed: list[tuple[int, str]] = field(default_factory=list)
    n: int = 0

    def add(self, row: int, reason: str) -> None:
        """Note a wrong row; the reason is dropped once there are more than an error can list."""
        self.n += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append((row, reason))


def raise_rows(problems: Sequence[tuple[int, str]], n_problems: int | None = None) -> None:
    """Raise one SheetError for rows that are wrong; `n_problems` counts them all when only some are given.

    >>> raise_rows([])
    >>> raise_rows([(4, "outcome 'x' is not a number"), (9, "trial is empty")], n_problems=7)
    Traceback (most recent call last):
    levers.errors.SheetError: 7 rows are wrong; nothing was stored. row 4: outcome 'x' is not a number; \
row 9: trial is empty; and 5 more
    """
    if not problems and not n_problems:
        return
    reasons: dict[int, list[str]] = {}
    for row, reason in problems:
        reasons.setdefault(row, []).append(reason)
    rows = [(row, ", ".join(why)) for row, why in sorted(reasons.items())[:MAX_LISTED]]
    raise SheetError.of_rows(rows, len(reasons) if n_problems is None else n_problems)


def shown(value: object, most: int = 60) -> str:
    """A value for a message, cut when it is long.

    >>> shown("x" * 100, most=10)
    "'xxxxxxxx..."
    """
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}..."


def listed(values: Sequence[object], most: int = 12) -> str:
    """Values for a message, with a count of those left out.

    >>> listed(["low", "high", "off"], most=2)
    "'low', 'high' and 1 more"
    """
    some = ", ".join(shown(value) for value in values[:most])
    return some if len(values) <= most else f"{some} and {len(values) - most} more"


_PLAIN_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
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


def printed(text: str) -> str:
    """A text in a table that is printed as CSV: `neutral`, but a number stays one. `plain` undoes it.

    >>> printed("=1+1"), printed("-5"), printed("-5 bar")
    ("'=1+1", '-5', "'-5 bar")
    """
    return text if _PLAIN_NUMBER.fullmatch(text) else neutral(text)


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


def column_key(cell: str) -> str:
    """What the name of a column is known by, whatever a spreadsheet did to it.

    >>> column_key(" '=heat ")
    '=heat'
    """
    return trimmed(plain(cell.strip()))


EMPTY, UNKNOWN, ALONE = -2, -3, -4
"""Codes of a cell that holds no level: nothing, something else, or that the lever is left alone. Not FREE, which is a
column that the sheet does not have. A lever that was left alone and took level i has the code ALONE - 1 - i."""

NEAR = 1e-8
"""How much of itself a number may lose in a spreadsheet that keeps only the digits it shows."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_GROUPED_LEVEL = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+")


TRUE_WORDS = ("true", "wahr", "vrai", "vero", "verdadero", "verdadeiro", "waar", "sant", "prawda")
FALSE_WORDS = ("false", "falsch", "faux", "falso", "onwaar", "falskt", "fałsz")
"""What spreadsheets of some countries write for a cell that is true or false."""


def level_texts(factor: Factor) -> tuple[str, ...]:
    """The text of each level, all different: a text that reads like a number level gets a quote before it.

    >>> level_texts(Factor("dose", [1, "1", 2.5, True, "=x"]))
    ('1', "'1", '2.5', 'true', "'=x")
    """
    texts = {k: level_text(level) for k, level in enumerate(factor.levels) if not isinstance(level, str)}
    taken = set(texts.values())
    for k, level in enumerate(factor.levels):
        if isinstance(level, str):
            text = neutral(level)
            while text in taken:
                text = f"'{text}"
            taken.add(text)
            texts[k] = text
    return tuple(texts[k] for k in range(factor.n_levels))


def level_codes(cells: "pl.Series", factor: Factor) -> NDArray[np.int16]:
    """The level positions that a column of texts stands for, EMPTY or UNKNOWN where there is none.

    >>> import polars as pl
    >>> level_codes(pl.Series([" 2,5", "1.0", "high", ""]), Factor("dose", [1, 2.5])).tolist()
    [1, 0, -3, -2]
    >>> level_codes(pl.Series(["Leave alone", "left alone: 2.5", "left alone: 9"]), Factor("dose", [1, 2.5])).tolist()
    [-4, -6, -3]
    """
    import polars as pl

    level = level_finder(factor)

    def find(text: str) -> int:
        code = level(text)
        return _alone(text, level) if code == UNKNOWN else code

    unique = cells.unique()
    codes = pl.Series([find(text) for text in unique], dtype=pl.Int16)
    found = cells.replace_strict(unique, codes, return_dtype=pl.Int16)
    return np.asarray(found.to_numpy(), dtype=np.int16)


def _alone(cell: str, find: Callable[[str], int]) -> int:
    """The code of a cell that says that its lever is, or was, left alone; UNKNOWN for any other."""
    if reads_alone(cell):
        return ALONE
    before, colon, level = cell.partition(":")
    code = find(level) if colon and " ".join(before.split()).casefold() == LEFT_ALONE else UNKNOWN
    return ALONE - 1 - code if code >= 0 else UNKNOWN


def taken_codes(codes: NDArray[np.int16]) -> NDArray[np.int16]:
    """The levels that cells say levers had, whether or not they say that these were left alone; FREE for no level.

    >>> taken_codes(np.array([[1, ALONE, ALONE - 3, FREE]], dtype=np.int16)).tolist()
    [[1, -1, 2, -1]]
    """
    found: NDArray[np.int16] = np.where(codes < ALONE, ALONE - 1 - codes, np.where(codes < 0, FREE, codes))
    return found.astype(np.int16)


def left_alone_text(level: str) -> str:
    """The cell of a lever that was left alone and took this level.

    >>> left_alone_text("low")
    'left alone: low'
    """
    return f"{LEFT_ALONE}: {level}"


def level_finder(factor: Factor) -> Callable[[str], int]:
    """What finds the position of the level that a cell's text means. The closer of two matches wins.

    >>> find = level_finder(Factor("flag", ["a", " a", True, 1 / 3]))
    >>> find("a"), find(" a"), find("a "), find("TRUE"), find("WAHR"), find("0.333333333")
    (0, 1, 0, 2, 2, 3)
    """
    texts = [(k, level) for k, level in enumerate(factor.levels) if isinstance(level, str)]
    written = {text: k for k, text in enumerate(level_texts(factor))}
    exact = {level: k for k, level in texts}
    counts = Counter(trimmed(level) for _, level in texts)
    loose = {trimmed(level): k for k, level in texts if counts[trimmed(level)] == 1}
    booleans = _boolean_words(factor)
    numbers = {level: k for k, level in enumerate(factor.levels) if not isinstance(level, bool | str)}

    def find(cell: str) -> int:
        bare = cell.strip()
        if not bare:
            return EMPTY
        unquoted = plain(bare)
        for known, text in (
            (written, cell),
            (exact, cell),
            (written, bare),
            (exact, bare),
            (exact, unquoted),
            (loose, trimmed(unquoted)),
            (loose, trimmed(bare)),
            (booleans, unquoted.casefold()),
        ):
            if text in known:
                return known[text]
        readings = _readings(unquoted)
        found = {numbers[value] for value in readings if value in numbers}
        found = found or {k for level, k in numbers.items() if any(_is_near(value, level) for value in readings)}
        return found.pop() if len(found) == 1 else UNKNOWN

    return find


def _boolean_words(factor: Factor) -> dict[str, int]:
    """The position of the level that each word for true or false means: one that is a boolean, or a text like one."""
    found: dict[str, int] = {}
    for words in (TRUE_WORDS, FALSE_WORDS):
        alike = [k for k, level in enumerate(factor.levels) if str(level).casefold() == words[0]]
        which = [k for k in alike if isinstance(factor.levels[k], bool)] or alike
        if len(which) == 1:
            found |= dict.fromkeys(words, which[0])
    return found


@lru_cache(maxsize=1024, typed=True)  # pages ask for the same few again and again; True is not 1
def level_text(level: object) -> str:
    """A level as a sheet has it, with all its digits.

    >>> [level_text(level) for level in ("low", True, 0.1 + 0.2, 10000)]
    ['low', 'true', '0.30000000000000004', '10000']
    """
    if isinstance(level, bool):
        return str(level).lower()
    return level if isinstance(level, str) else repr(level)


def _is_near(value: int | float, level: int | float) -> bool:
    """Whether a number may be a level that lost its last digits. Two whole numbers are the same or not."""
    if isinstance(value, int) and isinstance(level, int):
        return False
    try:
        return math.isclose(value, level, rel_tol=NEAR)
    except OverflowError:  # a whole number beyond what floating point holds
        return False


def _readings(text: str) -> list[int | float]:
    """The numbers that a text can mean: 1,234 is one and a bit, or more than a thousand."""
    text = text.replace("\u2212", "-")
    readings: list[int | float] = []
    if _WHOLE.fullmatch(text):
        readings.append(int(text))
    elif _NUMBER.fullmatch(text):
        readings.append(float(text))
    elif text.count(",") == 1 and "." not in text and _NUMBER.fullmatch(text.replace(",", ".")):
        readings.append(float(text.replace(",", ".")))
        if _GROUPED_LEVEL.fullmatch(text):
            readings.append(int(text.replace(",", "")))
    return readings


_TRIAL = r"^[0-9]{1,18}(?:[.,]0{1,2})?$"  # not 1.000 or 1,000, which some spreadsheets write for a thousand
_EXPONENT = r"(?:[eE][+-]?[0-9]+)?$"
_POINT = r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)" + _EXPONENT
_COMMA = r"^[+-]?[0-9]*,[0-9]+" + _EXPONENT
_GROUPED_OUTCOME = r"^[+-]?[1-9][0-9]{0,2},[0-9]{3}$"
_BOTH = re.compile(r"[+-]?[0-9]+(?:[.,' \u00a0\u202f][0-9]+)+")
_MONTH = (
    r"(?:jan|feb|fev|fév|mar|mär|mrz|apr|avr|abr|may|mai|mag|mei|jun|jui|giu|jul|lug|aug|aoû|ago|sep|set|oct|okt|ott|out"
    r"|nov|dec|déc|dez|dic)[a-zé]{0,6}[.]?"
)
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ].*)?|[0-9]{1,2}[./-][0-9]{1,2}[./-](?:[0-9]{2,4})?"
    rf"|[0-9]{{1,2}}[.]?[ -]{_MONTH}(?:[ -][0-9]{{2,4}})?|{_MONTH}[ -][0-9]{{1,4}}",
    re.IGNORECASE,
)


def is_date(text: str) -> bool:
    """Whether a text looks like what a spreadsheet makes of 1-2 or 3/4 when it takes it for a date.

    >>> [is_date(text) for text in ("2-Jan", "02. Jan", "Jan 26", "2026-01-02", "2.1.", "1-2", "lot 12")]
    [True, True, True, True, True, False, False]
    """
    return _DATE.fullmatch(text.strip()) is not None


def trial_numbers(cells: "pl.Series", lines: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[Fault]]:
    """Trial numbers, -1 where the cell is empty, and what is wrong with them.

    >>> import polars as pl
    >>> trial_numbers(pl.Series(["7", " 8.0 ", ""]), np.array([2, 3, 4]))[0].tolist()
    [7, 8, -1]
    """
    import polars as pl

    text = pl.col("text")
    frame = cells.str.strip_chars().to_frame("text")  # one query for all: each has a cost of its own
    frame = frame.with_columns(
        empty=text == "",
        good=text.str.contains(_TRIAL),
        number=text.str.extract(r"^([0-9]{1,18})", 1).cast(pl.Int64, strict=False).fill_null(-1),
    )
    texts, empty, good = frame["text"], _mask(frame["empty"]), _mask(frame["good"])
    trials = np.where(good, frame["number"].to_numpy(), np.int64(-1))
    order = np.argsort(trials, kind="stable")
    again = order[1:][(trials[order[1:]] == trials[order[:-1]]) & (trials[order[1:]] >= 0)]

    def first(place: int) -> str:
        return f"trial {trials[place]} is in row {lines[np.argmax(trials == trials[place])]} already"

    return trials, [
        Fault(np.flatnonzero(empty), lambda place: "trial is empty"),
        Fault(np.flatnonzero(~good & ~empty), lambda i: f"trial {shown(texts[i])} is not a whole number, 0 or more"),
        Fault(again, first),
    ]


def outcome_numbers(
    cells: "pl.Series", *, decimal_comma: bool, workbook: bool = False
) -> tuple[NDArray[np.float64], list[Fault]]:
    """Outcomes, NaN where the cell is empty, and what is wrong with them.

    `decimal_comma` says that a comma cannot separate thousands here, as in a file with semicolons between cells. In a
    `workbook` numbers are no texts, and a text that is one was typed otherwise than the rest.

    >>> import polars as pl
    >>> outcome_numbers(pl.Series(["1.5", "", " +2e3"]), decimal_comma=False)[0].tolist()
    [1.5, nan, 2000.0]
    """
    import polars as pl

    text = pl.col("text")
    frame = cells.to_frame("text").select(text.str.strip_chars().str.replace_all("\u2212", "-", literal=True))
    frame = frame.with_columns(
        empty=text == "",
        point=text.str.contains(_POINT),
        comma=text.str.contains(_COMMA),
        value=text.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False).fill_null(np.nan),
    )
    texts, empty = frame["text"], _mask(frame["empty"])
    point, comma = _mask(frame["point"]), _mask(frame["comma"])
    outcomes = np.where(point | comma, frame["value"].to_numpy(), np.nan)
    faults = [
        Fault(np.flatnonzero(~(empty | point | comma)), lambda i: _not_a_number(texts[i])),
        Fault(np.flatnonzero(np.isinf(outcomes)), lambda i: f"outcome {shown(texts[i])} is too large"),
    ]
    if comma.any():
        pointed = point & _mask(texts.str.contains(".", literal=True))
        grouped = comma & _mask(texts.str.contains(_GROUPED_OUTCOME))
        if not decimal_comma and (comma == grouped).all():
            faults.append(Fault(np.flatnonzero(grouped), lambda i: _grouped(texts[i])))
        if pointed.any():
            few, other = (comma, "point") if comma.sum() <= pointed.sum() else (pointed, "comma")
            reason = f"is ambiguous, as other rows have a decimal {other}; use one of them throughout"
            if workbook and few is comma:
                reason = "is a text where other cells are numbers; format the cell as a number, and type it again"
            faults.append(Fault(np.flatnonzero(few), lambda i: f"outcome {shown(texts[i])} {reason}"))
    return outcomes, faults


def typed_number(text: str, what: str = "the outcome", *, decimal_comma: bool = False, hint: str = "") -> float:
    """A single number that a person typed, read as in a sheet; what can be read in two ways, as 1,234, is refused.

    >>> typed_number(" 1,5 "), typed_number("\u22122e3"), typed_number("1,234", decimal_comma=True)
    (1.5, -2000.0, 1.234)
    >>> typed_number("x", "the noise")
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: the noise must be a number, not 'x'
    """
    plain_text = text.strip().replace("\u2212", "-")
    comma = re.match(_COMMA, plain_text)
    if not comma and not re.match(_POINT, plain_text):
        raise InvalidSettingError(f"{what} must be a number, not {plain_text[:60]!r}{hint}")
    if comma and not decimal_comma and re.match(_GROUPED_OUTCOME, plain_text):
        raise InvalidSettingError(_grouped(plain_text, what))
    value = float(plain_text.replace(",", "."))
    if math.isinf(value):
        raise InvalidSettingError(f"{what} {shown(plain_text)} is too large")
    return value


def typed_whole(text: str, what: str) -> int:
    """A whole number that a person typed.

    >>> typed_whole(" 24 ", "the number of runs")
    24
    """
    plain_text = text.strip()
    if not plain_text.isascii() or not plain_text.isdigit() or len(plain_text) > 15:
        raise InvalidSettingError(f"{what} must be a whole number, not {plain_text[:60]!r}")
    return int(plain_text)


def _mask(series: "pl.Series") -> NDArray[np.bool_]:
    return np.asarray(series.to_numpy(), dtype=np.bool_)


def _not_a_number(text: str) -> str:
    start = f"outcome {shown(text)} is not a number"
    if is_date(text):
        return f"{start} but a date; format the cells as numbers"
    if _BOTH.fullmatch(text):
        return f"{start} that can be read in one way only; write it without separators of thousands"
    if any("0" <= character <= "9" for character in text):
        return start
    return f"{start}; leave the cell empty, or report the run as failed (`levers fail`)"


def _grouped(text: str, what: str = "outcome") -> str:
    point, whole = text.replace(",", "."), text.replace(",", "")
    return f"{what} {shown(text)} can be {point} or {whole}; write it with a decimal point or without separators"
