"""Shows workers' output side by side: figures, and output that is redrawn in place."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from disco_magic.notebook.output.arrange import Item, append_lines
from disco_magic.notebook.output.gallery import gallery
from disco_magic.notebook.output.wall import INTERVAL_S, Wall, fits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.notebook.output.arrange import Kept
    from disco_magic.notebook.output.page import Page

PATIENCE_S: Final = INTERVAL_S
"""Seconds that a figure waits for those of the other workers, which usually come at about the same time. A
later one is still shown beside it, by an update of the display."""

WALLS: Final = 8
"""Displays of a cell that can change; for a loop that never clears its output, older ones are fixed."""


class Beside:
    """The figures of one cell, and output replaced by ``clear_output``. Callers hold the lock of the page.

    A figure waits for a moment and is then hung on a `Wall`, to which the other workers' figures are added.
    A worker that has called ``clear_output`` is *live*: its later displays and lines are hung there as well,
    and each further call removes them when the worker's next output comes.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._waiting: Kept = {}
        self._since: float | None = None
        self._last: Kept = {}
        self._walls: deque[Wall] = deque(maxlen=WALLS)
        self._live: set[int] = set()
        self._outdated: dict[int, bool] = {}  # worker -> whether its output stays until the next comes

    def is_live(self, worker: int) -> bool:
        """Whether the output of `worker` will be replaced."""
        return worker in self._live

    def add(self, worker: int, pictures: Sequence[Item]) -> None:
        """Show `pictures` soon."""
        self._replace(worker)
        wall = self._wall_of(worker)
        if worker in self._live and not self._fit(wall, worker, pictures):
            self.pass_by(worker)
            wall = None
        if wall is not None:
            wall.hang(worker, pictures)
        else:
            self._waiting.setdefault(worker, []).extend(pictures)
            self._begin()
        self.look()
        self._page.look_later()

    def add_lines(self, worker: int, channel: str, lines: Sequence[str]) -> bool:
        """Show lines of a live worker. False: the caller shows them as usual, below its earlier output."""
        if worker in self._live:
            self._replace(worker)
            wall = self._wall_of(worker)
            if self._fit(wall, worker, [Item(channel, [*lines])]):
                self._hang_lines(wall, worker, channel, lines)
                return True
        self.pass_by(worker)
        return False

    def _hang_lines(self, wall: Wall | None, worker: int, channel: str, lines: Sequence[str]) -> None:
        if wall is not None:
            wall.hang_lines(worker, channel, lines)
        else:
            append_lines(self._waiting.setdefault(worker, []), channel, lines)
            self._begin()
        self.look()
        self._page.look_later()

    def _fit(self, wall: Wall | None, worker: int, items: Sequence[Item]) -> bool:
        """Whether these fit into the place of `worker`, which is live; if not, it is live no longer."""
        hung = self._waiting if wall is None else wall.hung
        if fits([*hung.get(worker, []), *items]):
            return True
        self._live.discard(worker)
        return False

    def _begin(self) -> None:
        """Start the wait, unless it has started: replacing the output does not prolong it."""
        if self._since is None:
            self._since = self._page.now()

    def pass_by(self, worker: int) -> None:
        """Fix what `worker` has shown; its next output comes below."""
        self._replace(worker)
        if worker in self._waiting:
            self._hang_waiting()
        if self._walls:
            self._walls[-1].passed.add(worker)

    def clear(self, worker: int, *, wait: bool) -> None:
        """Remove the output of `worker` when its next output comes; without `wait`, once it has been seen."""
        self._live.add(worker)
        self._outdated[worker] = wait and self._outdated.get(worker, True)
        self.look()

    def keep(self, worker: int, pictures: Sequence[Item]) -> None:
        """Keep `pictures` for the end of the cell."""
        if pictures:
            self._last.setdefault(worker, []).extend(pictures)

    def take(self, worker: int) -> list[Item]:
        """Take back the pictures that were kept for the end of the cell."""
        return self._last.pop(worker, [])

    def look(self, *, at_once: bool = False) -> None:
        """Show what has waited long enough, and what has changed."""
        now = self._page.now()
        patience = PATIENCE_S if self._page.is_watched() else 0.0
        if self._since is not None and (at_once or now >= self._since + patience):
            self._hang_waiting()
        for wall in list(self._walls):
            wall.show(now, at_once=at_once)
            if not wall.changed:  # everything on it has been seen
                for worker in self._gone():
                    wall.take_down(worker)
                wall.show(now)

    def has_unseen(self) -> bool:
        """Whether another look would show something new."""
        return self._since is not None or any(wall.changed for wall in self._walls)

    def end(self) -> None:
        """Show the final state, at the end of the cell."""
        for worker, pictures in self._last.items():
            self._replace(worker)
            self._waiting.setdefault(worker, []).extend(pictures)
        for worker in self._gone():
            self._replace(worker)
        for worker in list(self._waiting):
            wall = self._wall_of(worker)
            if wall is not None:
                wall.hang(worker, self._waiting.pop(worker))
        for wall in list(self._walls):
            wall.show_last(self._page.now())
        waiting, self._waiting, self._last, self._since = self._waiting, {}, {}, None
        for state in (self._walls, self._live, self._outdated):
            state.clear()
        if waiting:
            self._show_last(waiting)

    def _show_last(self, waiting: Kept) -> None:
        """Show the rest: lines as lines, a single figure as a plain display, several in one display."""
        for worker in [each for each in sorted(waiting) if all(item.is_text for item in waiting[each])]:
            for item in waiting.pop(worker):
                self._page.write((worker,), item.kind, item.lines)
        if any(item.is_text for items in waiting.values() for item in items):
            self._waiting = waiting
            self._hang_waiting()
            self._walls.clear()
            return
        shown = self._page.arrange(waiting)
        if len(shown) == 1:
            workers, picture = shown[0]
            self._page.publish(workers, picture.data, picture.kwargs)
        elif shown:
            workers = tuple(sorted(waiting))
            self._page.publish(workers, gallery(shown, self._page.label), {}, labelled=True)

    def _gone(self) -> list[int]:
        """Workers whose output is cleared even if no other output follows."""
        return [worker for worker, wait in self._outdated.items() if not wait]

    def _replace(self, worker: int) -> None:
        """Remove what `worker` has cleared: its next output has come, or will not come any more."""
        if self._outdated.pop(worker, None) is not None:
            self._waiting.pop(worker, None)
            for wall in self._walls:
                wall.replace(worker, self._page.now())

    def _wall_of(self, worker: int) -> Wall | None:
        """The wall for the next output of `worker`; None if a new one has to be made."""
        if worker in self._live:
            its_own = (wall for wall in reversed(self._walls) if worker in wall.hung)
            found = next(its_own, None)
            if found is not None:
                return found
        last = self._walls[-1] if self._walls else None
        return last if last is not None and last.is_open_to(worker) else None

    def _hang_waiting(self) -> None:
        """Show the waiting pictures on a new wall."""
        waiting, self._waiting, self._since = self._waiting, {}, None
        if not waiting:
            return
        wall = Wall(self._page)
        for worker, items in waiting.items():
            wall.hang(worker, items)
        if len(self._walls) == WALLS:
            self._walls[0].show_last(self._page.now())
        self._walls.append(wall)
        wall.show(self._page.now())
