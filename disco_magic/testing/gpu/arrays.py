"""`cupy.ndarray`: arrays in the memory of a simulated device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from disco_magic.testing.gpu import dlpack, operations, operators

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic.testing.gpu.world import World

_KINDS = "biufc"
# Extension types of ml_dtypes are of kind V.
_EXTENSIONS = ("bfloat16",)


def _plain(name: str) -> Any:
    return property(lambda self: getattr(self.raw, name), doc=f"As `numpy.ndarray.{name}`; known at once.")


def _reduction(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.world.cupy, name)(self, *args, **kwargs)

    method.__name__, method.__doc__ = name, f"As ``cupy.{name}``."
    return method


def _on_host(name: str) -> Any:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return getattr(self.get(), name)(*args, **options)

    method.__name__, method.__doc__ = name, f"As `numpy.ndarray.{name}`; waits for the stream."
    return method


def _view(name: str) -> Any:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return self.as_view(getattr(self.raw, name)(*args, **options))

    method.__name__, method.__doc__ = name, f"As `numpy.ndarray.{name}`: a view."
    return method


class DeviceArray(operators.Operators):
    """`cupy.ndarray`; each simulation has a subclass with its `world`.

    Attributes:
        raw: a view of the memory, for work on streams. CuPy has no such attribute.
        data: a `MemoryPointer` to the first element, which keeps the memory alive.
        base: the array that this one is a view of; None: it owns the memory.
    """

    __slots__ = ("__weakref__", "base", "data", "raw")
    world: ClassVar[World]
    __array_priority__ = 100
    shape, dtype, ndim, size = _plain("shape"), _plain("dtype"), _plain("ndim"), _plain("size")
    nbytes, itemsize, strides = _plain("nbytes"), _plain("itemsize"), _plain("strides")

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C"
    ) -> None:
        dtype, shape = np.dtype(dtype), (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        plain = dtype.kind in _KINDS and dtype.type.__module__ == "numpy"
        if not plain and dtype.name not in _EXTENSIONS:
            raise ValueError(f"Unsupported dtype {dtype}")
        if memptr is None:
            memory = self.world.malloc(operations.nbytes_of(shape, dtype))
            memptr = self.world.cupy.cuda.MemoryPointer(memory, 0)
        self.data = memptr
        self.base: Any = None
        self.raw = np.ndarray(shape, dtype, memptr.mem.bytes, memptr.offset, strides, order)  # type: ignore[arg-type]

    def as_view(self, raw: Any) -> Any:
        """Make an array over `raw`, a part of the same memory."""
        made = object.__new__(type(self))
        made.raw, made.base = raw, self if self.base is None else self.base
        offset = self.data.offset + raw.ctypes.data - self.raw.ctypes.data if raw.size else self.data.offset
        made.data = type(self.data)(self.data.mem, offset)
        return made

    # --- what it is ------------------------------------------------------------------------------------

    @property
    def device(self) -> Any:
        """The device of the array."""
        return self.data.device

    @property
    def flags(self) -> Any:
        """`c_contiguous`, `f_contiguous`, `owndata`."""
        flags = self.raw.flags
        return SimpleNamespace(
            c_contiguous=flags.c_contiguous, f_contiguous=flags.f_contiguous, owndata=self.base is None
        )

    @property
    def T(self) -> Any:
        """A view with the axes in reverse order."""
        return self.as_view(self.raw.T)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "version": 3,
            "strides": None if self.raw.flags.c_contiguous else self.strides,
            "data": (self.data.ptr if self.size else 0, False),
        }
        # 1 is the null stream; the interface does not allow 0.
        return interface | {"stream": self.world.stream().ptr or 1}

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.data.device_id

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> Any:
        return dlpack.export(self.world, self, stream)

    # --- to and from the host --------------------------------------------------------------------------

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        """Copy to the host, and wait for `stream`, None: the current one of the array's device.

        With ``blocking=False`` a copy into pinned memory (`out`) is not waited for; others are.
        """
        if out is not None:
            self._check_like(out, "obtained from")
        with self.device:
            used = self.world.stream() if stream is None else stream
            if order == "A":
                order = "F" if self.raw.flags.f_contiguous else "C"
            host = np.empty(self.shape, self.dtype, order) if out is None else out  # type: ignore[call-overload]
            fortran = host.flags.f_contiguous and not host.flags.c_contiguous
            packed = self if self._is_packed(host) else self.copy("F" if fortran else "C")
            self.world.download(host, packed.raw, used.queue)
            if blocking:
                used.synchronize()
        return host

    def _is_packed(self, host: Any) -> bool:
        own, other = self.raw.flags, host.flags
        if not (other.c_contiguous or other.f_contiguous):
            raise RuntimeError("`out` cannot be specified when copying to non-contiguous ndarray")
        return bool(own.c_contiguous and other.c_contiguous) or bool(own.f_contiguous and other.f_contiguous)

    def set(self, arr: Any, stream: Any = None) -> None:
        """Copy from a host array, which the caller may change at once unless it is in pinned memory."""
        self._check_like(arr, "set to")
        if not (self.raw.flags.c_contiguous or self.raw.flags.f_contiguous):
            raise RuntimeError("Cannot set to non-contiguous array")
        host = np.ascontiguousarray(arr) if self.raw.flags.c_contiguous else np.asfortranarray(arr)
        with self.device:
            used = self.world.stream() if stream is None else stream
            self.world.upload(self.raw, host, used.queue)

    def _check_like(self, host: Any, verb: str) -> None:
        if not isinstance(host, np.ndarray):
            raise TypeError(f"Only numpy.ndarray can be {verb} cupy.ndarray")
        if host.dtype != self.dtype:
            raise TypeError(f"{host.dtype} array cannot be {verb} {self.dtype} array")
        if host.shape != self.shape:
            raise ValueError(f"Shape mismatch. Expected shape: {self.shape}, actual shape: {host.shape}")

    def __array__(self, *_: object, **__: object) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy "
            "array explicitly."
        )

    item, tolist, tobytes = _on_host("item"), _on_host("tolist"), _on_host("tobytes")
    __bool__, __int__, __index__ = _on_host("__bool__"), _on_host("__int__"), _on_host("__index__")
    __float__, __complex__ = _on_host("__float__"), _on_host("__complex__")
    __repr__, __str__, __format__ = _on_host("__repr__"), _on_host("__str__"), _on_host("__format__")

    # --- copies and views ------------------------------------------------------------------------------

    def copy(self, order: str = "C") -> Any:
        """Make a copy on the current device."""
        if self.data.device_id == self.world.device.id:
            return self.astype(self.dtype, order)
        with self.device:
            packed = self.astype(self.dtype, order, copy=False)
        made = operations.empty(self.world, self.shape, self.dtype, operations.kept_order(self.raw, order))
        source = packed.raw
        return operations.put(self.world, made, lambda: source)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        with self.device:
            return self.copy()

    def __reduce__(self) -> Any:
        raise TypeError("arrays of the simulated GPU cannot be pickled: their device would not be there")

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: Any = None,
        subok: object = None,
        copy: bool = True,
    ) -> Any:
        """Convert to a dtype; the array itself if nothing has to change and `copy` is false."""
        raw, dtype = self.raw, np.dtype(dtype)
        if not np.can_cast(self.dtype, dtype, casting or "unsafe"):
            raise TypeError(
                f"Cannot cast array data from {self.dtype} to {dtype} according to the rule {casting!r}"
            )
        kept = operations.kept_order(raw, order)
        if (
            not copy
            and dtype == self.dtype
            and (raw.flags.f_contiguous if kept == "F" else raw.flags.c_contiguous)
        ):
            return self
        raw = operations.operand(self.world, self)
        return operations.put(self.world, operations.empty(self.world, self.shape, dtype, kept), lambda: raw)

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """A view if the memory layout allows one, else a copy."""
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        candidate = self.raw.reshape(wanted, order=order)  # type: ignore[call-overload]
        if np.may_share_memory(candidate, self.raw) or not self.size:
            return self.as_view(candidate)
        return self.copy(order).reshape(candidate.shape, order=order)

    def ravel(self, order: str = "C") -> Any:
        """As ``reshape(-1)``."""
        return self.reshape(-1, order=order)

    def flatten(self, order: str = "C") -> Any:
        """A copy with one axis."""
        return self.copy(order).ravel(order)

    transpose, squeeze = _view("transpose"), _view("squeeze")

    def view(self, dtype: Any = None) -> Any:
        """The same bytes as elements of another dtype."""
        return self.as_view(self.raw.view() if dtype is None else self.raw.view(dtype))

    def fill(self, value: Any) -> None:
        """Set all elements to one value."""
        operators.assign(self.world, self, Ellipsis, value)

    # --- parts -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.raw)

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if operators.is_basic(self.world, index):
            return self.as_view(operators.view(self.raw, index))
        return operators.take(self.world, self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice) and index == slice(None) and isinstance(value, np.ndarray):
            self.set(value)
        else:
            operators.assign(self.world, self, index, value)

    sum, mean, prod = _reduction("sum"), _reduction("mean"), _reduction("prod")
    min, max, any, all = _reduction("min"), _reduction("max"), _reduction("any"), _reduction("all")
    argmax, argmin, dot = _reduction("argmax"), _reduction("argmin"), _reduction("dot")
    clip, std, var = _reduction("clip"), _reduction("std"), _reduction("var")
