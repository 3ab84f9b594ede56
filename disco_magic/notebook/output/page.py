"""Shows the output of one cell while it runs; `kept` shows it at the end.

::

    worker 0: print -> Sink -- lines -->  Page  -- one write -->  Outlet -> the cell's own stream
    worker 1: print -> Sink -- lines -->  (one lock)   -->  LiveArea: unfinished lines, see there
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any
from weakref import proxy

from disco_magic.notebook.later import LATER
from disco_magic.notebook.libraries.bars import BARS
from disco_magic.notebook.output.arrange import Item, by_order, with_own_id
from disco_magic.notebook.output.beside import Beside
from disco_magic.notebook.output.gallery import is_held, is_picture
from disco_magic.notebook.output.livearea import LiveArea
from disco_magic.notebook.output.outlet import Outlet
from disco_magic.notebook.output.screens import screen_for
from disco_magic.notebook.output.wall import INTERVAL_S
from disco_magic.phrases import people
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from disco_magic.notebook.output.afterwards import Afterwards
    from disco_magic.notebook.output.arrange import Kept, Shown
    from disco_magic.notebook.output.livearea import Row
    from disco_magic.notebook.output.sink import Sink


class Page:
    """Shows lines at once, each whole, in the order in which the workers wrote them.

    Args:
        workers: the workers that run the cell.
        shown: the workers whose output is shown; that of the others is only recorded.
        publisher: the shell's display publisher, for figures and the live area of a notebook.
        arrange: orders the workers' figures, which are shown side by side.
        among: number of workers of the session; their prefixes are equally wide.
        afterwards: collects the output for `bring_up_to_date`; None: it is shown at once.

    Attributes:
        arrange: as above.
        area: the live area; None if the place cannot change, or no worker is shown.

    Callers may rely on this: `lock` is held around everything, so a line, or a label and its display, stay
    together; `finish` may be called more than once per worker.
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
        afterwards: Afterwards | None = None,
    ) -> None:
        self.lock = new_rlock()
        self.afterwards = afterwards
        self._shown = frozenset(shown)
        self._clock = clock
        streams = {"stdout": sys.stdout, "stderr": sys.stderr} if afterwards is None else afterwards.streams
        self._outlets = {channel: Outlet(stream, among) for channel, stream in streams.items()}
        self._workers = frozenset(workers)
        self._running = set(workers)
        self._publisher, self.arrange = publisher, arrange
        self._beside = Beside(proxy(self))  # weak: what a cell has printed goes with its page, at once
        # The controller shows output of this cell from a thread that may run another cell by then.
        self._context = copy_context()
        self.area = self._area(publisher, clock)
        BARS.enter()
        self._will_look = False

    def _area(self, publisher: Any, clock: Callable[[], float]) -> LiveArea | None:
        out = self._outlets["stdout"]
        screen = screen_for(out, publisher) if self._shown and self.afterwards is None else None
        if screen is None:
            return None
        alike = [name for name, each in self._outlets.items() if each.notebook or each.terminal]
        return LiveArea(screen, alike, self._context, clock)

    @property
    def running(self) -> bool:
        """Whether any worker has not finished."""
        return bool(self._running)

    @property
    def finished(self) -> frozenset[int]:
        """The workers that have ended the cell; needs no lock."""
        return self._workers - self._running

    @property
    def is_gone(self) -> bool:
        """Whether there is no place any more for the cell's output."""
        return any(outlet.is_closed for outlet in self._outlets.values())

    def shows(self, worker: int) -> bool:
        """Whether the output of `worker` is shown; needs no lock."""
        return worker in self._shown

    def lines(self, worker: int, channel: str, lines: Sequence[str]) -> None:
        """Show whole lines of one worker."""
        if worker in self._shown:
            if not self._beside.add_lines(worker, channel, lines):
                self.write((worker,), channel, lines)
            if self.area is not None:
                self.area.wrote(worker)

    def touch(self, sink: Sink) -> None:
        """Note that the unfinished line of a worker has changed."""
        BARS.install()
        if self.area is not None and sink.worker in self._shown:
            self.area.touch(sink)

    def look(self, status: Sequence[Row] | None = None) -> None:
        """Update the live area, unless a worker is just writing: the waiting thread does not queue for it."""
        if self.area is not None and self.lock.acquire(blocking=False):
            try:
                self.area.look(status)
                self._beside.look()
            finally:
                self.lock.release()

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """In this block, a thread waits for the cell and calls `look`; only then images wait for others."""
        if self.area is None:
            yield
            return
        self.area.wait()
        try:
            yield
        finally:
            with self.lock:
                self.area.end_wait()
                if not self.area.is_waited_for:  # nothing would show the waiting images later
                    self._beside.look(at_once=True)
                    self.look_later()  # what replaces a former picture may have to wait still

    def display(
        self, worker: int, publish: Callable[..., Any], data: dict[str, Any], kwargs: dict[str, Any]
    ) -> None:
        """Show rich data of one worker below a line with its label; updates stay in place.

        An image, such as `plt.show` displays, is shown beside those of the other workers, unless one of them
        has written or shown something else since. So is output that a worker replaces with `clear`.
        """
        if worker not in self._shown:
            return
        kwargs = with_own_id(kwargs, among_others=len(self._shown) > 1)
        if self._takes_beside(worker, data, kwargs):
            self._beside.add(worker, [Item("picture", [], publish, data, kwargs)])
        else:
            self._beside.pass_by(worker)
            self._publish((worker,), publish, data, kwargs)

    def _takes_beside(self, worker: int, data: dict[str, Any], kwargs: dict[str, Any]) -> bool:
        if self._beside.is_live(worker):
            return is_held(data, kwargs)
        return is_picture(data, kwargs) and self._can_change and self.is_watched()

    @property
    def _can_change(self) -> bool:
        """Whether there are others to stand beside, and a display can be updated."""
        alone = len(self._shown) < 2
        return self.running and not alone and self.area is not None and self._outlets["stdout"].notebook

    def is_watched(self) -> bool:
        """Whether somebody looks up now and then."""
        return self.area is not None and self.area.is_waited_for

    def look_later(self) -> None:
        """Where nobody looks up now and then: look once, soon, if there is something still to be seen."""
        if self._will_look or self.is_watched() or not self._beside.has_unseen():
            return
        LATER.call(INTERVAL_S, self._look_again)
        self._will_look = True  # last: an interrupt may strike before

    def _look_again(self) -> None:
        with self.lock:
            self._will_look = False
            if self.running:
                self._beside.look()
                self.look_later()

    def now(self) -> float:
        """The time in seconds."""
        return self._clock()

    def label(self, workers: Sequence[int]) -> str:
        """The names of `workers` as HTML."""
        return self._outlets["stdout"].label_html(workers)

    def write(self, workers: Sequence[int], channel: str, lines: Sequence[str]) -> None:
        """Write lines with the workers' label."""
        self._outlets[channel].lines(workers, lines)

    def publish(
        self,
        workers: Sequence[int],
        data: Mapping[str, Any],
        kwargs: Mapping[str, Any],
        *,
        labelled: bool = False,
    ) -> None:
        """Publish a display of the controller about `workers`, below their label unless it is `labelled`."""
        # A copy: the caller may be in this context already, or in a worker's, where displays come back here.
        context, publish = self._context.copy(), self._publisher.publish
        with self.lock:
            context.run(self._publish, workers, publish, data, kwargs, labelled=labelled)

    def _publish(
        self,
        workers: Sequence[int],
        publish: Callable[..., Any],
        data: Mapping[str, Any],
        kwargs: Mapping[str, Any],
        *,
        labelled: bool = False,
    ) -> None:
        stdout = self._outlets["stdout"]
        self._outlets["stderr"].flush()  # first, because nothing may come between the label and the display
        label = "" if labelled or kwargs.get("update") else stdout.prefix(workers).rstrip()
        marked = {**(kwargs.get("metadata") or {}), "disco": {"workers": list(workers)}}
        kwargs = {**kwargs, "metadata": marked}
        if self.afterwards is not None:
            stdout.flush()
            self.afterwards.display(label, data, kwargs)
            return
        if label:
            stdout.write(f"{label}\n")
        stdout.flush()
        publish(data, **kwargs)

    def pictures(self, worker: int, pictures: Sequence[Item]) -> None:
        """Keep figures of one worker; they are shown beside those of the others at the end."""
        if worker in self._shown and self.running:
            self._beside.keep(worker, pictures)

    def clear(self, worker: int, clear: Callable[..., Any], *, wait: bool) -> None:
        """Clear the output of `worker`, but not the lines of others.

        If only this worker is shown, the cell's whole output is cleared; otherwise its figures, and what it
        has written since its first call. Nothing is cleared where output cannot change.
        """
        if self.afterwards is not None and worker in self._shown:
            self.afterwards.clear(None if self._shown == {worker} else worker, wait=wait)
        elif self._shown == {worker}:
            for outlet in self._outlets.values():
                outlet.flush()  # what was written before is to be cleared, too
            clear(wait=wait)
            if self.area is not None:
                self.area.cleared()
        elif worker in self._shown and self._can_change:
            self._beside.clear(worker, wait=wait)

    def finish(self, worker: int) -> None:
        """Note that `worker` has ended the cell; only threads that it started may still write."""
        was_running = bool(self._running)
        self._running.discard(worker)
        if was_running and not self._running:
            BARS.leave()
            if self.area is not None:
                self.area.close()
            self._context.run(self._end)

    def _end(self) -> None:
        """Show what was kept for the end."""
        self._beside.end()

    def note(self, workers: Sequence[int], lines: Sequence[str]) -> None:
        """Add lines of the controller about `workers` to the cell's stderr."""
        with self.lock:
            self._context.run(self._outlets["stderr"].lines, workers, lines)

    def bring_up_to_date(self, *, may_come: bool) -> None:
        """At the end of a cell of the notebook, show what was collected; whether more `may_come` later."""
        if self.afterwards is not None:
            with self.lock:
                running = tuple(sorted(self._running))
                note = f"still running on {people(running)}; %disco sync in a later cell waits for it"
                empty = f"ended on {people(tuple(sorted(self._workers)))}"
                self.afterwards.bring_up_to_date(note if running else "", empty=empty, may_come=may_come)

    def close(self) -> None:
        """End the page, even if not every worker has called `finish`."""
        with self.lock:
            for worker in sorted(self._running):
                self.finish(worker)
