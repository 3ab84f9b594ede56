"""Memory of other libraries' tensors as NumPy arrays, without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.values.kinds import home_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
