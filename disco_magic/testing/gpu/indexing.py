"""Indexing: reading and writing parts of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.testing.gpu import operations

if TYPE_CHECKING:
    from disco_magic.testing.gpu.world import World


def _parts(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _is_array(world: World, part: Any) -> bool:
    return isinstance(part, (world.cupy.ndarray, np.ndarray, list, bool, np.bool_))


def is_basic(world: World, index: Any) -> bool:
    """Whether an index selects a view, because it contains no arrays."""
    return not any(_is_array(world, part) for part in _parts(index))


def view(raw: Any, index: Any) -> Any:
    """The view that a basic index selects; for a single element a 0-d array."""
    parts = _parts(index)
    return raw[parts if any(part is Ellipsis for part in parts) else (*parts, Ellipsis)]


def _for_work(world: World, index: Any, *, masks_on_host: bool) -> tuple[Any, ...]:
    """The index with its device arrays as views of memory, and its host arrays copied."""
    made: list[Any] = []
    for part in _parts(index):
        if isinstance(part, world.cupy.ndarray):
            # Only the host can find out how many elements a mask selects; CuPy waits for it, too.
            made.append(
                part.get() if masks_on_host and part.dtype == bool else operations.operand(world, part)
            )
        else:
            made.append(np.array(part) if isinstance(part, (list, np.ndarray)) else part)
    return tuple(made)


def _stand_in(part: Any) -> Any:
    return np.zeros(part.shape, np.intp) if isinstance(part, np.ndarray) and part.dtype != bool else part


def take(world: World, array: Any, index: Any) -> Any:
    """Copy the elements that an index with arrays selects; wait for the stream only if there is a mask.

    An index beyond the end breaks the device. A real GPU silently wraps it around.
    """
    raw, parts = operations.operand(world, array), _for_work(world, index, masks_on_host=True)
    shape = np.broadcast_to(np.empty((), np.uint8), raw.shape)[tuple(map(_stand_in, parts))].shape
    out = operations.empty(world, shape, raw.dtype)
    return operations.put(world, out, lambda: raw[parts])


def assign(world: World, array: Any, index: Any, value: Any) -> None:
    """Write an array or a scalar into a part of an array."""
    raw = operations.operand(world, array)
    if isinstance(value, np.ndarray):
        if value.shape:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        value = value.item()
    source = operations.operand(world, value)
    if is_basic(world, index):
        target = view(raw, index)
        np.broadcast_to(np.broadcast_to(np.empty((), np.uint8), operations.shape_of(source)), target.shape)

        def work() -> None:
            np.copyto(target, source, casting="unsafe")
    else:
        parts = _for_work(world, index, masks_on_host=False)

        def work() -> None:
            raw[parts] = source

    world.launch(work)
