"""Tensors of other libraries as NumPy arrays, over their own memory where possible; imports none of these.

NumPy's view of a PyTorch tensor fixes its memory: PyTorch refuses to resize it from then on, see
`isolation.pytorch.storage`. While memory is being released nothing begins to look (`LOOKING`): there would be
nothing to see, and the memory would be gone.
"""

from __future__ import annotations

import gc
import importlib
import operator
import sys
import types
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.phrases import words
from disco_magic.threads.locks import new_rlock
from disco_magic.values.kinds import home_of, is_jax_array, is_tensor
from disco_magic.values.spans import device_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disco_magic.core.place import Place

Array = np.ndarray[Any, Any]

LOOKING: Final = new_rlock()  # reentrant: a finalizer may release memory during a look
"""Held while a tensor's memory is examined and NumPy gets its view, and while memory is released."""
_DEFINITIONS: Final = (type, types.FunctionType, types.ModuleType)
_MOST_OBJECTS: Final = 1_000_000


def bits_of(tensor: Any) -> Array | None:
    """The elements of a tensor or JAX array, with any strides; waits while JAX computes them.

    Where NumPy lacks a tensor's dtype, they are integers with its bits. They share the memory, except for
    complex numbers that are conjugated when they are read. None if it is not on the CPU, is sparse, nested,
    quantized or deleted, or has no elements yet.
    """
    try:
        if is_jax_array(type(tensor)):
            return np.asarray(tensor) if device_of(tensor) == "cpu" else None
        if str(tensor.device) != "cpu" or str(tensor.dtype).startswith("torch.q"):
            return None
        tensor = to_be_seen(tensor)
        with LOOKING:
            return _bits(tensor) if has_memory(tensor) else None
    except Exception:  # noqa: BLE001 - there are ever more kinds of tensors that NumPy cannot read
        return None


def to_be_seen(tensor: Any) -> Any:
    """What NumPy may see of a tensor: a copy if it is empty.

    Memory that NumPy has once seen can no longer be resized, and empty tensors often wait for just that.
    """
    return tensor if tensor.numel() else tensor.clone()


def _bits(tensor: Any) -> Array:
    with suppress(TypeError):  # a dtype that NumPy lacks
        return np.asarray(tensor.numpy(force=True))
    integers = getattr(sys.modules["torch"], f"int{8 * tensor.element_size()}")
    return np.asarray(tensor.detach().view(integers).numpy())


def has_memory(tensor: Any) -> bool:
    """Whether a tensor has the memory of its elements, and has not released it.

    NumPy would otherwise show whatever lies elsewhere in memory.
    """
    return not tensor.numel() or tensor.untyped_storage().nbytes() > 0


def numbers_of(tensor: Any) -> Array | None:
    """The elements as numbers, in float32 where NumPy lacks their dtype; None as for `bits_of`."""
    bits = bits_of(tensor)
    if (
        bits is None
        or is_jax_array(type(tensor))
        or bits.dtype.name == str(tensor.dtype).removeprefix("torch.")
    ):
        return bits
    try:
        return np.asarray(tensor.detach().float().numpy())
    except Exception:  # noqa: BLE001 - complex halves, or several numbers in a byte
        return None


def is_there(array: Any) -> bool:
    """Whether a JAX array can be read without waiting: it is computed, and was not deleted or donated."""
    try:
        # The second question about a deleted array crashes the process (0.10). Both are asked in one call of
        # C code, so that the array is not deleted in between.
        told = any(map(operator.call, (array.is_deleted, array.is_ready)))
        return told and not array.is_deleted()
    except Exception:  # noqa: BLE001 - what JAX raises for an array that was donated
        return False


def without_history(value: Any) -> Any:
    """Return `value`; a tensor that requires grad is detached where no gradients are recorded."""
    if is_tensor(type(value)) and value.requires_grad and not _records_gradients():
        return value.detach()
    return value


def elements_of_computed(value: Any) -> dict[int, Any]:
    """Map, by `id`, tensors in `value` that have a history, in any depth, to copies without one."""
    found: dict[int, Any] = {}
    seen, rest = set[int](), [value]
    while rest and len(seen) < _MOST_OBJECTS:
        each = rest.pop()
        kind = type(each)
        if id(each) in seen or issubclass(kind, _DEFINITIONS):
            continue
        seen.add(id(each))
        if not is_tensor(kind):
            rest.extend(gc.get_referents(each))
        elif not each.is_leaf:
            found[id(each)] = each.detach().clone()
    return found


def array_of(tensor: Any) -> Array:
    """A tensor's own memory as an array; bfloat16 and float8 with the dtypes of `ml_dtypes`."""
    tensor = without_history(tensor)
    if tensor.requires_grad:
        raise UsageMistake("it requires grad - use .detach(), which shares its memory")
    return memory_of(tensor)


def memory_of(tensor: Any) -> Array:
    """Like `array_of`, for a tensor without a history."""
    try:
        with LOOKING:
            if has_memory(tensor):
                return np.asarray(to_be_seen(tensor).numpy())
        raise UsageMistake("its memory was released: it has no elements at present")
    except (TypeError, RuntimeError, NotImplementedError) as reason:
        bits = bits_of(tensor)
        if type(reason) is not TypeError or bits is None:  # conjugated, sparse, quantized
            raise UsageMistake(words(reason)) from None
    try:
        name = str(tensor.dtype).removeprefix("torch.")
        return bits.view(getattr(importlib.import_module("ml_dtypes"), name))
    except (ImportError, AttributeError):
        raise UsageMistake(f"NumPy has no {tensor.dtype} - use .float(), or install ml_dtypes") from None


def _records_gradients() -> bool:
    """Whether the calling thread is outside of `torch.no_grad` and of the methods of a Function."""
    torch = sys.modules.get("torch")
    return torch is None or bool(torch.is_grad_enabled())


def over_memory(value: Any, place: Place, refusal: str) -> Any:
    """`value` as an array that planes can carry, over the same memory; what is no array is returned as it is.

    The result is an array of NumPy, or of the library that computes at `place`; tensors of PyTorch, and
    arrays that other libraries lend there, are converted.
    """
    near = place.read(without_history(value))
    if near is not None:
        return near
    if not is_tensor(type(value)) or str(value.device) != "cpu":
        return value
    try:
        return array_of(value)
    except UsageMistake as reason:
        raise UsageMistake(f"{refusal}: {reason}") from None


def read_out(verb: str, out: Any, place: Place) -> Any:
    """The caller's `out` as planes write to it, see `over_memory`."""
    if is_jax_array(type(out)):
        raise UsageMistake(f"{verb}: nothing can be written to out, an array of JAX - take what is returned")
    return over_memory(out, place, f"{verb}: nothing can be written to out, a {type(out).__name__}")


def filled(out: Any) -> Any:
    """Return `out`, which was written to, after telling PyTorch, which would not notice.

    What was computed from its former elements has no gradient any more; computing it raises an error.
    """
    if type(out) is not np.ndarray and is_tensor(type(out)) and not out.is_inference():
        sys.modules["torch"].autograd.graph.increment_version(out)
    return out


# Owners of writable memory: before 2.2, NumPy makes all memory that it gets by DLPack read-only.
_ALWAYS_WRITABLE: Final = ("tvm", "tvm_ffi")


class _Writable:
    """The memory of `array`, presented to NumPy as writable."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array  # users of the memory keep this object, and it keeps the array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def has_dlpack(x: object) -> bool:
    """Whether `x` lends its memory through DLPack, and is no NumPy array: a tensor of TVM, PyTorch, ..."""
    return hasattr(type(x), "__dlpack__") and not isinstance(x, np.ndarray)


def lent(x: Any) -> NDArray[Any]:
    """The memory of an object that `has_dlpack`; read-only where its owner says so."""
    array: NDArray[Any] = np.from_dlpack(x)
    if array.flags.writeable or home_of(type(x)) not in _ALWAYS_WRITABLE:
        return array
    return np.asarray(_Writable(array))
