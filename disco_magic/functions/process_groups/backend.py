"""Our backend of PyTorch: makes the object that represents a process group for one of its workers.

And `monitored_barrier`, which PyTorch has for one of its own backends only.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.errors import UsageMistake
from disco_magic.functions.context import calling_context
from disco_magic.functions.process_groups.groups import Verbs, group_class
from disco_magic.functions.process_groups.messages import Caller
from disco_magic.functions.process_groups.work import HOME

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


BACKEND: Final = "disco"
"""What `torch.distributed.get_backend` returns for a worker's groups."""


def created(options: Any, _: Any = None) -> Any:
    """Make the group when PyTorch asks our backend for it; `options` say who is a member."""
    me = calling_context()
    if me is None:
        raise UsageMistake(f"process groups of the backend {BACKEND!r} are made on workers only, in a cell")
    ranks, size = list(options.global_ranks_in_group), options.group_size
    if ranks != sorted(ranks):
        raise UsageMistake(
            f"new_group: ranks {ranks} have to ascend in workers' groups: leave sort_ranks out, "
            "and a mesh's preserve_rank_order"
        )
    if not ranks and (options.group_rank, size) != (me.id, me.num_workers):
        raise UsageMistake(
            f"init_process_group: rank {options.group_rank} of {size} on worker {me.id} of {me.num_workers} "
            "- ranks are workers' ids: leave rank and world_size out"
        )
    members, name = tuple(ranks or range(size)), options.group_id
    make = group_class(sys.modules[HOME].ProcessGroup)
    caller = Caller(me.session_id, name.partition("@")[0] if ranks else "")
    return make(members, options.group_rank, name, caller)


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
