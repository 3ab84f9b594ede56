"""Parses lists of workers without evaluating code: ``0``, ``1,2``, ``1:3``, ``[0-2]``, ``all``, ``dp=0``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from disco_magic.core.words import plural
from disco_magic.errors import UsageMistake
from disco_magic.notebook.option_types import unquoted

if TYPE_CHECKING:
    from disco_magic.core.mesh import Mesh
    from disco_magic.core.topology import Topology

_NUMBER = re.compile(r"-?\d+")
_SLICE = re.compile(r"(-?\d*):(-?\d*)(?::(-?\d*))?")
_RANGE = re.compile(r"(\d+)-(\d+)(?::(\d+))?")
_PRINTED = re.compile(r"\[([^][]+)]")


def parse_workers(text: str | None, topology: Topology) -> tuple[int, ...] | None:
    """The workers that `text` names, ascending, each once; None if it names all of them.

    Commas join parts. A part is a number (``2``; ``-1`` is the last worker), a range with both ends
    (``0-2``, ``0-12:3`` with a step, as tables write them), a Python slice (``1:3``, ``::2``: the end is
    excluded) or ``all``. Or all parts are coordinates in the mesh: ``dp=0,tp=1:3`` are the workers at 0 along
    dp and at 1 or 2 along tp. Brackets around it, as tables and errors have them, change nothing.
    """
    listed = list_workers(text, topology)
    return None if listed is None else tuple(sorted(listed))


def list_workers(text: str | None, topology: Topology) -> tuple[int, ...] | None:
    """Like `parse_workers`, but in the order in which they are named: ``2,0`` compares 2 with 0."""
    if text is None:
        return None
    text = unquoted(text)
    if printed := _PRINTED.fullmatch(text.strip()):
        text = printed[1]
    if text.strip().lower() == "all":
        return None
    if "=" in text:
        return _at(text, topology.mesh)
    chosen: dict[int, None] = {}
    for part in text.split(","):
        chosen.update(dict.fromkeys(_part(part.strip(), text, topology.num_workers)))
    return tuple(chosen)


def workers_of_group(group: int | None, topology: Topology) -> tuple[int, ...] | None:
    """The workers of one group, or None when `group` is None."""
    if group is None:
        return None
    groups = topology.num_groups
    if not 0 <= group < groups:
        raise UsageMistake(
            f"there is no group {group}: this session has {plural(groups, 'group')} ({_span(groups)}); "
            "choose one of them"
        )
    return topology.members(group)


def _at(text: str, mesh: Mesh) -> tuple[int, ...]:
    """The workers at coordinates in the mesh; an axis that is not named does not matter."""
    places: dict[str, range] = {}
    for part in text.split(","):
        name, sign, value = (each.strip() for each in part.partition("="))
        if not sign or name in places:
            raise UsageMistake(
                f"{text!r} names no workers: write each axis of the mesh once, dp=0,tp=1:3, or ids alone"
            )
        length = mesh[name]
        try:
            places[name] = _part(value, value, length)
        except UsageMistake:
            raise UsageMistake(
                f"{text!r} names nobody: {name} goes from 0 to {length - 1}; write {name}=0, {name}=0:2 or "
                f"{name}=::2"
            ) from None
    at = [mesh.coordinates(each) for each in range(mesh.num_workers)]
    return tuple(
        worker for worker, each in enumerate(at) if all(each[name] in places[name] for name in places)
    )


def _part(part: str, text: str, num_workers: int) -> range:
    if part.lower() == "all":
        return range(num_workers)
    if _NUMBER.fullmatch(part):
        return _single(int(part), text, num_workers)
    if found := _RANGE.fullmatch(part):
        return _inclusive(int(found[1]), int(found[2]), int(found[3] or 1), text, num_workers)
    if found := _SLICE.fullmatch(part):
        return _sliced(found, text, num_workers)
    raise UsageMistake(
        f"{text!r} names no workers: write numbers and ranges like 0, 1,2, 1:3, 0-2, ::2 or all "
        f"(this session has workers {_span(num_workers)})"
    )


def _single(number: int, text: str, num_workers: int) -> range:
    worker = number + num_workers if number < 0 else number
    if not 0 <= worker < num_workers:
        raise _absent(number, text, num_workers)
    return range(worker, worker + 1)


def _inclusive(first: int, last: int, step: int, text: str, num_workers: int) -> range:
    if step == 0:
        raise _no_step(text)
    if last < first:
        raise UsageMistake(f"{first}-{last} in {text!r} runs backwards: write {last}-{first}")
    if last >= num_workers:
        raise _absent(last, text, num_workers)
    return range(first, last + 1, step)


def _sliced(found: re.Match[str], text: str, num_workers: int) -> range:
    """A slice whose ends are checked, unlike Python's: ``2:9`` of 4 workers is a mistake, not ``2:4``."""
    start, stop, step = (int(value) if value else None for value in found.groups())
    if step == 0:
        raise _no_step(text)
    if start is not None and not -num_workers <= start < num_workers:
        raise _absent(start, text, num_workers)
    if stop is not None and not -num_workers <= stop <= num_workers:
        raise _absent(stop - 1, text, num_workers)
    workers = range(num_workers)[slice(start, stop, step)]
    if not workers:
        raise UsageMistake(
            f"{text!r} names no worker of {_span(num_workers)}; the end of a slice is left out"
        )
    return workers


def _no_step(text: str) -> UsageMistake:
    return UsageMistake(f"a step of 0 in {text!r} names no workers: write 1 or more")


def _absent(number: int, text: str, num_workers: int) -> UsageMistake:
    # Whoever writes `%%disco --workers 8` may want to have eight.
    many = "; %disco start -n says how many there are" if text.isdecimal() else ""
    return UsageMistake(
        f"there is no worker {number} (asked for by {text!r}): this session has "
        f"{plural(num_workers, 'worker')}, {_span(num_workers)}{many}"
    )


def _span(count: int) -> str:
    return "0" if count == 1 else f"0-{count - 1}"
