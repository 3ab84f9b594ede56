"""What a worker holds in its registers, and what of it is meant to be equal: the worker's side of a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.core.held import Found
from disco_magic.core.registers import RegisterFile, inside, is_within, nearest, register_of
from disco_magic.errors.mistakes import about
from disco_magic.functions.marks import is_anonymous
from disco_magic.values.divergence import survey
from disco_magic.values.inside import PARTS_BY_VALUE, parts_of
from disco_magic.values.members import NOTHING
from disco_magic.values.parts import parts_at, split
from disco_magic.values.subscripts import indexed_at

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from disco_magic.core.device import Device
    from disco_magic.core.held import Held
    from disco_magic.functions.marks import Marks

    # Registers and parts -> axes of the mesh along which they are equal; empty: on all workers.
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
    """Survey the registers of the worker that these marks belong to.

    Args:
        marks: the worker's marks.
        marked: what they say now.
        names: survey only these registers, or parts of some; None: all.
        own: the worker's device.
        values: digest the values of `names`; without names, those of registers and parts marked as
            replicated, and of DTensors of which several workers have the same part.
        parts: with `names`, include those parts of them that have marks of their own.
    """
    told = dict(marked)
    for label in names or ():
        if register_of(label) in told:  # a part of a marked value is meant to be equal in the same way
            told.setdefault(label, told[register_of(label)])
    held = dict(marks.namespace)  # a thread of the user's may unbind a name
    public = {name: held[name] for name in RegisterFile(held).public_names()}
    if names is None:
        # Parts only if they are compared by value.
        labels = list(dict.fromkeys([*public, *(told if values else ())]))
    else:
        within = tuple(sign for name in names for sign in inside(name))
        labels = list(dict.fromkeys([*names, *(each for each in told if parts and each.startswith(within))]))
    found = parts_named(public, labels, indexed=True)
    registers: dict[str, Rows] = {}
    known: dict[str, Rows] = {}
    wanted = frozenset(labels)
    for label in labels:
        if label in found:
            by_value = values and (names is not None or label in told)
            rows = known.get(label)
            if rows is None:
                rows = survey(label, found[label], values=by_value, own=own, replicas=values)
                if by_value:  # parts of it with marks of their own need no further survey
                    known |= _by_part(rows, wanted)
            registers[label] = rows
    return Found(frozenset(), told, registers)


def values_found(values: tuple[Any, ...], own: Device) -> Found:
    """Survey these values, by number, ``"0"``; by value, without marks. `own` is the worker's device."""
    surveys = {
        str(number): survey(str(number), value, values=True, own=own) for number, value in enumerate(values)
    }
    return Found(frozenset(), {}, surveys)


def with_marks(found: Found, values: tuple[Any, ...], names: tuple[str, ...], marks: Marks) -> Found:
    """`values_found` of these values, with the marks of the registers, or parts of some, that they are.

    They are recognised by identity; numbers and texts by how they are written in the call, `names`.
    """
    held, marked = dict(marks.namespace), marks.now()
    # Kept alive: objects made for this survey, states of generators, must not pass their ids on to others.
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
    """By id, the marks of registers and of all that is in marked ones; what is seen is added to `kept`."""
    found: dict[int, tuple[str, ...]] = {}
    for name in dict.fromkeys(map(register_of, marked)):
        for path, part in parts_of(name, held.get(name), PARTS_BY_VALUE):
            axes = None if is_anonymous(part) else _innermost(path, marked)
            kept.append(part)
            if axes is not None:
                # Of several names, the mark for most workers counts.
                found[id(part)] = () if found.get(id(part)) == () else axes
    return found


def _innermost(path: str, marked: Marked) -> tuple[str, ...] | None:
    """The mark of a part, or of what contains it."""
    label = nearest(path, marked)
    return None if label is None else marked[label]


def _by_part(rows: Sequence[tuple[str, Held]], wanted: Container[str]) -> dict[str, Rows]:
    """The rows of each wanted part: they stand together, after the part's own row."""
    found: dict[str, Rows] = {}
    for begin, (path, _) in enumerate(rows):
        if path in wanted:
            end = begin + 1
            while end < len(rows) and is_within(rows[end][0], path):
                end += 1
            found[path] = tuple(rows[begin:end])
    return found


def parts_named(held: Mapping[str, Any], labels: Iterable[str], *, indexed: bool = False) -> dict[str, Any]:
    """The registers and parts of registers that these labels name, as far as they exist.

    With `indexed`, elements and slices of arrays, ``x[0:2]``, are parts, too. Then only the worker may ask,
    because what indexes an array may be the user's code; and not for an expression of a program's, ``x[i]``.

    Raises:
        UsageMistake: there is such an array, but not that index of it.
    """
    wanted: dict[str, dict[str, str]] = {}
    for label in labels:
        name, written = split(label)
        if name in held:
            wanted.setdefault(name, {})[written] = label
    found: dict[str, Any] = {}
    for name, of in wanted.items():
        parts = parts_at(held[name], of)
        for written, label in of.items():
            with about(label):
                other = indexed_at(held[name], written) if indexed and written not in parts else NOTHING
            if (part := parts.get(written, other)) is not NOTHING:
                found[label] = part
    return found
