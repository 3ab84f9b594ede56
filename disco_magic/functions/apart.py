"""Measure how far apart workers are in what differs, by exchanges among themselves.

That something differs is known before: what cannot be explained is left out, and raises nothing. Who takes
part in which exchange follows from rows that are the same on all members.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.core.divergence import to_explain
from disco_magic.core.registers import nearest
from disco_magic.functions.participants import among
from disco_magic.phrases import ranges
from disco_magic.values.distances import elements_compared, gap, is_of
from disco_magic.values.frames import COLUMN
from disco_magic.values.lookalikes import MOST_ITEMS, numbers_apart, numbers_in, texts_apart, texts_in
from disco_magic.values.members import NOTHING
from disco_magic.values.parts import part_at
from disco_magic.values.subscripts import indexed_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from disco_magic.core.check_row import CheckRow
    from disco_magic.core.circles import Workers
    from disco_magic.core.topology import Over
    from disco_magic.functions.trees import Trees
    from disco_magic.values.distances import Array


def told_apart_by(
    me: Trees, rows: tuple[CheckRow, ...], held: Mapping[str, Any], over: Over | None
) -> tuple[CheckRow, ...]:
    """Return the rows; the first few that differ only in value also say how far apart they are.

    Args:
        me: the calling worker; all members of its call call this.
        rows: the same on all of them.
        held: what the calling worker holds, by the names of rows, or of what the rows are parts of.
        over: the members, as for a collective; None: all workers.
    """
    said: dict[str, str] = {}
    for row in to_explain(rows):
        (place, circle), shape = row.first_differing, row.shape
        if me.id in circle:
            part = part_of(held, row.name)
            text = _of_numbers(me, part, row) if shape is None else _of_arrays(me, part, shape, circle)
            if row.type == COLUMN:
                text = _of_texts(me, part, row) or text
            if text:
                said[row.name] = f"{place}: {text}" if place else text
    for each in me.allgather_objects(said, **among(over)):
        said |= each
    return tuple(replace(row, gap=said.get(row.name, "")) for row in rows)


def _of_arrays(me: Trees, array: Any, shape: tuple[int, ...], circle: Workers) -> str:
    """How far the arrays of a circle are apart, on its first worker; "" on the others, or if unknown."""
    if math.prod(shape) < 2:  # the row shows its only value
        return ""
    elements = attempt(elements_compared, array)
    if elements is not None and not is_of(elements, shape):
        elements = None
    samples = gathered(me, elements, circle)
    return attempt(gap, samples, shape) or "" if samples else ""


def gathered(me: Trees, elements: Array | None, circle: Workers) -> list[Array]:
    """The elements that the members of a circle bring, on its first worker; empty on the others.

    Empty on all if a member has none, or if their sizes differ.
    """
    return next(gathered_in_blocks(me, elements, circle, 0), [])


def gathered_in_blocks(
    me: Trees, elements: Array | None, circle: Workers, block: int
) -> Iterator[list[Array]]:
    """Yield as `gathered`, of so many elements at a time, 0: of all at once; on the other workers nothing.

    Nothing on all if a member has none, or if their sizes differ. All have to take all blocks.
    """
    raw = np.empty(0, np.uint8)
    if elements is not None and not elements.dtype.hasobject:  # of those there are only addresses
        raw = np.ascontiguousarray(elements).reshape(-1).view(np.uint8)
    sizes = me.allgather(np.array([raw.size]), over=circle).tolist()
    if elements is None or 0 in sizes or len(set(sizes)) > 1:
        return
    step = block * elements.dtype.itemsize or raw.size
    for start in range(0, raw.size, step):
        everybody_s = me.gather(raw[start : start + step], over=circle)
        if everybody_s is not None:
            yield list(everybody_s.reshape(len(circle), -1).view(elements.dtype))


def _of_numbers(me: Trees, container: Any, row: CheckRow) -> str:
    """Where the containers of numbers of `row.first_pair` first differ, on these two workers; else ""."""
    first, other = row.first_pair
    if me.id not in (first, other):
        return ""
    mine = attempt(numbers_in, container) or {}
    own, others = me.allgather_objects(mine, over=[first, other])
    why = attempt(numbers_apart, own, others, f"worker {first}'s")
    return f"{ranges((other,))} {why}" if why else ""


def _of_texts(me: Trees, column: Any, row: CheckRow) -> str:
    """As `_of_numbers`, for columns that no array describes, of texts or with missing values."""
    first, other = row.first_pair
    if me.id not in (first, other):
        return ""
    pair = [first, other]
    lacks = attempt(elements_compared, column) is None
    if not any(me.allgather_objects(lacks, over=pair)):
        return ""
    mine = attempt(texts_in, column, MOST_ITEMS) or []
    own, others = me.allgather_objects(mine, over=pair)
    # A thread of the worker may have put something else in its place since.
    why = attempt(lambda: texts_apart(own, others, column.length, f"worker {first}'s"))
    return f"{ranges((other,))} {why}" if why else ""


def attempt(function: Callable[..., Any], *given: Any) -> Any:
    """Return what the function returns; None if it raises."""
    try:
        return function(*given)
    except Exception:  # noqa: BLE001 - that something differs is known already, and must not be lost
        return None


def part_of(held: Mapping[str, Any], name: str) -> Any:
    """The value or part of that name; `NOTHING` if there is none."""
    around = nearest(name, held)
    if around is None:
        return NOTHING
    written = name[len(around) :]
    part = part_at(held[around], written)
    return indexed_at(held[around], written) if part is NOTHING and written else part
