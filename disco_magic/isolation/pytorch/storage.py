"""Memory of PyTorch's tensors that was seen through NumPy, where sharded parameters release it.

NumPy's view of a tensor, through which tables and checks read it, fixes its memory: PyTorch refuses to resize
it from then on. Where memory is released and allocated again, as that of sharded parameters, a training would
fail because somebody has looked. So memory that was seen is not released, and code that asks for as much of
it again already has it.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from disco_magic.callers.replaced import in_place_of
from disco_magic.values.tensors import LOOKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


@in_place_of("resize_", within="UntypedStorage")
def fit_storage(below: Callable[..., Any], self: Any, size: Any) -> Any:
    """Change ``torch.storage``."""
    try:
        with LOOKING:
            return below(self, size)
    except RuntimeError:
        if size not in (0, self.nbytes()) or self.resizable():
            raise
        return self


@in_place_of("_free_storage")
def fit_flat_parameters(below: Callable[..., None], tensor: Any) -> None:
    """Change ``torch.distributed.fsdp._flat_param``, which infers from memory whether all shards are there.

    A tensor that cannot be resized gets other memory, which is then released. What was computed from the
    former memory, and is needed by a backward pass, still has that.
    """
    if not tensor.untyped_storage().resizable():
        new = tensor.new_empty(tensor.size())
        tensor.set_(new.untyped_storage(), 0, new.size(), new.stride())
    below(tensor)


@in_place_of("profile", within="SimpleProfiler")
def fit_profiler(*_: Any) -> AbstractContextManager[None]:
    """Change ``torch.distributed.fsdp._debug_utils``, which notes in one place what all workers execute."""
    return nullcontext()
