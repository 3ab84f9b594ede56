"""``loss_parallel()`` of PyTorch's on several workers: its handlers are there until the last one has left.

It puts them into a table of the process, and takes them out at its end: of those who were still in it too.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker, is_given_up
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.callers.current import CallingWorker

# Who leaves it by an exception, where PyTorch does nothing, leaves it the next time, or with its session.
_inside: Final[set[CallingWorker | None]] = set()
_lock: Final = new_rlock()
_disabling: Final[list[Callable[[], Any]]] = []


def fit_losses(module: ModuleType) -> Callable[[], None]:
    """Let workers be in it together; `module` is ``torch.distributed.tensor.parallel.loss``."""

    @wraps(vars(module)["_enable_custom_loss_ops"])
    def enable() -> None:
        with _lock:
            if not _inside:
                enabled.below()
            _inside.add(calling_worker())

    @wraps(vars(module)["_disable_custom_loss_ops"])
    def disable() -> None:
        if is_given_up():
            return
        with _lock:
            _inside.discard(calling_worker())
            if not _inside:
                disabled.below()

    enabled = Replaced(module, "_enable_custom_loss_ops", enable)
    disabled = Replaced(module, "_disable_custom_loss_ops", disable)
    take = replace_all([enabled, disabled])
    _disabling[:] = [disabled.below]

    def undo() -> None:
        take()
        _inside.clear()  # the notebook may be in it still, and leaves it by PyTorch's own

    return undo


def leave_losses(me: CallingWorker) -> None:
    """A worker has ended."""
    with _lock:
        if me in _inside:
            _inside.discard(me)
            if not _inside:
                _disabling[0]()
