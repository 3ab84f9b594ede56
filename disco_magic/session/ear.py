"""Who hears Ctrl-C while a cell is awaited."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Iterator
    from types import FrameType


class Ear:
    """Hears Ctrl-C for tasks of the main thread that await a cell, where nobody else does.

    A kernel and `asyncio.run` have a handler that cancels what it interrupts. Python's own raises
    KeyboardInterrupt wherever the loop is, which leaves the tasks behind: in its place they are cancelled.
    One handler for all of them, which begin and end in any order.

    Where no loop can cancel them Ctrl-C is Python's again: between two cells of a terminal, where a task may
    be left in a loop that stands still, and the second time, if the loop has not come to the first.
    """

    def __init__(self) -> None:
        # Weakly: what a loop leaves behind for ever is closed by the garbage collector, and ends up here.
        self._tasks: list[ref[Task[Any]]] = []
        self._loop_is_busy = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within this Ctrl-C cancels the calling task, if nobody else hears it."""
        from asyncio import current_task  # 30 ms that only who awaits has to spend

        current = current_task()
        if (
            not _in_main_thread()
            or current is None
            or signal.getsignal(signal.SIGINT) not in self._replaceable
        ):
            yield
            return
        task = ref(current)
        del current
        self._tasks.append(task)
        signal.signal(signal.SIGINT, self._hear)
        try:
            yield
        finally:
            self._tasks.remove(task)
            # A coroutine that nobody awaits to its end is closed by the garbage collector, in any thread.
            if _in_main_thread() and not self._tasks:
                self._give_way()

    def rest(self, *_: object) -> None:
        """Let Ctrl-C be Python's if no loop runs that could cancel a task; who begins to await listens again.

        Call it when a loop may have stopped with tasks in it. What awaits there is cancelled no more once the
        loop goes on, as is usual with tasks.
        """
        if _in_main_thread() and not self._running():
            self._give_way()

    @property
    def _replaceable(self) -> tuple[object, ...]:
        return signal.default_int_handler, self._hear

    def _running(self) -> list[Task[Any]]:
        """The tasks whose loop runs."""
        tasks = [task for each in list(self._tasks) if (task := each()) is not None]
        return [task for task in tasks if task.get_loop().is_running()]

    def _give_way(self) -> None:
        self._loop_is_busy = False
        if signal.getsignal(signal.SIGINT) == self._hear:  # else it stays with whoever has it
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        tasks = self._running()
        if not tasks:
            self._give_way()
        if not tasks or self._loop_is_busy:
            self._loop_is_busy = False
            signal.default_int_handler(number, frame)
        self._loop_is_busy = True
        for task in tasks:
            task.get_loop().call_soon_threadsafe(self._turn, task)

    def _turn(self, task: Task[Any]) -> None:
        self._loop_is_busy = False
        task.cancel()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


EAR: Final = Ear()
