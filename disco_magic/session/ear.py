"""Who hears Ctrl-C while a cell is awaited."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Handle, Task
    from collections.abc import Iterator
    from types import FrameType


class Ear:
    """Hears Ctrl-C for tasks of the main thread that await a cell, where nobody else does.

    A kernel and `asyncio.run` have a handler that cancels what it interrupts. Python's own raises
    KeyboardInterrupt wherever the loop is, which leaves the tasks behind. In its place this cancels what
    ``run_until_complete`` waits for, as a terminal's cell, or where that is not to be found the tasks.
    One handler for all of them, which begin and end in any order.

    It listens only as long as such a task is in the loop that runs: between two cells of a terminal, where
    one may be left in a loop that stands still, Ctrl-C is Python's. So it is the second time, if the loop has
    not come to the first.
    """

    def __init__(self) -> None:
        # Weakly: what a loop leaves behind for ever is closed by the garbage collector, and ends up here.
        self._tasks: list[ref[Task[Any]]] = []
        self._asked: list[Handle] = []  # cancellations that the loop has not come to

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within this Ctrl-C cancels what the calling task is part of, if nobody else hears it."""
        from asyncio import current_task  # 30 ms that only who awaits has to spend

        current = current_task()
        heard = (signal.default_int_handler, self._hear)
        if not _in_main_thread() or current is None or _handler() not in heard:
            yield
            return
        task = ref(current)
        del current
        try:
            self._tasks.append(task)
            self.listen()
            yield
        finally:
            self._tasks[:] = [each for each in self._tasks if each is not task]
            # A coroutine that nobody awaits to its end is closed by the garbage collector, in any thread.
            self.rest()

    def listen(self) -> None:
        """Hear Ctrl-C if the loop that runs here has such a task, and nobody else does."""
        if _in_main_thread() and self._here() and _handler() is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._hear)

    def rest(self, *_: object) -> None:
        """Let Ctrl-C be Python's if no loop runs here with such a task; call it when one may have stopped.

        A cancellation that the loop did not come to is none: it would strike much later.
        """
        if _in_main_thread() and not self._here():
            self._forget()
            if _handler() == self._hear:  # else it stays with whoever has it
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def _here(self) -> list[Task[Any]]:
        """The tasks in the loop that runs in the calling thread."""
        tasks = [task for each in list(self._tasks) if (task := each()) is not None]
        if not tasks:
            return []
        loop = _running_loop()
        return [] if loop is None else [task for task in tasks if task.get_loop() is loop]

    def _forget(self) -> None:
        while self._asked:
            self._asked.pop().cancel()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        tasks = self._here()
        if not tasks or self._asked:
            self._forget()
            self.rest()
            signal.default_int_handler(number, frame)
        else:
            loop = tasks[0].get_loop()
            main = _waited_for(loop)
            for task in tasks if main is None else (main,):
                self._asked.append(loop.call_soon_threadsafe(self._cancel, task))

    def _cancel(self, task: Task[Any]) -> None:
        self._asked.clear()
        task.cancel()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _handler() -> Any:
    return signal.getsignal(signal.SIGINT)


def _running_loop() -> AbstractEventLoop | None:
    from asyncio import get_running_loop

    try:
        return get_running_loop()
    except RuntimeError:
        return None


def _waited_for(loop: AbstractEventLoop) -> Task[Any] | None:
    """What ``loop.run_until_complete`` was called for; None: not this way, or asyncio does not tell."""
    from asyncio import all_tasks, base_events

    mark = getattr(base_events, "_run_until_complete_cb", None)
    for task in all_tasks(loop):
        callbacks: Any = getattr(task, "_callbacks", None) or ()
        if mark is not None and any(callback[0] is mark for callback in callbacks):
            return task
    return None


EAR: Final = Ear()
