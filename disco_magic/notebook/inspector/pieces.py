"""The list of registers, and that of arrays in the selected one, such as the weights of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.errors import UnknownName
from disco_magic.notebook.live.controls import Changes, dropdown, named
from disco_magic.values.parts import arrays_in, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.snapshot import Row
    from disco_magic.session.session import Session

_NO_REGISTER: Final = ("choose a register", "")
_WHOLE: Final = ("all of it", "")


class RegisterPicker:
    """A list of registers, of which one can be selected."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._next = ""
        self.list = dropdown("Look at", [_NO_REGISTER], "22em")
        self.list.observe(self._forget, "value")
        self.list.observe(changes, "value")

    def follow(self, name: str) -> None:
        """Select `name` as soon as it is offered."""
        self._next = name

    def choose(self, name: str) -> None:
        """Select `name`; none, if it is not offered: it may have been dropped since."""
        self._next = ""
        with self._changes.of_ours():
            self.list.value = name if name in {value for _, value in self.list.options} else ""

    def offer(self, names: Sequence[str]) -> None:
        """Offer these registers.

        A selected one that is gone is selected again when there is one of that name, as in the next session,
        unless the user has selected another one meanwhile.
        """
        options = [_NO_REGISTER, *named(names)]
        if tuple(options) == tuple(self.list.options):
            return
        chosen = next((name for name in (self._next, self.list.value) if name in names), "")
        if not chosen:
            self._next = self._next or self.list.value or ""
        elif chosen == self._next:
            self._next = ""
        with self._changes.of_ours():
            self.list.options = options
            self.list.value = chosen

    def _forget(self, _: object) -> None:
        if not self._changes.are_ours:
            self._next = ""


class PartPicker:
    """A list of parts, hidden if there are none."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._of = ""
        self._next: str | None = None
        self.list = dropdown("part", [_WHOLE], "28em")
        self.list.observe(changes, "value")
        self._show()

    def follow(self, written: str) -> None:
        """Select this part of the register that is selected next; empty: all of it."""
        self._next = written

    def chosen(self, session: Session, row: Row) -> Row:
        """The row to draw: the selected part of the register in `row`, or the register itself."""
        kept = self.list.value if row.name == self._of else ""
        wanted = kept if self._next is None else self._next
        self._of, self._next = row.name, None
        part = None
        try:
            options = _parts(session, row)
            part = session.look_at(f"{row.name}{wanted}") if wanted else None
        except UnknownName:  # a cell may have dropped it since
            options, wanted = [], ""
        if part is not None and wanted not in [value for _, value in options]:
            options.append((wanted, wanted))  # not an array, or beyond the number of listed parts
        with self._changes.of_ours():
            if (_WHOLE, *options) != tuple(self.list.options):
                self.list.options = [_WHOLE, *options]
            self.list.value = wanted if part is not None else ""
        self._show()
        return part or row

    def _show(self) -> None:
        self.list.layout.display = None if len(self.list.options) > 1 else "none"


def _parts(session: Session, row: Row) -> list[tuple[str, str]]:
    """Labels and names of the parts, written after the register's name, of all workers together."""
    if all(cell.dtype is not None for cell in row.present):
        return []  # arrays or missing values, which have no parts
    found = together(session.examine(row.name, arrays_in))
    return [(f"{written} \u00b7 {kind}", written) for written, kind in found]
