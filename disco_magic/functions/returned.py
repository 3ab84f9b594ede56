"""What callers get: for an array of PyTorch or JAX one of the same library, for bytes the object they were.

Planes carry arrays of NumPy and cupy, which may be the bytes of an object.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.core.seat import PICKLE
from disco_magic.functions.pickles import unpacked
from disco_magic.values.kinds import home_of, is_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

_JAX: Final = ("jax", "jaxlib")


def library_of(kind: type) -> str:
    """``torch`` or ``jax`` for classes of their arrays; empty for all others."""
    if is_tensor(kind):
        return "torch"
    return "jax" if home_of(kind) in _JAX else ""


def library_in(value: Any) -> str:
    """The `library_of` of an array, or of all items of a list or tuple; empty if they differ."""
    kind = type(value)
    if kind not in (list, tuple):
        return "" if kind is np.ndarray else library_of(kind)  # the usual case, at once
    libraries = {library_of(each) for each in set(map(type, value))}
    return libraries.pop() if len(libraries) == 1 else ""


def stacked(value: Any) -> Any:
    """`value`, with a list or tuple of tensors stacked into one: NumPy cannot stack some of their dtypes."""
    if type(value) in (list, tuple) and library_in(value) == "torch":
        return importlib.import_module("torch").stack(tuple(value))
    return value


def as_sent(library: str, array: Any, given: Any) -> Any:
    """What a call returns for the `array` that it got: an array of `library`, or the object that was sent.

    Args:
        library: the sender's `Seat.library`.
        array: of NumPy or cupy.
        given: the first argument of the call; of a `recv`, the sender.
    """
    if library == PICKLE:
        return unpacked("recv", array, given)
    return as_array_of(library, array, given)


def as_array_of(library: str, array: Any, like: Any = None) -> Any:
    """Return `array`, of NumPy or cupy, as one of `library`, which is imported.

    Shape and dtype are kept; JAX makes float32 of float64 unless it is configured otherwise. PyTorch's has
    the same memory on the CPU. JAX's is where `like`, the array that the caller passed, is, if that is JAX's.
    """
    return _WAYS[library](importlib.import_module(library), array, like)


def _tensor(torch: Any, array: Any, _: Any) -> Any:
    bits = _bits(array)
    tensor = torch.from_numpy(bits) if isinstance(bits, np.ndarray) else _own_tensor(torch, bits)
    return tensor if bits is array else tensor.view(getattr(torch, array.dtype.name))


def _own_tensor(torch: Any, array: Any) -> Any:
    """A copy in PyTorch's memory: cupy might reuse its own while PyTorch's streams still read it."""
    tensor = torch.from_dlpack(array).clone()
    torch.cuda.current_stream(tensor.device).synchronize()
    return tensor


def _jax_array(jax: Any, array: Any, like: Any) -> Any:
    if not isinstance(array, np.ndarray):
        bits = _bits(array)
        taken = jax.dlpack.from_dlpack(bits)
        return taken if bits is array else taken.view(array.dtype)
    own = library_of(type(like)) == "jax"
    if own and like.committed and len(like.devices()) == 1:
        return jax.device_put(array, like.device)
    if own or jax.default_backend() == "cpu":
        return jax.numpy.asarray(array)
    return jax.device_put(array, jax.local_devices(backend="cpu")[0])  # on the host, as the plane has it


def _bits(array: Any) -> Any:
    """`array`, or integers with its bits if DLPack or PyTorch may not take its dtype."""
    plain = home_of(array.dtype.type) == "numpy" and array.dtype.kind != "b"
    return array if plain else array.view(f"i{array.dtype.itemsize}")


_WAYS: Final[dict[str, Callable[[Any, Any, Any], Any]]] = {"torch": _tensor, "jax": _jax_array}
