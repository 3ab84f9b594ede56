"""`cupy.RawModule`: CUDA sources, compiled by g++ and run on the stream's thread, one GPU thread at a time.

Not supported: shared memory, barriers, atomics, and anything else that threads of one block do together.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from disco_magic.testing.gpu.cuda import MAX_THREADS_PER_BLOCK
from disco_magic.testing.gpu.errors import INVALID_VALUE, NOT_FOUND, CompileException, CUDADriverError
from disco_magic.testing.gpu.shim import AFTER, BEFORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.testing.gpu.world import World

# The same numbers as on a GPU with --fmad=false: products are not fused with sums.
# Tests spend their time in the compiler: without optimisation it takes two thirds of the time, and without
# linking the C++ libraries, which kernels do not use, two thirds of that. What they call is in the process.
_FLAGS: Final = ("-x", "c++", "-std=c++17", "-O0", "-ffp-contract=off", "-w", "-nostdlib")
_MOST_PARAMETERS: Final = 64
KERNELS: Final = "DISCO_SIMULATED_KERNELS"
"""Environment variable that names a folder for compiled kernels; several processes may share it."""
_compiling = threading.Lock()


@cache
def _folder() -> Path:
    """The folder for compiled kernels: the one named by the environment, or one deleted when we exit."""
    if kept := os.environ.get(KERNELS):
        return Path(kept)
    folder = Path(tempfile.mkdtemp(prefix="disco-gpu-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _prologue(options: Sequence[str]) -> str:
    """The text before a source, with the options' macros; other options, for nvrtc, have no meaning here."""
    pairs = [
        option.removeprefix("-D").removeprefix("--define-macro=").partition("=")
        for option in options
        if option.startswith(("-D", "--define-macro="))
    ]
    macros = "".join(f"#define {name} {value if equals else 1}\n" for name, equals, value in pairs)
    return f'{BEFORE}{macros}#line 1 "kernel.cu"\n'


def _gxx(source: str, *flags: str) -> subprocess.CompletedProcess[str]:
    compiler = shutil.which("g++")
    if compiler is None:
        raise RuntimeError(
            "kernels of the simulated GPU are compiled by g++, which is not on the PATH: install it"
        )
    command = [compiler, *_FLAGS, *flags, "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False)  # noqa: S603 - g++


@cache
def _checked(code: str, options: tuple[str, ...]) -> None:
    """Compile a source only to find errors."""
    done = _gxx(_prologue(options) + code, "-fsyntax-only")
    if done.returncode:
        raise CompileException(done.stderr, code, "kernel.cu", options)


@cache
def _compiled(code: str, options: tuple[str, ...], name: str) -> tuple[Any, tuple[int, ...]]:
    """The launcher of a kernel, and the sizes of its parameters, negative for pointers."""
    source = f"{_prologue(options)}{code}\n#define DISCO_KERNEL {name}\n{AFTER}"
    path = _folder() / f"{hashlib.sha256(source.encode()).hexdigest()[:32]}.so"
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}")  # never load an incomplete file
        done = _gxx(source, "-shared", "-fPIC", "-o", str(made))
        if done.returncode:
            _checked(code, options)
            text = f"CUDA_ERROR_NOT_FOUND: named symbol not found: {name}\n{done.stderr}"
            raise CUDADriverError(NOT_FOUND, text)
        made.replace(path)
    library = ctypes.CDLL(str(path))
    sizes = (ctypes.c_int * _MOST_PARAMETERS)()
    count = library.disco_describe(sizes, _MOST_PARAMETERS)
    library.disco_launch.restype = None
    return library.disco_launch, tuple(sizes[:count])


def _launch(launch: Any, pointers: Any, dims: Any, values: object) -> None:  # see the caller
    launch(pointers, dims)


class RawModule:
    """`cupy.RawModule`, only for a source."""

    world: ClassVar[World]

    def __init__(
        self,
        code: str | None = None,
        *,
        path: str | None = None,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        **others: object,
    ) -> None:
        if code is None or path is not None or any(others.values()):
            raise NotImplementedError(f"the simulated GPU compiles a source only, without {path or others}")
        self.code, self.backend = code, backend
        self.options = tuple(options)

    def compile(self, log_stream: object = None) -> None:
        """Compile now, to find errors before the first `get_function`."""
        with _compiling:
            _checked(self.code, self.options)

    def get_function(self, name: str) -> RawKernel:
        """Compile one of the kernels."""
        kernel: RawKernel = self.world.cupy.RawKernel(self.code, name, self.options, self.backend)
        kernel.compile()
        return kernel


class RawKernel:
    """`cupy.RawKernel`: ``kernel((grid,), (block,), (arguments,))`` on the current stream.

    An argument is an array (its address), a NumPy scalar, a structured array of no dimensions (a struct by
    value), or a Python number: an int has 8 bytes, as in CuPy.
    """

    world: ClassVar[World]

    def __init__(
        self, code: str, name: str, options: tuple[str, ...] = (), backend: str = "nvrtc", **others: object
    ) -> None:
        if any(others.values()):
            raise NotImplementedError(f"the simulated GPU has no {others}")
        self.code, self.name, self.backend = code, name, backend
        self.options = tuple(options)

    def compile(self, log_stream: object = None) -> None:
        """Compile the kernel now instead of at the first call."""
        self._launcher()

    def _launcher(self) -> tuple[Any, tuple[int, ...]]:
        with _compiling:
            return _compiled(self.code, self.options, self.name)

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], *, shared_mem: int = 0
    ) -> None:
        """Put a launch on the current stream.

        Raises:
            CUDADriverError: grid or block are empty, the block is too large, or the device is broken.
            TypeError: the arguments do not match the kernel's parameters. A real GPU would read garbage.
        """
        launch, sizes = self._launcher()
        if shared_mem:
            raise NotImplementedError("the simulated GPU has no shared memory")
        dims = [*grid, *(1,) * (3 - len(grid)), *block, *(1,) * (3 - len(block))]
        if min(dims) < 1 or dims[3] * dims[4] * dims[5] > MAX_THREADS_PER_BLOCK:
            text = f"CUDA_ERROR_INVALID_VALUE: invalid argument: grid {grid}, block {block}"
            raise CUDADriverError(INVALID_VALUE, text)
        if len(args) != len(sizes):
            raise TypeError(f"{self.name} has {len(sizes)} parameters, got {len(args)} arguments")
        values = [self._bytes_of(number, *pair) for number, pair in enumerate(zip(args, sizes, strict=True))]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        numbers = (ctypes.c_uint * 6)(*dims)

        # `values` is passed only to keep alive what the pointers point to.
        self.world.launch(partial(_launch, launch, pointers, numbers, values))

    def _bytes_of(self, number: int, argument: Any, size: int) -> Any:
        """The bytes of an argument, as the kernel's parameter needs them."""
        what, is_pointer = f"argument {number} of {self.name}", False
        if isinstance(argument, self.world.cupy.ndarray):
            self.world.check_access(argument.data.device_id)
            content, is_pointer = np.uint64(argument.data.ptr).tobytes(), True
        elif isinstance(argument, np.ndarray) and argument.ndim:
            raise TypeError(
                f"{what} is an array on the host of shape {argument.shape}; expected one on the device"
            )
        elif isinstance(argument, (np.ndarray, np.generic)):
            content = argument.tobytes()
        elif isinstance(argument, (bool, int, float, complex)):
            content = np.asarray(argument, np.int64 if type(argument) is int else None).tobytes()
        else:
            raise TypeError(f"{what} is a {type(argument).__name__}; expected an array or a number")
        if len(content) != abs(size) or (is_pointer and size > 0):
            kind = "a pointer" if size < 0 else f"{size} bytes by value"
            raise TypeError(
                f"{what} has {len(content)} bytes and is a {type(argument).__name__}; its parameter is {kind}"
            )
        return ctypes.create_string_buffer(content, len(content))
