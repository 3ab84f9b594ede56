"""How the output of one cell is put on screen: at once, or at the end in an order.

::

    worker 0: print -> Sink -- lines -->  Page  -- one write -->  Outlet -> the cell's own stream
    worker 1: print -> Sink -- lines -->  (one lock)   -->  LiveArea: what is unfinished, see there
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from disco_magic.functions.transcript import LIMIT
from disco_magic.notebook.libraries.bars import BARS
from disco_magic.notebook.output.arrange import Item, by_order
from disco_magic.notebook.output.beside import Beside
from disco_magic.notebook.output.gallery import is_picture
from disco_magic.notebook.output.livearea import LiveArea
from disco_magic.notebook.output.outlet import Outlet, collected
from disco_magic.notebook.output.screens import screen_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from disco_magic.notebook.output.arrange import Kept, Shown
    from disco_magic.notebook.output.livearea import Row
    from disco_magic.notebook.output.sink import Sink


class Page:
    """Shows lines at once, each whole, in the order in which the workers wrote them.

    Args:
        workers: the workers that run the cell.
        shown: those whose output is shown; the others' is only recorded.
        publisher: the shell's display publisher, which a live area in a notebook needs, and figures.
        arrange: in which order workers' figures are shown, side by side.
        among: workers of the session, whose prefixes are equally wide.

    Attributes:
        area: what changes in place; None where nothing can, or if nobody is shown.

    What callers may rely on: `lock` is held around everything, so a line, or a label with its display, is
    never torn; `finish` may come more than once per worker.
    """

    def __init__(
        self,
        workers: Sequence[int],
        shown: Iterable[int],
        publisher: Any = None,
        clock: Callable[[], float] = time.monotonic,
        arrange: Callable[[Kept], Shown] = by_order,
        *,
        among: int = 1,
    ) -> None:
        self.lock = threading.RLock()
        self._shown = frozenset(shown)
        self._clock = clock
        self._outlets = {"stdout": Outlet(sys.stdout, among), "stderr": Outlet(sys.stderr, among)}
        self._workers = frozenset(workers)
        self._running = set(workers)
        self._beside = Beside(self._publish, publisher, arrange, self._outlets["stdout"].label_html)
        # What the controller shows for this cell comes from a thread that runs another cell by then.
        self._context = copy_context()
        self.area = self._area(publisher, clock)
        BARS.enter()

    def _area(self, publisher: Any, clock: Callable[[], float]) -> LiveArea | None:
        out = self._outlets["stdout"]
        screen = screen_for(out, publisher) if self._shown else None
        if screen is None:
            return None
        alike = [name for name, each in self._outlets.items() if each.notebook or each.terminal]
        return LiveArea(screen, alike, self._context, clock)

    @property
    def running(self) -> bool:
        """Whether a worker has not finished."""
        return bool(self._running)

    @property
    def finished(self) -> frozenset[int]:
        """Workers that have ended the cell; needs no lock."""
        return self._workers - self._running

    def shows(self, worker: int) -> bool:
        """Whether what `worker` writes is to be seen; needs no lock."""
        return worker in self._shown

    def lines(self, worker: int, channel: str, lines: Sequence[str]) -> None:
        """Whole lines of one worker."""
        if worker in self._shown:
            self._beside.show(worker)
            self._outlets[channel].lines((worker,), lines)
            if self.area is not None:
                self.area.wrote(worker)

    def touch(self, sink: Sink) -> None:
        """A worker has an unfinished line to show, and it has changed."""
        BARS.install()
        if self.area is not None and sink.worker in self._shown:
            self.area.touch(sink)

    def look(self, status: Sequence[Row] | None = None) -> None:
        """Bring the live area up to date, unless a worker writes just now: who waits never stands in line."""
        if self.area is not None and self.lock.acquire(blocking=False):
            try:
                self.area.look(status)
                self._context.run(self._beside.show_impatient, self._clock())
            finally:
                self.lock.release()

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Somebody waits for the cell within this. Images wait for others only as long as somebody does."""
        if self.area is None:
            yield
            return
        self.area.wait()
        try:
            yield
        finally:
            with self.lock:
                self.area.end_wait()
                if not self.area.is_waited_for:  # nobody will look whether their patience is over
                    self._context.run(self._beside.show_impatient, float("inf"))

    def display(
        self, worker: int, publish: Callable[..., Any], data: dict[str, Any], kwargs: dict[str, Any]
    ) -> None:
        """Rich data of one worker, under a line that names it; an update stays in its place.

        An image, as `plt.show` displays it, waits for those of the other workers, until this one goes on to
        write or show something else.
        """
        if worker not in self._shown:
            return
        if is_picture(data, kwargs) and self._is_watched():
            self._beside.add(worker, [Item("picture", [], publish, data, kwargs)], self._clock())
        else:
            self._beside.show(worker)
            self._publish((worker,), publish, data, kwargs)

    def _is_watched(self) -> bool:
        """Whether somebody looks up now and then, and there are others to wait for."""
        return self.running and len(self._shown) > 1 and self.area is not None and self.area.is_waited_for

    def _publish(
        self,
        workers: Sequence[int],
        publish: Callable[..., Any],
        data: Mapping[str, Any],
        kwargs: Mapping[str, Any],
        *,
        labelled: bool = False,
    ) -> None:
        if not (labelled or kwargs.get("update")):
            self._outlets["stdout"].write(self._outlets["stdout"].prefix(workers).rstrip() + "\n")
        for outlet in self._outlets.values():
            outlet.flush()
        marked = {**(kwargs.get("metadata") or {}), "disco": {"workers": list(workers)}}
        publish(data, **{**kwargs, "metadata": marked})

    def pictures(self, worker: int, pictures: Sequence[Item]) -> None:
        """Figures of one worker, to be shown beside those of the others when the last one has ended."""
        if worker in self._shown and self.running:
            self._beside.add(worker, pictures)

    def clear(self, worker: int, clear: Callable[..., Any], *, wait: bool) -> None:
        """Clear the cell's output if it shows this worker alone; no worker wipes the others' lines."""
        self._beside.take(worker)
        if self._shown == {worker}:
            clear(wait=wait)
            if self.area is not None:
                self.area.cleared()

    def finish(self, worker: int) -> None:
        """`worker` will write no more, except from threads that it left behind."""
        was_running = self.running
        self._running.discard(worker)
        if was_running and not self.running:
            BARS.leave()
            if self.area is not None:
                self.area.close()
            self._context.run(self._end)

    def _end(self) -> None:
        """Show what was to be shown at the end."""
        self._beside.end()

    def note(self, workers: Sequence[int], lines: Sequence[str]) -> None:
        """Add lines of the controller's own about `workers` to the cell's stderr."""
        with self.lock:
            self._context.run(self._outlets["stderr"].lines, workers, lines)

    def close(self) -> None:
        """Nobody will write any more, whether or not every worker said so."""
        with self.lock:
            for worker in sorted(self._running):
                self.finish(worker)


class KeptPage(Page):
    """Shows everything when the last worker has finished, in an order that does not depend on timing.

    Args:
        arrange: takes worker -> items, returns what to show, in order, with the workers it came from.

    At most `transcript.LIMIT` characters of lines are kept per worker; a line says how many were left out.
    Lines of threads that outlive the cell are shown as they come. Of what is kept nothing depends on timing,
    also not into how many messages a kernel puts it: lines without a display between them make one.
    """

    def __init__(
        self,
        workers: Sequence[int],
        shown: Iterable[int],
        arrange: Callable[[Kept], Shown],
        publisher: Any = None,
        *,
        among: int = 1,
    ) -> None:
        super().__init__(workers, shown, publisher, arrange=arrange, among=among)
        self._arrange = arrange
        self.area = None  # nothing is shown before the end
        self._kept: Kept = {worker: [] for worker in workers if worker in self._shown}
        self._sizes = dict.fromkeys(workers, 0)
        self._left_out = dict.fromkeys(workers, 0)

    def lines(self, worker: int, channel: str, lines: Sequence[str]) -> None:
        """See `Page.lines`."""
        if not self.running:
            super().lines(worker, channel, lines)
        elif worker in self._shown:
            self._keep(worker, channel, lines)

    def _keep(self, worker: int, channel: str, lines: Sequence[str]) -> None:
        if self._sizes[worker] > LIMIT:
            self._left_out[worker] += len(lines)
            return
        self._sizes[worker] += sum(map(len, lines)) + len(lines)
        items = self._kept[worker]
        if items and items[-1].kind == channel:
            items[-1].lines.extend(lines)
        else:
            items.append(Item(channel, list(lines)))

    def display(
        self, worker: int, publish: Callable[..., Any], data: dict[str, Any], kwargs: dict[str, Any]
    ) -> None:
        """See `Page.display`."""
        if not self.running:
            super().display(worker, publish, data, kwargs)
        elif worker in self._shown:
            self._kept[worker].append(Item("display", [], publish, data, kwargs))

    def clear(self, worker: int, clear: Callable[..., Any], *, wait: bool) -> None:  # noqa: ARG002 - see `Page.clear`
        """Forget what this worker has written so far."""
        if worker in self._kept:
            self._kept[worker].clear()

    def _end(self) -> None:
        for worker, count in self._left_out.items():
            if count:
                self._kept[worker].append(Item("stdout", [f"... {count:,} more lines left out ..."]))
        kept, self._kept = self._kept, {}
        for worker, items in kept.items():
            implicit = self._beside.take(worker)
            self._beside.add(worker, [*_last_pictures(items), *implicit])
        with collected(self._outlets.values()):
            for workers, item in self._arrange(kept):
                if item.publish is not None:
                    self._publish(workers, item.publish, item.data, item.kwargs)
                else:
                    self._outlets[item.kind].lines(workers, item.lines)
        super()._end()


def _last_pictures(items: list[Item]) -> list[Item]:
    """Take the images that one worker has shown last, with nothing behind them, out of `items`."""
    first = len(items)
    while first and is_picture(items[first - 1].data, items[first - 1].kwargs):
        first -= 1
    pictures = [replace(item, kind="picture") for item in items[first:]]
    del items[first:]
    return pictures
