"""The memory of PyTorch's tensors as arrays that planes carry, for the duration of a collective.

NumPy's own view of a tensor would prevent its memory from ever being resized, which libraries that shard
parameters do.
"""

from __future__ import annotations

import importlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.values.kinds import name_of
from disco_magic.values.tensors import has_memory

if TYPE_CHECKING:
    from collections.abc import Iterator


_known: Final[dict[Any, np.dtype[Any]]] = {}


class _Memory:
    """A tensor's memory in NumPy's array interface; the array keeps this alive, and this keeps the tensor."""

    __slots__ = ("__array_interface__", "_tensor")

    def __init__(self, tensor: Any, typestr: str) -> None:
        self._tensor = tensor
        size = tensor.element_size()
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), False),
            "shape": tuple(tensor.shape),
            "strides": tuple(size * step for step in tensor.stride()),
            "typestr": typestr,
        }


def near(tensor: Any, *, bits: bool = False) -> Any:
    """The elements as an array of NumPy over the same memory; on a GPU, as a tensor without a history.

    Args:
        tensor: of any strides.
        bits: the elements are only moved: if NumPy lacks their dtype, integers of that size will do.
    """
    tensor = _waited_for(tensor).detach()
    if str(tensor.device) != "cpu":
        return _movable(tensor) if bits else tensor
    if str(tensor.layout) != "torch.strided":
        raise UsageMistake(
            "a sparse tensor has no memory that could be taken - use x.to_dense(); for its gradients to be"
            " dense, an nn.Embedding needs sparse=False"
        )
    if tensor.is_conj() or tensor.is_neg():
        raise UsageMistake(
            "a tensor that is conjugated or negated as it is read cannot be taken - use x.resolve_conj() or "
            "x.resolve_neg()"
        )
    if not has_memory(tensor) or (tensor.numel() and not tensor.data_ptr()):
        raise UsageMistake(
            f"this {name_of(type(tensor))} has no memory of its own, or has given it back - take its part: "
            "x.to_local()"
        )
    dtype, size = _dtype_of(tensor.dtype), tensor.element_size()
    if dtype is None and not bits:
        raise UsageMistake(
            f"NumPy has no {tensor.dtype} to compute with - use .float(), or install ml_dtypes"
        )
    moved = np.dtype(f"i{size}") if dtype is None else dtype
    if not tensor.numel():
        return np.empty(tuple(tensor.shape), moved)
    if moved.isbuiltin == 1:
        return np.asarray(_Memory(tensor, moved.str))
    return np.asarray(_Memory(tensor, np.dtype(f"i{size}").str)).view(moved)


def _waited_for(tensor: Any) -> Any:
    """The tensor; for the result of a functional collective, the tensor it represents, once it is there."""
    return tensor.trigger_wait() if hasattr(type(tensor), "trigger_wait") else tensor


def _movable(tensor: Any) -> Any:
    """A tensor on a GPU; if cupy and NumPy lack its dtype, as integers over the same memory."""
    dtype = _dtype_of(tensor.dtype)
    if dtype is not None and dtype.isbuiltin == 1:
        return tensor
    return tensor.view(getattr(importlib.import_module("torch"), f"int{8 * tensor.element_size()}"))


def flat(tensor: Any, *, bits: bool = False) -> Any:
    """Like `near`, flattened; a copy if the elements are not contiguous."""
    return near(tensor, bits=bits).reshape(-1)


@contextmanager
def written(tensor: Any, *, bits: bool = False) -> Iterator[Any]:
    """Like `flat`, to be filled in the block."""
    array = near(tensor, bits=bits)
    target = array.reshape(-1)
    yield target
    if not tensor.is_contiguous():  # the block has filled a copy
        array[...] = target.reshape(array.shape)


def _dtype_of(dtype: Any) -> np.dtype[Any] | None:
    """NumPy's dtype of that name, its own or one of `ml_dtypes`; None if there is none."""
    found = _known.get(dtype)
    if found is None:
        found = _found(dtype)
        if found is not None:  # what is missing may be installed later
            _known[dtype] = found
    return found


def _found(dtype: Any) -> np.dtype[Any] | None:
    name = str(dtype).removeprefix("torch.")
    with suppress(TypeError):
        return np.dtype(name)
    try:
        found: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except (ImportError, AttributeError, TypeError):
        return None
    return found
