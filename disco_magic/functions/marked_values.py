"""Values that a cell has marked and that had no name of their own: where they are, or which are nowhere."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.core.registers import register_of
from disco_magic.values.finding import all_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    # Axes of the mesh along which values are equal; empty: on all workers.
    Axes = tuple[str, ...]

_LOST: Final = (
    "worker.replicated has marked no register: no name holds this {}, nor has any register a part that is "
    "it and that would be compared; give it a name, `w = worker.replicated(w)`"
)


class Pending(NamedTuple):
    """A marked value whose place is looked up at the end of the cell.

    Attributes:
        reference: returns the value, or None if it is gone.
        axes: the axes along which it is equal.
        where: file and line of the mark.
        names: the registers that held it when it was marked.
        is_part: whether the call names it as a part of a register.
        kind: what it is, in words.
        then: its path in a register at that moment; None: it had none, or was not looked up.
    """

    reference: Callable[[], Any]
    axes: Axes
    where: tuple[str, int]
    names: tuple[str, ...]
    is_part: bool
    kind: str
    then: str | None


def places_of(
    wanted: Mapping[int, Pending], names: Collection[str], held: Mapping[str, Any]
) -> dict[int, tuple[str, ...]]:
    """Where the values are; where they were when they were marked, if they are nowhere now."""
    alive = {key: each.reference for key, each in wanted.items() if each.reference() is not None}
    found = all_paths(alive, names, held) if alive else {}
    for key, each in wanted.items():
        if key not in found and each.then is not None and register_of(each.then) in names:
            found[key] = (each.then,)
    return found


def warn_of_lost(
    pending: Mapping[int, Pending],
    at_home: Collection[int],
    placed: Collection[tuple[str, int]],
    passing: frozenset[str],
) -> None:
    """Warn of marked values that are held by nothing that is compared, at the end of their cell.

    Args:
        pending: those that have no place, by identity.
        at_home: identities of all that registers hold.
        placed: lines whose marks have found a place.
        passing: registers that held several marked values one after the other.
    """
    placed = {*placed, *(each.where for key, each in pending.items() if key in at_home)}
    lost: dict[tuple[str, int], list[str]] = {}
    for key, each in pending.items():
        is_lost = key not in at_home
        if each.reference() is None:  # a step before the last one, if another value of that line is held
            is_lost = each.then is None and (bool(each.names) or each.where not in placed)
        if is_lost and passing.issuperset(each.names):
            lost.setdefault(each.where, []).append(each.kind)
    for where, (kind, *others) in lost.items():
        more = f" ({len(others):,} more in this line)" if others else ""
        warnings.warn_explicit(f"{_LOST.format(kind)}{more}", UserWarning, *where)
