"""How far apart workers are in what differs, found out among themselves; all of them are in one call.

What differs is known before: whatever cannot be explained is left unexplained, and takes nothing with it. Who
takes part in which exchange follows from rows that all have alike.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.core.divergence import to_explain
from disco_magic.core.registers import nearest
from disco_magic.phrases import ranges
from disco_magic.values.gaps import elements_compared, gap, is_of
from disco_magic.values.lookalikes import numbers_apart, numbers_in
from disco_magic.values.parts import NOTHING, part_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from disco_magic.core.check_row import CheckRow
    from disco_magic.core.circles import Workers
    from disco_magic.core.topology import Over
    from disco_magic.functions.objects import Objects
    from disco_magic.values.distances import Array


def told_apart_by(
    me: Objects, rows: tuple[CheckRow, ...], held: Mapping[str, Any], over: Over | None
) -> tuple[CheckRow, ...]:
    """The rows, and how far apart the first few are whose values alone differ.

    Args:
        me: the calling worker; all members of its call call this.
        rows: the same on all of them.
        held: what the calling worker holds, by the names of rows, or of what these are parts of.
        over: the members, as in a collective of theirs; None: all workers.
    """
    said: dict[str, str] = {}
    for row in to_explain(rows):
        (place, circle), shape = row.first_differing, row.shape
        if me.id in circle:
            part = part_of(held, row.name)
            text = _of_numbers(me, part, row) if shape is None else _of_arrays(me, part, shape, circle)
            if text:
                said[row.name] = f"{place}: {text}" if place else text
    for each in me.allgather_objects(said, in_group=over is not None, over=over):
        said |= each
    return tuple(replace(row, gap=said.get(row.name, "")) for row in rows)


def _of_arrays(me: Objects, array: Any, shape: tuple[int, ...], circle: Workers) -> str:
    """How far the arrays of a circle are apart, on its first worker; "" on the others, or if unknown."""
    if math.prod(shape) < 2:  # its value stands there
        return ""
    elements = attempt(elements_compared, array)
    if elements is not None and not is_of(elements, shape):
        elements = None
    samples = gathered(me, elements, circle)
    return attempt(gap, samples, shape) or "" if samples else ""


def gathered(me: Objects, elements: Array | None, circle: Workers) -> list[Array]:
    """The elements that the members of a circle bring, on its first worker; none on the others.

    None at all if somebody has none, or if they are not of one size.
    """
    raw = np.empty(0, np.uint8)
    if elements is not None:
        raw = np.ascontiguousarray(elements).reshape(-1).view(np.uint8)
    sizes = me.allgather(np.array([raw.size]), over=circle).tolist()
    if 0 in sizes or len(set(sizes)) > 1:
        return []
    everybody_s = me.gather(raw, over=circle)
    if everybody_s is None or elements is None:
        return []
    return list(everybody_s.reshape(len(circle), -1).view(elements.dtype))


def _of_numbers(me: Objects, container: Any, row: CheckRow) -> str:
    """Where containers of numbers differ first: of the first worker's that does; as `_of_arrays`."""
    first, other = row.first_pair
    if me.id not in (first, other):
        return ""
    mine = attempt(numbers_in, container) or {}
    own, others = me.allgather_objects(mine, over=[first, other])
    why = attempt(numbers_apart, own, others, f"worker {first}'s")
    return f"{ranges((other,))} {why}" if why else ""


def attempt(function: Callable[..., Any], *given: Any) -> Any:
    """What a function gives; None if it cannot."""
    try:
        return function(*given)
    except Exception:  # noqa: BLE001 - that something differs is known already, and must not be lost for this
        return None


def part_of(held: Mapping[str, Any], name: str) -> Any:
    """What is called so, or the part of it, `NOTHING` if there is none."""
    around = nearest(name, held)
    return NOTHING if around is None else part_at(held[around], name[len(around) :])
