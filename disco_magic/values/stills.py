"""A value as it is now, to be compared with another: its worker may be changing it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from disco_magic.values.fingerprint import CONTAINER_IDS, PLAIN_IDS, fingerprint

# How deep containers may be nested, and how many values they may have in all.
_DEPTH: Final = 8
_VALUES: Final = 100_000
_NOT_ALL: Final = ", and are not compared as a whole"
_BY_CODE: Final = "only their own `==` could compare them, which is not called"


class OpaqueError(Exception):
    """A value that is not compared as a whole; the message says why."""


def still(value: Any, depth: int = 0, taken: list[int] | None = None) -> Any:
    """Return a plain value, or a copy of a container of such in its present state; arrays are not copied."""
    kind = type(value)
    if id(kind) in PLAIN_IDS or (
        (kind is np.ndarray or issubclass(kind, np.generic)) and not value.dtype.hasobject
    ):
        return value
    taken = [0] if taken is None else taken  # how many values so far
    if id(kind) not in CONTAINER_IDS:
        raise OpaqueError(_BY_CODE)
    if depth == _DEPTH:
        raise OpaqueError(f"they are nested in more than {_DEPTH} containers{_NOT_ALL}")
    taken[0] += len(value)
    if taken[0] > _VALUES:
        raise OpaqueError(f"they have more than {_VALUES:,} values{_NOT_ALL}")
    if kind in (set, frozenset):
        copied = list(value)
        if not all(id(type(item)) in PLAIN_IDS for item in copied):
            raise OpaqueError(_BY_CODE)
        return kind(copied)
    if kind is dict:
        held = {_plain(key): still(item, depth + 1, taken) for key, item in value.copy().items()}
        # In one order: it is no part of a dict's value.
        return dict(sorted(held.items(), key=lambda pair: fingerprint(pair[0])))
    return kind([still(item, depth + 1, taken) for item in list(value)])


def _plain(key: Any) -> Any:
    if id(type(key)) not in PLAIN_IDS:
        raise OpaqueError(_BY_CODE)
    return key
