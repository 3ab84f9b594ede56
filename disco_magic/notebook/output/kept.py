"""Shows the output of one cell at its end, in an order that does not depend on timing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from disco_magic.notebook.output.afterwards import Pieces
from disco_magic.notebook.output.arrange import Item, with_own_id
from disco_magic.notebook.output.gallery import is_picture
from disco_magic.notebook.output.outlet import collected
from disco_magic.notebook.output.page import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.notebook.output.arrange import Kept


class KeptPage(Page):
    """Shows everything when the last worker has finished, in an order that does not depend on timing.

    `Pieces` says how much of it is kept per worker. Lines of threads that outlive the cell are shown as they
    come. The number of messages that a kernel sends does not depend on timing either: lines without a display
    between them are sent as one.
    """

    def __init__(self, workers: Sequence[int], *args: Any, **options: Any) -> None:
        super().__init__(workers, *args, **options)
        self.area = None  # nothing is shown before the end
        self._kept = {worker: Pieces() for worker in workers if worker in self._shown}
        self._outdated: set[int] = set()  # workers whose next output replaces what they have

    def lines(self, worker: int, channel: str, lines: Sequence[str]) -> None:
        """See `Page.lines`."""
        if not self.running:
            super().lines(worker, channel, lines)
        elif worker in self._shown:
            self._replace(worker)
            self._kept[worker].add_lines(channel, lines)

    def display(
        self, worker: int, publish: Callable[..., Any], data: dict[str, Any], kwargs: dict[str, Any]
    ) -> None:
        """See `Page.display`."""
        if not self.running:
            super().display(worker, publish, data, kwargs)
        elif worker in self._shown:
            self._replace(worker)
            kwargs = with_own_id(kwargs, among_others=len(self._shown) > 1)  # now, in the worker's context
            self._kept[worker].items.append(Item("display", [], publish, data, kwargs))

    def clear(self, worker: int, clear: Callable[..., Any], *, wait: bool) -> None:  # noqa: ARG002 - see `Page.clear`
        """Drop this worker's output so far; with `wait`, when its next output comes."""
        if worker in self._kept:
            self._outdated.add(worker)
            if not wait:
                self._replace(worker)

    def _replace(self, worker: int) -> None:
        if worker in self._outdated:
            self._outdated.discard(worker)
            self._kept[worker].clear()

    def pictures(self, worker: int, pictures: Sequence[Item]) -> None:
        """See `Page.pictures`."""
        if pictures and worker in self._kept:
            self._replace(worker)
        super().pictures(worker, pictures)

    def _end(self) -> None:
        kept: Kept = {worker: pieces.all() for worker, pieces in self._kept.items()}
        self._kept.clear()
        for worker, items in kept.items():
            implicit = self._beside.take(worker)
            self._beside.keep(worker, [*_last_pictures(items), *implicit])
        with collected(self._outlets.values()):
            for workers, item in self.arrange(kept):
                if item.publish is not None:
                    self._publish(workers, item.publish, item.data, item.kwargs)
                else:
                    self._outlets[item.kind].lines(workers, item.lines)
        super()._end()


def _last_pictures(items: list[Item]) -> list[Item]:
    """Remove the images at the end of one worker's `items`, and return them as pictures."""
    first = len(items)
    while first and is_picture(items[first - 1].data, items[first - 1].kwargs):
        first -= 1
    pictures = [replace(item, kind="picture") for item in items[first:]]
    del items[first:]
    return pictures
