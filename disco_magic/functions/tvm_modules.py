"""What TVM compiled, and its global functions: tensors on its side, NumPy arrays on ours.

Nothing here imports TVM before it is used. A call releases the GIL, so that workers compute at once. A
virtual machine keeps the frames of its calls in itself: two threads in one crash the process. So every worker
gets its own, over one library per process. Loops that were compiled to be parallel run in threads of TVM's,
for each worker as many as the machine has cores, or as TVM_NUM_THREADS said before the first of them.

An array is lent to TVM by DLPack, without a copy, if it is C-contiguous, writable, of native byte order and
begins at a multiple of 64 bytes: compiled code may read it with instructions that end the process on any
other, and nothing checks it there. Another array is copied for the call, and what the function wrote is
copied back if it can be written. NumPy's own arrays begin at multiples of 16 bytes, large ones 16 bytes after
the start of a page: those are always copied. What TVM returns is aligned; `aligned.py` makes any array so.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.core.device import Device
from disco_magic.errors import UsageMistake
from disco_magic.functions.aligned import ALIGNMENT, aligned
from disco_magic.functions.modules import Module

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]

# Those of TVM's own Disco look for a worker of its own, which ours are not.
_NOT_FOR_US: Final = "runtime.disco."
_SYMBOL: Final = re.compile(rb"__tvm_ffi_([A-Za-z]\w*)\0")
# Functions of an executable's own; what it calls in other modules ends in "packed_func;".
_MACHINE_FUNCTION: Final = re.compile(r"^@(\S+)(?::| num_inputs=\d+ vm_tir_func;)$", re.MULTILINE)
_opened: set[Path] = set()


def _ffi() -> Any:
    import tvm_ffi  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return tvm_ffi


def _tvm() -> Any:
    import tvm  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return tvm


class TVMFunction:
    """A function of TVM that takes and gives NumPy arrays; the module says which ones are copied.

    Other arguments: numbers and NumPy scalars, text, bytes, None, dtypes, devices, TVM's own objects, tuples,
    lists and dicts of all these, functions (which get arrays too). Other results: TVM's arrays come as
    tuples, its maps as dicts, its functions as `TVMFunction`; a tensor that NumPy has no type for (bfloat16)
    and every other object stays as it is, for TVM to take again.

    It has no keywords. Cost: 1 us per array besides TVM's own.
    """

    __slots__ = ("disco_name", "function")

    def __init__(self, name: str, function: Any) -> None:
        self.disco_name = name
        self.function = function

    def __call__(self, *args: Any) -> Any:
        """Call it; raises what TVM raises, and UsageMistake for an array that it cannot read."""
        loan = _Loan()
        result = self.function(*[loan.lend(value) for value in args])
        loan.end()
        return to_numpy(result)

    def __repr__(self) -> str:
        return f"<TVM function {self.disco_name}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> TVMFunction:
        return self


class _Loan:
    """The arguments of one call, as TVM takes them."""

    __slots__ = ("_copies",)

    def __init__(self) -> None:
        # By the array's id: the same array given twice has to be the same one for the function.
        self._copies: dict[int, tuple[Array, Array]] = {}

    def lend(self, value: Any) -> Any:  # noqa: PLR0911 - a case per kind of value
        kind = type(value)
        if isinstance(value, np.ndarray):
            return self._tensor(value)
        if isinstance(value, np.generic):
            return value.item()
        if kind in (tuple, list):
            return [self.lend(item) for item in value]
        if kind is dict:
            return {key: self.lend(item) for key, item in value.items()}
        if isinstance(value, TVMFunction):
            return value.function
        if isinstance(value, Library):
            return value.library
        if isinstance(value, Device):
            return _ffi().device(f"{value.kind}:{value.index}")
        if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType):
            return _callback(value)
        return value

    def _tensor(self, array: Array) -> Any:
        ffi = _ffi()
        known = self._copies.get(id(array))
        if known is None:
            try:
                return ffi.from_dlpack(array, require_alignment=ALIGNMENT, require_contiguous=True)
            except (RuntimeError, BufferError):
                # Not one that can be lent; a copy of it says why if that cannot be lent either.
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


def _callback(function: Callable[..., Any]) -> Callable[..., Any]:
    """A Python function that TVM calls with its tensors."""

    def call(*args: Any) -> Any:
        return _Loan().lend(function(*map(to_numpy, args)))

    return call


class _Writable:
    """The memory of `array`, which NumPy will take for writable."""

    def __init__(self, array: Array) -> None:
        self.array = array  # whoever has the memory keeps this object, and this one the array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def to_numpy(value: Any) -> Any:  # noqa: PLR0911 - a case per kind of value
    """What a function of TVM returned, as `TVMFunction` says; arrays share the tensors' memory."""
    ffi = _ffi()
    if isinstance(value, ffi.Tensor):
        try:
            array = np.from_dlpack(value)
        except (RuntimeError, BufferError):
            return value  # a dtype that NumPy does not know, or memory of another device
        # Before 2.2, NumPy lets nobody write into what it got by DLPack.
        return array if array.flags.writeable else np.asarray(_Writable(array))
    if isinstance(value, ffi.Array):
        return tuple(map(to_numpy, value))
    if isinstance(value, ffi.Map):
        return {to_numpy(key): to_numpy(item) for key, item in value.items()}
    if isinstance(value, ffi.Function):
        return TVMFunction("function", value)
    if isinstance(value, ffi.Module):
        return Library(f"<{value.kind}>", value)
    if isinstance(value, ffi.core.String):
        return str(value)
    if isinstance(value, ffi.core.Bytes):
        return bytes(value)
    return value


# --- global functions ------------------------------------------------------------------------------


def global_function(name: str) -> TVMFunction | None:
    """The function registered with `tvm_ffi` as `name`; None if there is none for us."""
    if name.startswith(_NOT_FOR_US):
        return None
    function = _ffi().get_global_func(name, allow_missing=True)
    return None if function is None else TVMFunction(name, function)


def global_names() -> list[str]:
    """All names that `global_function` finds."""
    names: list[str] = _ffi().registry.list_global_func_names()
    return [name for name in names if not name.startswith(_NOT_FOR_US)]


# --- modules ---------------------------------------------------------------------------------------


class Library(Module):
    """A module of TVM's; one per process.

    Attributes:
        library: TVM's own object.
    """

    def __init__(self, path: Path | str, library: Any, symbols: frozenset[str] = frozenset()) -> None:
        super().__init__(path)
        self.library = library
        self._symbols = symbols

    def find(self, name: str, *, imports: bool = True) -> Callable[..., Any] | None:
        """The compiled function of that name, with `imports` also from the modules linked into it."""
        try:
            return TVMFunction(name, self.library.get_function(name, imports))
        except AttributeError:
            return None

    def function_names(self) -> list[str]:
        """The functions that its file exports."""
        return sorted(
            name for name in self._symbols if self.library.implements_function(name, query_imports=True)
        )

    def on(self, device: str) -> Library:
        """A virtual machine of its own for each worker, if it is an executable of one; or else itself."""
        if not self.library.implements_function("vm_load_executable"):
            return self
        tvm = _tvm()
        machine = tvm.runtime.vm.VirtualMachine(self.library, tvm.device(device))
        return Machine(self.path, machine.module, self.library)


class Machine(Library):
    """A virtual machine, which belongs to one worker."""

    def __init__(self, path: str, machine: Any, executable: Any) -> None:
        super().__init__(path, machine)
        self._executable = executable

    def find(self, name: str, *, imports: bool = True) -> Callable[..., Any] | None:
        """The function of that name, one of the program's or of the machine's own."""
        try:
            return super().find(name, imports=imports)
        except RuntimeError:
            return None  # TVM finds kernels that the program calls too, and refuses to give them

    def function_names(self) -> list[str]:
        """The functions of the program, without those of the machine itself and without kernels."""
        return sorted(_MACHINE_FUNCTION.findall(self._executable["as_text"]()))


def load(path: Path) -> Library:
    """Load a library or executable that TVM exported; the first one of a process imports TVM, about 1 s.

    It stays in the process to its end, as all of TVM's libraries do. The dynamic loader goes by the path:
    a file that was compiled again is loaded from a copy. A ``.tar`` is linked first.

    Raises:
        UsageMistake: it is a ``.tar`` and there is no C compiler.
        Whatever TVM raises: for a file that is no library, for instance.
    """
    tvm = _tvm()
    if path.suffix == ".tar" and tvm.support.cc.get_cc() is None:
        raise UsageMistake(
            f"'{path}' has to be linked, which takes a C compiler, and there is none here; "
            "export the module as .so instead"
        )
    if path not in _opened and path.suffix != ".tar":
        library = tvm.runtime.load_module(str(path))
        _opened.add(path)
        return Library(path, library, _symbols(path))
    with tempfile.TemporaryDirectory(prefix="disco_tvm_") as folder:
        copy = shutil.copy(path, folder)
        library = tvm.runtime.load_module(copy)
        return Library(path, library, _symbols(Path(f"{copy}.so") if path.suffix == ".tar" else Path(copy)))


def _symbols(path: Path) -> frozenset[str]:
    """Names that may be functions of a library, from its symbol table: TVM has no list of them."""
    return frozenset(name.decode() for name in _SYMBOL.findall(path.read_bytes()))
