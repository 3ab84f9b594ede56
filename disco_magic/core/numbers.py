"""Numbers that callers give (of workers, places, axes, commands, seconds), and what is true or false."""

from __future__ import annotations

import operator

from disco_magic.errors import UsageMistake


def truth(where: str, name: str, given: object) -> bool:
    """Return what was given for the parameter `name` as a bool.

    Any text is true for Python, also ``"no"``: a value that was meant for another parameter would count.

    Raises:
        UsageMistake: it is neither True nor False, also as NumPy's, as an array of one truth value, or as 1
            or 0; `where` begins the error.
    """
    if given is True or given is False:
        return given
    if _is_array_of_one(given) or whole_number(given) in (0, 1):
        return bool(given)
    raise UsageMistake(f"{where}: {name} is {given!r}, expected True or False")


def _is_array_of_one(given: object) -> bool:
    """Whether it is one truth value of NumPy or of another library, such as what ``(x > 0).any()`` gives."""
    return getattr(given, "shape", None) == () and str(getattr(given, "dtype", "")) in ("bool", "torch.bool")


def whole_number(given: object) -> int | None:
    """`given` as an int if it is a whole number, also NumPy's; None if not, or if it is a bool."""
    if isinstance(given, bool):
        return None
    try:
        return operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        return None


def is_positive(given: object) -> bool:
    """Whether it is a number above 0; False for text, for what is not a number, and for several numbers."""
    try:
        return bool(given > 0)  # type: ignore[operator]
    except (TypeError, ValueError):
        return False


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
