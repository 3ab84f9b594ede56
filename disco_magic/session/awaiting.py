"""Waits in a form that can be awaited."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Final, TypeVar

from disco_magic.callers.current import refuse_in_worker
from disco_magic.errors import CellError, SyncTimeout, is_told
from disco_magic.session.ear import EAR
from disco_magic.session.pump import LOOK_UP_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disco_magic.session.pending import PendingCell

__tracebackhide__ = is_told

T = TypeVar("T")

is_for_main: Final[ContextVar[bool]] = ContextVar("disco_is_for_main", default=False)
"""Whether the calling thread only waits in the place of the main thread, whose loop goes on meanwhile."""


async def in_thread(wait: Callable[[], T]) -> T:
    """Call ``wait()`` in a new thread with the caller's context variables, and return its result.

    asyncio's executor is not used: the end of a loop, and of the interpreter, would wait for its threads.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def give(value: T) -> None:
        if not done.done():  # else it is no longer awaited
            done.set_result(value)

    def fail(error: BaseException) -> None:
        if not done.done():
            done.set_exception(error)

    is_main = threading.current_thread() is threading.main_thread() or is_for_main.get()

    def work() -> None:
        is_for_main.set(is_main)
        with suppress(RuntimeError):  # the loop was closed meanwhile
            try:
                value = wait()
            except BaseException as error:  # noqa: BLE001 - raised in the task that awaits
                loop.call_soon_threadsafe(fail, error)
            else:
                loop.call_soon_threadsafe(give, value)

    context = copy_context()
    threading.Thread(target=context.run, args=(work,), name="disco-await", daemon=True).start()
    return await done


@contextmanager
def ticking(then: Callable[[], object] | None = None) -> Iterator[None]:
    """Within it, wake the running loop every `LOOK_UP_S`: a signal alone may fail to, for two reasons.

    A signal that arrives just as the loop falls asleep is not handled before it wakes, as in `pump.take`. And
    what a handler asks of a loop by `call_soon`, as ipykernel 7.4 does to stop a cell, waits for that, too.

    Args:
        then: called at every such wake-up.
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
    """Wait until a cell has ended (`PendingCell.wait` then says how) or the session's time is over.

    Cancelling the await stops the cell, as with any future, and returns when it has stopped: like
    `PendingCell.cancel`, or, if a SIGINT has come meanwhile, like Ctrl-C, which also stops what was sent
    before the cell. Ctrl-C and the stop button cancel what they interrupt.

    Args:
        pending: the cell.
        on_look: as for `PendingCell.wait`; called in another thread.

    Returns:
        Whether the await was cancelled, in which case the caller has to be cancelled, too. Then the error
        that it takes too long; None for a cell that has ended.
    """

    def wait() -> SyncTimeout | None:
        try:
            pending.wait(on_look=on_look)
        except BaseException as error:  # noqa: BLE001 - the next wait raises it again; out of a task a KeyboardInterrupt would end the loop
            return error if isinstance(error, SyncTimeout) and not pending.done() else None
        return None

    waiter = asyncio.ensure_future(in_thread(wait))
    cancelled, stopping = False, list[asyncio.Future[None]]()  # a loop keeps no reference
    # The loop may have stood still before it ticks, with Ctrl-C left to Python's own handler meanwhile.
    with EAR.listening(), EAR.noting() as has_heard, ticking(EAR.listen):
        while True:
            if waiter.done():
                if not cancelled or waiter.result() is None:
                    break
                waiter = asyncio.ensure_future(in_thread(wait))  # it timed out before it could see the stop
            try:
                await asyncio.shield(waiter)
            except asyncio.CancelledError:
                if has_heard():
                    pending.stop_soon()
                elif not cancelled:
                    stopping.append(asyncio.ensure_future(in_thread(pending.cancel)))
                cancelled = True
    return cancelled, waiter.result()


async def awaited(
    pending: PendingCell, wait: Callable[[], T], on_look: Callable[[], None] | None = None
) -> T:
    """Return what ``wait()`` returns once the cell has ended; CancelledError if this was cancelled before.

    Raises:
        SyncTimeout: the cell took longer than the session's `timeout`, and goes on.
        KeyboardInterrupt: it stopped the cell. Raised out of a task, it ends the event loop.
    """
    refuse_in_worker(pending.session.id, "await")
    cancelled, late = await until_ended(pending, on_look)
    try:
        if not cancelled:
            if late is not None:
                raise late
            return wait()
        if pending.done():
            try:
                wait()
            except CellError as error:
                if error.stopped == "cancelled":
                    raise asyncio.CancelledError(str(error)) from None
                raise
        raise asyncio.CancelledError(f"the wait for {pending.label} was cancelled")
    finally:
        del pending, wait, on_look, late  # error -> traceback -> this frame -> handle -> error
