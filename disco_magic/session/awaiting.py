"""A wait as something to await."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from disco_magic.callers.current import refuse_in_worker
from disco_magic.errors import SyncTimeout, is_told
from disco_magic.session.ear import EAR
from disco_magic.session.pump import LOOK_UP_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disco_magic.session.pending import PendingCell

__tracebackhide__ = is_told

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


@contextmanager
def ticking(then: Callable[[], object] | None = None) -> Iterator[None]:
    """Let the loop that runs wake up `LOOK_UP_S` after it fell asleep; a signal may not wake it, in two ways.

    One that arrives as the loop falls asleep is not seen before it wakes up, as in `pump.take`. And what a
    handler asks of a loop by `call_soon`, as ipykernel 7.4 stops a cell, it comes to when it does.

    Args:
        then: called whenever it wakes up so.
    """
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def tick() -> None:
        if then is not None:
            then()
        timers[:] = [loop.call_later(LOOK_UP_S, tick)]

    timers.append(loop.call_later(LOOK_UP_S, tick))
    try:
        yield
    finally:
        timers.pop().cancel()


async def until_ended(
    pending: PendingCell, on_look: Callable[[], None] | None = None
) -> tuple[bool, SyncTimeout | None]:
    """Return when a cell has ended, `PendingCell.wait` then says how, or when the session's time is over.

    Cancelling the await stops the cell, as cancelling the await of any future does, and returns when it has;
    so do Ctrl-C and the stop button, which cancel what they interrupt. Nothing tells one from the other, so
    that what was sent before the cell is always stopped, too; `PendingCell.cancel` leaves that alone.

    Args:
        pending: the cell.
        on_look: as for `PendingCell.wait`; called in another thread.

    Returns:
        Whether the await was cancelled: whoever called this has to be, too. Then what says that it takes too
        long; None of a cell that has ended.
    """

    def wait() -> SyncTimeout | None:
        try:
            pending.wait(on_look=on_look)
        except BaseException as error:  # noqa: BLE001 - the next wait raises it again; out of a task a KeyboardInterrupt would end the loop
            return error if isinstance(error, SyncTimeout) and not pending.done() else None
        return None

    waiter = asyncio.ensure_future(in_thread(wait))
    cancelled = False
    # The loop may have stood still before it ticks, and Ctrl-C been Python's meanwhile.
    with EAR.listening(), ticking(EAR.listen):
        while not waiter.done():
            try:
                await asyncio.shield(waiter)
            except asyncio.CancelledError:
                cancelled = True
                pending.stop_soon()
            if cancelled and waiter.done() and waiter.result() is not None:
                waiter = asyncio.ensure_future(in_thread(wait))  # time was over before that could hear of it
    return cancelled, waiter.result()


async def awaited(
    pending: PendingCell, wait: Callable[[], T], on_look: Callable[[], None] | None = None
) -> T:
    """What ``wait()`` gives or raises of a cell that has ended; CancelledError if this was cancelled before.

    Raises:
        SyncTimeout: it took longer than the session's `timeout`, and goes on.
        KeyboardInterrupt: the cell was stopped by it. Out of a task it ends the event loop.
    """
    refuse_in_worker(pending.session.id, "await")
    cancelled, late = await until_ended(pending, on_look)
    try:
        if not cancelled:
            if late is not None:
                raise late
            return wait()
        if pending.done():
            wait()
        raise asyncio.CancelledError(f"the wait for {pending.label} was cancelled")
    finally:
        del pending, wait, on_look, late  # error -> traceback -> this frame -> handle -> error
