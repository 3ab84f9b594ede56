"""``fold.cu`` and ``copies.cu`` on this machine's processor: by g++, their threads run one after the other.

`HostCupy` has the part of cupy that `Folder` and `Copier` use. A kernel runs within the call that launches
it, so that a test sees nothing but arithmetic and addresses.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from disco_magic.planes import copier
from disco_magic.planes.kernels import JOB

if TYPE_CHECKING:
    import numpy as np

GXX = shutil.which("g++")
# Not optimised, and not linked to C++'s libraries, which kernels do not use: compiling is what takes time
# here, and linking a fifth of it. No products are fused, unless the source says so.
_FLAGS = ("-x", "c++", "-std=c++17", "-O0", "-ffp-contract=off", "-shared", "-fPIC", "-nostdlib")
_WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-type-limits")
_BEFORE = """
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(threads)
static thread_local struct { unsigned x, y; } blockIdx, threadIdx, gridDim;
#line 1 "kernel.cu"
"""
# Backwards, too: the result must not depend on which thread comes first.
_AFTER = """
extern "C" void run(const Job *job, unsigned columns, unsigned rows, unsigned block, int backwards) {
    gridDim.x = columns;
    gridDim.y = rows;
    for (unsigned b = 0; b < columns * rows; ++b)
        for (unsigned t = 0; t < block; ++t) {
            const unsigned at = backwards ? columns * rows - 1 - b : b;
            blockIdx.x = at % columns;
            blockIdx.y = at / columns;
            threadIdx.x = backwards ? block - 1 - t : t;
            KERNEL(*job);
        }
}
extern "C" unsigned size() { return sizeof(Job); }
"""
_NBYTES = {"fold": JOB.itemsize, "copies": copier.NBYTES}


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fold-")


@cache
def compiled(code: str, options: tuple[str, ...], name: str) -> ctypes.CDLL:
    """The kernel of that name as a library, with `run` and `size`."""
    folder = Path(_folder().name)
    path = folder / f"{len(list(folder.iterdir()))}.so"
    command = [GXX, *_FLAGS, *_WARNINGS, *options, f"-DKERNEL={name}", "-o", str(path), "-"]
    done = subprocess.run(  # noqa: S603 - our own command
        command, input=_BEFORE + code + _AFTER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(path))


class HostCupy:
    """In place of the module cupy.

    Attributes:
        launches: how often a kernel was launched with which options, grid and bytes of parameters.
        compiling: called with the options before a kernel is compiled.
    """

    def __init__(self, multiprocessors: int = 132, *, backwards: bool = False) -> None:
        self.backwards = backwards
        self.launches = []
        self.compiling = lambda options: None
        device = SimpleNamespace(attributes={"MultiProcessorCount": multiprocessors})
        self.cuda = SimpleNamespace(Device=lambda: device)

    def RawModule(self, code, options, backend):  # noqa: N802 - cupy's name
        assert backend == "nvrtc"
        self.compiling(options)
        return SimpleNamespace(get_function=lambda name: self._function(code, options, name))

    def _function(self, code, options, name):
        library = compiled(code, options, name)
        assert library.size() == _NBYTES[name]

        def launch(grid, block, args):
            (job,) = args
            assert job.dtype == f"V{_NBYTES[name]}"
            assert job.size == 1  # cupy passes it by value
            self.launches.append((options, grid, job.tobytes(), threading.get_ident()))
            dims = (*grid, 1)[:2]
            library.run(ctypes.c_void_p(job.ctypes.data), *dims, *block, self.backwards)

        return launch


class Lent:
    """A NumPy array with an address as cupy's arrays have it."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.data = SimpleNamespace(ptr=array.__array_interface__["data"][0])
        self.shape, self.strides = array.shape, array.strides
        self.dtype, self.itemsize = array.dtype, array.itemsize


def lent(arrays):
    """All `arrays` as `Lent`."""
    return [Lent(array) for array in arrays]
