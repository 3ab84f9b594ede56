"""What a worker holds in its registers, and which of it is meant to be equal: its side of a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.core.held import Found
from disco_magic.core.registers import RegisterFile, inside, is_within, nearest, register_of
from disco_magic.functions.marks import is_anonymous
from disco_magic.values.divergence import PARTS_BY_VALUE, parts_of, survey
from disco_magic.values.parts import NOTHING, parts_at, split

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from disco_magic.core.device import Device
    from disco_magic.core.held import Held
    from disco_magic.functions.marks import Marks

    # Registers and parts -> along which axes of the mesh they are equal; none: on all workers.
    Marked = Mapping[str, tuple[str, ...]]
    Rows = tuple[tuple[str, Held], ...]


def found_in(
    marks: Marks,
    marked: Marked,
    names: tuple[str, ...] | None,
    *,
    own: Device,
    values: bool,
    parts: bool = False,
) -> Found:
    """What is in the registers of the worker that these marks are of.

    Args:
        marks: the worker's.
        marked: what they say now.
        names: look at these only, registers or parts of some; None: at all.
        own: the worker's device.
        values: digest values of `names`; without names, those of registers and parts marked as replicated,
            and DTensors of which several workers have the same part.
        parts: with `names`, also those parts of them that have marks of their own.
    """
    told = dict(marked)
    for label in names or ():
        if register_of(label) in told:  # a part of what is marked is meant to be equal as that is
            told.setdefault(label, told[register_of(label)])
    held = dict(marks.namespace)  # a thread of the user's may unbind one
    public = {name: held[name] for name in RegisterFile(held).public_names()}
    if names is None:
        # Of parts only those that are compared by value.
        labels = list(dict.fromkeys([*public, *(told if values else ())]))
    else:
        within = tuple(sign for name in names for sign in inside(name))
        labels = list(dict.fromkeys([*names, *(each for each in told if parts and each.startswith(within))]))
    found = parts_named(public, labels)
    registers: dict[str, Rows] = {}
    known: dict[str, Rows] = {}
    wanted = frozenset(labels)
    for label in labels:
        if label in found:
            by_value = values and (names is not None or label in told)
            rows = known.get(label)
            if rows is None:
                rows = survey(label, found[label], values=by_value, own=own, replicas=values)
                if by_value:  # those of its parts that are marked themselves need not be looked at again
                    known |= _by_part(rows, wanted)
            registers[label] = rows
    return Found(frozenset(), told, registers)


def values_found(values: tuple[Any, ...], own: Device) -> Found:
    """What these values are, each under its number, ``"0"``; by value, without marks. `own` as above."""
    surveys = {
        str(number): survey(str(number), value, values=True, own=own) for number, value in enumerate(values)
    }
    return Found(frozenset(), {}, surveys)


def with_marks(found: Found, values: tuple[Any, ...], names: tuple[str, ...], marks: Marks) -> Found:
    """`values_found` of these values, with what marks say of them: as registers, or as parts of some.

    They are told by their identity; numbers and texts by how they are written in the call, `names`.
    """
    held, marked = dict(marks.namespace), marks.now()
    # Kept: what is made for the look, states of generators, must not leave its identity to others of these.
    kept: list[Any] = []
    axes_of = _axes_by_identity(held, marked, kept)
    own: dict[str, tuple[str, ...]] = {}
    for number, (value, name) in enumerate(zip(values, names, strict=True)):
        if parts_named(held, [name]).get(name, NOTHING) is value:
            axes = _innermost(name, marked)
            own |= {} if axes is None else {str(number): axes}
        for path, part in parts_of(str(number), value, PARTS_BY_VALUE):
            axes = None if path in own or is_anonymous(part) else axes_of.get(id(part))
            if axes is not None and axes != _innermost(path, own):
                own[path] = axes
            kept.append(part)
    registers = dict(found.registers)
    for rows in found.registers.values():
        registers |= {path: each for path, each in _by_part(rows, own).items() if path not in registers}
    return Found(found.bound, own, registers)


def _axes_by_identity(held: Mapping[str, Any], marked: Marked, kept: list[Any]) -> dict[int, tuple[str, ...]]:
    """By identity what marks say of registers, and of all that is in those that have some; that is `kept`."""
    found: dict[int, tuple[str, ...]] = {}
    for name in dict.fromkeys(map(register_of, marked)):
        for path, part in parts_of(name, held.get(name), PARTS_BY_VALUE):
            axes = None if is_anonymous(part) else _innermost(path, marked)
            kept.append(part)
            if axes is not None:
                # Of what has several names the mark of most workers.
                found[id(part)] = () if found.get(id(part)) == () else axes
    return found


def _innermost(path: str, marked: Marked) -> tuple[str, ...] | None:
    """The mark of a part, or of what is around it."""
    label = nearest(path, marked)
    return None if label is None else marked[label]


def _by_part(rows: Sequence[tuple[str, Held]], wanted: Container[str]) -> dict[str, Rows]:
    """Those of each part that is wanted: they stand together, behind the part's own."""
    found: dict[str, Rows] = {}
    for begin, (path, _) in enumerate(rows):
        if path in wanted:
            end = begin + 1
            while end < len(rows) and is_within(rows[end][0], path):
                end += 1
            found[path] = tuple(rows[begin:end])
    return found


def parts_named(held: Mapping[str, Any], labels: Iterable[str]) -> dict[str, Any]:
    """The registers, and parts of some, that these labels name, as far as there are such."""
    wanted: dict[str, dict[str, str]] = {}
    for label in labels:
        name, written = split(label)
        if name in held:
            wanted.setdefault(name, {})[written] = label
    return {
        of[written]: part for name, of in wanted.items() for written, part in parts_at(held[name], of).items()
    }
