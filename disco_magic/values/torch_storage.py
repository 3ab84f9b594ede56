"""PyTorch memory that is released and allocated again, as that of sharded parameters, while it is looked at.

NumPy's view of a tensor, through which tables and checks read it, fixes its memory: PyTorch refuses to resize
it from then on, and a training would fail because somebody has looked. So memory that was seen is not
released, and code that asks for as much of it again already has it. While memory is being released nothing
begins to look (`LOOKING`): there would be nothing to see, and the memory would be gone.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import Replaced, replace_all, replacing
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


LOOKING: Final = new_rlock()  # reentrant: a finalizer may release memory during a look
"""Held while a tensor's memory is examined and NumPy gets its view, and while memory is released."""


def fit_storage(module: Any) -> Callable[[], None]:
    """Change ``torch.storage``; return what undoes it."""

    @replacing(module.UntypedStorage, "resize_")
    def resize_(self: Any, size: Any) -> Any:
        try:
            with LOOKING:
                return resize_.below(self, size)
        except RuntimeError:
            if size not in (0, self.nbytes()) or self.resizable():
                raise
            return self

    return replace_all([resize_])


def fit_flat_parameters(module: Any) -> Callable[[], None]:
    """Change ``torch.distributed.fsdp._flat_param``, which infers from memory whether all shards are there.

    A tensor that cannot be resized gets other memory, which is then released. What was computed from the
    former memory, and is needed by a backward pass, still has that.
    """

    @replacing(module, "_free_storage")
    def free(tensor: Any) -> None:
        if not tensor.untyped_storage().resizable():
            new = tensor.new_empty(tensor.size())
            tensor.set_(new.untyped_storage(), 0, new.size(), new.stride())
        free.below(tensor)

    return replace_all([free])


def fit_profiler(module: Any) -> Callable[[], None]:
    """Change ``torch.distributed.fsdp._debug_utils``, which notes in one place what all workers execute."""

    def profile(_profiler: Any, _what: str) -> AbstractContextManager[None]:
        return nullcontext()

    former = Replaced(module.SimpleProfiler, "profile", classmethod(profile))
    return replace_all([former])
