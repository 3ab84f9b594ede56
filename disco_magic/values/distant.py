"""Elements of arrays in the memory of a device: only what is looked at is copied from there.

Both classes implement `disco_magic.values.elements.Elements`.
"""

from __future__ import annotations

import math
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.errors import NoPicture
from disco_magic.phrases import words
from disco_magic.values.sights import current_sight
from disco_magic.values.tensors import bits_of, is_there, to_be_seen
from disco_magic.values.wanted import Axis, Wanted, sampled, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from disco_magic.values.sights import Sight

Array = np.ndarray[Any, Any]
Index = tuple[Any, ...]


class DeviceElements:
    """Elements of an array that may be on a device: only what is looked at is copied from there."""

    def __init__(
        self,
        array: Any,
        name: str,
        fetch: Callable[[Any], Array],
        near: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.shape = tuple(map(int, array.shape))
        self.name = name
        self._array = array
        self._fetch = fetch
        self._near = near or nullcontext()

    def __getitem__(self, index: Index) -> Array:
        return self.lines(index, [])

    def lines(self, index: Index, chosen: list[list[int] | None]) -> Array:
        """See `Elements`."""
        with _readable(), self._near:
            return self._fetch(lines_of(self._array[index], chosen))

    def sample(self, count: int) -> Array:
        """See `Elements`; single elements at odd distances, so that not only a few columns are sampled."""
        steps = [1] * len(self.shape)

        def left(axis: int) -> int:
            return -(-self.shape[axis] // steps[axis])

        while math.prod(map(left, range(len(steps)))) > count:
            longest = max(range(len(steps)), key=left)
            steps[longest] = steps[longest] * 2 + 1
        return self[tuple(slice(None, None, step) for step in steps)].reshape(-1)


class SeenElements:
    """Elements of an array on a GPU where another thread's worker computes, read through a sight.

    Reading raises NoPicture while the elements are being computed. Once they were available, they are read
    even while others are being computed, as on the host: the result may be half old and half new.
    """

    def __init__(self, array: Any, sight: Sight) -> None:
        self.shape = tuple(map(int, array.shape))
        self.name = str(array.dtype)
        self._array = array
        self._sight = sight
        self._checked = False

    def __getitem__(self, index: Index) -> Array:
        part = self._array[index]
        return self._read(whole(part)).reshape(part.shape)

    def lines(self, index: Index, chosen: list[list[int] | None]) -> Array:
        """See `Elements`."""
        part = self._array[index]
        axes = [
            Axis(length, stride)
            if places is None
            else Axis(len(places), stride, np.asarray(places, np.int64))
            for length, stride, places in zip(part.shape, part.strides, chosen, strict=True)
        ]
        return self._read(Wanted(part, tuple(axes))).reshape([axis.length for axis in axes])

    def sample(self, count: int) -> Array:
        """See `Elements`; the same as those of an array of NumPy."""
        return self._read(sampled(self._array, count))

    def _read(self, wanted: Wanted) -> Array:
        with _readable():
            if not self._checked:
                self._sight.check(int(self._array.device.id))
                self._checked = True
            return self._sight.read(wanted)


@contextmanager
def _readable() -> Iterator[None]:
    """Turn whatever a library raises into NoPicture: the elements cannot be shown."""
    try:
        yield
    except NoPicture:
        raise
    except Exception as reason:  # a sparse or quantized tensor, one without data, a device that is lost
        raise NoPicture(f"its elements cannot be read: {words(reason)}") from reason


def elements_of_cupy(array: Any) -> SeenElements | DeviceElements:
    """Elements of a cupy array: another worker's through its sight, the caller's own on its stream."""
    sight = current_sight()
    if sight is not None:
        return SeenElements(array, sight)
    return DeviceElements(array, str(array.dtype), lambda part: np.asarray(part.get()), array.device)


def elements_of_torch(tensor: Any) -> DeviceElements:
    """Elements of a PyTorch tensor, on any device."""
    name = str(tensor.dtype).removeprefix("torch.")
    # NumPy lacks these types; float32 holds all of their numbers.
    lacking = name.startswith(("bfloat16", "float8"))

    def fetch(part: Any) -> Array:
        if lacking:
            part = part.float()
        return np.asarray(to_be_seen(part).numpy(force=True))

    with _readable():  # a nested tensor has no shape
        return DeviceElements(tensor.detach(), name, fetch)


def elements_of_jax(array: Any) -> DeviceElements:
    """Elements of a JAX array, on any device.

    Raises:
        NoPicture: they are still being computed, and reading would wait for that; or they were donated.
    """
    if not is_there(array):
        raise NoPicture("its elements are still being computed, or were donated")
    with _readable():
        near = bits_of(array)  # a view, if they are on the host
    return DeviceElements(array if near is None else near, str(array.dtype), np.asarray)


def lines_of(part: Any, chosen: list[list[int] | None]) -> Any:
    """Select lines of a part; along the longest axis first, so that little is copied on the way."""
    longest = sorted(range(len(chosen)), key=lambda axis: part.shape[axis], reverse=True)
    for axis in longest:
        if chosen[axis] is not None:
            part = part[(slice(None),) * axis + (chosen[axis],)]
    return part
