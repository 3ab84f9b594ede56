"""What is in a value: the parts of containers and data frames; for objects, see `fields`.

Only what can be read without running user code: no ``__iter__``, ``__hash__``, ``__eq__`` or property of the
user's classes is called, and none of their metaclasses either. So only containers of exactly the types below
are looked into, and objects whose attributes are in their dictionaries: those of dataclasses, and of the
user's own classes, which come from a cell or from a file that is no library's.
"""

from __future__ import annotations

import types
from collections import Counter, OrderedDict, defaultdict, deque
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from disco_magic.callers.callers_worker import CallersWorker
from disco_magic.values.content import Content, are_places, dotted, kinds_of, subscript, tells_all
from disco_magic.values.fields import content_of_object
from disco_magic.values.fingerprint import CONTAINER_IDS, PLAIN_IDS, number_text
from disco_magic.values.frames import column_of, columns_of, is_frame, is_series, is_table, levels_of
from disco_magic.values.kinds import (
    LAZY_IMPORT,
    is_numpy_number,
    is_of_framework,
    name_of,
    qualname_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPTH: Final = 8
"""Containers in so many others are not looked into."""
PARTS: Final = 1000
"""How many parts of a value are looked at; and if they are compared by value, which takes longer:"""
PARTS_BY_VALUE: Final = 10_000
_DICTS: Final = frozenset(map(id, (dict, defaultdict, Counter)))
_ORDERED: Final = id(OrderedDict)
_LISTS: Final = frozenset(map(id, (list, tuple, deque)))
_SETS: Final = frozenset(map(id, (set, frozenset)))
# Values that are described by their names.
_ATOMS: Final = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    np.dtype,
    np.ufunc,
    CallersWorker,
)
# This many characters count as one item.
_TEXT: Final = 100
_BITS: Final = 10_000


def is_atom(value: Any) -> bool:
    """Whether a value is a class, function, module or the like."""
    return issubclass(type(value), _ATOMS) or type(value) is LAZY_IMPORT


def plain_copy(value: Any, room: int) -> Any:
    """Copy a list, tuple, dict or set of numbers and texts, and of such containers; None for any other.

    Args:
        value: another thread may be filling it.
        room: maximum number of items, including those of containers in it; a long text counts by its length.
    """
    try:
        return _copied(value, [room])
    except (ValueError, RuntimeError):
        return None


def _copied(value: Any, room: list[int]) -> Any:
    kind = type(value)
    room[0] -= 1 + (len(value) // _TEXT if kind in (str, bytes) else 0)
    if room[0] < 0 or (id(kind) in CONTAINER_IDS and len(value) > room[0]):
        raise ValueError
    if id(kind) in PLAIN_IDS or is_numpy_number(kind):
        if kind is int and value.bit_length() > _BITS:  # Python may refuse to write it
            raise ValueError
        return value
    if id(kind) not in CONTAINER_IDS:
        raise ValueError
    if kind is dict:
        return {_copied(key, room): _copied(item, room) for key, item in value.copy().items()}
    return kind([_copied(item, room) for item in list(value)])


class Seen:
    """The contents of a value and of all that is in it, each found once: an object may be in many places."""

    def __init__(self) -> None:
        # By identity: each is kept by the content of what it is in, and the outermost by the caller.
        self._contents: dict[int, Content | None] = {}
        self._plain: dict[int, bool] = {}

    def content(self, value: Any) -> Content | None:
        """See `content_of`."""
        key = id(value)
        if key not in self._contents:
            self._contents[key] = content_of(value)
        return self._contents[key]

    def has_parts(self, value: Any) -> bool:
        """Whether there is anything in `value` except numbers and text."""
        key = id(value)
        if key not in self._plain:
            content = self.content(value)
            self._plain[key] = content is None or content.is_plain
        return not self._plain[key]


class Above(NamedTuple):
    """Stands in for a part that contains itself, because a cycle would have no end: the path of the whole."""

    path: str


def parts_of(name: str, value: Any, most: int = PARTS) -> Iterator[tuple[str, Any]]:
    """Yield ``("w", w)``, then what is in it, at any depth, ``("w['a']", w["a"])``, without numbers and text.

    Of containers in more than 8 others the parts are left out, and so are parts after the first `most`.
    """
    return ((path, part) for path, part, _ in walk(name, value, Seen(), most))


def walk(name: str, value: Any, seen: Seen, most: int) -> Iterator[tuple[str, Any, int]]:
    """As `parts_of`, with the number of containers around each; one more than `most`, if there are more."""
    return islice(_descend(name, value, {}, seen), 2 + most)


def _descend(path: str, value: Any, above: dict[int, str], seen: Seen) -> Iterator[tuple[str, Any, int]]:
    """Yield path, value and depth, first of `value`; `above`: id -> path of all that it is in."""
    yield path, value, len(above)
    content = seen.content(value) if len(above) < DEPTH and seen.has_parts(value) else None
    if content is not None:
        inside = {**above, id(value): path}
        for label, item in content.parts(plain=False):
            if id(item) in inside:
                yield f"{path}{label}", Above(inside[id(item)]), DEPTH
            else:
                yield from _descend(f"{path}{label}", item, inside, seen)


def content_of(value: Any) -> Content | None:
    """What is in `value`, at present; None if that cannot be found without running user code."""
    try:
        return _content(value)
    except RuntimeError:  # a thread of the user's is filling it
        return None


def _content(value: Any) -> Content | None:
    kind = type(value)
    if kind is np.ndarray or is_of_framework(kind):  # the most common kinds; this takes a tenth of the time
        return None
    if id(kind) in _DICTS or id(kind) == _ORDERED:
        return _of_dict(value)
    if id(kind) in _LISTS:
        return _of_list(list(value))  # one step: a thread of the user's may be filling it
    if id(kind) in _SETS:
        return Content(list(value), None, subscript, (len(value),), in_order=False)
    if is_table(kind):
        return _of_table(value)
    return _of_constant(value) if _is_constant(kind) else content_of_object(value)


def _is_constant(kind: type) -> bool:
    """Whether it is the class of slices, or an enumeration, which may be the user's."""
    return kind is slice or issubclass(kind, Enum)


def _of_constant(value: Any) -> Content | None:
    if type(value) is slice:
        return Content([value.start, value.stop, value.step], ["start", "stop", "step"], dotted, None)
    held = object.__getattribute__(value, "__dict__")
    if "_name_" not in held or "_value_" not in held:
        return None
    return Content([held["_name_"], held["_value_"]], ["name", "value"], dotted, None)


def constant_text(value: Any) -> str:
    """A slice, or a member of an enumeration, as Python writes it; "" for anything else."""
    kind = type(value)
    content = _of_constant(value) if _is_constant(kind) else None
    if content is None or not all(map(tells_all, kinds_of(content.items))):
        return ""
    if kind is slice:
        return f"slice({', '.join(map(number_text, content.items))})"
    name = content.items[0]
    return "" if name is None else f"{qualname_of(kind)}.{name}"


def _of_list(items: list[Any]) -> Content:
    return Content(items, range(len(items)), subscript, (len(items),))


def _of_dict(value: Any) -> Content:
    if id(type(value)) == _ORDERED:
        return _of_ordered_dict(value)
    held = dict(value)  # one step, as above
    keys, items = list(held), list(held.values())
    places = keys if are_places(keys) else None
    return Content(items, places, subscript, (len(items),), in_order=False)


def _of_ordered_dict(value: Any) -> Content:
    # Its own methods, which copying would call, hash its keys.
    pairs = list(dict.items(value))
    written = are_places([key for key, _ in pairs])
    if written:
        order = {key: place for place, key in enumerate(value)}
        pairs.sort(key=lambda pair: order.get(pair[0], 0))
    keys, items = [key for key, _ in pairs], [item for _, item in pairs]
    return Content(items, keys if written else None, subscript, (len(items),))


def _of_table(table: Any) -> Content:
    kind = type(table)
    if is_frame(kind):
        return _of_frame(table)
    return _of_series(table) if is_series(kind) else _of_index(table)


def _of_frame(frame: Any) -> Content:
    columns = columns_of(frame)
    names = [label for label, _ in columns]
    plain = are_places(names) and len(set(names)) == len(names)
    places = names if plain else range(len(names))
    return Content([each for _, each in columns], places, subscript, tuple(frame.shape))


def _of_series(series: Any) -> Content:
    return Content([column_of(series)], ["values"], dotted, tuple(series.shape))


def _of_index(index: Any) -> Content:
    if name_of(type(index)) == "RangeIndex":
        return Content([index.start, index.stop, index.step], ["start", "stop", "step"], dotted, None)
    if index.nlevels == 1:
        return _of_series(index)
    levels = list(map(column_of, levels_of(index)))
    return Content(levels, range(len(levels)), subscript, tuple(index.shape))
