"""PyTorch's profiler, of which a process has one: starting it while another thread profiles is refused.

PyTorch does not refuse that: the process crashed in two of three tries, losing every register (2.13, on the
CPU).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from disco_magic.callers.current import calling_worker
from disco_magic.callers.replaced import Replaced, replace_all, replacing
from disco_magic.errors import UsageMistake
from disco_magic.threads.ends import has_ended
from disco_magic.threads.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_BEGIN = ("_prepare_profiler", "_enable_profiler")
_END = "_disable_profiler"


class _Profiling:
    """The thread that profiles."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._thread: threading.Thread | None = None
        self._who = ""

    def begin(self) -> None:
        """Let the calling thread profile from now on."""
        me, thread = calling_worker(), threading.current_thread()
        with self._lock:
            other = self._thread
            if other is not None and other is not thread and not has_ended(other):
                raise UsageMistake(
                    f"PyTorch's profiler is the process's, and {self._who} is using it: let one worker"
                    " profile, `if worker_id == 0:`, or one after the other"
                )
            self._thread = thread
            self._who = "another thread" if me is None else f"worker {me.id}"

    def end(self) -> None:
        """Note that the calling thread has stopped profiling."""
        with self._lock:
            if self._thread is threading.current_thread():
                self._thread = None


def fit_profilers(module: ModuleType) -> Callable[[], None]:
    """Let one thread at a time profile; `module` is ``torch.autograd.profiler``."""
    profiling = _Profiling()
    begun = [_beginning(module, name, profiling) for name in _BEGIN]

    @replacing(module, _END)
    def end(*args: Any, **options: Any) -> Any:
        try:
            return end.below(*args, **options)
        finally:
            profiling.end()

    return replace_all([*begun, end])


def _beginning(module: ModuleType, name: str, profiling: _Profiling) -> Replaced:
    @replacing(module, name)
    def begin(*args: Any, **options: Any) -> Any:
        profiling.begin()
        return begin.below(*args, **options)

    return begin
