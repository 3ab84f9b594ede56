"""Modules that TVM compiled, and its global functions; how their values travel is in `tvm_values`.

Nothing here imports TVM before it is used. A call releases the GIL, so that workers compute in parallel. A
virtual machine keeps the frames of its calls in itself: two threads in one crash the process. So every worker
gets its own, over one library per process. Loops that were compiled to be parallel run in threads of TVM's:
for each worker as many as the machine has cores, or as TVM_NUM_THREADS said before the first of them.

Collectives in such programs, ``relax.op.ccl.allreduce``, call global functions of TVM's Disco, which look for
a worker of TVM's own. Those names get functions that do the same on our data plane if one of our workers
calls them; for other callers they stay what they were.
"""

from __future__ import annotations

import re
import shutil
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.errors import UsageMistake
from disco_magic.functions.bridges import bring
from disco_magic.functions.registry import find_func
from disco_magic.functions.tvm_values import Held, TVMFunction, callback, ffi_module
from disco_magic.threads.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable

# Functions of TVM's own Disco, which look for a worker of its own.
_NOT_FOR_US: Final = "runtime.disco."
_SYMBOL: Final = re.compile(rb"__tvm_ffi_([A-Za-z]\w*)\0")
# Functions that an executable defines; those that it calls in other modules end in "packed_func;".
_MACHINE_FUNCTION: Final = re.compile(r"^@(\S+)(?::| num_inputs=\d+ vm_tir_func;)$", re.MULTILINE)
# The part of an ELF file's header that says where the section table is: at the end of the file.
_ELF: Final = struct.Struct("<40xQ10xHH2x")
_ELF_64_LITTLE: Final = b"\x7fELF\x02\x01"
_opened: set[Path] = set()


def _tvm() -> Any:
    bring("tvm")
    import tvm  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return tvm


def global_function(name: str) -> TVMFunction | None:
    """Return the function registered with `tvm_ffi` as `name`; None if there is none for us."""
    if name.startswith(_NOT_FOR_US):
        return None
    function = ffi_module().get_global_func(name, allow_missing=True)
    return None if function is None else TVMFunction(name, function)


def global_names() -> list[str]:
    """All names that `global_function` finds."""
    import tvm_ffi.registry  # type: ignore[import-not-found, import-untyped, unused-ignore]

    names: list[str] = tvm_ffi.registry.list_global_func_names()
    return [name for name in names if not name.startswith(_NOT_FOR_US)]


# --- modules ---------------------------------------------------------------------------------------


class Library(Held):
    """A module of TVM; one per process."""

    def __init__(self, path: Path | str, library: Any, symbols: frozenset[str] = frozenset()) -> None:
        super().__init__(path)
        self.library = library
        self._symbols = symbols

    def find(self, name: str, *, imports: bool = True) -> Callable[..., Any] | None:
        """Return the compiled function of that name; with `imports` also from the modules linked into it."""
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
        """Return a virtual machine for one worker, if this is an executable of one; or else the library."""
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
        """Return the function of that name, of the program or of the machine itself."""
        try:
            return super().find(name, imports=imports)
        except RuntimeError:
            return None  # TVM also finds kernels that the program calls, and refuses to return them

    def function_names(self) -> list[str]:
        """The functions of the program, without those of the machine itself and without kernels."""
        return sorted(_MACHINE_FUNCTION.findall(self._executable["as_text"]()))


def load(path: Path) -> Library:
    """Load a library or executable that TVM exported; the first one of a process imports TVM, about 1 s.

    It stays in the process to its end, as all of TVM's libraries do. The dynamic loader goes by the path, so
    a file that was compiled again is loaded from a copy. A ``.tar`` is linked first.
    """
    tvm = _tvm()
    if path.suffix == ".tar" and tvm.support.cc.get_cc() is None:
        raise UsageMistake(
            f"'{path}' has to be linked, which takes a C compiler, and there is none here; "
            "export the module as .so instead"
        )
    _check_whole(path)
    install()
    if path not in _opened and path.suffix != ".tar":
        _opened.add(path)  # first: its loading may be interrupted
        library = tvm.runtime.load_module(str(path))
        return Library(path, library, _symbols(path))
    with tempfile.TemporaryDirectory(prefix="disco_tvm_") as folder:
        copy = shutil.copy(path, folder)
        library = tvm.runtime.load_module(copy)
        return Library(path, library, _symbols(Path(f"{copy}.so") if path.suffix == ".tar" else Path(copy)))


def _check_whole(path: Path) -> None:
    """Refuse a library whose end is missing: loading it ends the process, or seems to work for a while."""
    with path.open("rb") as file:
        header = file.read(_ELF.size)
    if len(header) < _ELF.size or header[:6] != _ELF_64_LITTLE:
        return  # of another system, or no library, which the loader reports
    sections, entry, count = _ELF.unpack(header)
    size, whole = path.stat().st_size, sections + entry * count
    if size < whole:
        raise UsageMistake(
            f"'{path}' is cut off: it has {size:,} of {whole:,} bytes - copy or export it again"
        )


def _symbols(path: Path) -> frozenset[str]:
    """Names that may be functions of a library, from its symbol table, because TVM has no list of them."""
    return frozenset(name.decode() for name in _SYMBOL.findall(path.read_bytes()))


_COLLECTIVES: Final = tuple(
    f"runtime.disco.{name}"
    for name in (
        "allreduce",
        "allgather",
        "broadcast_from_worker0",
        "scatter_from_worker0",
        "gather_to_worker0",
    )
)
_MESSAGES: Final = tuple(
    f"runtime.disco.{name}"
    for name in (
        "send_to_worker",
        "recv_from_worker",
        "recv_from_worker0",
        "send_to_next_group",
        "recv_from_prev_group",
    )
)
_NUMBERS: Final = ("runtime.disco.worker_id", "runtime.disco.worker_rank")
# `ReduceKind` of TVM's Disco, which is passed as a shape of one number.
_OPS: Final = ("sum", "prod", "min", "max", "avg")

_lock = new_lock()
_installed: set[str] = set()


def install() -> None:
    """Replace TVM's functions by ours, once per process, before a program of TVM's is loaded."""
    with _lock:
        ffi = ffi_module()
        for name in (*_COLLECTIVES, *_MESSAGES, *_NUMBERS):
            if name in _installed:
                continue
            original = ffi.get_global_func(name, allow_missing=True)
            ours = callback(_function(name))
            ffi.register_global_func(name, _where_it_is_called(name, ours, original), override=True)
            _installed.add(name)


def _function(name: str) -> Callable[..., Any]:
    function = find_func(name)
    if name in _NUMBERS:
        return lambda: ffi_module().Shape((function(),))  # the form in which a number travels in a program
    return _collective(name, function) if name in _COLLECTIVES else _message(function)


def _where_it_is_called(name: str, ours: Callable[..., Any], original: Any) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        if calling_worker() is not None:
            return ours(*args)
        if original is None:
            raise UsageMistake(f"{name} was called outside of a worker")
        return original(*args)

    return call


def _collective(name: str, function: Callable[..., Any]) -> Callable[..., None]:
    """For ``(source, ..., in_group, target)``; `in_group` is passed as 0 or 1, a reduction as a shape."""

    def call(source: Any, *args: Any) -> None:
        *kind, in_group, target = args
        function(source, *(_op(name, each) for each in kind), bool(in_group), target)

    return call


def _op(name: str, kind: Any) -> str:
    number = kind[0]
    if not 0 <= number < len(_OPS):
        raise UsageMistake(
            f"{name}: there is no reduction {number}; 0 to {len(_OPS) - 1} are {', '.join(_OPS)}"
        )
    return _OPS[number]


def _message(function: Callable[..., Any]) -> Callable[..., None]:
    def call(*args: Any) -> None:
        function(*args)  # it receives into the destination, which is TVM's own memory

    return call
