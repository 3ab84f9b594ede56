"""The display that live areas leave empty in a cell of a notebook; whether the next rows have it again.

No message removes a display. An empty one takes no space, but is saved with the notebook: so it is used again
if nothing is below it. That is known from the number of messages that the kernel has made, of whatever kind;
with one more than ours there may be, and the next rows get a display of their own.

In a loop of the notebook's that prints between its waits, a progress bar for instance, a display for each
wait would cut the bar into as many outputs. So waits that come after `MOST` displays change the last empty
one, which stands further up then. Waits at the same time, as of ``asyncio.gather``, have a display each. One
cell of the workers has its rows at the bottom, as often as its screen allows.

After ``clear_output(wait=True)`` a front end removes everything when the next output comes. That is to be
the user's, so no status of ours is shown until then. What changes a display in place is no output.

To clear the cell's output where the display is all there is was tried, and given up: what hooks, cells within
the cell and other threads had shown was lost with it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from disco_magic.isolation.streams import present, unwrapped

if TYPE_CHECKING:
    from disco_magic.notebook.shell import Shell

MOST: Final = 2
"""Number of displays that a cell's waits make before they use an empty one again, wherever it is."""


class Displays:
    """The display that was left empty in one cell.

    Args:
        publisher: the shell's display publisher.
    """

    def __init__(self, publisher: Any) -> None:
        self._session = getattr(publisher, "session", None)
        self._cell = _cell_of(publisher)
        self._left = ""
        self._left_at: int | None = None  # the number of messages when it was left
        self._asked: int | None = None  # ... when we last looked, before our last message
        self._seen: int | None = None  # ... after it
        self._is_last = False  # whether nothing is below the display
        self._made: set[str] = set()
        self._free: list[str] = []  # of those, the empty ones; several threads take from it
        self._clears_at: int | None = None  # the number of messages when the next one was to clear the output

    def is_of_present_cell(self, publisher: Any) -> bool:
        """Whether what is published now belongs to this cell."""
        return self._cell is not None and _cell_of(publisher) == self._cell

    def begin(self, publisher: Any, *, goes_on: bool = False) -> str:
        """Note that rows are about to be shown; the id of the empty display for them, "" for a new one.

        They may be of another cell: a task that an earlier one has left behind shows them there.

        Args:
            publisher: the shell's display publisher.
            goes_on: whether a new one would be a further one of this wait, or cell of the workers.
        """
        count = self._flushed() if self.is_of_present_cell(publisher) else None
        left, self._left = self._left, ""
        self._asked, self._is_last = count, count is not None
        if left and count == self._left_at and self._take(left):
            return left
        if count is None or goes_on or len(self._made) < MOST:
            return ""
        taken = self._take()  # nothing is empty where several wait at the same time
        self._is_last = not taken
        return taken

    def _take(self, display_id: str = "") -> str:
        """Take that empty display, or the last one; "" if another thread has been faster."""
        try:
            if not display_id:
                return self._free.pop()
            self._free.remove(display_id)
        except (IndexError, ValueError):
            return ""
        return display_id

    def make(self, display_id: str) -> None:
        """Note that a display is being made."""
        self._made.add(display_id)

    def clear(self, *, wait: bool) -> None:
        """Note that the cell's output is cleared, at once or with the next message."""
        self._made.clear()
        self._free.clear()
        self._left = ""
        self._clears_at = self._count() if wait else None

    def keep_clearing(self) -> None:
        """Note a message that clears nothing: a front end's next one still does, if this one would have."""
        if self._clears_at is not None and self._count() == self._clears_at + 1:
            self._clears_at += 1

    def is_about_to_clear(self, publisher: Any) -> bool:
        """Whether the next message, of whatever kind, would clear the cell's output."""
        if self._clears_at is None or not self.is_of_present_cell(publisher):
            return False
        if self._flushed() == self._clears_at:
            return True
        self._clears_at = None
        return False

    def change(self) -> None:
        """Note that the rows are about to change."""
        self._asked = self._flushed()
        self._is_last = self._is_last and self._asked == self._seen

    def sent(self) -> None:
        """Note that one message about the display was sent; what came meanwhile is another thread's."""
        self._seen = self._count()
        if self._asked is None or self._seen != self._asked + 1:
            self._is_last = False

    def leave(self, display_id: str) -> None:
        """Note that the display was left empty."""
        if display_id not in self._made:  # it was cleared away meanwhile
            return
        self._free.append(display_id)
        if self._is_last:
            self._left, self._left_at = display_id, self._seen

    def _count(self) -> int | None:
        return getattr(self._session, "message_count", None)

    def _flushed(self) -> int | None:
        """The number of messages when everything that was printed is among them."""
        if self._session is None:
            return None
        for stream in map(unwrapped, present().values()):
            if hasattr(stream, "set_parent"):
                with suppress(OSError, ValueError):  # it was closed
                    stream.flush()
        return self._count()


_of_publishers: Final[WeakKeyDictionary[Any, Displays]] = WeakKeyDictionary()


def displays_of(publisher: Any) -> Displays:
    """What is known of the cell to which what is published now belongs."""
    kept = _of_publishers.get(publisher)
    if kept is None or not kept.is_of_present_cell(publisher):
        kept = _of_publishers[publisher] = Displays(publisher)
    return kept


class Clearing:
    """Notes when cells of a shell clear their output, in the thread that begins with `put`: that of cells.

    Of a terminal, which cannot, nothing is noted.
    """

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._heeded: Any = None

    def put(self, *_: object) -> None:
        """Heed the shell's publisher; also before each cell: ``%%capture`` may have loaded the extension."""
        publisher = self._shell.display_pub
        if publisher is self._heeded or not hasattr(publisher, "unregister_hook"):
            return
        self.take()
        self._heeded = publisher
        publisher.register_hook(self._note)

    def take(self) -> None:
        """Undo `put`. Idempotent."""
        heeded, self._heeded = self._heeded, None
        if heeded is not None:
            heeded.unregister_hook(self._note)

    def _note(self, message: dict[str, Any]) -> dict[str, Any]:
        heeded = self._heeded  # None if another thread than that of `put` has taken it: the hook stays then
        kind = message["header"]["msg_type"]
        if heeded is not None and kind == "clear_output":
            displays_of(heeded).clear(wait=message["content"]["wait"])
        elif heeded is not None and kind == "update_display_data":
            displays_of(heeded).keep_clearing()
        return message


def _cell_of(publisher: Any) -> object:
    """The front end's request to which what is published now belongs."""
    return (getattr(publisher, "parent_header", None) or {}).get("msg_id")
