"""Where threads are, and which exceptions they handle, seen from other threads."""

from __future__ import annotations

import dis
import gc
import sys
from contextlib import contextmanager
from importlib import _bootstrap
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

# Before 3.12 CPython may collect garbage in the middle of C code, also of the two functions of `sys` below,
# which hold a lock of the interpreter's. A finalizer in Python lets another thread run; if that starts or
# ends a third one, it waits for the lock while it holds the GIL: all threads stand still for ever.
_COLLECTS: Final = sys.version_info < (3, 12)
_IMPORTS: Final = "<frozen importlib._bootstrap>"
_one_at_a_time = new_rlock()
# By name, weak references to the locks of the modules that are being imported.
_OF_MODULES: Final[dict[str, Any]] = vars(_bootstrap).get("_module_locks", {})


def frame_of(thread_id: int) -> FrameType | None:
    """The innermost frame of a thread; None if it has none, or has ended."""
    return frames().get(thread_id)


def frames() -> dict[int, FrameType]:
    """The innermost frame of every thread that has one, by its id; the caller's own is that of this function.

    Pass it on to a function that makes plain facts of it. In a variable of the caller's it would be in a
    cycle with the caller's own frame, and keep the variables of all threads until garbage is collected.
    """
    with nothing_collected():
        return sys._current_frames()  # noqa: SLF001 - the documented way


def instruction_of(frame: FrameType) -> str:
    """The name of the instruction that a frame is at."""
    return dis.opname[frame.f_code.co_code[max(frame.f_lasti, 0)]]


def imports_something() -> bool:
    """Whether the calling thread is importing a module."""
    return bool(_OF_MODULES) and any(lock.owner == get_ident() for lock in import_locks())


def import_locks() -> list[Any]:
    """The locks of the modules that are being imported, by any thread; each has an `owner`."""
    return [lock for each in [*_OF_MODULES.values()] if (lock := each()) is not None]


def forget_import(lock: Any) -> None:
    """Let a module be imported as if nobody held its lock, one of `import_locks`."""
    _OF_MODULES.pop(lock.name, None)


def import_waited_for(frame: FrameType | None, thread_id: int) -> tuple[str, int] | None:
    """The module that a thread waits for another thread to import, and that one's id; None if it does not.

    `frame`: the thread's innermost one.
    """
    if frame is None or frame.f_code.co_filename != _IMPORTS or frame.f_code.co_name != "acquire":
        return None
    lock = frame.f_locals.get("self")
    owner = getattr(lock, "owner", None)
    return None if owner is None or owner == thread_id else (str(getattr(lock, "name", "a module")), owner)


def handled(thread_ids: Iterable[int]) -> dict[int, BaseException | None]:
    """Per thread the exception that it handles, in an ``except`` or ``finally``; None if it handles none."""
    with nothing_collected():
        there: dict[int, Any] = sys._current_exceptions()  # noqa: SLF001 - Python's own, which others see, too
    found = {each: there.get(each) for each in thread_ids}
    return {each: it[1] if isinstance(it, tuple) else it for each, it in found.items()}  # a tuple before 3.12


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Let no garbage be collected meanwhile, by any thread, where that can happen in the middle of C code."""
    if not _COLLECTS:
        yield
        return
    with _one_at_a_time:  # else the first one to finish would allow collections while another one looks
        # Not by `gc.disable`: code that restores the state it finds now, like `timeit`, would leave it so.
        thresholds = gc.get_threshold()
        try:
            gc.set_threshold(0)
            yield
        finally:
            gc.set_threshold(*thresholds)
