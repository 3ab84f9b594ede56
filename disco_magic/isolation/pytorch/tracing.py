"""Symbolic tracing in PyTorch, ``torch.fx.symbolic_trace(model)``, and ``torch.export``, on several workers.

While PyTorch traces it puts functions of its own into ``torch.nn.Module``, for all models of the process, and
removes them afterwards. Two traces at a time leave them there for good, and a model that another thread calls
meanwhile is traced. So one thread traces at a time, and these functions affect that thread only.

An export, of a pipeline's tracer too, keeps the modes that record operators in a table of the process. Two at
a time took each other's out of it, and left it so that nothing could be exported any more. So one worker
exports at a time, and the table is restored afterwards.
"""

from __future__ import annotations

import sys
import threading
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.replaced import Replaced, replace_all, replacing
from disco_magic.isolation.worker_mutex import WORKER_MUTEX

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.isolation.worker_mutex import Entry

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


_ENTRIES: Final = ("_export", "_export_for_training")  # all others call one of these
_TABLE: Final = "_mode_stack_state_for_pre_dispatch"


class _Export(NamedTuple):
    """An export that is under way."""

    entry: Entry
    before: dict[str, Any]


_underway: Final[list[_Export]] = []  # an export inside another one is the same worker's


def fit_exporting(module: ModuleType) -> Callable[[], None]:
    """Let one worker at a time export; `module` is ``torch.export._trace``."""
    return replace_all([_exported_alone(module, name) for name in _ENTRIES if name in vars(module)])


def _exported_alone(module: ModuleType, name: str) -> Replaced:
    @replacing(module, name)
    def export(*args: Any, **options: Any) -> Any:
        with WORKER_MUTEX.taken("programs are exported") as entry:
            _forget_gone()
            mine = _Export(entry, _contents(_table()))
            _underway.append(mine)
            try:
                return export.below(*args, **options)
            finally:
                # Otherwise its thread was given up, and another thread has ended it.
                if _is_underway(mine):
                    _end(mine)

    return export


def _is_underway(export: _Export) -> bool:
    return any(each is export for each in _underway)


def _forget_gone() -> None:
    """End exports whose threads were given up: the table is what it was before the first of them."""
    for each in reversed([one for one in _underway if one.entry.is_gone]):
        _end(each)


def _end(export: _Export) -> None:
    _table().update(export.before)  # a stop may have struck where PyTorch does so
    _underway[:] = [each for each in _underway if each is not export]


def _table() -> dict[str, Any]:
    found = vars(sys.modules["torch._ops"]).get(_TABLE)
    return {} if found is None else vars(found)


def _contents(table: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, list) else value for name, value in table.items()}
