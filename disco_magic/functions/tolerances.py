"""Values that may differ a little: ``worker.check(model, rtol=1e-5)``.

Known before is what differs bit for bit. Of that, arrays and numbers are put side by side as a whole on the
first of the workers that are to agree; what is near enough counts as equal.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.functions.apart import attempt, gathered, part_of
from disco_magic.functions.distances import distance, equal
from disco_magic.functions.elements import elements_of
from disco_magic.functions.samples import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.core.circles import Workers
    from disco_magic.core.divergence import CheckRow
    from disco_magic.core.topology import Over
    from disco_magic.functions.distances import Array
    from disco_magic.functions.objects import Objects

_EXACT = frozenset("biu")


class Tolerance(NamedTuple):
    """How far a number may be from the first worker's, `first`: ``atol + rtol * |first|``."""

    rtol: float = 0.0
    atol: float = 0.0

    def __str__(self) -> str:
        return f"rtol={self.rtol:g}, atol={self.atol:g}"

    def __bool__(self) -> bool:
        return self != (0.0, 0.0)

    def covers(self, first: Array, other: Array) -> bool:
        """Whether all elements are near enough; integers and bools, and what is no number, only if equal."""
        kind = first.dtype.kind
        if kind in _EXACT or not is_number(first.dtype) or first.dtype != other.dtype:
            return bool(equal(first, other).all())
        apart = distance(first, other)
        with np.errstate(all="ignore"):
            most = self.atol + self.rtol * np.abs(first if kind == "c" else first.astype(apart.dtype))
        return bool(((apart == 0) | (np.isfinite(apart) & (apart <= most))).all())


def tolerance_of(rtol: object, atol: object) -> Tolerance:
    """What ``rtol=`` and ``atol=`` say.

    Raises:
        UsageMistake: one of them is no number, or below 0, or infinite.
    """
    given = {"rtol": rtol, "atol": atol}
    for name, value in given.items():
        is_real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not is_real or not math.isfinite(value) or value < 0:  # type: ignore[arg-type,operator]
            raise UsageMistake(f"check: {name}={value!r} - expected a number, 0 or above")
    return Tolerance(float(rtol), float(atol))  # type: ignore[arg-type]


def near_enough(
    me: Objects,
    rows: tuple[CheckRow, ...],
    held: Mapping[str, Any],
    tolerance: Tolerance,
    over: Over | None,
) -> tuple[CheckRow, ...]:
    """The rows, in which workers count as equal whose values alone differ, and by no more than that.

    All members call this, with the same rows; otherwise as `told_apart_by`.
    """
    near: dict[str, list[Workers]] = {}
    for row in rows:
        if row.aspects != ("value",):
            continue
        for _, circle in row.differing:
            if me.id not in circle:
                continue
            part, is_array = part_of(held, row.name), row.cells[circle[0]].dtype is not None  # type: ignore[union-attr]
            are_near = _arrays_are if is_array else _numbers_are
            if are_near(me, part, circle, tolerance):
                near.setdefault(row.name, []).append(circle)
    for each in me.allgather_objects(near, in_group=over is not None, over=over):
        for name, circles in each.items():
            near[name] = [*near.get(name, ()), *circles]
    return tuple(replace(row, near=frozenset(near.get(row.name, ()))) for row in rows)


def _arrays_are(me: Objects, array: Any, circle: Workers, tolerance: Tolerance) -> bool:
    """Whether the arrays of a circle are near the first worker's; known on that one, False on the others."""
    everybody_s = gathered(me, attempt(_all_of, array), circle)
    return bool(everybody_s) and all(
        attempt(tolerance.covers, everybody_s[0], other) for other in everybody_s[1:]
    )


def _all_of(array: Any) -> Array:
    elements = elements_of(array)
    return elements.sample(max(1, math.prod(elements.shape)))


def _numbers_are(me: Objects, value: Any, circle: Workers, tolerance: Tolerance) -> bool:
    """As `_arrays_are`, of numbers, and of lists and dicts of nothing but numbers; known on all of them."""
    first, *others = me.allgather_objects(attempt(_numbers_of, value), over=circle)
    return first is not None and all(_are_near(first, other, tolerance) for other in others)


def _numbers_of(value: Any) -> tuple[object, list[Any]] | None:
    """What has to be equal, and the numbers; None of anything else."""
    if _is_plain(value):
        return type(value), [value]
    if type(value) in (list, tuple) and all(map(_is_plain, value)):
        return type(value), list(value)
    if type(value) is dict and all(map(_is_plain, value.values())):
        return list(value), list(value.values())
    return None


def _is_plain(value: object) -> bool:
    return type(value) in (int, float, complex) or isinstance(value, np.number)


def _are_near(
    first: tuple[object, Sequence[Any]], other: tuple[object, Sequence[Any]] | None, tolerance: Tolerance
) -> bool:
    if other is None or first[0] != other[0] or len(first[1]) != len(other[1]):
        return False
    return all(
        type(one) is type(another)
        and (one == another if type(one) is int else tolerance.covers(np.array([one]), np.array([another])))
        for one, another in zip(first[1], other[1], strict=True)
    )
