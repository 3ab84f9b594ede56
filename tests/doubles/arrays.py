"""Stand-ins for arrays of CuPy, PyTorch and JAX, for machines without these libraries or a GPU.

Like real ones, arrays on a device refuse implicit conversion to NumPy. They count what is copied to the host.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np


class _Remote:
    """An array on a device.

    Attributes:
        shape, dtype, device, nbytes: as its library gives them.
        fetched: number of elements of each copy to the host.
    """

    def __init__(self, array: Any, dtype: Any, device: Any, fetched: list[int] | None = None) -> None:
        self._array = np.asarray(array)
        self.shape = self._array.shape
        self.dtype = dtype
        self.device = device
        self.nbytes = self._array.nbytes
        self.fetched: list[int] = [] if fetched is None else fetched

    def __getitem__(self, index: Any) -> Any:
        return type(self)(self._array[index], self.dtype, self.device, self.fetched)

    def _fetch(self) -> Any:
        self.fetched.append(self._array.size)
        return self._array.copy()

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("an array on a device is not converted to one of NumPy by itself")

    __array__ = __iter__ = __len__ = __bool__ = _refuse


class _Device(nullcontext[None]):
    """Stand-in for `cupy.ndarray.device`, which is the current device within a ``with`` block."""

    def __str__(self) -> str:
        return "<CUDA Device 0>"


class _CupyArray(_Remote):
    def get(self) -> Any:
        """A copy on the host."""
        return self._fetch()


class _Tensor(_Remote):
    requires_grad = False
    grad_fn = None
    version = 0
    layout = "torch.strided"

    def __array__(self, *_: object, **__: object) -> Any:
        return self._array if self.device == "cpu" else self._refuse()

    def is_inference(self) -> bool:
        """False: the tensor has a version, which counts how often it was written."""
        return False

    def element_size(self) -> int:
        """Size of an element in bytes."""
        return self._array.itemsize

    def view(self, dtype: Any) -> Any:
        """The same bits as elements of another dtype."""
        array = self._array.view(str(dtype).removeprefix("torch."))
        return type(self)(array, dtype, self.device, self.fetched)

    def reshape(self, *shape: Any) -> Any:
        """The same elements in another shape."""
        return type(self)(self._array.reshape(*shape), self.dtype, self.device, self.fetched)

    def untyped_storage(self) -> Any:
        """Its memory, as large as its elements."""
        return SimpleNamespace(nbytes=lambda: self._array.nbytes)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._array.ctypes.data

    def stride(self) -> tuple[int, ...]:
        """Steps along each axis, in elements."""
        return tuple(step // self._array.itemsize for step in self._array.strides)

    def is_contiguous(self) -> bool:
        """Whether the elements are C-contiguous."""
        return self._array.flags.c_contiguous

    def is_conj(self) -> bool:
        """False: the elements are read as they are."""
        return False

    is_neg = is_conj

    def numel(self) -> int:
        """The number of elements."""
        return self._array.size

    def clone(self) -> Any:
        """A copy."""
        return type(self)(self._array.copy(), self.dtype, self.device, self.fetched)

    def detach(self) -> Any:
        """The same elements without autograd history."""
        return type(self)(self._array, self.dtype, self.device, self.fetched)

    def float(self) -> Any:
        """As float32."""
        return type(self)(self._array.astype(np.float32), "torch.float32", self.device, self.fetched)

    def numpy(self, *, force: bool = False) -> Any:
        """A copy on the host, which needs `force`; on the host, the elements themselves."""
        if str(self.dtype) in ("torch.bfloat16", "torch.float8_e4m3fn"):
            raise TypeError(f"NumPy has no {self.dtype}")
        if self.device == "cpu":
            return self._array
        return self._fetch() if force else self._refuse()


class _JaxArray:
    """Stand-in for an array of JAX on the host, which may not be computed yet."""

    weak_type = committed = False

    def __init__(self, array: Any, *, ready: bool) -> None:
        self._array: Any = np.asarray(array)
        self._array.flags.writeable = False
        self._ready = ready
        self.shape, self.dtype, self.nbytes = self._array.shape, self._array.dtype, self._array.nbytes
        self.size, self.device = self._array.size, "cpu:0"

    def is_ready(self) -> bool:
        """Whether the array is computed; for a deleted one, real JAX crashes."""
        if self.is_deleted():
            raise AssertionError("this ends the process")
        return self._ready

    def delete(self) -> None:
        """Delete the array, as `jax.jit` does with a donated argument."""
        self._array = None

    def is_deleted(self) -> bool:
        """Whether the array was deleted."""
        return self._array is None

    def __array__(self, *_: object, **__: object) -> Any:
        if not self._ready:
            raise AssertionError("this would have waited")
        if self.is_deleted():
            raise RuntimeError("Array has been deleted")
        return self._array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __reduce__(self) -> Any:
        return jax_array, (self._array.copy(),)


# Values are recognized by the names of their types.
_CupyArray.__module__, _CupyArray.__name__ = "cupy", "ndarray"
_Tensor.__module__, _Tensor.__name__ = "torch", "Tensor"
_JaxArray.__module__, _JaxArray.__name__ = "jaxlib._jax", "ArrayImpl"


def cupy_array(array: Any) -> Any:
    """A stand-in for ``cupy.asarray(array)``."""
    return _CupyArray(array, np.asarray(array).dtype, _Device())


def jax_array(array: Any, *, ready: bool = True) -> Any:
    """A stand-in for ``jax.numpy.asarray(array)`` on the CPU; `ready`: it is computed already."""
    return _JaxArray(array, ready=ready)


def _written(made: Any) -> None:
    made.version += 1


def torch() -> Any:
    """The part of PyTorch's module that is needed to make tensors on the host and to look into them."""
    names = ("bool", "bfloat16", "float8_e4m3fn", "int8", "int16", "int64")
    return SimpleNamespace(
        from_numpy=lambda array: tensor(array, device="cpu"),
        stack=lambda tensors: tensor(np.stack([each.numpy() for each in tensors]), device="cpu"),
        is_grad_enabled=lambda: True,
        autograd=SimpleNamespace(graph=SimpleNamespace(increment_version=_written)),
        **{name: f"torch.{name}" for name in names},
    )


def tensor(array: Any, dtype: str | None = None, device: str = "cuda:0") -> Any:
    """A stand-in for ``torch.asarray(array, device=device)``; `dtype` is the name of its dtype."""
    return _Tensor(array, dtype or f"torch.{np.asarray(array).dtype.name}", device)
