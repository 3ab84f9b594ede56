"""Memory of PyTorch's that is given back and taken anew, as where parameters are sharded, and is looked at.

NumPy's view of a tensor, by which tables and checks see what is in it, keeps its memory where it is: PyTorch
refuses to resize it from then on, and a training would end because somebody has looked. So memory that was
seen is not given back. Whoever asks for as much of it again has it already. While it is just given back
nobody begins to look (`LOOKING`): there would be nothing to be seen, and no memory any more.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


LOOKING: Final = new_rlock()  # a finalizer may give memory back in the midst of a look
"""Held while a tensor's memory is asked for and NumPy gets its view, and while memory is given back."""


def fit_storage(module: Any) -> Callable[[], None]:
    """Change ``torch.storage``; returns what undoes it."""
    owner = module.UntypedStorage
    resize = owner.resize_

    def resize_(self: Any, size: Any) -> Any:
        try:
            with LOOKING:
                return resize(self, size)
        except RuntimeError:
            if size not in (0, self.nbytes()) or self.resizable():
                raise
            return self

    def undo() -> None:
        if vars(owner).get("resize_") is resize_:
            del owner.resize_

    owner.resize_ = resize_
    return undo


def fit_flat_parameters(module: Any) -> Callable[[], None]:
    """Change ``torch.distributed.fsdp._flat_param``, which tells by memory whether all shards are there.

    There the tensor gets other memory, which is given back. What has been computed from the former, as a
    backward pass will want it, still has that.
    """

    def free(tensor: Any) -> None:
        if not tensor.untyped_storage().resizable():
            new = tensor.new_empty(tensor.size())
            tensor.set_(new.untyped_storage(), 0, new.size(), new.stride())
        former.below(tensor)

    former = Replaced(module, "_free_storage", free)
    return replace_all([former])


def fit_profiler(module: Any) -> Callable[[], None]:
    """Change ``torch.distributed.fsdp._debug_utils``, which notes in one place what all workers are in."""

    def profile(_profiler: Any, _what: str) -> AbstractContextManager[None]:
        return nullcontext()

    former = Replaced(module.SimpleProfiler, "profile", classmethod(profile))
    return replace_all([former])
