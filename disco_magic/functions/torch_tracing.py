"""Symbolic tracing of PyTorch's: ``torch.fx.symbolic_trace(model)`` on several workers.

While it traces it puts functions of its own into ``torch.nn.Module``, for all models of the process, and
takes them out afterwards. Two at a time leave them there for good, and a model that another thread calls
meanwhile is traced. So one thread traces at a time, and what it puts there is for that thread.
"""

from __future__ import annotations

import threading
from functools import wraps
from typing import TYPE_CHECKING, Any

from disco_magic.functions.replaced import Replaced, replace_all
from disco_magic.functions.turns import TURNS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def fit_tracing(module: ModuleType) -> Callable[[], None]:
    """Let one thread trace at a time, alone; `module` is ``torch.fx._symbolic_trace``."""
    tracer, patcher = module.Tracer, vars(module)["_Patcher"]

    @wraps(tracer.trace)
    def trace(self: Any, *args: Any, **options: Any) -> Any:
        with TURNS.taken("models are traced"):
            return traced.below(self, *args, **options)

    @wraps(patcher.patch_method)
    def patch_method(
        self: Any, cls: type, name: str, new_fn: Callable[..., Any], *further: Any, **options: Any
    ) -> None:
        patched.below(self, cls, name, _in_this_thread(new_fn, getattr(cls, name)), *further, **options)

    traced = Replaced(tracer, "trace", trace)
    patched = Replaced(patcher, "patch_method", patch_method)
    return replace_all([traced, patched])


def _in_this_thread(ours: Callable[..., Any], others: Callable[..., Any]) -> Callable[..., Any]:
    me = threading.get_ident()

    @wraps(ours)
    def call(*args: Any, **options: Any) -> Any:
        return (ours if threading.get_ident() == me else others)(*args, **options)

    return call
