"""What a stop has cut off or may have left half done, and what the user can do about it.

A model that PyTorch has sharded records where it is in a step. Stopped there, it skips collectives in all
later steps on one worker, so that the others hang or compute wrong results. PyTorch reports none of this.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from disco_magic.callers.tracebacks import site_of_error
from disco_magic.errors import Interrupted, WorkerInterrupt, interrupted_at
from disco_magic.functions.execution.program_runs import OLDER
from disco_magic.phrases import people, who_has

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disco_magic.errors import Failure
    from disco_magic.session.session import Session

_HOME: Final = "torch.distributed.fsdp"
# `fully_shard` prefixes the name of a model's class with "FSDP".
_SHARDED: Final = ("FSDP", "FullyShardedDataParallel")


def refused(failures: Iterable[Failure]) -> str:
    """A sentence about collectives that workers called while cleaning up after the stop; "" if none did.

    They raise another interrupt, which is not shown: whatever they were to save was not saved.
    """
    cut = [each for each in failures if interrupted_at(each.exception) is Interrupted.BEFORE_COLLECTIVE]
    cleaning = [each for each in cut if isinstance(each.exception.__context__, WorkerInterrupt)]
    sites = who_has((each.worker, str(site_of_error(each.exception))) for each in cleaning)
    if not sites:
        return ""
    where = ", ".join(f"at {site} on {people(workers)}" for site, workers in sites.items())
    return (
        f"A collective {where} was refused, in cleaning up after the stop: each worker is stopped by itself."
        " `for batch in worker.steps(batches):` is stopped between two steps; a `finally` around it can call"
        " them"
    )


def older(failures: Iterable[Failure]) -> str:
    """Notes on names that a stopped program had not bound yet, though an earlier run has left them."""
    notes = (note for each in failures for note in getattr(each.exception, "__notes__", ()))
    return ". ".join(dict.fromkeys(note for note in notes if note.startswith(OLDER)))


def may_be_sharded() -> bool:
    """Whether there may be a sharded model: whether FSDP was imported at all."""
    return _HOME in sys.modules


def halfway(session: Session) -> str:
    """A sentence that names the sharded models in registers, and what to do; "" if there are none."""
    names = [
        row.name
        for row in session.registers(sample=0).rows
        if any(cell is not None and cell.type.startswith(_SHARDED) for cell in row.cells)
        and any(session.examine(row.name, _is_sharded))
    ]
    if not names:
        return ""
    which, one = ", ".join(names), len(names) == 1
    return (
        f"{which} {'is' if one else 'are'} sharded (FSDP) and may be in the midst of a step: make "
        f"{'it' if one else 'them'} anew and load {'its' if one else 'their'} state_dict(), after reshard(),"
        " or a checkpoint. `for batch in worker.steps(batches):` is stopped between two steps"
    )


def _is_sharded(value: object) -> bool:
    """Whether one of its base classes is FSDP's; names are not compared."""
    return any(str(each.__module__).startswith(_HOME) for each in type(value).__mro__)
