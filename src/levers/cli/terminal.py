"""Standard output as a terminal: what is printed as text is shown, and never obeyed."""

import re
from typing import Any, TextIO

# all that moves a cursor, changes colours or titles; a line may end and be indented
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def spelt(text: str) -> str:
    """Lines of text with control characters spelt out.

    >>> spelt("a\\x1b[2J")
    'a\\\\x1b[2J'
    """
    return _OBEYED.sub(lambda found: repr(found[0])[1:-1], text)


class Terminal:
    """A stream to a terminal that spells out control characters: a name in an old log may hold any.

    Tables and colours of our own go to `raw`; the texts in them are made visible where they are put together.

    >>> import io
    >>> out = Terminal(io.StringIO())
    >>> _ = out.write("ended by ann\\x1b[2J\\n")
    >>> out.raw.getvalue()
    'ended by ann\\\\x1b[2J\\n'
    """

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        """Write the text; returns its length."""
        self.raw.write(spelt(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)
