"""A worker's working directory and mask for new files: its own from its first `os.chdir` or `os.umask` on.

Linux keeps both per thread. The threads of a process share them, unless a thread parts from the others
(``unshare``); those that it starts afterwards share with it. Where that is not allowed, as in a container
with Docker's default profile, and on other systems, both stay the process's, and `os.chdir` warns.

    worker         os.chdir("run_1") -> the thread parts, then goes there     files, child processes: in run_1
    next cell      settle            -> where the worker has gone, on whichever thread it is by now
    call in a pool join              -> where the worker has gone, also if the pool's thread is older
    program ends   settle            -> where it was before; if it had gone nowhere: where the notebook is

If a thread that was started before the worker parted changes the directory, the worker's own thread follows
at its next cell.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
import warnings
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker, is_beside, is_given_up
from disco_magic.callers.per_worker import PerProgram
from disco_magic.callers.replaced import Replaced, replace_all, replacing

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.callers.current import CallingWorker

_GO: Final = os.chdir  # before they are replaced
_MASK: Final = os.umask
_CLONE_FS: Final = 0x200
_PATH: Final = "path"
_OF_FILES: Final = "mask"
_UMASK: Final = re.compile(r"^Umask:\s*([0-7]+)", re.MULTILINE)


class _Thread(threading.local):
    """Whose directory and mask the calling thread has: session and id of a worker; None: the process's."""

    of: tuple[int, int] | None = None


_thread: Final = _Thread()
_own: Final = PerProgram()  # worker -> where it has gone, under `_PATH`, and its mask


def fit_folders(module: ModuleType) -> Callable[[], None]:
    """Give workers that change their working directory or mask their own; `module` is ``os``."""

    def replaced(name: str) -> Replaced:
        @replacing(module, name)
        def change(*args: Any, **options: Any) -> None:
            me = calling_worker()
            if me is None:
                change.below(*args, **options)
            else:
                _change(me, lambda: change.below(*args, **options))

        return change

    @replacing(module, "umask")
    def umask(mask: int, /) -> int:
        me = calling_worker()
        if me is None or _part(me):
            return umask.below(mask)  # type: ignore[no-any-return]
        before: int = umask.below(mask)
        if not is_given_up():
            _own.of(me)[_OF_FILES] = mask
        return before

    return replace_all([*(replaced(name) for name in ("chdir", "fchdir") if name in vars(module)), umask])


def _change(worker: CallingWorker, change: Callable[[], None]) -> None:
    """Execute `change` for a worker, in its own thread or in one that it has started."""
    refused, own = _part(worker), _own.of(worker)
    if is_given_up():
        if not refused:
            change()
        return
    if not refused and _PATH in own and is_beside():
        _go(own[_PATH])  # relative paths begin there
    change()
    if not refused:
        own[_PATH] = os.getcwd()
    elif worker.num_workers > 1:
        warnings.warn(
            f"os.chdir has changed the working directory of all workers and of the notebook ({refused}); "
            "write worker_id into the paths instead",
            RuntimeWarning,
            stacklevel=3,
        )


def settle(worker: CallingWorker) -> None:
    """Go where the worker has gone, or else where the notebook is; on its thread, before and after its code.

    Cost: half a microsecond for a worker that has never changed its directory or mask; else 50 us.
    """
    if (_thread.of is not None or worker.belongings.get(_own)) and worker.thread == threading.get_ident():
        join(worker)


def join(worker: CallingWorker) -> None:
    """Likewise, in a thread that begins to execute code for the worker."""
    own = _own.of(worker)
    if (_thread.of is None and not own) or _part(worker):
        return
    _go(own.get(_PATH) or folder_of_process())
    mask = own.get(_OF_FILES, mask_of_process())
    if mask is not None:
        _MASK(mask)


def whose() -> tuple[int, int] | None:
    """Whose directory the calling thread has, and so one that it starts: to be passed to `share` there."""
    return _thread.of


def share(of: tuple[int, int] | None) -> None:
    """Note whose directory the calling thread has, which has just been started."""
    _thread.of = of


def folder_of_process() -> str:
    """The working directory of the notebook, of whichever thread is calling."""
    return os.readlink("/proc/self/cwd") if _thread.of is not None else os.getcwd()


def mask_of_process() -> int | None:
    """The notebook's mask, None where it cannot be read: Python reads its own only by setting it."""
    with suppress(OSError), open("/proc/self/status", encoding="utf-8", errors="replace") as status:
        found = _UMASK.search(status.read())
        return None if found is None else int(found[1], 8)
    return None


@cache
def can_part() -> bool:
    """Whether threads may have a working directory of their own here."""
    refused: list[str] = []
    trial = threading.Thread(target=lambda: refused.append(_unshare()))
    trial.start()
    trial.join()
    return refused == [""]


def _go(path: str) -> None:
    with suppress(OSError):  # it was removed
        _GO(path)


def _part(worker: CallingWorker) -> str:
    """Let the calling thread have what the worker has; return why it cannot, or ``""``."""
    me = worker.session_id, worker.id
    if _thread.of == me:
        return ""
    refused = _unshare()
    if not refused:
        _thread.of = me
    return refused


def _unshare() -> str:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_CLONE_FS) != 0:
            return f"unshare: {os.strerror(ctypes.get_errno())}"
    except (AttributeError, OSError):  # another system than Linux
        return "threads have none of their own on this system"
    return ""
