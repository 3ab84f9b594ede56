"""What workers show beside each other: their figures, and whatever they draw again and again in one place."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from disco_magic.notebook.output.arrange import Item, append_lines
from disco_magic.notebook.output.gallery import gallery, is_text
from disco_magic.notebook.output.wall import INTERVAL_S, Wall, fits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.notebook.output.arrange import Kept, Shown

PATIENCE_S: Final = INTERVAL_S
"""How long a figure that was shown waits for those of the other workers. They come about together; one that
comes later hangs beside it all the same, in a display that changes then."""

WALLS: Final = 8
"""Displays of a cell that can change: of a loop that never clears its output not all figures are kept."""


class Front(Protocol):
    """Where it is shown: the page of a cell."""

    def publish(
        self,
        workers: Sequence[int],
        data: Mapping[str, Any],
        kwargs: Mapping[str, Any],
        *,
        labelled: bool = False,
    ) -> None:
        """Show what `workers` show, under a line with their label unless it has labels of its own."""

    def write(self, workers: Sequence[int], channel: str, lines: Sequence[str]) -> None:
        """Show lines."""

    def label(self, workers: Sequence[int]) -> str:
        """HTML of their names."""

    def now(self) -> float:
        """Seconds."""

    def is_watched(self) -> bool:
        """Whether somebody calls `Beside.look` now and then."""

    def look_later(self) -> None:
        """Where nobody does: once, soon, if it `has_unseen`."""


class Beside:
    """The figures of one cell, and what its workers replace by ``clear_output``. Needs the lock of its page.

    A figure waits for a moment, then hangs on a `Wall`, to which the other workers' figures come. A worker
    that has called ``clear_output`` is *live*: what it shows and writes from then on hangs there as well, and
    each further call takes that down, when its next output comes.

    Args:
        front: where it is shown.
        arrange: in which order figures of the cell's end stand beside each other.
    """

    def __init__(self, front: Front, arrange: Callable[[Kept], Shown]) -> None:
        self._front = front
        self._arrange = arrange
        self._waiting: Kept = {}
        self._since: float | None = None
        self._last: Kept = {}
        self._walls: deque[Wall] = deque(maxlen=WALLS)
        self._live: set[int] = set()
        self._outdated: dict[int, bool] = {}  # worker -> whether what it has stays until its next output

    def is_live(self, worker: int) -> bool:
        """Whether what `worker` shows will be replaced."""
        return worker in self._live

    def add(self, worker: int, pictures: Sequence[Item]) -> None:
        """Show `pictures`, soon."""
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
        self._front.look_later()

    def add_lines(self, worker: int, channel: str, lines: Sequence[str]) -> bool:
        """Show lines of a worker that is live; False: they are lines as any, behind what it showed."""
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
        self._front.look_later()

    def _fit(self, wall: Wall | None, worker: int, items: Sequence[Item]) -> bool:
        """Whether `worker`, which is live, can show these as well; if not it is not, until it clears them."""
        hung = self._waiting if wall is None else wall.hung
        if fits([*hung.get(worker, []), *items]):
            return True
        self._live.discard(worker)
        return False

    def _begin(self) -> None:
        """Something waits from now on, unless it does: who replaces it in time does not prolong that."""
        if self._since is None:
            self._since = self._front.now()

    def pass_by(self, worker: int) -> None:
        """`worker` goes on below what it has shown, and what it shows next comes behind that."""
        self._replace(worker)
        if worker in self._waiting:
            self._hang_waiting()
        if self._walls:
            self._walls[-1].passed.add(worker)

    def clear(self, worker: int, *, wait: bool) -> None:
        """What `worker` shows goes when its next output comes; without `wait` also before, but not unseen."""
        self._live.add(worker)
        self._outdated[worker] = wait and self._outdated.get(worker, True)
        self.look()

    def keep(self, worker: int, pictures: Sequence[Item]) -> None:
        """Show `pictures` at the cell's end."""
        if pictures:
            self._last.setdefault(worker, []).extend(pictures)

    def take(self, worker: int) -> list[Item]:
        """Those of the end are not to be shown."""
        return self._last.pop(worker, [])

    def look(self, *, at_once: bool = False) -> None:
        """Show what has waited long enough, and what has changed."""
        now = self._front.now()
        patience = PATIENCE_S if self._front.is_watched() else 0.0
        if self._since is not None and (at_once or now >= self._since + patience):
            self._hang_waiting()
        for wall in list(self._walls):
            wall.show(now, at_once=at_once)
            if not wall.changed:  # all that hangs there was seen
                for worker in self._gone():
                    wall.take_down(worker)
                wall.show(now)

    def has_unseen(self) -> bool:
        """Whether another look would show something."""
        return self._since is not None or any(wall.changed for wall in self._walls)

    def end(self) -> None:
        """Show everything as it is at the end of the cell."""
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
            wall.show_last(self._front.now())
        waiting, self._waiting, self._last, self._since = self._waiting, {}, {}, None
        for state in (self._walls, self._live, self._outdated):
            state.clear()
        self._show_last(waiting)

    def _show_last(self, waiting: Kept) -> None:
        """What was not shown before the end: lines as lines, one figure as any display, several as one."""
        for worker in [worker for worker in sorted(waiting) if all(map(is_text, waiting[worker]))]:
            for item in waiting.pop(worker):
                self._front.write((worker,), item.kind, item.lines)
        if any(is_text(item) for items in waiting.values() for item in items):
            self._waiting = waiting
            self._hang_waiting()
            self._walls.clear()
            return
        shown = self._arrange(waiting)
        if len(shown) == 1:
            workers, picture = shown[0]
            self._front.publish(workers, picture.data, picture.kwargs)
        elif shown:
            workers = tuple(sorted(waiting))
            self._front.publish(workers, gallery(shown, self._front.label), {}, labelled=True)

    def _gone(self) -> list[int]:
        """Workers whose output is cleared, whether or not something comes after it."""
        return [worker for worker, wait in self._outdated.items() if not wait]

    def _replace(self, worker: int) -> None:
        """The next output of `worker` has come, or will not: what it has cleared goes."""
        if self._outdated.pop(worker, None) is not None:
            self._waiting.pop(worker, None)
            for wall in self._walls:
                wall.replace(worker, self._front.now())

    def _wall_of(self, worker: int) -> Wall | None:
        """Where what `worker` shows now belongs; None: on one that is to be made."""
        if worker in self._live:
            its_own = (wall for wall in reversed(self._walls) if worker in wall.hung)
            found = next(its_own, None)
            if found is not None:
                return found
        last = self._walls[-1] if self._walls else None
        return last if last is not None and last.is_open_to(worker) else None

    def _hang_waiting(self) -> None:
        """Show those that wait, in a new place."""
        waiting, self._waiting, self._since = self._waiting, {}, None
        if not waiting:
            return
        wall = Wall(self._front.publish, self._front.label)
        for worker, items in waiting.items():
            wall.hang(worker, items)
        if len(self._walls) == WALLS:
            self._walls[0].show_last(self._front.now())
        self._walls.append(wall)
        wall.show(self._front.now())
