"""Replaces process-wide state while cells run on workers, and restores it afterwards.

That is: sys.stdout and sys.stderr (`streams.WorkerStream`), also in log handlers; `publish` and
`clear_output` of the shell's display publisher; its `showtraceback`; the interpreter's switch
interval. Changes in libraries stay until the extension is unloaded (`libraries.changes`). Only the main
thread replaces and restores.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from disco_magic.isolation.streams import (
    WorkerStream,
    install_streams,
    present,
    put_back,
    remove_streams,
    unwrapped,
)
from disco_magic.notebook.output.publisher import WorkerPublishing, worker_formatting
from disco_magic.threads.switching import SWITCHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic.callers.replaced import Replaced
    from disco_magic.isolation.imported import Libraries
    from disco_magic.notebook.handle import CellHandle
    from disco_magic.notebook.libraries.warned import Filters
    from disco_magic.notebook.output.afterwards import Afterwards
    from disco_magic.notebook.output.page import Page
    from disco_magic.notebook.output.scope import NotebookScope
    from disco_magic.notebook.shell import Shell

SWITCH_INTERVAL_S: Final = 0.001
"""Python's default of 5 ms delays the kernel's control messages by 0.3 s behind four computing workers; with
1 ms it is 0.05 s, at no measurable cost to them (4 spinning workers on 2 cores, CPython 3.11)."""
# A thread that waits for its turn wakes once per interval. 256 that wake every ms leave nothing for the rest:
# to stop them took 9 s, with 5 ms 0.7 s. 64 take 0.03 s with 1 ms, 0.1 s with 5.
_SWITCH_INTERVAL_PER_WORKER_S: Final = SWITCH_INTERVAL_S / 64
_WORKERS: Final = attrgetter("workers")


class Console:
    """Routes the process's output by worker as long as any cell runs.

    Cells may overlap (``--nowait``). Each is entered with `cell`. What user code has done to the streams
    meanwhile is undone when the notebook goes on, and changes of the warnings filters at the end of the last
    cell. What the notebook does to them while a cell runs by itself, as ``%%capture`` does, is its own.
    """

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._open: list[NotebookScope] = []
        self._ended: list[CellHandle] = []  # cells that have ended and were not reported yet
        # Whose display has to be brought up to date. A program may drive a kernel for days.
        self._collected: dict[Page, Afterwards] = {}
        self._publishers: list[WorkerPublishing] = []  # those that are wrapped
        # Made for an earlier cell, and used again where they are up to date.
        self._publishing: WorkerPublishing | None = None
        self._formatting: Replaced | None = None
        self._filters: Filters | None = None
        self._is_installed = False  # or only a part of it, if an interrupt struck meanwhile
        self._libraries: Libraries | None = None
        self._interval_s = 0.0

    @contextmanager
    def cell(self, scope: NotebookScope) -> Iterator[None]:
        """Route the output of `scope`'s workers; a scope that still runs at the end stays routed."""
        saved = self._save()
        try:
            self._open.append(scope)
            if (display := scope.page.afterwards) is not None:
                display.on_change = partial(self._collected.__setitem__, scope.page, display)
                display.on_change()
            self._prepare_libraries()
            self._install()
            yield
        except BaseException:
            if scope.handle is None:  # it was never sent
                scope.close()
            raise
        finally:
            self._restore(saved)
            self._settle()

    def settle(self, *_: object) -> None:
        """Do at the end of each cell of the notebook what is left to do.

        Only the main thread may replace streams, and an asynchronous cell ends in a worker's thread.
        """
        if self._publishing is not None and self._publishing.publisher is not self._shell.display_pub:
            self._publishing = None  # that of `%%capture` has what it captured
        nothing = not (self._is_installed or self._open or self._ended or self._collected)
        if nothing or threading.current_thread() is not threading.main_thread():
            return
        self._settle()
        for handle in self._ended:
            handle.offer_value()
        # As it was found there: the value of a cell that has ended since is reported later.
        still_open = [scope.page for scope in self._open]
        for page, display in [*self._collected.items()]:
            with page.lock:  # what changes it comes before or after
                page.bring_up_to_date(may_come=page in still_open)
                if display.is_at_rest and not page.running:
                    self._collected.pop(page, None)

    def _settle(self) -> None:
        """Restore everything if no cell runs any more, else make sure that everything is replaced."""
        if threading.current_thread() is not threading.main_thread():
            return
        still_open, is_running = [], False
        for scope in self._open:
            # Asked once: what ended between two questions would be let go without being closed.
            if scope.running():
                is_running = True
            else:
                self._close(scope)
                if not scope.haunted():
                    continue
            still_open.append(scope)
        self._open = still_open
        if self._ended:
            self._ended = [each for each in self._ended if not each.is_told]
        if self._filters is not None and not is_running:
            self._filters.restore()
        if self._open:
            self._install()
        else:
            self._remove()

    def _close(self, scope: NotebookScope) -> None:
        """Close the page of a cell that has ended; its outcome is reported, unless somebody has asked."""
        handle = scope.close()
        if handle is None or handle.is_told:
            return
        self._ended.append(handle)  # nothing else may keep it until then
        if handle.done() and handle.error is None:
            handle.report_soon()  # not now: with "Run all" the next cell may ask for its value
        else:
            handle.report()

    def close(self) -> None:
        """Restore everything now, even if a cell's outcome can no longer be reported."""
        try:
            for handle in [*filter(None, [scope.close() for scope in self._open]), *self._ended]:
                handle.report()
            for page in [*self._collected]:
                page.bring_up_to_date(may_come=False)
        finally:
            for kept in (self._open, self._ended, self._collected):
                kept.clear()
            self._remove()
            if self._filters is not None:
                self._filters.restore()
                self._filters.remove()
            if self._libraries is not None:
                self._libraries.leave(self)

    def _save(self) -> tuple[Any, ...]:
        shell = self._shell
        return present(), sys.displayhook, shell.display_pub, shell.displayhook

    def _restore(self, saved: tuple[Any, ...]) -> None:
        shell = self._shell
        streams, sys.displayhook, display_pub, displayhook = saved
        put_back(streams)
        if shell.display_pub is not display_pub:
            shell.display_pub = display_pub
        if shell.displayhook is not displayhook:
            shell.displayhook = displayhook

    def _prepare_libraries(self) -> None:
        if self._libraries is None or self._filters is None:
            # Imported here because it loads NumPy, for which %load_ext should not wait.
            from disco_magic.notebook.libraries.changes import LIBRARIES
            from disco_magic.notebook.libraries.warned import Filters

            self._libraries, self._filters = LIBRARIES, Filters()
        self._filters.keep()
        self._libraries.enter(self)

    def _install(self) -> None:
        self._is_installed = True
        install_streams(self)
        route_handlers()
        self._wrap_publisher()
        if self._formatting is None or not self._formatting.is_up_to_date:
            self._formatting = worker_formatting(self._shell)
        self._formatting.put()
        self._shorten_turns()

    def _wrap_publisher(self) -> None:
        publisher, made = self._shell.display_pub, self._publishing
        for each in self._publishers:
            if each.publisher is publisher:
                return
        if made is None or made.publisher is not publisher or not made.is_up_to_date:
            made = self._publishing = WorkerPublishing(self._shell)
        self._publishers.append(made)  # first: an interrupt may strike
        made.put()

    def _shorten_turns(self) -> None:
        workers = max(map(len, map(_WORKERS, self._open)), default=0)
        interval_s = max(SWITCH_INTERVAL_S, workers * _SWITCH_INTERVAL_PER_WORKER_S)
        if interval_s != self._interval_s:
            SWITCHING.release(self)
            self._interval_s = interval_s
        SWITCHING.hold(self, interval_s)

    def _remove(self) -> None:
        release_handlers()
        remove_streams(self)
        while self._publishers:
            self._publishers.pop().take()
        if self._formatting is not None:
            self._formatting.take()
        SWITCHING.release(self)
        self._is_installed = False


def route_handlers() -> None:
    """Let log handlers with the stream below `sys.stdout` or `sys.stderr` write to these; takes 1 us.

    A handler keeps the stream that was `sys.stderr` when it was made. One made in the notebook, before or
    after the extension was loaded, would show workers' lines without their ids, and in pieces.
    """
    for handler in _stream_handlers():
        for stream in present().values():
            if handler.stream is unwrapped(stream):
                # Not setStream, which waits for the handler's lock: a stuck worker may hold it for ever.
                handler.stream = stream


def release_handlers() -> None:
    """Give handlers back the original streams, also handlers that were made on a worker."""
    for handler in _stream_handlers():
        if isinstance(handler.stream, WorkerStream):
            handler.stream = unwrapped(handler.stream)


def _stream_handlers() -> Iterator[logging.StreamHandler[Any]]:
    # All live handlers, found as in `logging.shutdown`: asking every logger would take 100 us per cell.
    for reference in list(getattr(logging, "_handlerList", ())):
        handler = reference()
        # The handler of last resort has no attribute `stream` of its own: it always uses sys.stderr.
        if isinstance(handler, logging.StreamHandler) and "stream" in vars(handler):
            yield handler
