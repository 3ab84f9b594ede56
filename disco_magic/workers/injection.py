"""Asynchronous exceptions: CPython's only means to end Python code that runs in another thread.

An injected exception is raised when the thread next executes bytecode: after 0.2 ms in a loop, but only
when the call returns in ``time.sleep``, ``Lock.acquire`` and other C code (measured on 3.11 - 3.13).

Before 3.13 an injection also raises a flag of the whole interpreter, which is only lowered when some thread
raises an injected exception. Until then every thread takes the slow path through the evaluation loop (20 %
slower, measured on 3.11 and 3.12), and on 3.11 a thread that is traced, by a debugger or by coverage, repeats
the first instruction of the next function it calls for ever. Two rules follow:

* `inject` lowers the flag again, by an exception that its own thread raises and catches. The target does not
  need the flag: a thread raises it for its own pending exception whenever it takes the GIL.
* Taking a pending exception back with ``PyThreadState_SetAsyncExc(id, NULL)`` raises the flag with nothing to
  lower it. So only `inject` does it, before it lowers the flag; the target lets an exception strike in
  `let_strike` instead.
"""

from __future__ import annotations

import ctypes
import inspect
import signal
import threading
import traceback
from itertools import pairwise
from types import FrameType
from typing import TYPE_CHECKING, Final

from disco_magic.errors import WorkerInterrupt
from disco_magic.threads.stacks import handled, nothing_collected

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

_set_async_exc: Final = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)
_set_async_exc.restype = ctypes.c_int

# How long to wait after the first, second and third injection before the thread is given up. Not shorter: at
# 50 ms a second exception kills the user's own ``except KeyboardInterrupt`` clean-up.
PAUSES_S: Final = (0.35, 0.35, 0.20)
# The end of a session is waited for, and a kernel's front end kills what takes long. A thread that is still
# cleaning up goes on by itself as long as the process lives.
LAST_PAUSES_S: Final = (0.35, 0.15)

# The evaluation loop looks for a pending exception at every backward jump; one is enough, ten cost nothing.
_JUMPS = 10
# How many errors in a chain of contexts are looked at.
_CONTEXTS = 20


class _Lowered(BaseException):
    """Injected by a thread into itself, to lower the interpreter's flag."""


def inject(thread_id: int, may_be_struck: Callable[[], bool] = lambda: True) -> bool:
    """Raise WorkerInterrupt in another thread; do nothing if it has ended.

    Args:
        thread_id: of that thread.
        may_be_struck: asked right after injecting whether the thread may be struck where it is. If not, what
            is pending is taken back.

    Returns:
        Whether the exception stays, or was raised already.
    """
    inject_all((thread_id,))
    return may_be_struck() or bool(take_back((thread_id,)))


def inject_all(thread_ids: Collection[int]) -> None:
    """Raise WorkerInterrupt in other threads, that of a thread which has ended in none."""
    _put(thread_ids, ctypes.py_object(WorkerInterrupt))


def take_back(thread_ids: Collection[int]) -> list[int]:
    """Let nothing be pending for these threads, at once after `inject_all`; return those that were struck.

    They may have come to where nothing may strike, an `__exit__`, on the way out. Struck again, they would
    not clean up.
    """
    _put(thread_ids, ctypes.py_object())
    return [*cleaning_up(thread_ids)] if thread_ids else []


def cleaning_up(thread_ids: Iterable[int]) -> set[int]:
    """Those of these threads that are in an ``except`` or ``finally`` because of a WorkerInterrupt."""
    return {each for each, error in handled(thread_ids).items() if _is_of_interrupt(error)}


def _is_of_interrupt(error: BaseException | None) -> bool:
    for _ in range(_CONTEXTS):
        if error is None or isinstance(error, WorkerInterrupt):
            break
        error = error.__context__
    return isinstance(error, WorkerInterrupt)


def _put(thread_ids: Collection[int], pending: ctypes.py_object[type[BaseException]]) -> None:
    """Make `pending` the pending exception of other threads, and lower the interpreter's flag again.

    No Python function is called in between, neither a finalizer: a thread that is traced would not come out
    of it.
    """
    unheard = None
    with nothing_collected():
        for thread_id in thread_ids:
            _set_async_exc(thread_id, pending)
        try:
            _set_async_exc(threading.get_ident(), ctypes.py_object(_Lowered))
            let_strike()
        except _Lowered as struck:
            unheard = _unheard(struck)
        except BaseException:
            # A signal handler raised first, or this thread interrupts itself. What is still pending must not
            # strike in the caller's code.
            try:  # noqa: SIM105 - suppress() is Python code of its own, in which it could strike
                let_strike()
            except _Lowered:
                pass  # expected here, and only here
            raise
    if unheard is not None:  # outside the `try`: what its handler raises is unrelated
        signal.raise_signal(unheard)


def _unheard(struck: _Lowered) -> int | None:
    """Return the signal that arrived in the same moment, whose handler was struck before its first line.

    Nothing else of the user's runs in this thread between the injection and its end. A signal handler is
    recognised by its arguments: a number and a frame.
    """
    *_, (frame, _) = traceback.walk_tb(struck.__traceback__)
    if frame.f_globals is globals():
        return None  # the usual case; asking for the variables would make a reference cycle with them
    names, more, _, variables = inspect.getargvalues(frame)
    given = [*(variables[name] for name in names), *(variables[more] if more else ())]
    numbers = [number for number, at in pairwise(given) if type(at) is FrameType and isinstance(number, int)]
    return numbers[0] if numbers else None


def let_strike() -> None:
    """Raise what is pending for the calling thread, now. Afterwards nothing is pending."""
    for _ in range(_JUMPS):
        pass
