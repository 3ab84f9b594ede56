"""Numbers that callers give: of workers, places, axes, commands."""

from __future__ import annotations

import operator


def whole_number(given: object) -> int | None:
    """`given` as an int if it is a whole number, also NumPy's; None if not, or if it is a bool."""
    if isinstance(given, bool):
        return None
    try:
        return operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        return None
