"""What is worked out in processes of their own: functions of plain data, each with its libraries loaded when needed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from levers.core.space import Factor, Level, Space
from levers.studies.storage.base import Stored

if TYPE_CHECKING:
    from levers.studies.sheets.read import Sheet
    from levers.web.drafts import Draft, PlanShown

Factors: TypeAlias = Sequence[tuple[str, Sequence[Level]]] | Sequence[int]
"""Names and levels, or only how many levels each has."""


def nothing() -> None:
    """Load what most jobs need."""
    import levers.experiments.plan
    import levers.studies.library  # noqa: F401


def space_of(factors: Factors) -> Space:
    """The space that a request describes.

    >>> space_of([("heat", ["low", "high"])]).names, space_of([2, 3]).n_levels
    (('heat',), (2, 3))
    """
    named = [Factor(one[0], one[1]) for one in factors if not isinstance(one, int)]
    return Space(named) if named else Space.sized([one for one in factors if isinstance(one, int)])


def sizes_of(factors: Factors) -> list[int]:
    """How many levels each has.

    >>> sizes_of([("heat", ["low", "high"])]), sizes_of([2, 3])
    ([2], [2, 3])
    """
    return [one if isinstance(one, int) else len(one[1]) for one in factors]


def plan_text(factors: Factors, settings: Mapping[str, Any]) -> str:
    """A plan as JSON.

    >>> '"n_factors":2' in plan_text([2, 2], {"tolerance": 0.5})
    True
    """
    from pydantic import TypeAdapter

    from levers.experiments.plan import Plan, plan

    return TypeAdapter(Plan).dump_json(plan(space_of(factors), **settings)).decode()


def plan_of_draft(draft: "Draft", with_buys: bool, most_seconds: float) -> "PlanShown":
    """The plan for what was typed into the form."""
    from levers.web.drafts import plan_shown

    return plan_shown(draft, with_buys=with_buys, most_seconds=most_seconds)


def study_of_draft(draft: "Draft", who: str) -> list[Stored] | dict[str, str]:
    """The events with which a study begins that was typed into the form, or what is wrong with it."""
    from levers.web.drafts import begun

    return begun(draft, who)


def new_study(name: str, space: Space | Factors, given: Mapping[str, Any]) -> list[Stored]:
    """The events with which a study begins: its first round is designed here, and kept elsewhere.

    >>> [stored.kind for stored in new_study("oven", [("heat", ["low", "high"])], {"tolerance": 1.0, "seed": 1})]
    ['Created', 'Decided', 'Opened']
    """
    from levers.studies.library import create_study

    study = create_study(name, space if isinstance(space, Space) else space_of(space), **given)
    return study.storage.read(study.id, 0)


def merged_study(
    name: str, records: Sequence[Stored], new_name: str, factors: Sequence[str], **given: Any
) -> list[Stored]:
    """The events with which a study begins that goes on with some levers of another studied as one."""
    from levers.studies.library import merge_study
    from levers.studies.storage.memory import MemoryStorage

    storage = MemoryStorage()
    storage.create(name, list(records))
    study = merge_study(name, new_name, factors, storage, **given)
    return storage.read(study.id, 0)


def sheet_of(path: Path, space: Space, name: str, need_trials: bool = True) -> "Sheet":
    """The rows of a sheet that somebody sent."""
    from levers.studies.sheets.read import read_sheet

    return read_sheet(path, space, name=name, check=False, need_trials=need_trials)
