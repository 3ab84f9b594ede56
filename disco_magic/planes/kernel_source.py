"""Our CUDA sources, and the kernels compiled from them.

NVRTC compiles a kernel for each `Variant` that is used, in a few tenths of a second. cupy keeps the result on
disk, so this happens once per machine.
"""

from __future__ import annotations

import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.threads.locks import new_lock

if TYPE_CHECKING:
    from disco_magic.planes.variants import Variant, Work

BLOCK = 256  # threads per block, as in the sources
# More blocks than a multiprocessor holds at a time, so that one that is done early gets another.
_BLOCKS_PER_MULTIPROCESSOR = 32


class Parameters(threading.local):
    """A kernel's parameters, thread-local: making new ones would take as long as the rest of a launch.

    Args:
        nbytes: size of the parameters in bytes.

    Attributes:
        value: the kernel's argument. Bytes without fields: cupy asks NumPy to describe its argument, and
            with fields that takes 20 us.
        memory: the same bytes, for writing. A launch copies them before it returns.
    """

    def __init__(self, nbytes: int) -> None:
        self.value = np.zeros((), f"V{nbytes}")
        self.memory = self.value.reshape(1).view(np.uint8).data


class KernelSource:
    """A file ``NAME.cu`` next to this one, whose kernel is called NAME. Thread-safe.

    Args:
        cupy: the module, or an object with the same `RawModule` and `cuda.Device`.
        name: name of the file and of the kernel.
    """

    def __init__(self, cupy: Any, name: str) -> None:
        self._cupy, self._name = cupy, name
        self._functions: dict[Variant, Any] = {}
        self._compiling = new_lock()

    @cached_property
    def code(self) -> str:
        """The file's text."""
        return Path(__file__).with_name(f"{self._name}.cu").read_text(encoding="utf-8")

    def function(self, variant: Variant) -> Any:
        """The kernel compiled as `variant`; compiled only once."""
        return self._functions.get(variant) or self._compiled(variant)

    def _compiled(self, variant: Variant) -> Any:
        with self._compiling:
            if variant not in self._functions:
                module = self._cupy.RawModule(code=self.code, options=variant.options(), backend="nvrtc")
                self._functions[variant] = module.get_function(self._name)
            return self._functions[variant]

    def blocks(self, todo: Work, beside: int = 1) -> int:
        """How many blocks to launch for `todo` if `beside` such rows of blocks share the current GPU."""
        wanted = -(-todo.accesses // (BLOCK * todo.variant.unroll))
        return max(1, min(wanted, self._most_blocks // beside))

    @cached_property
    def _most_blocks(self) -> int:
        device = self._cupy.cuda.Device()
        return _BLOCKS_PER_MULTIPROCESSOR * int(device.attributes["MultiProcessorCount"])
