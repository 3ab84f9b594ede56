"""Copies notebook variables into registers and back: ``--push``, ``--pull``, ``%disco put`` and others.

All variables are copied before the first is bound, so that one that cannot be copied leaves everything
unchanged. Objects that two variables share are shared by the copies too, except arrays that are variables
themselves: an optimizer keeps the parameters of the model that is sent with it.
"""

from __future__ import annotations

from itertools import filterfalse
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import UnknownName, UsageMistake, WorkerError, is_by
from disco_magic.errors.mistakes import about
from disco_magic.functions.copies import is_shared
from disco_magic.phrases import no_such_part, only, people, words
from disco_magic.session.dref import DRef, are_references
from disco_magic.values.kinds import is_gpu_array
from disco_magic.values.members import NOTHING
from disco_magic.values.parts import part_at, paths_in, split
from disco_magic.values.subscripts import indexed_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.session.session import Session


_TWO: Final = 2


def stored(
    session: Session, values: Mapping[str, Any], workers: tuple[int, ...] | None = None
) -> dict[str, DRef]:
    """Copy variables into registers without names; a DRef is a register already, a mapping of some a dict.

    The caller names either all of them afterwards or none.

    Args:
        session: the session of the registers.
        values: name -> value.
        workers: the workers that get the values, while the others get None; None: every worker.
    """
    linked = _stored_together(session, values, workers)
    registers = {}
    for name, value in values.items():
        with about(f"{name!r} was not sent"):
            registers[name] = linked[name] if name in linked else _stored(session, value, workers)
    return registers


def _stored_together(
    session: Session, values: Mapping[str, Any], workers: tuple[int, ...] | None
) -> Mapping[str, DRef]:
    """Registers for those of `values` that may share objects, if there are at least two of them.

    Arrays are excluded: an array that is sent by itself is moved to the worker's GPU.
    """
    linked = {name: value for name, value in values.items() if _may_share(value)}
    if len(linked) < _TWO:
        return {}
    try:
        whole = session.store_copy(tuple(linked.values()), workers)
    except UsageMistake:  # the caller copies one after the other, which finds out which it was
        return {}
    return {name: session.call_packed(_part, whole, place) for place, name in enumerate(linked)}


def _may_share(value: Any) -> bool:
    kind = type(value)
    is_array = issubclass(kind, np.ndarray) or is_gpu_array(kind)
    return not (is_array or isinstance(value, DRef) or are_references(value) or is_shared(value))


def _part(values: tuple[Any, ...] | None, place: int) -> Any:
    return None if values is None else values[place]  # None: for another worker


def _together(*values: Any) -> tuple[Any, ...]:
    return values


def _stored(session: Session, value: Any, workers: tuple[int, ...] | None) -> DRef:
    if not isinstance(value, DRef) and not are_references(value):
        return session.store_copy(value, workers)
    reference = session.joined(value)
    session.own(reference)
    return reference


def fetched(session: Session, sources: Mapping[str, str], workers: Sequence[int]) -> dict[str, list[Any]]:
    """Copies of registers or parts of them: name -> one value per worker, in the order of `workers`."""
    before = session.ledger.seq
    registers = {name: _reference(session, label, workers) for name, label in sources.items()}
    if len(registers) >= _TWO and all(
        set(workers) <= set(session.ledger.names.holders(split(label)[0])) for label in sources.values()
    ):
        whole = session.call_packed(_together, *registers.values(), workers=workers)
        try:
            held = session.fetch(whole, workers)
            return {name: [held[worker][place] for worker in workers] for place, name in enumerate(registers)}
        except WorkerError as error:
            if not _is_of_copying(error, before):
                raise  # else one cannot be copied: fetch one after the other to find out which
    return {name: _fetched(session, sources[name], register, workers) for name, register in registers.items()}


def _is_of_copying(error: WorkerError, before: int = -1) -> bool:
    """Whether nothing has failed in commands up to `before`, and in later ones only what was asked for."""
    return all(each.seq > before and is_by(each, UsageMistake) for each in error.failures.values())


def _reference(session: Session, label: str, workers: Sequence[int]) -> DRef:
    """A reference to a register, or to a part of one on some workers."""
    name, written = split(label)
    register = session[name]
    return session.call_packed(_taken, register, label, workers=workers) if written else register


def _taken(value: Any, label: str) -> Any:
    name, written = split(label)
    part = part_at(value, written)
    if part is NOTHING and (part := indexed_at(value, written)) is NOTHING:
        raise UsageMistake(f"there is no {label}; {no_such_part(label, paths_in(name, value))}")
    return part


def _fetched(session: Session, name: str, register: DRef, workers: Sequence[int]) -> list[Any]:
    try:
        values = session.fetch(register, workers)
    except WorkerError as error:
        reasons = {worker: failure.exception for worker, failure in error.failures.items()}
        if not _is_of_copying(error):
            raise
        # If some workers lack it, the errors of those that have it say more.
        there = dict(filterfalse(lambda each: isinstance(each[1], UnknownName), reasons.items()))
        have = session.ledger.names.holders(split(name)[0])
        if not there and have and not reasons.keys() & have:
            why = only(have, "it")
            if len(workers) == 1:  # others ask all workers, and there is no choice
                why += f"; %disco get with -w {min(have)} fetches it from there"
        else:
            reasons = there or reasons
            why = words(reasons[min(reasons)])
        raise UsageMistake(f"{name!r} was not fetched from {people(tuple(reasons))}: {why}") from None
    return [values[worker] for worker in workers]
