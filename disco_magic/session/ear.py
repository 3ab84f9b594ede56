"""Who receives Ctrl-C while a cell is awaited."""

from __future__ import annotations

import signal
import threading
from _signal import getsignal  # type: ignore[import-not-found]  # as in `sigint`, which says why
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from disco_magic.session.sigint import sigint_noted

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Handle, Task
    from collections.abc import Callable, Iterator
    from types import FrameType


class Ear:
    """Receives Ctrl-C for tasks of the main thread that await a cell, where no other handler would.

    A kernel and `asyncio.run` have a handler that cancels what it interrupts. Python's own handler raises
    KeyboardInterrupt wherever the loop is, which abandons the tasks. This one, in its place, cancels what
    ``run_until_complete`` waits for, such as a terminal's cell, or the tasks if that cannot be found.
    One handler serves all of them; they begin and end in any order.

    It is installed only while such a task is in the running loop. Between two cells of a terminal, where a
    task may be left in a loop that stands still, Ctrl-C goes to Python's handler. So does a second Ctrl-C, if
    the loop has not handled the first.
    """

    def __init__(self) -> None:
        # Weak references: a task that a loop abandons is closed by the garbage collector, and drops out here.
        self._tasks: list[ref[Task[Any]]] = []
        self._asked: list[Handle] = []  # cancellations that the loop has not run yet
        self._heard = 0

    @contextmanager
    def noting(self) -> Iterator[Callable[[], bool]]:
        """Yield a function that says whether a SIGINT has come meanwhile, whoever received it."""
        noted: list[bool] = []
        before = self._heard
        if _handler() in (signal.default_int_handler, self._hear):
            yield lambda: self._heard > before
            return
        try:
            with sigint_noted(lambda: noted.append(True)):
                yield lambda: bool(noted) or self._heard > before
        finally:
            _leave_no_runner()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within it, Ctrl-C cancels what the calling task is part of, unless another handler receives it."""
        from asyncio import current_task  # takes 30 ms, paid only by those who await

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
            self._tasks[:] = filter(lambda each: each is not task, self._tasks)
            # The garbage collector may close an abandoned coroutine, in any thread.
            self.rest()

    def listen(self) -> None:
        """Receive Ctrl-C if the loop running in this thread has such a task, and Python's handler is set."""
        if _in_main_thread() and self._here() and _handler() is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._hear)

    def rest(self, *_: object) -> None:
        """Give Ctrl-C back to Python if no loop with such a task runs here; call when one may have stopped.

        Cancellations that the loop has not run are dropped: they would take effect much later.
        """
        is_mine = _handler() == self._hear  # else leave the current handler alone
        if not (is_mine or self._asked) or not _in_main_thread() or self._here():
            return  # mostly the first: this is asked after every cell
        self._forget()
        if is_mine:
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
        self._heard += 1
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


def _leave_no_runner() -> None:
    """Give Ctrl-C back to Python in place of an `asyncio.run` that has ended and did not find its handler.

    It looks for it before it cancels the tasks that are left, and one of these may have been noting.
    """
    handler = _handler() if _in_main_thread() else None
    main = getattr(handler, "keywords", {}).get("main_task")
    if main is not None and main.done():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _handler() -> Any:
    return getsignal(signal.SIGINT)


def _running_loop() -> AbstractEventLoop | None:
    from asyncio import get_running_loop

    try:
        return get_running_loop()
    except RuntimeError:
        return None


def _waited_for(loop: AbstractEventLoop) -> Task[Any] | None:
    """The task that ``loop.run_until_complete`` waits for; None if there is none or asyncio hides it."""
    from asyncio import all_tasks, base_events

    mark = getattr(base_events, "_run_until_complete_cb", None)
    for task in all_tasks(loop):
        callbacks: Any = getattr(task, "_callbacks", None) or ()
        if mark is not None and any(callback[0] is mark for callback in callbacks):
            return task
    return None


EAR: Final = Ear()
