"""What a worker holds, as far as it can be compared with what others hold: the worker's side of a check.

Types, shapes and dtypes cost microseconds per register. Values cost one pass over the data: BLAKE2b at about
1 GB/s per core, GIL released, without a copy of what is contiguous (anything else is copied in small blocks).

Runs where the registers live, in the worker's ordered lane: `shape` and `dtype` of foreign objects may be the
user's own code, and what that raises counts as "has none". Nothing is hashed, compared or pickled that could
run the user's ``__hash__``, ``__eq__`` or ``__reduce__``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.core.divergence import Found, Held
from disco_magic.core.registers import ABSENT, RegisterFile
from disco_magic.functions.context import worker
from disco_magic.functions.describe import describe
from disco_magic.functions.digests import digest_of
from disco_magic.functions.fingerprint import PLAIN, fingerprint
from disco_magic.functions.registry import WORKER_MODULE

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = np.ndarray[Any, Any]

# Subclasses whose elements are all there is to them; a masked array, for instance, has a mask besides.
_ARRAYS: Final = (np.ndarray, np.memmap, np.matrix, np.recarray)
_CONTAINERS: Final = (dict, list, tuple, set, frozenset)
_DEPTH: Final = 8
_PARTS: Final = 1000
_SHORT: Final = 6


@dataclass(frozen=True, slots=True)
class Survey:
    """Says what the calling worker's registers hold; a worker function.

    Attributes:
        names: look at these only; None: at all.
        values: digest values of `names`; without names, those of registers marked as replicated.
    """

    names: tuple[str, ...] | None = None
    values: bool = False

    @property
    def disco_name(self) -> str:
        """What errors and tables of commands call it."""
        return "check registers"

    def __call__(self) -> Found:
        """Look at the calling worker's registers."""
        me = worker()
        me.marks.settle()
        namespace, marked = me.marks.namespace, frozenset(me.marks.names)
        registers = {}
        for name in RegisterFile(namespace).public_names():
            value = namespace.get(name, ABSENT)  # a thread of the user's may have unbound it
            if value is not ABSENT and (self.names is None or name in self.names):
                values = self.values and (self.names is not None or name in marked)
                registers[name] = survey(name, value, values=values)
        return Found(me.bound, marked, registers)


def survey(name: str, value: Any, *, values: bool) -> tuple[tuple[str, Held], ...]:
    """A register and its parts: the arrays, containers and objects in a list, tuple or dict, in any depth.

    Of more than 1,000 parts, or deeper than 8 containers, the rest is not looked at; asked for their values,
    the containers say so.
    """
    parts = [
        (path, look(part, values=values, deepest=depth == _DEPTH)) for path, part, depth in _walk(name, value)
    ]
    if values and len(parts) > 1 + _PARTS:
        parts[0] = (name, replace(parts[0][1], opaque=f"it has more than {_PARTS:,} parts"))
    return tuple(parts)


def parts_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What `survey` looks at: ``("w", w)``, then what is in it, ``("w['a']", w["a"])``."""
    return ((path, part) for path, part, _ in _walk(name, value))


def _walk(name: str, value: Any) -> Iterator[tuple[str, Any, int]]:
    return islice(_descend(name, value, 0), 2 + _PARTS)


def _descend(path: str, value: Any, depth: int) -> Iterator[tuple[str, Any, int]]:
    yield path, value, depth
    if depth < _DEPTH:
        for key, item in _items(value):
            if not _is_plain(type(item)):
                yield from _descend(f"{path}[{key!r}]", item, depth + 1)


def _items(value: Any) -> list[tuple[Any, Any]]:
    """What is in a dict, list or tuple, by key or position; nothing if keys are no plain values."""
    value = _still(value)
    kind = type(value)
    if kind is dict and all(type(key) in PLAIN for key in value):
        return list(value.items())
    return list(enumerate(value)) if kind in (list, tuple) else []


def _still(value: Any) -> Any:
    """A container that a thread of the user's may be filling, as it is now; such a copy is one step."""
    kind = type(value)
    return kind(value) if kind in (dict, list, set) else value


def _is_plain(kind: type) -> bool:
    return kind in PLAIN or issubclass(kind, np.generic)


def look(value: Any, *, values: bool, deepest: bool = False) -> Held:
    """What one value is, and with `values` its digest; of a container without the parts that `survey` adds.

    `deepest`: parts of a container will not be looked at.
    """
    kind = type(value)
    if issubclass(kind, np.ndarray):
        return _look_at_array(value, values=values)
    if _is_plain(kind):
        text = describe(value).text if values else ""
        return Held(type_name(kind), text=text, digest=fingerprint(value) if values else b"")
    if kind in _CONTAINERS:
        return _look_at_container(value, values=values, deepest=deepest)
    shape, dtype, device = (_attribute(value, name) for name in ("shape", "dtype", "device"))
    why = f"values of type {type_name(kind)} cannot be compared" if values else ""
    if dtype is None or not _is_shape(shape):
        return Held(type_name(kind), opaque=why)
    return Held(
        type_name(kind), tuple(shape), _text(dtype), None if device is None else _text(device), opaque=why
    )


def _look_at_array(value: Array, *, values: bool) -> Held:
    kind = type(value)
    array = np.asarray(value)
    text, digest, why = "", b"", ""
    if values and array.dtype.hasobject:
        why = "its elements are Python objects"
    elif values and kind not in _ARRAYS:
        why = f"values of type {type_name(kind)} cannot be compared"
    elif values:
        digest = digest_of(array)
        text = describe(array).text if array.size <= _SHORT else ""
    return Held(type_name(kind), array.shape, str(array.dtype), "cpu", text=text, digest=digest, opaque=why)


def _look_at_container(value: Any, *, values: bool, deepest: bool) -> Held:
    value = _still(value)
    kinds = set(map(type, value.values() if type(value) is dict else value))
    plain = {kind for kind in kinds if _is_plain(kind)}
    elements = ", ".join(sorted(map(type_name, plain)))
    digest, why = b"", ""
    if values:
        digest, why = _content(value, all_plain=plain == kinds, deepest=deepest)
    return Held(type(value).__name__, (len(value),), elements=elements, digest=digest, opaque=why)


def _content(value: Any, *, all_plain: bool, deepest: bool) -> tuple[bytes, str]:
    """Digest of the plain values in a container with their places, or why there is none."""
    kind = type(value)
    if deepest and not all_plain:
        return b"", f"it lies in more than {_DEPTH} containers"
    if kind in (set, frozenset):
        return (fingerprint(value), "") if all_plain else (b"", f"it is a {kind.__name__} of objects")
    if all_plain and kind in (list, tuple):
        return fingerprint(value), ""
    items = _items(value)
    if len(items) < len(value):
        return b"", "its keys are objects"
    plain = [(repr(key), item) for key, item in items if _is_plain(type(item))]
    # The order in which a dict was filled is not part of its value.
    return fingerprint(sorted(plain, key=lambda pair: pair[0]) if kind is dict else plain), ""


def type_name(kind: type) -> str:
    """``int``, ``ndarray``, ``pandas.DataFrame``; classes that cells define by their own name.

    Every worker defines its own class, in a module that differs by the worker's number.
    """
    module = str(kind.__module__)
    plain = kind is np.ndarray or module == "builtins" or module.startswith(WORKER_MODULE)
    return kind.__qualname__ if plain else f"{module}.{kind.__qualname__}"


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a user's property may raise anything; then it has no shape for us either
        return None


def _is_shape(shape: Any) -> bool:
    # By type: isinstance would ask for a __class__ that may be a property.
    return issubclass(type(shape), tuple) and all(type(length) is int for length in shape)


def _text(value: Any) -> str | None:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - as above
        return None
