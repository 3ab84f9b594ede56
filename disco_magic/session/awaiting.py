"""A wait as something to await."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from disco_magic.session.pending import PendingCell

T = TypeVar("T")


async def in_thread(wait: Callable[[], T]) -> T:
    """``wait()`` in a thread of its own, with the caller's context variables; gives what it gives.

    Not in asyncio's executor: the end of a loop waits for the threads of that, and so does the interpreter's.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def give(value: T) -> None:
        if not done.done():  # else nobody awaits it any more
            done.set_result(value)

    def fail(error: BaseException) -> None:
        if not done.done():
            done.set_exception(error)

    def work() -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            try:
                value = wait()
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever awaits
                loop.call_soon_threadsafe(fail, error)
            else:
                loop.call_soon_threadsafe(give, value)

    context = copy_context()
    threading.Thread(target=context.run, args=(work,), name="disco-await", daemon=True).start()
    return await done


async def until_ended(pending: PendingCell, on_look: Callable[[], None] | None = None) -> bool:
    """Return when a cell has ended; `PendingCell.wait` then says how, at once.

    Cancelling the await stops the cell, as cancelling the await of any future does, and returns when it has;
    so do Ctrl-C and the stop button, which cancel what they interrupt. Nothing tells one from the other, so
    that what was sent before the cell is always stopped, too; `PendingCell.cancel` leaves that alone.

    Args:
        pending: the cell.
        on_look: as for `PendingCell.wait`; called in another thread.

    Returns:
        Whether the await was cancelled: whoever called this has to be, too.
    """
    loop = asyncio.get_running_loop()

    def look() -> None:
        if on_look is not None:
            on_look()
        # What a signal's handler asks of a loop that sleeps happens when that wakes up (ipykernel 7.4 stops a
        # cell by `call_soon`): in a minute, if nothing else happens before. So it wakes up now and then.
        with suppress(RuntimeError):  # it was closed
            loop.call_soon_threadsafe(int)

    def wait() -> None:
        # The next wait raises it again; out of a task a KeyboardInterrupt would end the loop.
        with suppress(BaseException):
            pending.wait(on_look=look)

    waiter = asyncio.ensure_future(in_thread(wait))
    cancelled = False
    with EAR.listening():
        while not waiter.done():
            try:
                await asyncio.shield(waiter)
            except asyncio.CancelledError:
                cancelled = True
                pending.stop_soon()
    return cancelled


class Ear:
    """Hears Ctrl-C for tasks of the main thread that await a cell, where nobody else does.

    A kernel and `asyncio.run` have a handler that cancels what it interrupts. Python's own raises
    KeyboardInterrupt wherever the loop is, which leaves the tasks behind: in its place they are cancelled.
    One handler for all of them, which begin and end in any order.
    """

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within this Ctrl-C cancels the calling task, if nobody else hears it."""
        task = asyncio.current_task()
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main or task is None or signal.getsignal(signal.SIGINT) not in self._replaceable:
            yield
            return
        self._tasks.append(task)
        signal.signal(signal.SIGINT, self._hear)
        try:
            yield
        finally:
            self._tasks.remove(task)
            # A coroutine that nobody awaits to its end is closed by the garbage collector, in any thread.
            in_main = threading.current_thread() is threading.main_thread()
            if in_main and not self._tasks and signal.getsignal(signal.SIGINT) == self._hear:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    @property
    def _replaceable(self) -> tuple[object, ...]:
        return signal.default_int_handler, self._hear

    def _hear(self, number: int, frame: FrameType | None) -> None:
        tasks = list(self._tasks)
        if not tasks:  # it was put back by somebody who had found it here
            signal.default_int_handler(number, frame)
        for task in tasks:
            with suppress(RuntimeError):  # the loop was closed with a task in it
                task.get_loop().call_soon_threadsafe(task.cancel)


EAR: Final = Ear()
