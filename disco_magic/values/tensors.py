"""Tensors of PyTorch and arrays of JAX in the host's memory as arrays of NumPy, without importing those."""

from __future__ import annotations

import gc
import importlib
import operator
import sys
import types
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.core.words import shape_text
from disco_magic.errors import UsageMistake
from disco_magic.phrases import words
from disco_magic.values.kinds import is_jax_array, is_split_tensor, is_tensor, name_of
from disco_magic.values.located import device_of
from disco_magic.values.torch_storage import LOOKING

if TYPE_CHECKING:
    from disco_magic.core.place import Place

Array = np.ndarray[Any, Any]
_DEFINITIONS: Final = (type, types.FunctionType, types.ModuleType)
_MOST_OBJECTS: Final = 1_000_000


def bits_of(tensor: Any) -> Array | None:
    """The elements of a tensor or of JAX's array, of any strides; waits while JAX computes them.

    Where NumPy lacks a tensor's dtype they are integers with its bits. They share the memory, but for complex
    numbers that are conjugated when they are read. None if it is not on the CPU, is sparse, nested, quantized
    or deleted, or has no elements yet.
    """
    try:
        if is_jax_array(type(tensor)):
            return np.asarray(tensor) if device_of(tensor) == "cpu" else None
        if str(tensor.device) != "cpu" or str(tensor.dtype).startswith("torch.q"):
            return None
        tensor = to_be_seen(tensor)
        with LOOKING:
            return _bits(tensor) if has_memory(tensor) else None
    except Exception:  # noqa: BLE001 - there are ever more kinds of tensors that NumPy cannot look at
        return None


def to_be_seen(tensor: Any) -> Any:
    """What NumPy may see of a tensor: of an empty one a copy.

    Memory that it has once seen cannot be resized any more, and empty tensors wait for just that.
    """
    return tensor if tensor.numel() else tensor.clone()


def _bits(tensor: Any) -> Array:
    with suppress(TypeError):  # of a dtype that NumPy lacks
        return np.asarray(tensor.numpy(force=True))
    integers = getattr(sys.modules["torch"], f"int{8 * tensor.element_size()}")
    return np.asarray(tensor.detach().view(integers).numpy())


def local_part(value: Any) -> Any:
    """What a worker has of a DTensor of PyTorch's, a tensor; any other value itself."""
    return value._local_tensor if is_split_tensor(type(value)) else value  # noqa: SLF001 - `to_local` makes a graph


def kind_of_split(tensor: Any) -> str:
    """``DTensor(8x4, S(0), R)``: the shape of all of it, and how it is split along each axis of the mesh."""
    along = [shape_text(tuple(tensor.shape)), *map(str, tensor.placements)]
    return f"{name_of(type(tensor))}({', '.join(along)})"


def shard_of(tensor: Any) -> str:
    """Which part of a DTensor the worker has: ``"dp=0, tp=1"``; without axes that it is not split along."""
    mesh = tensor.device_mesh
    at = mesh.get_coordinate()
    if at is None:
        return "outside of the mesh"
    names = mesh.mesh_dim_names or [f"axis {axis}" for axis in range(mesh.ndim)]
    split = zip(names, at, tensor.placements, strict=True)
    return ", ".join(f"{name}={place}" for name, place, placement in split if not placement.is_replicate())


def mesh_of(tensor: Any) -> tuple[int, ...]:
    """The ranks of the mesh that a DTensor is on, in order."""
    return tuple(map(int, tensor.device_mesh.mesh.flatten().tolist()))


def has_replicas(tensor: Any) -> bool:
    """Whether several workers have the same part of a DTensor."""
    mesh = tensor.device_mesh
    return any(
        placement.is_replicate() and mesh.size(axis) > 1 for axis, placement in enumerate(tensor.placements)
    )


def has_memory(tensor: Any) -> bool:
    """Whether a tensor has the memory of its elements, and has not given it back.

    NumPy would show in their place whatever lies elsewhere.
    """
    return not tensor.numel() or tensor.untyped_storage().nbytes() > 0


def numbers_of(tensor: Any) -> Array | None:
    """The elements as numbers, in float32 where NumPy lacks their dtype; None as `bits_of`."""
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
    """Whether a look at an array of JAX waits for nothing: it may still be computed, or be given away."""
    try:
        # One that is deleted must not be asked the second question, which ends the process (0.10). Both are
        # asked in one call of C code, so that nobody deletes it between them.
        told = any(map(operator.call, (array.is_deleted, array.is_ready)))
        return told and not array.is_deleted()
    except Exception:  # noqa: BLE001 - what JAX raises of one whose memory it has given away
        return False


def without_history(value: Any) -> Any:
    """`value`; of a tensor that requires grad, where no gradients are recorded, its elements alone."""
    if is_tensor(type(value)) and value.requires_grad and not _records_gradients():
        return value.detach()
    return value


def elements_of_computed(value: Any) -> dict[int, Any]:
    """By `id`, copies without a history of the tensors in `value` that have one; in any depth."""
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
    """A tensor's own memory as an array; of bfloat16 and float8 with the dtypes of `ml_dtypes`.

    Raises:
        UsageMistake: there is no such array, or what is made of it would need a gradient.
    """
    tensor = without_history(tensor)
    if tensor.requires_grad:
        raise UsageMistake("it requires grad - use .detach(), which shares its memory")
    return memory_of(tensor)


def memory_of(tensor: Any) -> Array:
    """As `array_of`, of one without a history."""
    try:
        with LOOKING:
            if has_memory(tensor):
                return np.asarray(to_be_seen(tensor).numpy())
        raise UsageMistake("its memory was given back: it has no elements now")
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
    """Whether the calling thread is outside of `torch.no_grad` and of what a Function does."""
    torch = sys.modules.get("torch")
    return torch is None or bool(torch.is_grad_enabled())


def over_memory(value: Any, place: Place, refusal: str) -> Any:
    """`value` as an array that planes carry, over the same memory; what is no array as it is.

    That is of NumPy, or of the library that computes at `place`; PyTorch's, and what others lend there.

    Raises:
        UsageMistake: `refusal` with the reason: it requires grad, or there is no such array of it.
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
    """What a caller wants filled, as planes write it, see `over_memory`.

    Args:
        verb: the collective.
        out: of the caller.
        place: the worker's.

    Raises:
        UsageMistake: nothing can be written into that array or tensor.
    """
    if is_jax_array(type(out)):
        raise UsageMistake(f"{verb}: nothing can be written to out, an array of JAX - take what is returned")
    return over_memory(out, place, f"{verb}: nothing can be written to out, a {type(out).__name__}")


def filled(out: Any) -> Any:
    """`out`, that something was written to: PyTorch is told, which would not see it.

    What was computed from its former elements has no gradient any more, and says so.
    """
    if type(out) is not np.ndarray and is_tensor(type(out)) and not out.is_inference():
        sys.modules["torch"].autograd.graph.increment_version(out)
    return out
