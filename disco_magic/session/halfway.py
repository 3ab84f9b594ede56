"""What a stop may have left in the midst of something, among what registers hold, and what helps.

A model that PyTorch has sharded keeps where it is in a step: stopped there, it leaves out collectives in all
steps that come, on one worker, and the others wait or are wrong. Nothing in PyTorch says so.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from disco_magic.core.snapshot import SessionSnapshot

_HOME: Final = "torch.distributed.fsdp"
# `fully_shard` puts the first word before the name of a model's class.
_SHARDED: Final = ("FSDP", "FullyShardedDataParallel")


def may_be_sharded() -> bool:
    """Whether there may be such a model: else nobody need look."""
    return _HOME in sys.modules


def halfway(registers: SessionSnapshot) -> str:
    """A sentence that names these models, and what to do; "" if there are none."""
    names = [
        row.name
        for row in registers.rows
        if any(cell is not None and cell.type.startswith(_SHARDED) for cell in row.cells)
    ]
    if not names:
        return ""
    which, one = ", ".join(names), len(names) == 1
    return (
        f"{which} {'is' if one else 'are'} sharded (FSDP) and may be in the midst of a step: make "
        f"{'it' if one else 'them'} anew and load {'its' if one else 'their'} state_dict() or a checkpoint "
        "before the next one. `for batch in worker.steps(batches):` is stopped between two steps"
    )
