"""What a collective gives back to who brought an array of PyTorch or JAX: one of the same library.

Planes carry arrays of NumPy and cupy. What is made of a result here shares its memory, wherever that is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.functions.kinds import home_of, is_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

_JAX: Final = ("jax", "jaxlib")


def library_of(kind: type) -> str:
    """``torch`` or ``jax`` of their arrays' class; empty of all others."""
    if is_tensor(kind):
        return "torch"
    return "jax" if home_of(kind) in _JAX else ""


def as_array_of(library: str, array: Any) -> Any:
    """`array`, of NumPy or cupy, as one of `library`, which is imported.

    Of the same shape, dtype and device; JAX makes float32 of float64 unless it is told otherwise.
    """
    return _WAYS[library](importlib.import_module(library), array)


def _tensor(torch: Any, array: Any) -> Any:
    bits = _bits(array)
    tensor = torch.from_numpy(bits) if isinstance(bits, np.ndarray) else torch.from_dlpack(bits)
    return tensor if bits is array else tensor.view(getattr(torch, array.dtype.name))


def _jax_array(jax: Any, array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        bits = _bits(array)
        taken = jax.dlpack.from_dlpack(bits)
        return taken if bits is array else taken.view(array.dtype)
    if jax.default_backend() == "cpu":
        return jax.numpy.asarray(array)
    # What is on the CPU there has been put there, and stays.
    return jax.device_put(array, jax.local_devices(backend="cpu")[0])


def _bits(array: Any) -> Any:
    """`array`, or of a dtype that DLPack or PyTorch may not take from it integers with its bits."""
    plain = home_of(array.dtype.type) == "numpy" and array.dtype.kind != "b"
    return array if plain else array.view(f"i{array.dtype.itemsize}")


_WAYS: Final[dict[str, Callable[[Any, Any], Any]]] = {"torch": _tensor, "jax": _jax_array}
