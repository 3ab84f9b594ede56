"""A worker's working directory, which is its own from its first `os.chdir` on.

Linux keeps it per thread. The threads of a process share one, unless a thread parts from it (``unshare``);
those that it starts afterwards share its own. Where that is not allowed, as in a container with Docker's
default profile, and on other systems, `os.chdir` goes on changing the process's, with a warning.

    worker        os.chdir("run_1") -> the thread parts, then goes there     files, child processes: in run_1
    next cell     settle            -> where the worker has gone, on whichever thread it is by now
    program ends  settle            -> where it was before; if it had gone nowhere: where the notebook is
"""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from contextlib import suppress
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker, is_beside, is_given_up
from disco_magic.callers.per_worker import PerProgram
from disco_magic.callers.replaced import Replaced, replace_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.callers.current import CallingWorker

_FIRST: Final = os.chdir  # before it is replaced
_CLONE_FS: Final = 0x200
_PATH: Final = "path"


class _Thread(threading.local):
    """Whether the calling thread has parted from the process's working directory."""

    has_parted = False


_thread: Final = _Thread()
_gone: Final = PerProgram()  # worker -> where it has gone, under `_PATH`


def fit_folders(module: ModuleType) -> Callable[[], None]:
    """Give workers that change their working directory their own; `module` is ``os``."""

    def replaced(name: str) -> Replaced:
        @wraps(vars(module)[name])
        def change(*args: Any, **options: Any) -> None:
            me = calling_worker()
            if me is None or is_given_up():
                made.below(*args, **options)
            else:
                _change(me, lambda: made.below(*args, **options))

        made = Replaced(module, name, change)
        return made

    return replace_all([replaced(name) for name in ("chdir", "fchdir") if name in vars(module)])


def _change(worker: CallingWorker, change: Callable[[], None]) -> None:
    """Execute `change` for a worker; a thread that it has started takes those along that it shares with."""
    gone = _gone.of(worker)
    refused = "" if gone or is_beside() else _part()
    change()
    if _PATH in gone or _thread.has_parted:
        gone[_PATH] = os.getcwd()
    elif worker.num_workers > 1:
        why = f" ({refused})" if refused else ""
        warnings.warn(
            f"os.chdir has changed the working directory of all workers and of the notebook{why}; write "
            "worker_id into the paths instead",
            RuntimeWarning,
            stacklevel=3,
        )


def settle(worker: CallingWorker) -> None:
    """Go where the worker has gone, or else where the notebook is; on its thread, before and after its code.

    Cost: half a microsecond for a worker that has never changed its directory.
    """
    path = _gone.of(worker).get(_PATH)
    if (path is None and not _thread.has_parted) or worker.thread != threading.get_ident():
        return
    _part()
    with suppress(OSError):  # it was removed
        _FIRST(path or folder_of_process())


def folder_of_process() -> str:
    """The working directory of the notebook, of whichever thread is calling."""
    return os.readlink(f"/proc/{os.getpid()}/cwd") if _thread.has_parted else os.getcwd()


@cache
def can_part() -> bool:
    """Whether threads may have a working directory of their own here."""
    refused: list[str] = []
    trial = threading.Thread(target=lambda: refused.append(_part()))
    trial.start()
    trial.join()
    return refused == [""]


def _part() -> str:
    """Let the calling thread have a working directory of its own; return why it cannot, or ``""``."""
    if _thread.has_parted:
        return ""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_CLONE_FS) != 0:
            return f"unshare: {os.strerror(ctypes.get_errno())}"
    except (AttributeError, OSError):  # another system than Linux
        return "threads have none of their own on this system"
    _thread.has_parted = True
    return ""
