"""How many bytes values take, and keep of a GPU, determined without running their code."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.values.fields import is_module, is_optimizer, is_random_generator
from disco_magic.values.frames import is_frame, nbytes_of_frame
from disco_magic.values.inside import content_of
from disco_magic.values.kinds import ARRAY_LIBRARIES, home_of, is_gpu_array
from disco_magic.values.spans import lies_on
from disco_magic.values.split_tensors import local_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disco_magic.core.device import Device

# NumPy's own descriptors: a subclass may have a property of that name.
_NBYTES: Final = np.ndarray.nbytes
_NUMBERS_NBYTES: Final = np.generic.nbytes
# By identity: ``in`` asks a metaclass, which may have an ``__eq__`` or a ``__hash__`` of its own.
_TEXTS: Final = frozenset(map(id, (str, bytes, bytearray)))
_WITHOUT: Final = frozenset(map(id, (type(None), bool, int, float, complex)))
_ITEMS: Final = 1000


def nbytes_of(value: Any) -> int:
    """Bytes of the elements; 0 where that cannot be known without running the value's code.

    Takes under 1 us, for a data frame 50 us. For a value with parts, those of its parts, see `sized_parts`.
    """
    return sum(map(_nbytes, sized_parts(value)))


def sized_parts(value: Any) -> Sequence[Any]:
    """What counts for a value's size: itself, or its parts that may have bytes, in any depth, each once.

    Parts of containers, dataclasses, PyTorch modules and objects of the user's classes, see `content_of`;
    about 1,000 are looked at, at 0.1 us for each number, 1 us for each array, 5 us for each container.
    """
    kind = type(value)
    if _counts_itself(kind):
        return (value,)
    found: dict[int, Any] = {}
    seen, rest, looked = {id(value)}, [value], 0
    while rest and looked < _ITEMS:
        items = _items(rest.pop())[: _ITEMS - looked]
        looked += len(items)
        for item in items:
            if id(type(item)) in _WITHOUT:
                continue
            if _counts_itself(type(item)):
                found[id(item)] = item
            elif id(item) not in seen:
                seen.add(id(item))
                rest.append(item)
    return list(found.values())


def _items(value: Any) -> Sequence[Any]:
    kind = type(value)
    if kind is list or kind is tuple:  # the first ones of a million, without a copy of all
        return list(value[:_ITEMS])
    if kind is dict:
        return list(value.values())  # one call of C code: the worker may be changing it
    if is_random_generator(kind):  # its state is no data of the user's: the name of an algorithm, and numbers
        return []
    content = content_of(value)
    return [] if content is None else content.items


def _counts_itself(kind: type) -> bool:
    if issubclass(kind, np.ndarray | np.generic) or id(kind) in _TEXTS or id(kind) in _WITHOUT:
        return True
    return home_of(kind) in ARRAY_LIBRARIES and not is_module(kind) and not is_optimizer(kind)


def _nbytes(value: Any) -> int:
    kind = type(value)
    if issubclass(kind, np.ndarray):
        return int(_NBYTES.__get__(value))
    if issubclass(kind, np.generic):
        return int(_NUMBERS_NBYTES.__get__(value))
    if id(kind) in _TEXTS:
        return len(value)
    return _foreign(value) if home_of(kind) in ARRAY_LIBRARIES else 0


def _foreign(value: Any) -> int:
    try:
        nbytes = nbytes_of_frame(value) if is_frame(type(value)) else local_part(value).nbytes
    except Exception:  # noqa: BLE001 - sparse tensors of PyTorch have no such number, others no such attribute
        return 0
    return nbytes if isinstance(nbytes, int) else 0


def nbytes_kept(values: Iterable[Any], device: Device) -> int:
    """Bytes of `device` that are not free as long as these values live; 0 for the CPU.

    A view keeps the whole array that it is a view of. cupy allocates in units of 512 bytes.

    Takes 2 us for each array.
    """
    if device.kind == "cpu":
        return 0
    parts = (part for value in values for part in sized_parts(value) if lies_on(part, device))
    return sum(dict(map(_allocation, parts)).values())


def _allocation(array: Any) -> tuple[object, int]:
    """A key of the array's allocation, and its bytes."""
    kind = type(array)
    with suppress(Exception):  # a sparse tensor of PyTorch has no storage
        if is_gpu_array(kind):
            memory = array.data.mem
            return int(memory.ptr), int(memory.size)
        if home_of(kind) == "torch":
            storage = array.untyped_storage()
            return int(storage.data_ptr()), int(storage.nbytes())
    return ("array", id(array)), nbytes_of(array)
