"""Numbers that callers give: of workers, places, axes, commands, seconds."""

from __future__ import annotations

import operator

from disco_magic.errors import UsageMistake


def whole_number(given: object) -> int | None:
    """`given` as an int if it is a whole number, also NumPy's; None if not, or if it is a bool."""
    if isinstance(given, bool):
        return None
    try:
        return operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        return None


def seconds(timeout: object) -> float | None:
    """Return `timeout` as a number of seconds; None: no limit.

    Raises:
        UsageMistake: it is not a number, or it is negative.
    """
    if timeout is None:
        return None
    try:
        number = float(timeout)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if isinstance(timeout, str | bytes) or not number >= 0:
        raise UsageMistake(f"timeout is {timeout!r}, expected a number of seconds >= 0, or None")
    return number
