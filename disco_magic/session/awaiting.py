"""A wait as something to await."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


async def in_thread(wait: Callable[[], None]) -> None:
    """``wait()`` in a thread of its own; raises what it raises.

    Not in asyncio's executor: the end of a loop waits for the threads of that, and so does the interpreter's.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if done.done():
            return  # nobody awaits it any more
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def work() -> None:
        error: BaseException | None = None
        try:
            wait()
        except BaseException as reason:  # noqa: BLE001 - it belongs to whoever awaits
            error = reason
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=work, name="disco-await", daemon=True).start()
    await done
