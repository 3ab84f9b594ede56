"""``loss_parallel()`` of PyTorch's on several workers: its handlers are there until the last one has left.

It puts them into a table of the process, and takes them out at its end: of those who were still in it too.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

from disco_magic.functions.context import calling_worker
from disco_magic.functions.replaced import Replaced, replace_all
from disco_magic.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def fit_losses(module: ModuleType) -> Callable[[], None]:
    """Let workers be in it together; `module` is ``torch.distributed.tensor.parallel.loss``."""
    # Who leaves it by an exception, where PyTorch does nothing, leaves it the next time.
    inside: set[object] = set()
    lock = new_lock()

    @wraps(vars(module)["_enable_custom_loss_ops"])
    def enable() -> None:
        with lock:
            if not inside:
                enabled.below()
            inside.add(calling_worker())

    @wraps(vars(module)["_disable_custom_loss_ops"])
    def disable() -> None:
        with lock:
            inside.discard(calling_worker())
            if not inside:
                disabled.below()

    enabled = Replaced(module, "_enable_custom_loss_ops", enable)
    disabled = Replaced(module, "_disable_custom_loss_ops", disable)
    return replace_all([enabled, disabled])
