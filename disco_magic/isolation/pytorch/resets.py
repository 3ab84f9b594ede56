"""``torch._dynamo.reset()`` on a worker forgets what was compiled of the worker's own code.

PyTorch's drops what it has for any code. While other workers run that code, or wait within it for the
compiler's lock, PyTorch still holds a pointer to what is dropped, and the process ends:

1. Worker 1 calls a compiled module. PyTorch's C code takes the pointer to what it has for the wrapper's
   code, which is one for all workers, finds nothing that fits, and calls the compiler.
2. The compiler waits for its lock, which worker 0 has: it resets, and drops that.
3. Worker 1 compiles, and PyTorch stores the result where the pointer leads.

A lock cannot help: code that runs compiled may run for ever. So what is compiled of shared modules stays;
guards tell whose it is, as before, and limits of compilations count anew after a reset.
"""

from __future__ import annotations

import weakref
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers import namespaces
from disco_magic.callers.current import calling_worker
from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.isolation.pytorch.entries import is_of_shared_module

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

_TWO: Final = 2


class _Compiled:
    """The code of one worker that was compiled. Only the worker, under the compiler's lock, changes it."""

    def __init__(self) -> None:
        self.own: dict[int, weakref.ref[CodeType]] = {}  # by `id`: code of two workers may be equal
        self.resets = 0


_COMPILED: Final = object()
"""Where a worker's `_Compiled` is among its belongings."""


def _of(worker: Any) -> _Compiled:
    found: _Compiled = worker.belongings.setdefault(_COMPILED, _Compiled())
    return found


def note_compiled(code: object, scope: Mapping[str, Any] | None) -> None:
    """Note that the calling worker compiles `code`, whose global variables are `scope`."""
    me = calling_worker()
    if me is not None and isinstance(code, CodeType) and not is_of_shared_module(scope):
        _of(me).own[id(code)] = weakref.ref(code)


def resets_of_caller() -> int:
    """How often the calling worker has reset the compiler without dropping what is of shared modules."""
    me = calling_worker()
    return 0 if me is None else _of(me).resets


def fit_resets(module: ModuleType) -> Callable[[], None]:
    """Change ``torch._dynamo``; return what undoes it."""

    @replacing(module, "reset")
    def reset() -> None:
        me = calling_worker()
        if me is None or len(namespaces.in_use()) < _TWO:
            reset.below()
            return
        with module.convert_frame.compile_lock:
            compiled = _of(me)
            for code in filter(None, [each() for each in compiled.own.values()]):
                module.reset_code(code)
            compiled.own.clear()
            compiled.resets += 1
            module.reset_code_state()

    @replacing(module, "reset_code_caches")
    def reset_code_caches() -> None:
        if calling_worker() is None or len(namespaces.in_use()) < _TWO:
            reset_code_caches.below()
        else:
            module.reset()

    return replace_all([reset, reset_code_caches])
