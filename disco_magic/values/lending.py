"""Memory of other libraries' tensors as NumPy's arrays, without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.values.kinds import home_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Before 2.2, NumPy lets nobody write into what it got by DLPack.
_ALWAYS_WRITABLE: Final = ("tvm", "tvm_ffi")


class _Writable:
    """The memory of `array`, which NumPy will take for writable."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array  # whoever has the memory keeps this object, and this one the array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def has_dlpack(x: object) -> bool:
    """Whether `x` lends its memory through DLPack, and is no array of NumPy: a tensor of TVM, PyTorch, ..."""
    return hasattr(type(x), "__dlpack__") and not isinstance(x, np.ndarray)


def lent(x: Any) -> NDArray[Any]:
    """The memory of what `has_dlpack`; read-only where its owner says so.

    Raises:
        Exception: whatever `x` or NumPy raise of memory on a GPU, or of a dtype that NumPy does not know.
    """
    array: NDArray[Any] = np.from_dlpack(x)
    if array.flags.writeable or home_of(type(x)) not in _ALWAYS_WRITABLE:
        return array
    return np.asarray(_Writable(array))
