"""Describes a value as a `RegisterInfo`: cheap, on a sample, and without running the value's own code.

Tables are drawn from another thread while workers run. So nothing here calls a user's ``__repr__``,
``__len__`` or property; attributes are only read from types of well-known array libraries.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.core.snapshot import RegisterInfo
from disco_magic.values.compared import NOT_COMPARED, array_in, look_into_objects
from disco_magic.values.described import describe_other, short
from disco_magic.values.digests import of_sample
from disco_magic.values.frames import column_of, is_series
from disco_magic.values.kinds import is_gpu_array, name_of
from disco_magic.values.samples import SAMPLE, Summary, is_number, sample_of, summaries
from disco_magic.values.sights import current_sight
from disco_magic.values.wanted import sampled, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disco_magic.values.samples import Array
    from disco_magic.values.sights import Sight
    from disco_magic.values.wanted import Wanted

SHORT: Final = 6
"""Arrays of up to so many elements are shown whole."""
# Elements that are looked at together, and at most of one array.
_HELD: Final = 1 << 22
WHOLE_NBYTES: Final = 128 << 20
WHOLE_ELEMENTS: Final = 32 << 20
"""Registers that have no more than these in all are looked at as a whole."""

# The cost of an item of a list, in elements of an array.
_ITEM: Final = 16
_NOTHING: Final = Summary()


def affordable_sample(infos: Sequence[RegisterInfo]) -> int:
    """How many elements of an array may be read if all are wanted; `infos` describe the registers."""
    if any(info.device not in (None, "cpu") for info in infos):
        return SAMPLE
    elements = sum(math.prod(info.shape) for info in infos if info.shape is not None)
    elements += sum(info.items or 0 for info in infos) * _ITEM
    few = elements <= WHOLE_ELEMENTS and sum(info.nbytes for info in infos) <= WHOLE_NBYTES
    return _HELD if few else SAMPLE


def describe(value: Any, sample: int = SAMPLE) -> RegisterInfo:
    """Describe what a register holds; see `describe_all`."""
    return describe_all((value,), sample)[0]


def describe_all(
    values: Iterable[Any], sample: int = SAMPLE, sights: Iterable[Sight | None] | None = None
) -> list[RegisterInfo]:
    """Describe what registers hold, in their order.

    Args:
        values: of any types.
        sample: elements of an array, or characters of a text, to look at at most; 0: give type, shape, dtype,
            device and bytes only, without looking at the contents.
        sights: for each value, how it is seen if it is on a GPU; None: through `current_sight`. For a value
            that cannot be seen, because it is still being computed, only these facts are given.

    Cost: 15 us per value, and 6 to 20 ns per element that is looked at; memory for four million of them.
    Values on GPUs 30 us, and a few waits of 50 us per worker.
    """
    infos: list[RegisterInfo | None] = []
    arrays: list[_Looked] = []
    held = 0
    for value, sight in zip(values, repeat(current_sight()) if sights is None else sights, strict=False):
        looked = _looked(len(infos), value, sample, sight)
        own = issubclass(type(value), np.ndarray | np.generic)
        infos.append(None if own else describe_other(value, sample))
        if looked is None:
            continue
        arrays.append(looked)
        held += min(looked.size, sample)
        if held > _HELD:
            _fill(infos, arrays, sample)
            arrays, held = [], 0
    _fill(infos, arrays, sample)
    return [info for info in infos if info is not None]


class _Looked:
    """An array, and what is looked at of it.

    Attributes:
        number: position of its value.
        kind: the value's type.
        array: of NumPy; of cupy if it is on a GPU.
        all: its elements on the host, if they are few.
        seen: those that are looked at, on the host; None: there are none, or they are still to be fetched.
        wanted: those that are still to be fetched, through `sight`.
        objects: what is known of an array of Python objects.
    """

    __slots__ = ("all", "array", "kind", "number", "objects", "seen", "sight", "size", "wanted")

    def __init__(self, number: int, kind: type, array: Any, sight: Sight | None = None) -> None:
        self.number = number
        self.kind = kind
        self.array = array
        self.size = int(array.size)
        self.sight = sight
        self.all: Array | None = None
        self.seen: Array | None = None
        self.wanted: Wanted | None = None
        self.objects = NOT_COMPARED

    @property
    def has_numbers(self) -> bool:
        """Whether there are numbers of which to make statistics."""
        return self.seen is not None and is_number(self.seen.dtype)


def _looked(number: int, value: Any, sample: int, sight: Sight | None) -> _Looked | None:
    """The elements of a value that are looked at; None if there are none."""
    kind = type(value)
    if is_gpu_array(kind):
        if sight is None or not sample:
            return None
        looked = _Looked(number, kind, value, sight)
        looked.wanted = whole(value) if looked.size <= SHORT else sampled(value, sample)
        return looked
    if not sample and not issubclass(kind, np.ndarray | np.generic):
        return None  # only the header is wanted; PyTorch releases the lock in every call
    found = array_in(column_of(value) if is_series(kind) else value)
    if found is None:
        return None
    array = np.asarray(found)
    looked = _Looked(number, kind, array)
    # A plain array lacks what a subclass adds, a mask for instance: such values are not compared.
    plain = kind in (np.ndarray, np.memmap) or not issubclass(kind, np.ndarray)
    if sample and plain and array.dtype.hasobject:
        looked.objects = look_into_objects(array, sample)
    elif sample and plain:
        looked.seen = sample_of(array, sample)
        looked.all = array if looked.size <= SHORT else None
    return looked


def _fill(infos: list[RegisterInfo | None], arrays: list[_Looked], sample: int) -> None:
    """Describe `arrays` together."""
    _fetch([each for each in arrays if each.wanted is not None], sample)
    told = iter(summaries([each.seen for each in arrays if each.has_numbers and each.seen is not None]))
    for each in arrays:
        summary = next(told) if each.has_numbers else None
        if each.wanted is not None and each.seen is None:
            continue  # only its header is known
        info = _describe_array(each, summary)
        header = infos[each.number]
        if header is not None:  # of another library, which has its own words for these
            info = replace(
                info,
                type=header.type,
                dtype=header.dtype,
                shape=header.shape,
                device=header.device,
                nbytes=header.nbytes or info.nbytes,
                part=header.part,
            )
            if is_series(each.kind):  # whose labels are compared, too
                info = replace(info, fingerprint=header.fingerprint, sampled=info.sampled or header.sampled)
        infos[each.number] = info


def _fetch(arrays: Sequence[_Looked], sample: int) -> None:
    """Fetch what is to be seen from GPUs, together for each worker."""
    for _, group in groupby(arrays, lambda each: id(each.sight)):
        together = list(group)
        sight = together[0].sight
        if sight is not None:
            found = sight.read_all([each.wanted for each in together if each.wanted is not None])
            for each, elements in zip(together, found, strict=True):
                each.seen = elements
                if elements is not None and each.size <= SHORT:
                    each.all, each.seen = elements.reshape(each.array.shape), sample_of(elements, sample)


def _describe_array(looked: _Looked, summary: Summary | None) -> RegisterInfo:
    array, seen, kind = looked.array, looked.seen, name_of(looked.kind)
    told = summary or _NOTHING
    return RegisterInfo(
        kind,
        array.shape,
        _name(array.dtype),
        "cpu",
        array.nbytes,
        "" if looked.all is None else elements_text(looked.all),
        told.minimum,
        told.mean,
        told.maximum,
        looked.objects.fingerprint if seen is None else of_sample(seen, f"{kind} {array.shape}"),
        looked.objects.is_part if seen is None else seen.size < looked.size,
        None if summary is None else summary.nans,
        None if summary is None else summary.infs,
        told.histogram,
    )


def elements_text(array: Array) -> str:
    """All elements of a short array, as text."""
    if is_number(array.dtype) and array.dtype.kind in "biufc":
        # Takes a thirtieth of the time of `array2string`; a single number is written as NumPy does.
        return short(_nested(array.tolist())) if array.ndim else str(array[()])
    return short(np.array2string(array, threshold=8, edgeitems=2))


def _nested(numbers: Any) -> str:
    if type(numbers) is list:
        return f"[{' '.join(map(_nested, numbers))}]"
    if type(numbers) is not float:
        return str(numbers)
    text = f"{numbers:.8g}"
    return text if set(text) & set(".en") else f"{text}."  # as NumPy: 1. is no integer


@lru_cache(256)
def _name(dtype: np.dtype[Any]) -> str:
    return str(dtype)
