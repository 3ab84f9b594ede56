"""PyTorch's `monitored_barrier`, which it has for one of its own backends only: for groups of workers."""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Any

from disco_magic.callers.current import calling_worker
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.functions.process_groups.groups import Verbs
from disco_magic.functions.process_groups.work import HOME

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def fit_barriers(module: ModuleType) -> Callable[[], None]:
    """Patch ``torch.distributed``, and the module that defines the function; return what undoes it."""
    home: Any = sys.modules[HOME]

    @wraps(home.monitored_barrier)
    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:  # noqa: FBT001, FBT002 - PyTorch's
        chosen = home._get_default_group() if group is None and calling_worker() is not None else group  # noqa: SLF001 - PyTorch's
        if isinstance(chosen, Verbs):
            chosen.monitored_barrier(timeout, wait_all_ranks)
        else:
            replaced[0].below(group, timeout, wait_all_ranks)

    replaced = [Replaced(each, "monitored_barrier", monitored_barrier) for each in (home, module)]
    return replace_all(replaced)
