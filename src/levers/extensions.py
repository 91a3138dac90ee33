"""What is found by name: algorithms and storages of other packages, and how values look in a notebook."""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from levers.errors import LeversError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@cache
def registered(group: str) -> "dict[str, EntryPoint]":
    """The entry points of a group by name. Nothing of the other packages is imported.

    >>> registered("levers.nothing")
    {}
    """
    from importlib.metadata import entry_points  # it brings a reader of e-mail along

    return {point.name: point for point in entry_points(group=group)}


def html_of(value: object) -> str:
    """A value for a notebook. What draws it is loaded now, and by name: values know nothing of pictures.

    >>> from levers.core.space import Space
    >>> "<table>" in html_of(Space.sized([2, 3]))
    True
    """
    shown: str = import_module("levers.integrations.notebook").html_of(value)
    return shown


def origin(point: "EntryPoint") -> str:
    """Whose entry point it is, for messages."""
    return f"{point.name!r} of {point.dist.name if point.dist else 'another package'}"


def load(point: "EntryPoint", error: type[LeversError]) -> Any:
    """What an entry point names, or an error that says whose fault it is."""
    try:
        return point.load()
    except Exception as cause:  # whatever that package's import raises
        raise error(f"{origin(point)} cannot be loaded: {type(cause).__name__}: {cause}") from cause
