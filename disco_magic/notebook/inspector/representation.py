"""The face for values that are not arrays: their `repr`. The only face that runs the value's own code."""

from __future__ import annotations

from html import escape
from reprlib import Repr
from typing import TYPE_CHECKING, Any, Final

from disco_magic.phrases import class_name, ranges, words

if TYPE_CHECKING:
    from disco_magic.core.snapshot import Row
    from disco_magic.session.session import Session

_STYLE: Final = "white-space:pre-wrap;max-height:340px;overflow:auto;line-height:1.35"
_ITEMS: Final = 200
_CHARACTERS: Final = 4_000


class _Told(Repr):
    """A `repr` limited to 200 items per container, 8 levels, and 4,000 characters of other values."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 8
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = _ITEMS
        self.maxstring = self.maxother = self.maxlong = _CHARACTERS

    def repr_instance(self, x: Any, level: int) -> str:  # noqa: ARG002 - the parent's signature
        try:
            text = repr(x)
        except Exception as error:  # noqa: BLE001 - the value's own code raises whatever it likes
            return f"<its __repr__ raised {class_name(error)}: {words(error)}>"
        left = len(text) - _CHARACTERS
        return text if left <= 0 else f"{text[:_CHARACTERS]} \u2026 {left:,} more characters"


def represented(session: Session, row: Row, worker: int) -> str:
    """HTML of the `repr` of a register's value on `worker`; called only when the user asks for it."""
    (text,) = session.examine(row.name, _Told().repr, workers=(worker,))
    caption = escape(f"{row.name} on {ranges((worker,))}")
    return f'<div>{caption}</div><pre style="{_STYLE}">{escape("no value" if text is None else text)}</pre>'
