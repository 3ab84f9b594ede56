"""Our backend of PyTorch: makes the object that represents a process group for one of its workers."""

from __future__ import annotations

import sys
from typing import Any, Final

from disco_magic.errors import UsageMistake
from disco_magic.functions.context import calling_context
from disco_magic.functions.process_groups.groups import group_class
from disco_magic.functions.process_groups.messages import Caller
from disco_magic.functions.process_groups.work import HOME

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
