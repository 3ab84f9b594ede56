"""Values that may differ a little: ``worker.check(model, rtol=1e-5)``.

What differs bit for bit is known before. Of that, arrays and numbers are compared as a whole on the first of
the workers that have to agree; what is near enough counts as equal.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.functions.apart import attempt, gathered_in_blocks, part_of
from disco_magic.functions.participants import among
from disco_magic.values.columns import facts_of, facts_of_labels
from disco_magic.values.content import tells_all
from disco_magic.values.distances import distance, equal
from disco_magic.values.elements import elements_of
from disco_magic.values.fingerprint import fingerprint
from disco_magic.values.frames import COLUMN, Column, is_table
from disco_magic.values.inside import content_of
from disco_magic.values.kinds import type_name
from disco_magic.values.samples import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disco_magic.core.check_row import CheckRow
    from disco_magic.core.circles import Workers
    from disco_magic.core.topology import Over
    from disco_magic.functions.trees import Trees
    from disco_magic.values.columns import Facts
    from disco_magic.values.distances import Array

_EXACT = frozenset("biu")
_BLOCK = 1 << 20  # elements of each worker that are compared at a time


class Tolerance(NamedTuple):
    """How far a number may be from `first`, the first worker's: ``atol + rtol * |first|``."""

    rtol: float = 0.0
    atol: float = 0.0

    def __str__(self) -> str:
        """In words; "" if nothing may differ."""
        return f"rtol={self.rtol:g}, atol={self.atol:g}" if self else ""

    def __bool__(self) -> bool:
        return self != (0.0, 0.0)

    def covers(self, first: Array, other: Array) -> bool:
        """Whether all elements are near enough; integers, bools and what is no number only if equal."""
        if not _may_differ(first.dtype) or first.dtype != other.dtype:
            return bool(equal(first, other).all())
        apart = distance(first, other)
        with np.errstate(all="ignore"):
            wide = first if first.dtype.kind == "c" else first.astype(apart.dtype)
            most = self.atol + self.rtol * np.abs(wide)
        return bool(((apart == 0) | (np.isfinite(apart) & (apart <= most))).all())


def _may_differ(dtype: np.dtype[Any]) -> bool:
    """Whether numbers of that dtype may differ a little: integers and bools have to be equal."""
    return is_number(dtype) and dtype.kind not in _EXACT


def tolerance_of(rtol: object, atol: object) -> Tolerance:
    """The tolerance that ``rtol=`` and ``atol=`` specify."""
    return Tolerance(_number("rtol", rtol), _number("atol", atol))


def _number(name: str, value: object) -> float:
    is_real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    with suppress(OverflowError):  # an int that is too large for a float
        if is_real and 0 <= float(value) < math.inf:  # type: ignore[arg-type]
            return float(value)  # type: ignore[arg-type]
    raise UsageMistake(f"check: {name}={value!r} - expected a number, 0 or above")


def near_enough(
    me: Trees,
    rows: tuple[CheckRow, ...],
    held: Mapping[str, Any],
    tolerance: Tolerance,
    over: Over | None,
) -> tuple[CheckRow, ...]:
    """Return the rows, with those workers marked as near whose values alone differ, by no more than that.

    All members call this, with the same rows; otherwise like `told_apart_by`.
    """
    near: dict[str, list[Workers]] = {}
    for row in rows:
        if row.aspects != ("value",):
            continue
        for _, circle in row.differing:
            if me.id not in circle:
                continue
            first = row.cells[circle[0]]
            is_array = first is not None and first.dtype is not None and first.type != COLUMN
            are_near = _arrays_are if is_array else _numbers_are
            if are_near(me, part_of(held, row.name), circle, tolerance):
                near.setdefault(row.name, []).append(circle)
    everybody_s = me.allgather_objects(near, **among(over))
    return tuple(
        replace(row, near=frozenset(circle for each in everybody_s for circle in each.get(row.name, ())))
        for row in rows
    )


def _arrays_are(me: Trees, array: Any, circle: Workers, tolerance: Tolerance) -> bool:
    """Whether the arrays of a circle are near the first worker's; known to that one, False on the others."""
    found = [
        attempt(tolerance.covers, first, other)
        for first, *others in gathered_in_blocks(me, attempt(_all_of, array), circle, _BLOCK)
        for other in others
    ]
    return bool(found) and all(found)


def _all_of(array: Any) -> Array:
    elements = elements_of(array)
    return elements.sample(max(1, math.prod(elements.shape)))


class _Numbers(NamedTuple):
    """A number, a column, or a container's own items: items with parts are values of their own.

    Attributes:
        exact: digest of all that has to be equal.
        inexact: the numbers that may differ a little, in order, by type; of a column by part.
    """

    exact: bytes
    inexact: dict[str, Array]


def _numbers_are(me: Trees, value: Any, circle: Workers, tolerance: Tolerance) -> bool:
    """Like `_arrays_are`, for numbers and containers; known to all of them."""
    first, *others = me.allgather_objects(attempt(_numbers_of, value), over=circle)
    return first is not None and all(
        other is not None
        and other.exact == first.exact
        and all(tolerance.covers(first.inexact[kind], other.inexact[kind]) for kind in first.inexact)
        for other in others
    )


def _numbers_of(value: Any) -> _Numbers | None:
    """The numbers of a value; None if it has no items whose places are known."""
    if type(value) is Column:
        return _of_facts(facts_of(value) or [])
    content = content_of(value)
    if content is None:
        items, places = [("", value)], []
        if not tells_all(type(value)):
            return None
    elif content.places is None:
        return None
    else:
        # Where the other items stand between these is part of the value, if it has an order.
        items, places = list(content.parts(plain=True)), list(content.places) if content.in_order else []
        if not content.in_order:
            items.sort(key=itemgetter(0))
    inexact: dict[str, list[Any]] = {}
    for _, item in items:
        if _is_inexact(item):
            inexact.setdefault(type_name(type(item)), []).append(item)
    rest = [(label, type_name(type(item)) if _is_inexact(item) else item) for label, item in items]
    labels = facts_of_labels(value) if is_table(type(value)) else []
    if labels is None:
        return None
    exact = fingerprint([type_name(type(value)), rest, places, labels])
    return _Numbers(exact, {kind: np.array(numbers) for kind, numbers in inexact.items()})


def _of_facts(facts: Facts) -> _Numbers:
    near = {
        str(number): fact
        for number, fact in enumerate(facts)
        if type(fact) is np.ndarray and _may_differ(fact.dtype)
    }
    rest = [f"{near[key].dtype}" if (key := str(n)) in near else fact for n, fact in enumerate(facts)]
    return _Numbers(fingerprint(rest), near)


def _is_inexact(value: object) -> bool:
    kind = type(value)
    if issubclass(kind, np.generic):
        return _may_differ(value.dtype)  # type: ignore[attr-defined]
    return kind in (float, complex)
