"""Stand-ins for arrays of CuPy and PyTorch on a device, for machines that have none of it.

They refuse what real ones refuse, to be read by NumPy without being asked, and say how much was
copied to the host.
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
        fetched: how many elements each copy to the host had.
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
    """What `cupy.ndarray.device` is: the current device inside of a ``with``."""

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
        """No: it has a version, that counts how often it was written."""
        return False

    def element_size(self) -> int:
        """Bytes of an element."""
        return self._array.itemsize

    def view(self, dtype: Any) -> Any:
        """The same bits as another dtype."""
        array = self._array.view(str(dtype).removeprefix("torch."))
        return type(self)(array, dtype, self.device, self.fetched)

    def reshape(self, *shape: Any) -> Any:
        """The same elements in another shape."""
        return type(self)(self._array.reshape(*shape), self.dtype, self.device, self.fetched)

    def untyped_storage(self) -> Any:
        """Its memory: as much as its elements take."""
        return SimpleNamespace(nbytes=lambda: self._array.nbytes)

    def data_ptr(self) -> int:
        """Where the first element is."""
        return self._array.ctypes.data

    def stride(self) -> tuple[int, ...]:
        """From one element to the next, in elements."""
        return tuple(step // self._array.itemsize for step in self._array.strides)

    def is_contiguous(self) -> bool:
        """Whether they lie one after the other."""
        return self._array.flags.c_contiguous

    def is_conj(self) -> bool:
        """No: it is read as it is."""
        return False

    is_neg = is_conj

    def numel(self) -> int:
        """How many elements there are."""
        return self._array.size

    def clone(self) -> Any:
        """A copy."""
        return type(self)(self._array.copy(), self.dtype, self.device, self.fetched)

    def detach(self) -> Any:
        """The same elements without a history."""
        return type(self)(self._array, self.dtype, self.device, self.fetched)

    def float(self) -> Any:
        """As float32."""
        return type(self)(self._array.astype(np.float32), "torch.float32", self.device, self.fetched)

    def numpy(self, *, force: bool = False) -> Any:
        """A copy on the host, which has to be forced; of one that is there the elements themselves."""
        if str(self.dtype) in ("torch.bfloat16", "torch.float8_e4m3fn"):
            raise TypeError(f"NumPy has no {self.dtype}")
        if self.device == "cpu":
            return self._array
        return self._fetch() if force else self._refuse()


class _JaxArray:
    """An array of JAX on the host, which may still be computed."""

    weak_type = committed = False

    def __init__(self, array: Any, *, ready: bool) -> None:
        self._array: Any = np.asarray(array)
        self._array.flags.writeable = False
        self._ready = ready
        self.shape, self.dtype, self.nbytes = self._array.shape, self._array.dtype, self._array.nbytes
        self.size, self.device = self._array.size, "cpu:0"

    def is_ready(self) -> bool:
        """Whether it is computed; of one that is deleted nobody may ask."""
        if self.is_deleted():
            raise AssertionError("this ends the process")
        return self._ready

    def delete(self) -> None:
        """Give its memory away, as `jax.jit` does with a donated argument."""
        self._array = None

    def is_deleted(self) -> bool:
        """Whether it was given away."""
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


# What a look goes by is the name of a value's type.
_CupyArray.__module__, _CupyArray.__name__ = "cupy", "ndarray"
_Tensor.__module__, _Tensor.__name__ = "torch", "Tensor"
_JaxArray.__module__, _JaxArray.__name__ = "jaxlib._jax", "ArrayImpl"


def cupy_array(array: Any) -> Any:
    """Something like ``cupy.asarray(array)``."""
    return _CupyArray(array, np.asarray(array).dtype, _Device())


def jax_array(array: Any, *, ready: bool = True) -> Any:
    """Something like ``jax.numpy.asarray(array)`` on the CPU; `ready`: it is computed already."""
    return _JaxArray(array, ready=ready)


def _written(made: Any) -> None:
    made.version += 1


def torch() -> Any:
    """What is needed of PyTorch's module to look into tensors on the host, and to make them."""
    names = ("bool", "bfloat16", "float8_e4m3fn", "int8", "int16", "int64")
    return SimpleNamespace(
        from_numpy=lambda array: tensor(array, device="cpu"),
        stack=lambda tensors: tensor(np.stack([each.numpy() for each in tensors]), device="cpu"),
        is_grad_enabled=lambda: True,
        autograd=SimpleNamespace(graph=SimpleNamespace(increment_version=_written)),
        **{name: f"torch.{name}" for name in names},
    )


def tensor(array: Any, dtype: str | None = None, device: str = "cuda:0") -> Any:
    """Something like ``torch.asarray(array, device=device)``; `dtype` is what it calls its dtype."""
    return _Tensor(array, dtype or f"torch.{np.asarray(array).dtype.name}", device)
