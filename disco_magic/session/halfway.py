"""What a stop or an error has cut off or left half done, and what the user can do about it."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Final

from disco_magic.callers.tracebacks import site_of_error, steps_of, traceback_of
from disco_magic.core.words import until_the_end
from disco_magic.errors import (
    Interrupted,
    SyncTimeout,
    WorkerError,
    WorkerInterrupt,
    interrupted_at,
)
from disco_magic.functions.execution.bindings import MODULE
from disco_magic.functions.execution.program_runs import OLDER
from disco_magic.isolation.imported import is_imported
from disco_magic.libraries import is_of_library
from disco_magic.phrases import people, who_has
from disco_magic.values.sharded import HOME, UNKNOWN, Remedy, models_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import FrameType

    from disco_magic.errors import Failure
    from disco_magic.session.session import Session
    from disco_magic.values.sharded import Progress


_SYSTEM: Final = "<frozen importlib._bootstrap>"
# Library whose import was stopped in this process -> its modules that were being imported.
_STOPPED: Final[dict[str, set[str]]] = {}


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


def half_imported(failures: Iterable[Failure]) -> str:
    """A sentence about libraries whose import was stopped; "" if none was.

    Parts of them stay imported, and many cannot be executed twice: PyTorch's next import fails.
    """
    names: dict[str, set[str]] = {}
    for each in failures:
        modules = list(_imported(each.exception))
        if name := next(filter(_is_of_library, map(_library, modules)), ""):
            names.setdefault(name, set()).update(each for each in modules if _library(each) == name)
    if not names:
        return ""
    _STOPPED.update(names)
    again = "the next one" if len(names) == 1 else "the next ones"
    return f"The import of {', '.join(names)} was stopped half-way: {again} may fail {until_the_end()}"


def imported_again(error: BaseException) -> str:
    """A sentence if `error` comes from the import of a library of which one was stopped; else "".

    Python says that such a module is partially initialized, "most likely due to a circular import".
    """
    name = next((each for each in map(_library, _imported(error)) if each in _STOPPED), "")
    if not name or isinstance(error, WorkerInterrupt):
        return ""
    if all(map(is_imported, _STOPPED[name])):  # it has been imported since
        del _STOPPED[name]
        return ""
    return f"an import of {name} was stopped half-way earlier: it may fail {until_the_end()}"


def _imported(error: BaseException) -> Iterator[str]:
    """The modules in whose import it was raised, the outermost first."""
    return filter(None, (_imported_by(step.tb_frame) for step in steps_of(traceback_of(error))))


def _library(module: str) -> str:
    return module.partition(".")[0]


def _imported_by(frame: FrameType) -> str:
    """The module that is imported by a frame: one of Python's own, or, if they were removed, the module's."""
    name = frame.f_locals.get("name") if frame.f_code.co_filename == _SYSTEM else None
    if frame.f_code.co_name == MODULE:
        name = getattr(frame.f_globals.get("__spec__"), "name", None)
    return name if isinstance(name, str) else ""


def _is_of_library(name: str) -> bool:
    spec = None if name in sys.stdlib_module_names else PathFinder.find_spec(name)
    return spec is not None and is_of_library(spec.origin or "")


def halfway(session: Session, seq: int) -> str:
    """Sentences that name models that a cell has left in the midst of a step, and say what to do; or "".

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
    stuck = {name: where for name, where in models.items() if _is_halfway(where)}
    kept = [name for name, where in models.items() if name not in stuck and any(each.keeps for each in where)]
    return ". ".join(filter(None, (_of_stuck(stuck), _of_kept(kept))))


def _of_stuck(models: Mapping[str, list[Progress]]) -> str:
    if not models:
        return ""
    one = len(models) == 1
    certain = all(any(each.is_stuck and each is not UNKNOWN for each in where) for where in models.values())
    may_be = ("is" if one else "are") if certain else "may be"
    it, its = ("it", "its") if one else ("them", "their")
    remedies = {each.remedy for where in models.values() for each in where}
    reset = (
        f"call {its} reset_iter_state() on all workers, then a backward pass that reduces, and zero_grad(), "
        "which drops what the step has left; or "
    )
    helps = reset if remedies == {Remedy.RESET} else ""
    state = "" if Remedy.CHECKPOINT in remedies else f"{its} state_dict(), after reshard(), or "
    return (
        f"{', '.join(models)} {may_be} in the midst of a step, where a sharded model (FSDP) leaves out "
        f"collectives from then on: {helps}make {it} anew and load {state}a checkpoint"
    )


def _of_kept(names: list[str]) -> str:
    if not names:
        return ""
    keep = "keeps" if len(names) == 1 else "keep"
    return (
        f"{', '.join(names)} {keep} gradients of micro-steps (FSDP), which the next reduction adds and "
        "zero_grad() leaves: to drop them, a backward pass after set_requires_gradient_sync(True), then "
        "zero_grad()"
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
