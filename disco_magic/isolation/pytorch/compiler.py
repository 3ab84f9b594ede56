"""PyTorch's compiler: what it must not look into, and which names of cells are constants for it.

It follows calls into whatever is written in Python, and so through a collective down to locks and clocks:
that takes seconds, and gives warnings. If our package is left out, one graph ends at a collective and another
begins after it. The compiler also assumes that names among the builtins are functions, or the few constants
that Python has there; those of cells include ``worker_id`` and ``np``.

It compiles with a lock of its own, and traces within it. Our mutex for traces comes first: a worker that has
the mutex, and calls what is not compiled yet, would wait for ever for one that compiles.

What it has compiled lies with the function's code. That of modules, PyTorch's own wrappers among them, is one
for all workers: with four of them its limit for compilations was reached by a model of three parts.

``torch._dynamo.reset()`` on a worker forgets what was compiled of the worker's own code. PyTorch's drops what
it has for any code. While other workers run that code, or wait within it for the compiler's lock, PyTorch
still holds a pointer to what is dropped, and the process ends:

1. Worker 1 calls a compiled module. PyTorch's C code takes the pointer to what it has for the wrapper's
   code, which is one for all workers, finds nothing that fits, and calls the compiler.
2. The compiler waits for its lock, which worker 0 has: it resets, and drops that.
3. Worker 1 compiles, and PyTorch stores the result where the pointer leads.

A lock cannot help: code that runs compiled may run for ever. So what is compiled of shared modules stays;
guards tell whose it is, as before, and limits of compilations count anew after a reset.
"""

from __future__ import annotations

import sys
import threading
import weakref
from contextlib import ExitStack
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.callers import namespaces
from disco_magic.callers.current import calling_worker
from disco_magic.callers.per_worker import PerWorker
from disco_magic.callers.replaced import Replaced, replace_all, replacing
from disco_magic.isolation.pytorch.entries import is_of_shared_module
from disco_magic.isolation.worker_mutex import WORKER_MUTEX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping
    from contextlib import AbstractContextManager
    from types import ModuleType

_PACKAGE: Final = "disco_magic"
# Python has one object for each of these: ids of workers are recognized by identity.
_SMALL: Final = range(257)
# The function that compares with the limits, and their names; in PyTorch 2.6 and before the second row.
_LIMITS: Final = (
    ("exceeds_recompile_limit", ("recompile_limit", "accumulated_recompile_limit")),
    ("exceeds_cache_size_limit", ("cache_size_limit", "accumulated_cache_size_limit")),
)


def clear_names(namespace: MutableMapping[str, Any]) -> None:
    """Empty a namespace, except for what the compiler has put there: it removes that itself.

    It does so when it drops a function; if the name is missing, Python writes an error to stderr.
    """
    utils = sys.modules.get("torch._dynamo.utils")
    manager = getattr(getattr(utils, "CleanupManager", None), "instance", None)
    hooks = [hook for each in list(getattr(manager, "values", {}).values()) for hook in each]
    kept = {hook.name for hook in hooks if hook.scope is namespace}
    for name in namespace.keys() - kept:
        namespace.pop(name, None)


def fit_compiler(rules: Any) -> Callable[[], None]:
    """Change ``torch._dynamo.trace_rules``; return what undoes it."""
    constants = rules._builtin_constant_ids  # noqa: SLF001 - there is no public way to add to them
    known = {id(each) for each in (*_SMALL, np)}
    added = {each for each in known if each not in constants()}
    before = list(rules.SKIP_DIRS)
    rules.add(_PACKAGE)
    for each in added:
        constants.add(each)

    def undo() -> None:
        for each in added:
            constants.remove(each)
        rules.SKIP_DIRS[:] = [each for each in rules.SKIP_DIRS if each in before]
        rules._recompile_re()  # noqa: SLF001

    return undo


class _MutexFirst(threading.local):
    """The compiler's lock, which a thread takes after our mutex; reentrant, as both are."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self._lock = lock
        self._taken: list[ExitStack] = []  # by the calling thread

    def __enter__(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(WORKER_MUTEX.taken("models are compiled"))
            stack.enter_context(self._lock)
            self._taken.append(stack.pop_all())

    def __exit__(self, *error: object) -> None:
        self._taken.pop().close()


def fit_compile_lock(module: ModuleType) -> Callable[[], None]:
    """Change the lock of ``torch._dynamo.convert_frame``; return what undoes it."""
    return replace_all([Replaced(module, "compile_lock", _MutexFirst(vars(module)["compile_lock"]))])


def fit_limits(module: ModuleType) -> Callable[[], None]:
    """Let each worker compile shared code as often as a process may; see `fit_compile_lock` for `module`.

    The limits in PyTorch's configuration are what the user has set, and stay so for other code: they are
    multiplied only where they are compared.
    """
    ((checking, limits), *_) = [row for row in _LIMITS if row[0] in vars(module)]
    config = module.config

    @replacing(module, checking)
    def exceeds(*args: Any) -> Any:
        count = len(namespaces.in_use())
        of_frame = sys._getframe(1).f_locals  # noqa: SLF001 - the code and its globals; they are not passed
        scope = of_frame.get("globals")
        note_compiled(of_frame.get("code"), scope)
        if count < 2 or not is_of_shared_module(scope):
            return exceeds.below(*args)
        count += resets_of_caller()
        with config.patch({name: getattr(config, name) * count for name in limits}):
            return exceeds.below(*args)

    return replace_all([exceeds])


_TWO: Final = 2


class _Compiled:
    """The code of one worker that was compiled. Only the worker, under the compiler's lock, changes it."""

    def __init__(self) -> None:
        self.own: dict[int, weakref.ref[CodeType]] = {}  # by `id`: code of two workers may be equal
        self.resets = 0


_COMPILED: Final = PerWorker(_Compiled)


def note_compiled(code: object, scope: Mapping[str, Any] | None) -> None:
    """Note that the calling worker compiles `code`, whose global variables are `scope`."""
    me = calling_worker()
    if me is not None and isinstance(code, CodeType) and not is_of_shared_module(scope):
        _COMPILED.of(me).own[id(code)] = weakref.ref(code)


def resets_of_caller() -> int:
    """How often the calling worker has reset the compiler without dropping what is of shared modules."""
    me = calling_worker()
    return 0 if me is None else _COMPILED.of(me).resets


def fit_resets(module: ModuleType) -> Callable[[], None]:
    """Change ``torch._dynamo``; return what undoes it."""

    @replacing(module, "reset")
    def reset() -> None:
        me = calling_worker()
        if me is None or len(namespaces.in_use()) < _TWO:
            reset.below()
            return
        with module.convert_frame.compile_lock:
            compiled = _COMPILED.of(me)
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
