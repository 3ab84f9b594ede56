"""Symbolic tracing in PyTorch, ``torch.fx.symbolic_trace(model)``, on several workers.

While PyTorch traces it puts functions of its own into ``torch.nn.Module``, for all models of the process, and
removes them afterwards. Two traces at a time leave them there for good, and a model that another thread calls
meanwhile is traced. So one thread traces at a time, and these functions affect that thread only.
"""

from __future__ import annotations

import threading
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import Replaced, replace_all, replacing
from disco_magic.isolation.worker_mutex import WORKER_MUTEX

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


_OURS: Final = "_of_one_trace"
_ASKED: Final = ("is_fx_tracing", "is_fx_symbolic_tracing")


class _Tracing:
    """One trace: the thread that traces, while it does."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.goes_on = True
        self.patched: list[tuple[type, str, Any]] = []

    def end(self) -> None:
        """Remove all that it has put into classes, also if a stop has struck where PyTorch does so."""
        self.goes_on = False
        while self.patched:
            cls, name, before = self.patched[-1]
            if isinstance(vars(cls).get(name), FunctionType) and hasattr(vars(cls)[name], _OURS):
                setattr(cls, name, before)
            self.patched.pop()

    @property
    def is_here(self) -> bool:
        """Whether the calling thread is the one that traces, and still does."""
        return self.goes_on and threading.get_ident() == self.thread


_now: Final[list[_Tracing]] = []  # outermost first; all are of the thread that has the mutex


def fit_tracing(module: ModuleType) -> Callable[[], None]:
    """Let one thread trace at a time, without effect on others; `module` is ``torch.fx._symbolic_trace``."""
    tracer, patcher = module.Tracer, vars(module)["_Patcher"]

    @replacing(tracer, "trace")
    def trace(self: Any, *args: Any, **options: Any) -> Any:
        with WORKER_MUTEX.taken("models are traced"):
            if _now and not _now[-1].is_here:
                _end_all()  # of a trace that a stop has ended
            _now.append(_Tracing())
            try:
                return trace.below(self, *args, **options)
            finally:
                _now[-1].end()
                _now.pop()

    @replacing(patcher, "patch_method")
    def patch_method(
        self: Any, cls: type, name: str, new_fn: Callable[..., Any], *further: Any, **options: Any
    ) -> None:
        before = getattr(cls, name)
        if _now:
            _now[-1].patched.append((cls, name, before))
            new_fn = _in(_now[-1], new_fn, before)
        patch_method.below(self, cls, name, new_fn, *further, **options)

    asked = [
        Replaced(module, name, _in_this_thread(vars(module)[name])) for name in _ASKED if name in vars(module)
    ]
    take = replace_all([trace, patch_method, *asked])

    def undo() -> None:
        _end_all()
        take()

    return undo


def _end_all() -> None:
    while _now:
        _now[-1].end()
        _now.pop()


def _in_this_thread(asked: Callable[[], bool]) -> Callable[[], bool]:
    """Whether the calling thread traces: PyTorch's flag is the process's."""

    @wraps(asked)
    def is_traced() -> bool:
        return asked() and (not _now or _now[-1].is_here)

    return is_traced


def _in(tracing: _Tracing, ours: Callable[..., Any], others: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(ours)
    def call(*args: Any, **options: Any) -> Any:
        return (ours if tracing.is_here else others)(*args, **options)

    setattr(call, _OURS, True)
    return call


def fit_scripts(*names: str) -> Callable[[ModuleType], Callable[[], None]]:
    """Return what lets one thread at a time call these functions of a module, by which models are compiled.

    TorchScript keeps what it is tracing, and the classes that it has made, once for the process.
    """

    def fit(module: ModuleType) -> Callable[[], None]:
        # Not all versions have all of them.
        return replace_all([_one_at_a_time(module, name) for name in names if name in vars(module)])

    return fit


def _one_at_a_time(module: ModuleType, name: str) -> Replaced:
    @replacing(module, name)
    def call(*args: Any, **options: Any) -> Any:
        with WORKER_MUTEX.taken("models are traced"):
            return call.below(*args, **options)

    return call
