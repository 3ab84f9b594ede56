"""Figures of workers that wait for those of the others, to be shown beside each other when the cell ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from disco_magic.notebook.output.gallery import gallery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.notebook.output.arrange import Item, Kept, Shown

PATIENCE_S: Final = 2.0
"""How long a figure that was shown waits for those of the other workers. They come about together, as workers
that draw share the interpreter; a longer wait would be felt where a cell goes on after it has shown one."""


class Publish(Protocol):
    """Publishes what `workers` show, under a line with their label unless it has labels of its own."""

    def __call__(
        self,
        workers: Sequence[int],
        publish: Callable[..., Any],
        data: Mapping[str, Any],
        kwargs: Mapping[str, Any],
        *,
        labelled: bool = False,
    ) -> None:
        """Do it."""


class Beside:
    """The figures of one cell. Its methods need the lock of the cell's page.

    Args:
        publish: the page's.
        publisher: the shell's display publisher.
        arrange: in which order figures stand beside each other.
        label: gives the HTML of workers' names.
    """

    def __init__(
        self,
        publish: Publish,
        publisher: Any,
        arrange: Callable[[Kept], Shown],
        label: Callable[[Sequence[int]], str],
    ) -> None:
        self._publish = publish
        self._publisher = publisher
        self._arrange = arrange
        self._label = label
        self._waiting: Kept = {}
        self._since: dict[int, float] = {}

    def add(self, worker: int, pictures: Sequence[Item], now: float | None = None) -> None:
        """Let `pictures` wait, from `now` on; None: for the end."""
        self._waiting.setdefault(worker, []).extend(pictures)
        if now is not None:
            self._since.setdefault(worker, now)

    def show(self, worker: int) -> None:
        """Show those of `worker` now: it goes on, and what it shows next comes behind them."""
        for picture in self.take(worker):
            self._publish((worker,), picture.publish or self._publisher.publish, picture.data, picture.kwargs)

    def show_impatient(self, now: float) -> None:
        """Show those that have waited long enough."""
        for worker in [worker for worker, since in self._since.items() if now - since >= PATIENCE_S]:
            self.show(worker)

    def take(self, worker: int) -> list[Item]:
        """Those of `worker` are not to be shown."""
        self._since.pop(worker, None)
        return self._waiting.pop(worker, [])

    def end(self) -> None:
        """Show them all: one as any display, several as one display of them all."""
        waiting, self._waiting = self._waiting, {}
        self._since.clear()
        shown = self._arrange(waiting)
        if len(shown) == 1:
            workers, picture = shown[0]
            self._publish(workers, self._publisher.publish, picture.data, picture.kwargs)
        elif shown:
            workers = tuple(sorted(waiting))
            self._publish(workers, self._publisher.publish, gallery(shown, self._label), {}, labelled=True)
