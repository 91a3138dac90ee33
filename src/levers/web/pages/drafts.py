"""A study as it is typed into the form: all fields as text, what they mean, and what is wrong with them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from starlette.datastructures import FormData

from levers.core.merging import merged_groups
from levers.core.space import Level, Space
from levers.errors import InvalidSettingError, InvalidSpaceError, LeversError, SheetError
from levers.studies.sheets.text import utf8
from levers.web.forms import file_of, text_of
from levers.web.pages.space_text import Typed, made_space, parse_forbidden, parse_levels, parse_merged, parse_text
from levers.web.pages.words import decimal, whole

TEXTS = ("name", "table", "goal", "tolerance", "failure_prob", "noise_sd", "max_parents", "min_effect", "budget")
MORE = ("block_size", "seed", "forbidden", "merged")
_DEFAULTS = {"goal": "maximize", "failure_prob": "0.1"}
_EMPTY_ROWS, _MOST_ROWS, _LONGEST = 3, 500, 2_000_000


@dataclass(frozen=True)
class Draft:
    """What was typed: `fields` by name, and `rows` of factor and levels."""

    fields: Mapping[str, str]
    rows: list[tuple[str, str]]
    n_empty: int = _EMPTY_ROWS
    problems: dict[str, str] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> "Draft":
        """The form as it is first shown."""
        return cls({key: _DEFAULTS.get(key, "") for key in (*TEXTS, *MORE)}, [])

    @classmethod
    def of(cls, form: FormData) -> "Draft":
        """From a form. The text of a file that was chosen goes to the field for pasted text, so that it is kept."""
        fields = {key: text_of(form, key, _LONGEST) for key in (*TEXTS, *MORE)}
        problems: dict[str, str] = {}
        file = file_of(form, "file")
        if file is not None:
            try:
                fields["table"] = utf8(file.file.read(_LONGEST)).decode().strip()
            except (SheetError, UnicodeDecodeError) as error:
                problems["table"] = f"the file cannot be read: {error}"
        names = [str(value).strip() for value in form.getlist("factor")][:_MOST_ROWS]
        levels = [str(value).strip() for value in form.getlist("levels")][:_MOST_ROWS]
        rows = [(a, b) for a, b in zip(names, levels, strict=False) if a or b]
        more = _EMPTY_ROWS if text_of(form, "more_rows") else 0
        return cls(fields, rows, max(_EMPTY_ROWS, len(names) - len(rows)) + more, problems)

    @property
    def is_blank(self) -> bool:
        """Whether no factor was given yet."""
        return not self.rows and not self.fields["table"]

    @cached_property
    def space(self) -> Space | None:
        """The levers; None when something is wrong with them."""
        found = self._try("factors", self._factors)
        return None if found is None else self._try("factors", lambda: made_space(found.factors))

    @cached_property
    def forbidden(self) -> list[Mapping[str, Level]]:
        """Combinations that cannot be run."""
        space = self.space
        if space is None:
            return []
        from_file = self._try("factors", self._factors)
        typed = self._try("forbidden", lambda: parse_forbidden(space, self.fields["forbidden"]))
        return [*(from_file.forbidden if from_file else []), *(typed or [])]

    @cached_property
    def merged(self) -> list[list[str]]:
        """Levers that are studied as one."""
        space = self.space
        if space is None:
            return []
        from_file = self._try("factors", self._factors)
        groups = [*(from_file.merged if from_file else []), *parse_merged(self.fields["merged"])]
        return groups if self._try("merged", lambda: merged_groups(space, groups)) is not None else []

    def _factors(self) -> Typed:
        factors = [(name, parse_levels(levels)) for name, levels in self.rows]
        try:
            more = parse_text(self.fields["table"])
        except LeversError as error:
            self.problems.setdefault("table", str(error))
            raise InvalidSpaceError("the pasted table cannot be read") from None
        return more._replace(factors=[*factors, *more.factors])

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The numbers, None where a field is empty; what is wrong goes to `problems`."""
        numbers: dict[str, Any] = {"goal": self.fields["goal"] or "maximize"}
        for key in ("tolerance", "failure_prob", "noise_sd", "min_effect"):
            numbers[key] = self._number(key, decimal)
        for key in ("max_parents", "budget", "block_size", "seed"):
            numbers[key] = self._number(key, whole)
        if numbers["failure_prob"] is None and "failure_prob" not in self.problems:
            numbers["failure_prob"] = 0.1
        if numbers["tolerance"] is not None and numbers["budget"] is not None:
            self.problems["budget"] = "give either a tolerance or a budget of runs, and not both"
        if not self.fields["tolerance"] and not self.fields["budget"]:
            self.problems["tolerance"] = "say how far from the best is good enough, or give a budget of runs"
        return numbers

    def _number(self, key: str, read: Callable[[str, str], Any]) -> Any:
        text, label = self.fields[key], LABELS[key]
        return self._try(key, lambda: read(text, label)) if text else None

    def _try(self, key: str, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except (InvalidSettingError, InvalidSpaceError) as error:
            self.problems.setdefault(key, str(error))
            return None


LABELS = {
    "tolerance": "the tolerance",
    "failure_prob": "the failure probability",
    "noise_sd": "the noise",
    "min_effect": "the least effect",
    "max_parents": "the number of factors that matter",
    "budget": "the budget",
    "block_size": "the block size",
    "seed": "the seed",
}
"""Fields as messages call them."""

FIELD_OF = {
    "study's name": "name",
    "study called": "name",
    "max_parents": "max_parents",
    "min_effect": "min_effect",
    "failure_prob": "failure_prob",
    "noise_sd": "noise_sd",
    "tolerance": "tolerance",
    "budget": "budget",
    "block_size": "block_size",
    "seed": "seed",
    "goal": "goal",
    "forbidden": "forbidden",
    "to be merged": "merged",
    "studied as one": "merged",
    "factor": "factors",
}


def place_of(message: str) -> str:
    """The field that an error of the library is about.

    >>> place_of("max_parents must be from 1 to 3, not 9"), place_of("something else")
    ('max_parents', 'form')
    """
    return next((place for words, place in FIELD_OF.items() if words in message), "form")
