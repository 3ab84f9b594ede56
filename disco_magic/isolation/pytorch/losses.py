"""``loss_parallel()`` of PyTorch on several workers.

It puts its handlers into a table of the process, and removes them at its end, also from workers that are
still in it: here they stay until the last worker has left it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker, is_given_up
from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.callers.current import CallingWorker

_lock: Final = new_rlock()
# A worker that leaves by an exception, when PyTorch does nothing, is removed the next time, or at its end.
_inside: Final[set[CallingWorker | None]] = set()
_disabling: Final[list[Callable[[], Any]]] = []


def fit_losses(module: ModuleType) -> Callable[[], None]:
    """Let several workers be in it; `module` is ``torch.distributed.tensor.parallel.loss``."""

    @replacing(module, "_enable_custom_loss_ops")
    def enable() -> None:
        with _lock:
            if not _inside:
                enable.below()
            _inside.add(calling_worker())

    @replacing(module, "_disable_custom_loss_ops")
    def disable() -> None:
        if is_given_up():
            return
        with _lock:
            _inside.discard(calling_worker())
            if not _inside:
                disable.below()

    take = replace_all([enable, disable])
    _disabling[:] = [disable.below]

    def undo() -> None:
        take()
        _inside.clear()  # the notebook may still be in it, and then leaves it by PyTorch's own function

    return undo


def leave_losses(me: CallingWorker) -> None:
    """Leave it on behalf of a worker that has ended."""
    with _lock:
        if me in _inside:
            _inside.discard(me)
            if not _inside:
                _disabling[0]()
