"""Numbers that callers give: of workers, places, axes, commands."""

from __future__ import annotations

import operator


def whole_number(given: object) -> int | None:
    """`given` as a number that counts something, NumPy's included; None if it is none, as True is."""
    if isinstance(given, bool):
        return None
    try:
        return operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        return None
