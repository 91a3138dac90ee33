"""Which column of a sheet is which: the trial, the outcome and each factor."""

from collections.abc import Sequence
from dataclasses import dataclass

from levers.core.space import Space
from levers.errors import SheetError, raise_together
from levers.studies.sheets.cells import listed, neutral, plain, shown, trimmed
from levers.studies.spec import RESERVED


@dataclass(frozen=True)
class Columns:
    """Positions of the columns that are read; None for those that a sheet does not have.

    >>> space = Space.of({"heat": ["low", "high"], "=dose": [1, 2]})
    >>> match_columns(["Trial", " heat", "notes", "'=dose", "outcome"], space, need_trials=True)
    Columns(trial=0, outcome=4, factors=(1, 3))
    """

    trial: int | None
    outcome: int
    factors: tuple[int | None, ...]

    @property
    def used(self) -> tuple[int, ...]:
        """The positions that are read, from left to right."""
        return tuple(sorted(k for k in (self.trial, self.outcome, *self.factors) if k is not None))


def check_names(space: Space) -> None:
    """Refuse factors whose names are those of other columns."""
    raise_together(
        SheetError,
        [
            f"factor {name!r} has the name of a column that sheets have anyway; rename the factor"
            for name in space.names
            if name.strip().casefold() in RESERVED
        ],
    )


def recognised(header: Sequence[str], space: Space) -> int:
    """How many of the names in a header are known: what tells the right delimiter from the others.

    >>> recognised(["trial", "heat;outcome"], Space.of({"heat": [1, 2]}))
    1
    """
    known = {"trial", "outcome", *(_key(neutral(name)).casefold() for name in space.names)}
    return len(known & {_key(cell).casefold() for cell in header})


def match_columns(header: Sequence[str], space: Space, *, need_trials: bool) -> Columns:
    """Find the columns by their names: factors by exact name, else without spaces around it, else in any case."""
    keys = [_key(cell) for cell in header]
    fixed = {}
    for name in ("trial", "outcome"):
        places = [k for k, key in enumerate(keys) if key.casefold() == name]
        if len(places) > 1:
            raise SheetError(f"{len(places)} columns are named {name!r}; keep one of them")
        fixed[name] = places[0] if places else None
    factors = _match_factors(header, keys, space.names, {k for k in fixed.values() if k is not None})
    missing = ["outcome"] if fixed["outcome"] is None else []
    missing = ["trial", *missing] if need_trials and fixed["trial"] is None else missing
    if not need_trials:
        missing += [name for name, k in zip(space.names, factors, strict=True) if k is None]
    if missing or fixed["outcome"] is None:
        found = listed([cell for cell in header if cell.strip()]) or "none"
        raise SheetError(
            f"there is no column {listed(missing)}; the columns found are {found}. "
            "The first row must hold the names, with commas, semicolons or tabs between them"
        )
    return Columns(fixed["trial"], fixed["outcome"], factors)


def _match_factors(
    header: Sequence[str], keys: Sequence[str], names: Sequence[str], taken: set[int]
) -> tuple[int | None, ...]:
    found: dict[int, int] = {}
    used = set(taken)
    name_keys = [_key(neutral(name)) for name in names]
    rounds: tuple[tuple[Sequence[str], Sequence[str]], ...] = (
        (header, [neutral(name) for name in names]),
        (header, names),
        (keys, name_keys),
        ([key.casefold() for key in keys], [key.casefold() for key in name_keys]),
    )
    for number, (cells, wanted) in enumerate(rounds):
        by_cell = _grouped([(cell, k) for k, cell in enumerate(cells) if k not in used])
        by_name = _grouped([(text, k) for k, text in enumerate(wanted) if k not in found])
        for text, factors in by_name.items():
            places = by_cell.get(text, [])
            if len(places) > 1:
                raise SheetError(f"{len(places)} columns are named {shown(text)}; keep one of them")
            if places and len(factors) > 1:
                raise SheetError(
                    f"column {shown(header[places[0]])} can be factor {' or '.join(shown(names[k]) for k in factors)}; "
                    "write the name as it is in the study"
                )
            if places:
                found[factors[0]] = places[0]
                used.add(places[0])
        if number == 2:  # what is left under the name of a factor is a second column of it
            again = [k for k, key in enumerate(keys) if k not in used and key in name_keys]
            if again:
                raise SheetError(f"2 columns are named {shown(keys[again[0]])}; keep one of them")
    return tuple(found.get(k) for k in range(len(names)))


def _key(cell: str) -> str:
    return trimmed(plain(cell.strip()))


def _grouped(pairs: Sequence[tuple[str, int]]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for text, k in pairs:
        groups.setdefault(text, []).append(k)
    return groups
