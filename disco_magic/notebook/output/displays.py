"""The displays that live areas leave empty in one cell of a notebook: how they are reused, and removed.

No message removes a display. An empty one takes no space, but is saved with the notebook. So the next rows of
the cell get it again if nothing else was sent since; and if it is all that the cell has shown, the cell's
output is cleared.

Whether there is anything else is known from the number of messages that the kernel has made, of whatever
kind: with one more than ours, everything stays as it is.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from disco_magic.isolation.streams import present, unwrapped

if TYPE_CHECKING:
    from disco_magic.notebook.shell import Shell

# An attribute of the display publisher, so that it dies with it.
_KEPT: Final = "_disco_magic_displays"


class Displays:
    """What is known of the output of one cell.

    Args:
        publisher: the shell's display publisher, as the cell begins.
        count: the number of messages when the cell began; None: unknown.
    """

    def __init__(self, publisher: Any, count: int | None) -> None:
        self._session = getattr(publisher, "session", None)
        self._cell = _cell_of(publisher)
        self._empty_at = count  # the number of messages when the output was last known to be empty
        self._left_at: int | None = None  # ... when a display was left empty, and its id
        self._left = ""
        self._asked: int | None = None  # ... when we last looked, before our last message
        self._seen: int | None = None  # ... after it
        self._is_first = self._is_last = False  # whether nothing is above, and below, the display

    def _count(self) -> int | None:
        return getattr(self._session, "message_count", None)

    def is_of_present_cell(self, publisher: Any) -> bool:
        """Whether what is published now belongs to this cell."""
        return _cell_of(publisher) == self._cell

    def begin(self, publisher: Any) -> str:
        """Note that rows are about to be shown; the id of the empty display for them, "" for a new one.

        They may be of another cell: a task that an earlier one has left behind shows them there.
        """
        count = self._asked = self._flushed() if self.is_of_present_cell(publisher) else None
        self._is_last = count is not None
        self._is_first = self._is_last and count == self._empty_at
        left, self._left = self._left, ""
        return left if count is not None and count == self._left_at else ""

    def sent(self) -> None:
        """Note that one message about the display was sent; what came meanwhile is another thread's."""
        self._seen = self._count()
        if self._asked is None or self._seen != self._asked + 1:
            self._is_last = False

    def change(self) -> None:
        """Note that the rows are about to change."""
        self._asked = self._flushed()
        self._is_last = self._is_last and self._asked == self._seen

    def leave(self, display_id: str) -> None:
        """Note that the display was left empty."""
        if self._is_last:
            self._left, self._left_at = display_id, self._count()

    def cleared(self, publisher: Any) -> bool:
        """Clear the cell's output if the rows are all that it has; return whether they were.

        Not by `clear_output`, which waits for the streams: what another thread prints meanwhile would be
        lost. What it displays in the microseconds between the comparison and the message, is.
        """
        self.change()
        if not (self._is_first and self._is_last):
            return False
        content, parent = {"wait": False}, publisher.parent_header
        publisher.session.send(
            publisher.pub_socket, "clear_output", content, parent=parent, ident=publisher.topic
        )
        self._empty_at = self._count()
        return True

    def _flushed(self) -> int | None:
        """The number of messages when everything that was printed is among them."""
        if self._session is None:
            return None
        for stream in map(unwrapped, present().values()):
            if hasattr(stream, "set_parent"):
                with suppress(OSError, ValueError):  # it was closed
                    stream.flush()
        return self._count()


def _cell_of(publisher: Any) -> object:
    """The front end's request to which what is published now belongs."""
    return (getattr(publisher, "parent_header", None) or {}).get("msg_id")


def note_begin(shell: Shell, *_: object) -> None:
    """Note that a cell of the notebook begins: it has no output yet, unless another cell executes it."""
    publisher = shell.display_pub
    kept: Displays | None = vars(publisher).get(_KEPT)
    if hasattr(publisher, "set_parent") and not (kept and kept.is_of_present_cell(publisher)):
        count = getattr(getattr(publisher, "session", None), "message_count", None)
        vars(publisher)[_KEPT] = Displays(publisher, count)


def note_loading(shell: Shell) -> None:
    """Note that the present cell has loaded the extension: its output is not known."""
    if hasattr(shell.display_pub, "set_parent"):
        vars(shell.display_pub)[_KEPT] = Displays(shell.display_pub, None)


def forget(shell: Shell) -> None:
    """Remove what is kept in the shell's publisher."""
    vars(shell.display_pub).pop(_KEPT, None)


def displays_of(publisher: Any) -> Displays:
    """What is known of the cell that runs now."""
    return vars(publisher).get(_KEPT) or Displays(publisher, None)
