"""What a stop or an error has cut off or left half done, and what the user can do about it."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from disco_magic.callers.tracebacks import site_of_error
from disco_magic.errors import (
    Interrupted,
    SyncTimeout,
    WorkerError,
    WorkerInterrupt,
    interrupted_at,
)
from disco_magic.functions.execution.program_runs import OLDER
from disco_magic.phrases import people, who_has
from disco_magic.values.sharded import HOME, UNKNOWN, models_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disco_magic.errors import Failure
    from disco_magic.session.session import Session
    from disco_magic.values.sharded import Progress


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


def halfway(session: Session, seq: int) -> str:
    """A sentence that names models that a cell has left in the midst of a step, and what to do; or "".

    Args:
        session: the session of its workers.
        seq: the cell's. If workers have more to do by now, their models are in a step anyway, and "" is
            returned.
    """
    if HOME not in sys.modules:  # so that there are none
        return ""
    if any(each.behind > (each.seq == seq) for each in session.diagnosis().positions):
        return ""
    models: dict[str, list[Progress]] = {}
    for found in session.examine_names(models_of):
        for name, where in found.items():
            models.setdefault(name, []).append(where)
    names = [name for name, where in models.items() if _is_halfway(where)]
    if not names:
        return ""
    which, one = ", ".join(names), len(names) == 1
    certain = all(any(each.is_stuck and each is not UNKNOWN for each in models[name]) for name in names)
    may_be = ("is" if one else "are") if certain else "may be"
    it, its = ("it", "its") if one else ("them", "their")
    return (
        f"{which} {may_be} in the midst of a step, where a sharded model (FSDP) leaves out collectives from "
        f"then on: make {it} anew and load {its} state_dict(), after reshard(), or a checkpoint"
    )


def _is_halfway(where: list[Progress]) -> bool:
    """Whether a model's next step would go wrong; `where`: it on each worker that has it."""
    met: dict[object, list[Progress]] = {}
    for each in where:  # a pipeline's stages have other parts, or are on other workers
        met.setdefault(each.meets, []).append(each)
    return any(each.is_stuck for each in where) or any(
        any(each.is_under_way for each in group) and len({each.marks for each in group}) > 1
        for group in met.values()
    )


def tell_halfway(session: Session, seq: int, error: BaseException) -> None:
    """Add to the error of a cell a note that names the models it has left in the midst of a step."""
    if isinstance(error, WorkerError | SyncTimeout) and not session.closed:
        with suppress(Exception):  # it may have ended; and a hint must not take the error's place
            if said := halfway(session, seq):
                error.add_note(said)
