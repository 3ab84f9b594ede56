"""Turns at what only one thread of a process can do at a time, as it changes things for all meanwhile."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from disco_magic.errors import UsageMistake
from disco_magic.functions.context import calling_worker
from disco_magic.locks import new_lock
from disco_magic.patience import pause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic.functions.context import WorkerContext

# What is waited for takes milliseconds at least; an interrupt strikes after a pause.
_PAUSE_S: Final = 2e-3


class _Holder(NamedTuple):
    """Who has the turn.

    Attributes:
        thread: its thread.
        worker: whose that is; None: nobody's.
    """

    thread: threading.Thread
    worker: WorkerContext | None

    @property
    def is_gone(self) -> bool:
        """Its thread has ended, or was given up: what it leaves is not waited for."""
        given_up = self.worker is not None and self.worker.thread != self.thread.ident
        return given_up or not self.thread.is_alive()


class Turns:
    """One thread at a time; who has the turn can take it again.

    Args:
        what: is done in a turn, in words: ``models are loaded``.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = new_lock()
        self._holder: _Holder | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Within this the calling thread has the turn. Waits for it; an interrupt ends the wait.

        Raises:
            UsageMistake: who has it waits for the calling worker, in a collective.
        """
        me = _Holder(threading.current_thread(), calling_worker())
        if self._holder == me:
            yield
            return
        while not self._take(me):
            self._see_stuck(me.worker)
            pause(_PAUSE_S)
        try:
            yield
        finally:
            with self._lock:
                if self._holder == me:
                    self._holder = None

    def _take(self, me: _Holder) -> bool:
        with self._lock:
            if self._holder is None or self._holder.is_gone:
                self._holder = me
            return self._holder is me

    def _see_stuck(self, me: WorkerContext | None) -> None:
        holder = self._holder
        other = None if holder is None else holder.worker
        if me is None or other is None or me.session_id != other.session_id:
            return
        wait = other.waits_in
        if wait is not None and me.id in wait.missing():
            raise UsageMistake(
                f"{self._what} by one worker after the other, and worker {other.id}, whose turn it is,"
                f" waits in {' at '.join(wait.call_of(other.id))}, to which worker {me.id} cannot come -"
                " call that before or after"
            )
