"""What a worker holds in its registers, and which of it is meant to be equal: its side of a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.core.held import Found
from disco_magic.core.registers import RegisterFile, inside, is_within, register_of
from disco_magic.functions.divergence import survey
from disco_magic.functions.marks import is_anonymous
from disco_magic.functions.parts import NOTHING, part_at, parts_at, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from disco_magic.core.device import Device
    from disco_magic.functions.marks import Marks


def found_in(
    marks: Marks,
    own: Device,
    bound: frozenset[str],
    names: tuple[str, ...] | None,
    *,
    values: bool,
    parts: bool = False,
) -> Found:
    """What is in the registers of the worker that these marks are of.

    Args:
        marks: the worker's.
        own: its device.
        bound: names that its last checked cell bound.
        names: look at these only, registers or parts of some; None: at all.
        values: digest values of `names`; without names, those of registers and parts marked as replicated.
        parts: with `names`, also those parts of them that have marks of their own.
    """
    marks.settle()
    marked = dict(marks.names)
    for label in names or ():
        if register_of(label) in marked:  # a part of what is marked is meant to be equal as that is
            marked.setdefault(label, marked[register_of(label)])
    held = dict(marks.namespace)  # a thread of the user's may unbind one
    public = {name: held[name] for name in RegisterFile(held).public_names()}
    if names is None:
        # Of parts only those that are compared by value.
        labels = list(dict.fromkeys([*public, *(marked if values else ())]))
    else:
        within = tuple(sign for name in names for sign in inside(name))
        labels = list(
            dict.fromkeys([*names, *(each for each in marked if parts and each.startswith(within))])
        )
    inner = _parts(public, [label for label in labels if label not in public])
    registers = {}
    for label in labels:
        value = public.get(label, inner.get(label, NOTHING))
        if value is not NOTHING:
            by_value = values and (names is not None or label in marked)
            registers[label] = survey(label, value, values=by_value, own=own)
    return Found(bound, marked, registers)


def _parts(public: Mapping[str, Any], labels: Iterable[str]) -> dict[str, Any]:
    """The parts of registers that these are, as far as there are such."""
    wanted: dict[str, dict[str, str]] = {}
    for label in labels:
        name, written = split(label)
        if name in public:
            wanted.setdefault(name, {})[written] = label
    return {
        of[written]: part
        for name, of in wanted.items()
        for written, part in parts_at(public[name], of).items()
    }


def marks_of(marks: Marks, value: Any, written: str) -> dict[str, tuple[str, ...]]:
    """The marks of a value and of what is in it, by what is written behind it: ``""``, ``".norm.weight"``.

    Args:
        marks: the worker's.
        value: what a call has been given.
        written: how it is written there; tells which name a number has, and of what a part is one.
    """
    held = dict(marks.namespace)  # a thread of the user's may unbind one
    names = [] if is_anonymous(value) else [name for name, bound in held.items() if bound is value]
    register, rest = split(written)
    if part_at(held.get(register), rest) is value:
        names.append(written)
    for name in names:
        found = {label[len(name) :]: axes for label, axes in marks.names.items() if is_within(label, name)}
        around = [label for label in marks.names if is_within(name, label)]
        if around:
            found[""] = marks.names[max(around, key=len)]
        if found:
            return found
    return {}
