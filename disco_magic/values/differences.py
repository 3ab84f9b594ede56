"""How far apart two values are: exact, over all elements, a part at a time."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import NoPicture
from disco_magic.phrases import class_name
from disco_magic.values.columns import facts_of_labels
from disco_magic.values.compared import look_into_parts
from disco_magic.values.distances import distance, equal
from disco_magic.values.elements import CHUNK, Walk, check_count, elements_of, plane_of
from disco_magic.values.fingerprint import fingerprint
from disco_magic.values.frames import is_table
from disco_magic.values.inside import plain_copy
from disco_magic.values.kinds import is_long, type_name
from disco_magic.values.lookalikes import why_apart
from disco_magic.values.pictures import Picture, text_of
from disco_magic.values.samples import is_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic.values.elements import Array, Elements, Progress
    from disco_magic.values.pictures import Indices
    from disco_magic.values.windows import Cut, Window

_LABELS_DIFFER: Final = "their labels differ"
_UNKNOWN: Final = "what is in them is not compared as a whole"
_PARTLY: Final = "no difference was found in the elements that were compared"
_MOST: Final = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """How far apart two values are.

    Attributes:
        picture: the distances in the window; for a tile of several elements, the largest. None if the values
            cannot be subtracted.
        max_abs: the largest ``|a - b|`` of all elements; infinity where one alone is NaN or infinite. None
            as above.
        max_rel: the largest ``|a - b| / max(|a|, |b|)``. None as above.
        where: index of the first element that is `max_abs` apart; if they cannot be subtracted, of the first
            that differs. None if none does.
        spot: its row and column in the picture's plane; None if it lies in another.
        values: the elements there, in a and in b, as text.
        differing: how many elements differ as numbers: NaN equals NaN, 0.0 equals -0.0. None if that is not
            known.
        size: how many elements there are; 1 if the values are no arrays.
        reason: why they cannot be subtracted, and whether they are equal; "" if they can.
        note: what to know about the result, else "".
    """

    picture: Picture | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    where: tuple[int, ...] | None = None
    spot: tuple[int, int] | None = None
    values: tuple[str, str] | None = None
    differing: int | None = None
    size: int = 1
    reason: str = ""
    note: str = ""


def difference_of(
    a: Any,
    b: Any,
    window: Window,
    limit: int = 128,
    progress: Progress | None = None,
    *,
    chunk: int = CHUNK,
) -> Difference:
    """Return how far apart two values are, over all their elements; exact as `distances.distance`.

    Args:
        a: an array of NumPy, CuPy, PyTorch or JAX, or any value.
        b: another.
        window: the part of which a picture is made.
        limit: maximum number of rows, and of columns, of the picture; if there are more, tiles are formed.
        progress: called as ``progress(done, total)``, in elements, after each part; returning False stops,
            and exceptions that it raises propagate. Elements in the picture count twice.
        chunk: elements per part.

    Raises:
        NoPicture: the window does not fit into the arrays.
        Stopped: `progress` returned False before the end.

    Cost: 5 to 15 ns per element in one thread, those in the picture included; memory of a few parts.
    """
    limit, chunk = check_count("limit", limit), check_count("chunk", chunk)
    try:
        one, other = elements_of(a), elements_of(b)
    except NoPicture:
        return _of_values(a, b)
    size = math.prod(one.shape)
    if one.shape != other.shape or _labels_differ(a, b):
        shapes = f"their shapes differ: {one.shape} and {other.shape}"
        return Difference(size=size, reason=_LABELS_DIFFER if one.shape == other.shape else shapes)
    if not size:
        return Difference(differing=0, size=0)
    cut = window.fit(one.shape)
    walk = Walk(size + len(cut.rows) * len(cut.columns), chunk, progress)
    found = _Found()
    for index in walk.parts(one.shape):
        first, second = one[index], other[index]
        if not _comparable(first, second):
            names = one.name if one.name == other.name else f"{one.name} and {other.name}"
            return Difference(size=size, reason=f"elements of type {names} cannot be compared")
        found.add(tuple(part.start for part in index), first, second)
    told = found.told(one, other, size)
    if told.reason:
        return told
    spot = None if told.where is None else _spot(told.where, cut)
    return replace(told, picture=_picture(one, other, cut, limit, walk), spot=spot)


def _spot(where: tuple[int, ...], cut: Cut) -> tuple[int, int] | None:
    """Row and column of an element in the plane of a cut; None if it lies in another plane."""
    if tuple(place for axis, place in enumerate(where) if axis not in cut.axes) != cut.fixed:
        return None
    row, column = (0, 0, *(where[axis] for axis in cut.axes))[-2:]
    return row, column


def _comparable(one: Array, other: Array) -> bool:
    if is_number(one.dtype) and is_number(other.dtype):
        return True
    # Arrays that hold objects would run their code.
    return one.dtype == other.dtype and not one.dtype.hasobject


class _Found:
    """What was found in the parts so far."""

    def __init__(self) -> None:
        self.differing = 0
        self._numbers = True
        self._max_abs: Any = 0
        self._max_rel = 0.0
        self._where: tuple[int, ...] | None = None

    def add(self, corner: tuple[int, ...], one: Array, other: Array) -> None:
        """Add a part of both arrays that begins at `corner`."""
        self._numbers = is_number(one.dtype)
        # How far apart elements are, or whether they differ.
        apart = distance(one, other) if self._numbers else ~equal(one, other)
        differing = int(np.count_nonzero(apart))
        if not differing:
            return
        self.differing += differing
        place = int(apart.argmax())
        largest = apart.reshape(-1)[place]
        if self._where is None or largest > self._max_abs:
            inside = np.unravel_index(place, apart.shape)
            self._where = tuple(start + int(step) for start, step in zip(corner, inside, strict=True))
            self._max_abs = largest
        if self._numbers:
            differs = apart != 0
            self._max_rel = max(self._max_rel, _relative(apart[differs], one[differs], other[differs]))

    def told(self, one: Elements, other: Elements, size: int) -> Difference:
        """Return the result, without the picture."""
        values = None
        where, differing = self._where, self.differing
        if where is not None:
            spot = tuple(slice(position, position + 1) for position in where)
            ends = [each[spot].reshape(-1) for each in (one, other)]
            values = (text_of(ends[0][0], ends[0].dtype), text_of(ends[1][0], ends[1].dtype))
        told = Difference(where=where, values=values, differing=differing, size=size)
        if not self._numbers:
            verdict = f"{differing:,} of {size:,} differ" if differing else "they are equal"
            return replace(told, reason=f"elements of type {one.name} cannot be subtracted; {verdict}")
        note = (
            ""
            if one.name == other.name
            else f"{one.name} and {other.name} were compared as {_common({one.name, other.name})}"
        )
        return replace(told, max_abs=float(self._max_abs), max_rel=self._max_rel, note=note)


def _common(names: set[str]) -> str:
    """As what numbers of two dtypes were compared, in words; see `distance`."""
    return "numbers" if any(name.endswith(("int64", "i8", "u8")) for name in names) else "float64"


def _relative(apart: Array, one: Array, other: Array) -> float:
    """The largest relative distance, of elements that differ."""
    with np.errstate(all="ignore"):
        larger = np.maximum(_size_of(one), _size_of(other))
        relative = apart.astype(larger.dtype) / larger
    # Infinity is infinitely far from a finite number, and so is NaN from any number.
    return float(np.where(np.isnan(relative), np.inf, relative).max())


def _size_of(numbers: Array) -> Array:
    wide = np.longdouble if is_long(numbers.dtype) else np.float64
    return np.abs(numbers if numbers.dtype.kind == "c" else numbers.astype(wide)).astype(wide)


def _picture(one: Elements, other: Elements, cut: Cut, limit: int, walk: Walk) -> Picture:
    """The picture with the largest distance in each tile of a cut."""
    rows, columns = _tiles(cut.rows, limit), _tiles(cut.columns, limit)
    values = np.zeros((len(rows), len(columns)))
    is_complex = False
    for some_rows, some_columns in _pieces(cut, rows, walk.chunk):
        first, second = (plane_of(each, cut, some_rows, some_columns) for each in (one, other))
        is_complex = is_complex or first.dtype.kind == "c"
        apart = distance(first, second).max(axis=0).astype(np.float64)
        row = int(np.searchsorted(rows, some_rows.start, side="right")) - 1
        tiles = slice(
            int(np.searchsorted(columns, some_columns.start, side="right")) - 1,
            int(np.searchsorted(columns, some_columns.stop)),
        )
        starts = np.maximum(columns[tiles] - some_columns.start, 0)
        values[row, tiles] = np.maximum(values[row, tiles], np.maximum.reduceat(apart, starts))
        walk.passed(first.size)
    what = f"|{one.name}|" if is_complex else one.name
    thinned = len(rows) < len(cut.rows) or len(columns) < len(cut.columns)
    return Picture(values, rows, columns, one.shape, cut.extents, what, thinned)


def _tiles(span: range, limit: int) -> Indices:
    """Where at most `limit` parts of `span` begin, of about equal lengths."""
    count = min(len(span), limit)
    return span.start + np.arange(count) * len(span) // count


def _pieces(cut: Cut, rows: Indices, chunk: int) -> Iterator[tuple[range, range]]:
    """Yield rectangles of at most `chunk` elements that cover the cut; none spans two rows of tiles."""
    width = min(len(cut.columns), chunk)
    height = max(1, chunk // width)
    for first, last in zip(rows, [*rows[1:], cut.rows.stop], strict=True):
        for top in range(first, last, height):
            for left in range(cut.columns.start, cut.columns.stop, width):
                yield range(top, min(top + height, last)), range(left, min(left + width, cut.columns.stop))


# --- what is no array ------------------------------------------------------------------------------


def _of_values(a: Any, b: Any) -> Difference:
    """Compare values of which at least one is no array: whether they are equal, if that is known."""
    names = " and ".join(dict.fromkeys((class_name(a), class_name(b))))
    cannot = f"values of type {names} cannot be subtracted"
    # By name: each worker has a class of its own if a cell defines it.
    if type_name(type(a)) != type_name(type(b)):
        return Difference(differing=1, reason=f"{cannot}; they differ")
    where = why_apart(a, b, "the first one's")
    if not where and _labels_differ(a, b):
        return Difference(differing=1, reason=f"{cannot}; {_LABELS_DIFFER}")
    if where:
        return Difference(differing=1, reason=f"{cannot}; they differ: {where}")
    held = [plain_copy([each], _MOST) for each in (a, b)]
    if None not in held:
        same = fingerprint(held[0]) == fingerprint(held[1]) or _are_same(*held)
    else:
        seen = [look_into_parts([each], sys.maxsize) for each in (a, b)]
        if not all(each.fingerprint for each in seen):
            return Difference(reason=f"{cannot}; {_UNKNOWN}")
        same = seen[0].fingerprint == seen[1].fingerprint
        if same and any(each.is_part for each in seen):
            return Difference(reason=f"{cannot}; {_PARTLY}")
    return Difference(differing=int(not same), reason=f"{cannot}; they {'are equal' if same else 'differ'}")


def _are_same(one: Any, other: Any) -> bool:
    """Whether plain values are equal with all their types: for `==`, 1 is True, and NaN is no NaN."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is dict:  # has no order
        keys, items = zip(*map(_sorted, (one, other)), strict=True)
        return keys[0] == keys[1] and _are_same(*items)
    if kind in (list, tuple):
        return len(one) == len(other) and all(map(_are_same, one, other))
    return fingerprint(one) == fingerprint(other)


def _sorted(held: dict[Any, Any]) -> tuple[list[bytes], list[Any]]:
    """Fingerprints of keys, in their order, and the items."""
    pairs = sorted(((fingerprint(key), item) for key, item in held.items()), key=itemgetter(0))
    return [key for key, _ in pairs], [item for _, item in pairs]


def _labels_differ(a: Any, b: Any) -> bool:
    """Whether two tables of one class are known to have other row or column labels."""
    if type(a) is not type(b) or not is_table(type(a)):
        return False
    labels = facts_of_labels(a), facts_of_labels(b)
    return None not in labels and fingerprint(labels[0]) != fingerprint(labels[1])
