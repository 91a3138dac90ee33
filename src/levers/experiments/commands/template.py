"""A command with placeholders: its arguments and its environment at a setting.

`{opt}` stands for the level of the lever `opt`, `{unroll?-funroll-loops}` for a text that is there when the lever
`unroll` is on, and `{{` and `}}` for braces. The level (none) stands for nothing: a space file may write it as "". An
argument that is made of placeholders only, and is empty at a setting, is left out. Arguments go to the program as they
are; only where a shell is asked for does one read them.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from levers.core.space import Assignment, Level, Space
from levers.errors import InvalidSettingError
from levers.studies.sheets.cells import level_text

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|\{")
NONE = "(none)"
"""The level that stands for nothing. An empty level would be an empty cell in a sheet, which means something else."""
ON, OFF = ("on", "yes", "true", "1"), ("off", "no", "false", "0", NONE)
"""Levels that switch a text on and off, in small letters."""
PREFIX = "LEVERS_"
"""How the names of variables begin that hold the levels."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A lever's level; or a `text` that is there where the lever is on."""

    lever: str
    text: str | None = None


Piece: TypeAlias = str | Placeholder


@dataclass(frozen=True, slots=True)
class Template:
    """A command whose arguments depend on a setting.

    >>> space = Space.of({"opt": [1, 2], "unroll": ["-funroll-loops", "(none)"], "debug": ["off", "on"]})
    >>> command = Template.of(["cc", "-O{opt}", "{unroll}", "{debug?-g}", "a{{b}}.c"], space)
    >>> command.arguments(space.assignment([1, 0, 0]))
    ['cc', '-O2', '-funroll-loops', 'a{b}.c']
    >>> command.arguments(space.assignment([0, 1, 1]))
    ['cc', '-O1', '-g', 'a{b}.c']
    """

    pieces: tuple[tuple[Piece, ...], ...]
    space: Space
    shell: bool = False

    @classmethod
    def of(cls, words: Sequence[str], space: Space, *, shell: bool = False) -> "Template":
        """From a command as it was typed; with a shell, all words are one line that it reads."""
        if not words or not any(word.strip() for word in words):
            raise InvalidSettingError("there is no command to run; give it after --, as in -- ./bench {opt}")
        typed = [" ".join(words)] if shell else list(words)
        return cls(tuple(_pieces(word, space) for word in typed), space, shell)

    @property
    def levers(self) -> set[str]:
        """The levers that have a placeholder, or whose variable is named in the command."""
        found = {piece.lever for word in self.pieces for piece in word if isinstance(piece, Placeholder)}
        texts = " ".join(piece for word in self.pieces for piece in word if isinstance(piece, str))
        return found | {name for name in self.space.names if re.search(rf"\b{variable(name)}\b", texts)}

    @property
    def unused(self) -> tuple[str, ...]:
        """The levers that are only in the environment: a command may use them there, and nobody can see that."""
        return tuple(name for name in self.space.names if name not in self.levers)

    @property
    def program(self) -> str | None:
        """The program, where it does not depend on the setting."""
        if self.shell or any(isinstance(piece, Placeholder) for piece in self.pieces[0]):
            return None
        return "".join(map(str, self.pieces[0]))

    def arguments(self, run: Assignment) -> list[str]:
        """The program and its arguments at a setting."""
        if self.shell:
            return ["/bin/sh", "-c", "".join(_filled(piece, run, quoted=True) for piece in self.pieces[0])]
        words = []
        for word in self.pieces:
            text = "".join(_filled(piece, run, quoted=False) for piece in word)
            if text or not word or any(isinstance(piece, str) for piece in word):
                words.append(text)
        return words

    def environment(self, run: Assignment) -> dict[str, str]:
        """The levels as variables."""
        return {variable(name): _text(run[name]) for name in self.space.names}


def variable(lever: str) -> str:
    """The variable that holds a lever's level: LEVERS_ and its name in capitals, `_` for all but letters and digits.

    >>> variable("heat (zone 1)")
    'LEVERS_HEAT__ZONE_1_'
    """
    return PREFIX + re.sub(r"[^A-Z0-9]", "_", lever.upper())


def check_variables(space: Space) -> None:
    """Refuse levers whose variables have the same name."""
    seen: dict[str, str] = {}
    for name in space.names:
        other = seen.setdefault(variable(name), name)
        if other != name:
            raise InvalidSettingError(
                f"{other!r} and {name!r} would both be {variable(name)} in the environment; rename one"
            )


def named_levels(levels: Sequence[Level]) -> list[Level]:
    """The levels of a lever of a command, in which an empty text stands for nothing.

    >>> named_levels(["-funroll-loops", ""])
    ['-funroll-loops', '(none)']
    """
    return [NONE if level == "" else level for level in levels]


def _text(level: Level) -> str:
    return "" if level == NONE else level_text(level)


def _pieces(word: str, space: Space) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    end = 0
    for token in _TOKEN.finditer(word):
        pieces.append(word[end : token.start()])
        end = token.end()
        if token[0] in ("{{", "}}"):
            pieces.append(token[0][0])
        elif token[1] is None:
            raise InvalidSettingError(f"a brace is not closed in {word!r}; write {{{{ for a brace that is meant as one")
        else:
            pieces.append(_placeholder(token[1], word, space))
    pieces.append(word[end:])
    return tuple(piece for piece in pieces if piece != "")


def _placeholder(inside: str, word: str, space: Space) -> Placeholder:
    name, mark, text = inside.partition("?")
    if inside in space.names:
        return Placeholder(inside)
    if name not in space.names:
        raise InvalidSettingError(
            f"{{{inside}}} in {word!r} is no lever; levers are {', '.join(space.names[:12])}. "
            "Write {{ for a brace that is meant as one"
        )
    assert mark  # else it would be a lever
    unclear = [level for level in space.factors[space.position(name)].levels if _is_on(level) is None]
    if unclear:
        raise InvalidSettingError(
            f"{{{inside}}} needs a lever that is on or off (true/false, on/off, yes/no, 1/0), and a level of {name!r} "
            f"is {unclear[0]!r}"
        )
    return Placeholder(name, text)


def _is_on(level: Level) -> bool | None:
    text = level_text(level).lower()
    return True if text in ON else False if text in OFF else None


def _filled(piece: Piece, run: Assignment, *, quoted: bool) -> str:
    if isinstance(piece, str):
        return piece
    if piece.text is not None:
        return piece.text if _is_on(run[piece.lever]) else ""
    text = _text(run[piece.lever])
    return shlex.quote(text) if quoted and text else text
