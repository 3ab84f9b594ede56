"""What is in a value, as places and items; and values that are described completely by their repr."""

from __future__ import annotations

import datetime as dt
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.values.fingerprint import PLAIN_IDS, number_text
from disco_magic.values.kinds import home_of, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_LONG: Final = 100
# Types with values that are not equal to themselves: a dict can have several of them as keys.
_WITH_NAN: Final = (float, complex, np.inexact, np.datetime64, np.timedelta64)


@dataclass(frozen=True, slots=True)
class Content:
    """What is in a value.

    Attributes:
        items: all items.
        places: key, number or name of each; None if they cannot be written: for a set, or a dict whose keys
            are objects.
        written: writes a place after the value's name: ``['a']``, ``[0]`` or ``.a``.
        shape: the number of items; for a data frame, rows and columns; None for an object with fields.
        in_order: whether the order of the items is part of the value.
    """

    items: list[Any]
    places: Sequence[Any] | None
    written: Callable[[Any], str]
    shape: tuple[int, ...] | None
    in_order: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether all items are numbers or text."""
        return all(map(is_plain, kinds_of(self.items)))

    def parts(self, *, plain: bool) -> Iterator[tuple[str, Any]]:
        """Yield path and item for each item that is plain, or for each other one."""
        if self.places is not None:
            for place, item in zip(self.places, self.items, strict=True):
                if is_plain(type(item)) is plain:
                    yield self.written(place), item


def kinds_of(items: Iterable[Any]) -> list[type]:
    """The types of `items`, each once."""
    kinds = list(map(type, items))
    # By identity: a metaclass may have a __hash__ of its own.
    return [kinds[-1]] if len(set(map(id, kinds))) == 1 else list({id(kind): kind for kind in kinds}.values())


def subscript(place: object) -> str:
    """Write a place as ``['a']``."""
    written = number_text(place)
    if type(place) is int and len(written) > _LONG:  # enough digits to distinguish it, most likely
        written = f"{written[:20]}…{written[-20:]}"
    return f"[{written}]"


def are_places(keys: list[Any]) -> bool:
    """Whether all that there is to these keys can be written, and no two are written alike, as NaNs are."""
    kinds = kinds_of(keys)
    if not all(map(tells_all, kinds)):
        return False
    unlike = not any(issubclass(kind, _WITH_NAN) for kind in kinds)
    return unlike or len(set(map(subscript, keys))) == len(keys)


def dotted(place: object) -> str:
    """Write a place as ``.a``; with escapes if the name is not printable."""
    name = str(place)
    return f".{name if name.isprintable() else name.encode('unicode_escape').decode()}"


def tells_all(kind: type) -> bool:
    """Whether the repr of a value of that type says all there is to it, and runs no user code."""
    own = home_of(kind) == "numpy" and issubclass(kind, np.generic)
    return id(kind) in PLAIN_IDS or (own and not issubclass(kind, np.void | np.object_))


def is_plain(kind: type) -> bool:
    """Whether values of this type are numbers or text, which have no parts."""
    return id(kind) in PLAIN_IDS or issubclass(kind, np.generic)


# Of modules that are not imported for their sake.
_CLASSES: Final = {
    "datetime": ("datetime", "time"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "pandas": ("Timedelta", "Timestamp"),
    "torch": ("Size", "device", "dtype", "layout", "memory_format", "qscheme"),
    "uuid": ("UUID",),
}
_MISSING: Final = ("NA", "NaT")  # single values of pandas
# Where time zones come from that are written without code of the user's; of NoneType, too.
_ZONES: Final = ("builtins", "datetime", "dateutil", "pytz", "zoneinfo")


def is_scalar(kind: type) -> bool:
    """Whether this is one of these classes itself, and none derived from it."""
    home, name = home_of(kind), name_of(kind)
    if home not in _CLASSES:
        return False
    module = sys.modules.get(home)
    if name in _CLASSES[home]:
        return getattr(module, name, None) is kind
    return home == "pandas" and any(type(getattr(module, each, None)) is kind for each in _MISSING)


def scalar_text(value: Any) -> str:
    """The value as Python can read it; "" for one of any other class, or in a time zone of the user's."""
    if not is_scalar(type(value)):
        return ""
    zone = getattr(value, "tzinfo", None)
    if home_of(type(zone)) not in _ZONES or (
        type(zone) is dt.timezone and type(zone.tzname(None)) is not str
    ):
        return ""
    try:
        return repr(value)
    except ValueError:  # a fraction of more digits than Python writes
        return f"Fraction({value.numerator:#x}, {value.denominator:#x})"
