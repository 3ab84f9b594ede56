"""Values of a few immutable classes of Python, pandas and PyTorch, described completely by their repr."""

from __future__ import annotations

import datetime as dt
import sys
from typing import Any, Final

from disco_magic.values.kinds import home_of, name_of

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
