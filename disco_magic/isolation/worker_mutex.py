"""A mutex for operations that change things for the whole process, so that one worker at a time does them.

It belongs to workers: threads that a worker has started share it, as in a process of its own. Any other
thread counts by itself. The one that has waited longest is next.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from disco_magic.callers.current import calling_worker, is_beside
from disco_magic.errors import UsageMistake
from disco_magic.libraries import OURS
from disco_magic.threads.ends import has_ended
from disco_magic.threads.locks import new_lock
from disco_magic.threads.patience import pause
from disco_magic.threads.stacks import frame_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic.callers.current import CallingWorker

# These operations take milliseconds at least; an interrupt strikes after a pause.
_PAUSE_S: Final = 2e-3
# For so long, a thread that is no worker's may hold the mutex and wait for a session, if for another one.
_PATIENCE_S: Final = 1.0
_SESSION: Final = os.path.join(OURS, "session", "")


class Entry(NamedTuple):
    """A thread that has the mutex, or waits for it.

    Attributes:
        thread: the thread.
        worker: its worker; None: none.
        command: number of the command that the worker executes, if this is its own thread; else None.
    """

    thread: threading.Thread
    worker: CallingWorker | None
    command: int | None

    @property
    def who(self) -> object:
        """The owner: the worker, or a thread that is no worker's."""
        return self.thread if self.worker is None else self.worker

    @property
    def is_gone(self) -> bool:
        """Whether the thread has ended or left its command: it was given up, or interrupted while leaving."""
        worker = self.worker
        if worker is not None and self.command is not None and worker.command != self.command:
            return True
        return has_ended(self.thread)


def _without(entry: Entry, entries: list[Entry]) -> list[Entry]:
    # Not within a `with`: on Python 3.13 what strikes in a comprehension passes over it.
    return [each for each in entries if each is not entry]


class WorkerMutex:
    """A mutex for workers. Reentrant."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._inside: list[Entry] = []
        self._waiting: list[Entry] = []

    @contextmanager
    def taken(self, what: str) -> Iterator[Entry]:
        """Hold the mutex within the block. Waits for it; an interrupt ends the wait.

        Yields:
            Entry: that of the calling thread.

        Raises:
            UsageMistake: the holder of the mutex waits for the calling worker: in a collective, or in the
            notebook.
        """
        me = calling_worker()
        command = None if me is None or is_beside() else me.command
        entry = Entry(threading.current_thread(), me, command)
        try:
            self._await(entry, what)
            yield entry
        finally:
            self._leave(entry)

    def _await(self, entry: Entry, what: str) -> None:
        began_s = monotonic()
        while not self._enter(entry):
            self._see_stuck(entry, what)
            if entry.worker is not None and monotonic() - began_s > _PATIENCE_S:
                self._see_waiting(what)
            pause(_PAUSE_S)

    def await_others(self) -> None:
        """Wait until no other worker has or awaits the mutex: workers that come together go on together.

        Does not wait for a worker that waits for the calling one, nor if the calling one has it itself.
        An interrupt ends the wait.
        """
        me = calling_worker()
        while True:
            with self._lock:
                self._forget_gone()
                there = [each.worker for each in self._inside + self._waiting]
            if me in there or not any(_is_awaited(other, me) for other in there):
                return
            pause(_PAUSE_S)

    def _enter(self, entry: Entry) -> bool:
        with self._lock:
            self._forget_gone()
            if not _is_among(entry, self._waiting):
                self._waiting.append(entry)
            mine = _are_all_of(entry.who, self._inside)
            if mine and (self._inside or self._waiting[0].who is entry.who):
                self._inside.append(entry)
                self._waiting = _without(entry, self._waiting)
            return _is_among(entry, self._inside)

    def _forget_gone(self) -> None:
        self._inside = [each for each in self._inside if not each.is_gone]
        self._waiting = [each for each in self._waiting if not each.is_gone]

    def _leave(self, entry: Entry) -> None:
        with self._lock:
            self._inside = _without(entry, self._inside)
            self._waiting = _without(entry, self._waiting)

    def _see_waiting(self, what: str) -> None:
        """Refuse to wait for a thread of no worker that waits for a session, which may be the caller's."""
        for each in list(self._inside):
            if each.worker is None and _waits_for_workers(each.thread):
                raise UsageMistake(
                    f"{what} by one thread after the other, and {each.thread.name}, which has begun that and"
                    " is no worker's, waits for workers - send the cell before, or after it"
                )

    def _see_stuck(self, entry: Entry, what: str) -> None:
        """Refuse to wait if the worker that has the mutex waits in a collective for the calling one."""
        me = entry.worker
        if me is None or entry.command is None:
            return
        for each in list(self._inside):
            other = each.worker
            if other is None or each.command is None or other.session_id != me.session_id:
                continue
            wait = me.waits_for_me(other.id)
            if wait is not None:
                raise UsageMistake(
                    f"{what} by one worker after the other, and worker {other.id}, whose turn it is,"
                    f" waits in {' at '.join(wait.call_of(other.id))}, which needs worker {me.id} - call that"
                    " before or after"
                )


def _waits_for_workers(thread: threading.Thread) -> bool:
    """Whether a thread that is no worker's waits in a call of a session."""
    frame = None if thread.ident is None else frame_of(thread.ident)
    while frame is not None and not frame.f_code.co_filename.startswith(_SESSION):
        frame = frame.f_back
    return frame is not None


# No `any(...)` or `all(...)` of a generator within a `with`: Python 3.14 makes loops of them, at whose ends
# an interrupt would pass over it (see threads/loop_ends.py).
def _is_among(entry: Entry, entries: list[Entry]) -> bool:
    return any(each is entry for each in entries)


def _are_all_of(who: object, entries: list[Entry]) -> bool:
    return all(each.who is who for each in entries)


def _is_awaited(other: CallingWorker | None, me: CallingWorker | None) -> bool:
    """Whether `other` is of the same session, and does not wait for `me` in a collective."""
    if me is None or other is None or other.session_id != me.session_id:
        return False
    return me.waits_for_me(other.id) is None


WORKER_MUTEX: Final = WorkerMutex()
"""One for all such operations: two, taken in different orders, would wait for each other."""
