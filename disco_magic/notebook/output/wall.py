"""A display in which the workers' output hangs side by side and is replaced in place."""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from disco_magic.notebook.output.arrange import append_lines
from disco_magic.notebook.output.gallery import tiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.notebook.output.arrange import Item, Kept
    from disco_magic.notebook.output.gallery import Tile
    from disco_magic.notebook.output.page import Page

INTERVAL_S: Final = 0.2
"""Shortest interval between updates of a wall; the last state is always shown."""

HOLD_S: Final = 2.0
"""How long a picture that will be replaced stays while the next one is being drawn."""

LINES: Final = 100
"""Most lines per worker: all of them are sent again with every change."""

LENGTH: Final = 10_000
"""Most characters in the lines of a worker."""

PICTURES: Final = 8
"""Most pictures and tables of a worker."""


class Wall:
    """A display with the output of several workers, each replaced in place.

    A front end keeps the place of a display, and a saved notebook its last state.

    Attributes:
        hung: worker -> its pictures, tables and lines. An empty list takes no space.
        passed: workers that have written below the wall; their next output comes below that.
        changed: whether it has changed since it was last shown.
    """

    def __init__(self, page: Page) -> None:
        self.hung: Kept = {}
        self.passed: set[int] = set()
        self.changed = False
        self._page = page
        self._display_id = uuid4().hex
        self._shown_at: float | None = None
        self._shown: dict[str, Any] = {}
        self._former: Kept = {}  # worker -> pictures that stay until the next ones come, or until:
        self._until: dict[int, float] = {}
        self._is_showing = False

    def hang(self, worker: int, items: Sequence[Item]) -> None:
        """Hang `items` after what the worker has there."""
        self.hung.setdefault(worker, []).extend(items)
        self.changed = True

    def hang_lines(self, worker: int, channel: str, lines: Sequence[str]) -> None:
        """Hang lines after what the worker has there."""
        append_lines(self.hung.setdefault(worker, []), channel, lines)
        self.changed = True

    def take_down(self, worker: int) -> None:
        """Remove the output of `worker`; its place remains reserved."""
        self._former.pop(worker, None)
        if self.hung.get(worker):
            self.hung[worker] = []
            self.changed = True

    def replace(self, worker: int, now: float) -> None:
        """Like `take_down`, but old pictures stay until new ones come or `HOLD_S` is over."""
        former = self._seen(worker)
        self.take_down(worker)
        if _count(former):
            self._former[worker], self._until[worker] = former, now + HOLD_S

    def is_open_to(self, worker: int) -> bool:
        """Whether the next picture of `worker` belongs here: others have more, and it has not `passed`."""
        most = max(map(len, self.hung.values()))
        return worker not in self.passed and len(self.hung.get(worker, ())) < most

    def show(self, now: float, *, at_once: bool = False) -> None:
        """Update the display, unless that was done a moment ago."""
        rests = self._shown_at is not None and now < self._shown_at + INTERVAL_S
        # A finalizer that prints may call this in the middle; its changes are shown next time.
        if not self.changed or self._is_showing or (rests and not at_once):
            return
        self._is_showing = True
        try:
            self._show(now)
        finally:
            self._is_showing = False

    def _show(self, now: float) -> None:
        self._drop_former(now)
        self.changed = bool(self._former)
        seen = {worker: self._seen(worker) for worker in self.hung}
        data = self._data(seen)
        if data == self._shown:
            return
        update, self._shown_at, self._shown = self._shown_at is not None, now, data
        workers = tuple(worker for worker in sorted(seen) if seen[worker])
        kwargs = {"transient": {"display_id": self._display_id}, "update": update}
        self._page.publish(workers, data, kwargs, labelled=True)

    def show_last(self, now: float) -> None:
        """Show the final state."""
        self._former.clear()
        self.show(now, at_once=True)

    def _drop_former(self, now: float) -> None:
        for worker in list(self._former):
            if now >= self._until[worker] or _count(self.hung[worker]) >= _count(self._former[worker]):
                del self._former[worker]

    def _seen(self, worker: int) -> list[Item]:
        """The worker's output, with the former picture for each one that has not come yet."""
        hung, former = self.hung.get(worker, []), self._former.get(worker, [])
        drawn = _count(hung)
        return [*(hung if drawn or not former else []), *chain(*_parts(former)[drawn:])]

    def _data(self, seen: Kept) -> dict[str, Any]:
        tiles = _tiles(seen)
        if not tiles:
            return {"text/plain": "", "text/html": ""}
        data = tiled(tiles, self._page.label)
        if len(tiles) > 1 or len(tiles[0][1]) > 1:
            return data
        # A single picture is also published as an image, for converters without HTML (LaTeX, Markdown).
        return {**tiles[0][1][0].data, **data}


def fits(items: Sequence[Item]) -> bool:
    """Whether the output of one worker is within the limits."""
    lines = [line for item in items if item.is_text for line in item.lines]
    return len(lines) <= LINES and sum(map(len, lines)) <= LENGTH and _count(items) <= PICTURES


def _tiles(hung: Kept) -> list[Tile]:
    """First the first pictures of all workers, each with the lines around it, then the second ones, ..."""
    columns = ([((worker,), each) for each in _parts(hung[worker])] for worker in sorted(hung))
    return [tile for turn in zip_longest(*columns) for tile in turn if tile is not None]


def _count(items: Sequence[Item]) -> int:
    """The number of pictures and tables."""
    return sum(not item.is_text for item in items)


def _parts(items: Sequence[Item]) -> list[list[Item]]:
    """Split into pictures, each with the lines before it; lines after the last one stay with it."""
    parts: list[list[Item]] = []
    before: list[Item] = []
    for item in items:
        before.append(item)
        if not item.is_text:
            parts.append(before)
            before = []
    if before and parts:
        parts[-1] += before
    elif before:
        parts.append(before)
    return parts
