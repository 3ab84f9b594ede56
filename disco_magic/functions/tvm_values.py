"""Values on their way to TVM and back: tensors on its side, arrays of NumPy and of GPUs on ours.

An array is lent to TVM by DLPack, without a copy, if it is C-contiguous, writable, of native byte order and
begins at a multiple of 64 bytes: with any other, compiled code may use instructions that end the process, and
nothing checks it there. Any other array is copied for the call, and what the function wrote is copied back if
the array is writable. NumPy's own arrays begin at multiples of 16 bytes, large ones 16 bytes after the start
of a page: large ones are always copied. What TVM returns is aligned, and so is what workers get from us from
512 KiB on: arguments, results of collectives, parameters from files. `aligned.py` aligns any array. Arrays on
the worker's GPU are lent as they are, and TVM queues its work on the worker's current stream.
"""

from __future__ import annotations

import threading
import types
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.callers.current import calling_worker
from disco_magic.core.device import Device
from disco_magic.errors import UsageMistake, WorkerInterrupt
from disco_magic.functions.aligned import ALIGNMENT, aligned
from disco_magic.functions.bridges import bring, cross, land, lands
from disco_magic.functions.modules import Module
from disco_magic.functions.places import HOST_PLACE
from disco_magic.values.tensors import lent

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from disco_magic.core.place import Place

    Array = np.ndarray[Any, Any]


class Held(Module):
    """A module that is an object of TVM, `library`."""

    library: Any


def ffi_module() -> Any:
    """Return `tvm_ffi`, imported on first use."""
    bring("tvm_ffi")
    import tvm_ffi  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return tvm_ffi


def _place() -> Place:
    me = calling_worker()
    return HOST_PLACE if me is None else me.place


def _stream() -> AbstractContextManager[Any]:
    """A context in which TVM's functions queue their work on the worker's own stream, if it has a GPU."""
    place = _place()
    if place is HOST_PLACE:
        return nullcontext()
    ffi, stream = ffi_module(), place.xp.cuda.get_current_stream()
    context: AbstractContextManager[Any] = ffi.use_raw_stream(ffi.device(str(place.device)), stream.ptr)
    return context


class TVMFunction:
    """A function of TVM that takes and returns arrays, NumPy's and those of the worker's GPU.

    This module's docstring says which of NumPy's are copied; none of a GPU's is.

    Other arguments: numbers and NumPy scalars, text, bytes, None, dtypes, devices, TVM's own objects, tuples,
    lists and dicts of all these, functions (which get arrays, too). Other results: TVM's arrays come as
    tuples, its maps as dicts, its functions as `TVMFunction`; a tensor of a dtype that NumPy lacks (bfloat16)
    and every other object stays as it is, and can be passed to TVM again.

    It takes no keywords. An interrupt strikes when TVM returns, or in a Python function that was passed to
    it. If a cell calls TVM without this class, the interrupt does not wait for that, and may end the process.

    Cost: 2 us, and 1 us per array, plus TVM's own.
    """

    __slots__ = ("disco_name", "function")

    def __init__(self, name: str, function: Any) -> None:
        self.disco_name = name
        self.function = function

    def __call__(self, *args: Any) -> Any:
        """Call it; raise what TVM raises, and UsageMistake for an array that TVM cannot read."""
        loan = _Loan()
        lent = [loan.lend(value) for value in args]
        error = None
        try:
            with _stream():
                result = cross(self.function, *lent)
        except WorkerInterrupt:
            raise
        except BaseException as reason:
            error = _raised.behind(reason)
            if error is None:
                raise
        finally:
            _raised.error = None
        if error is not None:
            try:
                raise error
            finally:  # else the error would hold this frame, which holds the error
                del error, loan, lent
        loan.end()
        return to_numpy(result)

    def __repr__(self) -> str:
        return f"<TVM function {self.disco_name}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> TVMFunction:
        return self


class _Loan:
    """The arguments of one call, in TVM's form."""

    __slots__ = ("_copies",)

    def __init__(self) -> None:
        # By the array's id: an array that is passed twice has to be one array for the function.
        self._copies: dict[int, tuple[Array, Array]] = {}

    def lend(self, value: Any) -> Any:  # noqa: PLR0911 - a case per kind of value
        kind = type(value)
        if isinstance(value, np.ndarray):
            return self._tensor(value)
        if isinstance(value, np.generic):
            return value.item()
        near = _place().read(value)
        if near is not None:
            return ffi_module().from_dlpack(
                near
            )  # without a copy; TVM says what it lacks, an alignment for instance
        if kind in (tuple, list):
            return [self.lend(item) for item in value]
        if kind is dict:
            return {key: self.lend(item) for key, item in value.items()}
        if isinstance(value, TVMFunction):
            return value.function
        if isinstance(value, Held):
            return value.library
        if isinstance(value, Device):
            return ffi_module().device(f"{value.kind}:{value.index}")
        if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType):
            return callback(value)
        return value

    def _tensor(self, array: Array) -> Any:
        ffi = ffi_module()
        known = self._copies.get(id(array))
        if known is None:
            try:
                return ffi.from_dlpack(array, require_alignment=ALIGNMENT, require_contiguous=True)
            except (RuntimeError, BufferError):
                # It cannot be lent; a copy says why if that cannot be lent either.
                known = self._copies[id(array)] = (array, aligned(array))
        try:
            return ffi.from_dlpack(known[1])
        except BufferError as reason:
            raise UsageMistake(
                f"an array of dtype {array.dtype} cannot be handed to TVM: {reason}; convert it with astype"
            ) from reason

    def end(self) -> None:
        """Copy back what the function may have written."""
        for array, copy in self._copies.values():
            if array.flags.writeable:
                np.copyto(array, copy)


class _Raised(threading.local):
    """What a function that TVM called has raised in this thread: TVM passes on another exception."""

    error: BaseException | None = None

    def behind(self, reason: BaseException) -> BaseException | None:
        """The error that a function of ours raised, if that is what TVM reports with `reason`."""
        error = self.error
        return error if error is not None and str(error) in str(reason) else None


_raised = _Raised()


def callback(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a Python function so that TVM can call it with its tensors."""

    @lands
    def call(*args: Any) -> Any:
        _raised.error = None
        try:
            land()
            return _Loan().lend(function(*map(to_numpy, args)))
        except BaseException as error:
            _raised.error = error
            raise

    return call


def to_numpy(value: Any) -> Any:  # noqa: PLR0911 - a case per kind of value
    """Convert what a function of TVM returned, as `TVMFunction` says; arrays share the tensors' memory."""
    ffi = ffi_module()
    if isinstance(value, ffi.Tensor):
        try:
            return lent(value)
        except (RuntimeError, BufferError):
            near = _place().read(value)
            return value if near is None else near  # of a dtype that NumPy lacks, or on a device
    if isinstance(value, ffi.Array):
        return tuple(map(to_numpy, value))
    if isinstance(value, ffi.Map):
        return {to_numpy(key): to_numpy(item) for key, item in value.items()}
    if isinstance(value, ffi.Function):
        return TVMFunction("function", value)
    if isinstance(value, ffi.Module):
        from disco_magic.functions.tvm_modules import Library  # which imports this module

        return Library(f"<{value.kind}>", value)
    if isinstance(value, ffi.core.String):
        return str(value)
    if isinstance(value, ffi.core.Bytes):
        return bytes(value)
    return value
