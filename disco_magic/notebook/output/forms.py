"""The forms in which a value is shown: those of IPython's formatters, but errors are raised."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from IPython.core.formatters import (
    BaseFormatter,
    DisplayFormatter,
    IPythonDisplayFormatter,
    MimeBundleFormatter,
)

from disco_magic.values.fingerprint import CONTAINER_IDS, PLAIN_IDS
from disco_magic.values.kinds import is_numpy_number

_ARRAY: Final = id(np.ndarray)
_FORMAT: Final = DisplayFormatter.format
_REGISTRIES: Final = ("singleton_printers", "type_printers", "deferred_printers")
_NONE_MADE: Final[dict[str, Any]] = {}


def displays_itself(formatters: Any, value: Any) -> bool:
    """Let a value that does so display itself; whether it has. `formatters`: the shell's."""
    display = formatters.ipython_display_formatter
    # It would look for a method that these classes do not have.
    is_text = type(display) is IPythonDisplayFormatter and _is_text(type(value))
    return (not is_text or _is_registered(display, value)) and bool(display(value))


def forms_of(formatters: Any, value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """All forms of `value` and their metadata, like IPython's `format`, but errors are raised.

    Not by `format`, which would ask again whether the value displays itself, and for its bundle: that may
    be expensive, or differ. A `format` that somebody has put in its place adds forms of its own.
    """
    is_text = _is_text(type(value))
    bundle, metadata = _own_bundle(formatters.mimebundle_formatter, value, is_text=is_text)
    if not bundle and getattr(formatters.format, "__func__", None) is not _FORMAT:
        text = _plain(formatters.formatters["text/plain"], value)
        rich, metadata = formatters.format(value, exclude=("text/plain",))
        return {"text/plain": text, **rich}, metadata
    data = dict(bundle)
    for form, formatter in formatters.formatters.items():
        is_left = form in data or (is_text and type(formatter).__call__ is BaseFormatter.__call__)
        if is_left and not _is_registered(formatter, value):
            continue
        found, said = _with_metadata(_plain(formatter, value) if form == "text/plain" else formatter(value))
        data.update({} if found is None else {form: found})
        metadata.update({} if said is None else {form: said})
    return data, metadata


def _own_bundle(formatter: Any, value: Any, *, is_text: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The MIME bundle and metadata that `value` itself provides; empty if it provides none."""
    is_usual = type(formatter).__call__ is MimeBundleFormatter.__call__
    if is_text and is_usual and not _is_registered(formatter, value):
        return {}, {}  # it has no such method
    try:
        found, said = _with_metadata(_unwrapped(formatter, value))
    except NotImplementedError:  # it provides none
        return {}, {}
    return (found, dict(said or {})) if isinstance(found, dict) else ({}, {})


def _is_text(kind: type) -> bool:
    """Whether it is a class of Python's or NumPy's own without methods such as ``_repr_html_``.

    IPython looks for ten of them in every value, which was more than half of what showing a number costs.
    """
    known = id(kind)
    return known in PLAIN_IDS or known in CONTAINER_IDS or known == _ARRAY or is_numpy_number(kind)


def _with_metadata(found: Any) -> tuple[Any, Any]:
    """A formatter's result as (data, metadata); the metadata is None if there is none."""
    return found if isinstance(found, tuple) and len(found) == 2 else (found, None)


def _is_registered(formatter: Any, value: Any) -> bool:
    """Whether the user has registered a function with `formatter` for values of that class."""
    # As traitlets keeps them, once they were made: to read all three by name takes six calls of Python.
    made = vars(formatter).get("_trait_values", _NONE_MADE)
    for name in _REGISTRIES:
        if made[name] if name in made else getattr(formatter, name):
            break
    else:
        return False  # as with most; `lookup` asks for these once for each class that it derives from
    try:
        formatter.lookup(value)
    except KeyError:
        return False
    return True


def _unwrapped(formatter: Any, value: Any) -> Any:
    """The result of `formatter`; errors are raised, which IPython would only print."""
    call = type(formatter).__call__
    return getattr(call, "__wrapped__", call)(formatter, value)


def _plain(formatter: Any, value: Any) -> str:
    """Text of `value`; NumPy numbers as printed (``36.0``), not as constructed."""
    text: str = _unwrapped(formatter, value)
    if isinstance(value, (np.number, np.bool_)) and text.startswith("np."):
        return str(value)
    return text
