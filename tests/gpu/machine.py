"""The GPU that the tests of this folder and `benchmarks.gpu` run on.

It is the machine's own. With ``DISCO_SIMULATED_GPU=1`` it is a simulated one with the double of NCCL, which
proves that every line runs and nothing about GPUs, with ``DISCO_SIMULATED_GPU=4`` there are four of them;
``DISCO_GPU_QUICK=1`` leaves out what takes long then.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from disco_magic.devices import find

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = int(os.environ.get("DISCO_SIMULATED_GPU") or 0)
SIMULATED = COUNT > 0
QUICK = os.environ.get("DISCO_GPU_QUICK") == "1"
SIMULATED_NBYTES = 1 << 29


def missing() -> str | None:
    """What is missing for anything here to run; None if nothing is."""
    if SIMULATED or find.count_gpus():
        return None
    return "a GPU that cupy can use; DISCO_SIMULATED_GPU=1 rehearses without one"


def lacking(cupy: Any) -> str | None:
    """Which of CUDA's libraries is not there that cupy looks for only when it needs it; None: all are."""
    if SIMULATED:
        return None
    needs = {"NVRTC": cupy.cuda.nvrtc.getVersion, "cuBLAS": lambda: cupy.cuda.Device(0).cublas_handle}
    for name, ask in needs.items():
        try:
            ask()
        except (ImportError, RuntimeError) as reason:
            return f"{name}, which cupy does not find: {' '.join(str(reason).split())}"
    return None


@contextmanager
def machine() -> Iterator[Any]:
    """The module `cupy`, real or simulated; sessions that are started meanwhile use it as well."""
    if not SIMULATED:
        yield find.load_cupy()
        return
    from disco_magic.testing.gpu import SimulatedGpus
    from tests.doubles import nccl as doubles

    with ExitStack() as stack:
        gpus = stack.enter_context(SimulatedGpus(count=COUNT, memory_nbytes=SIMULATED_NBYTES))
        if doubles.available() is None:
            doubles.load().set_gpus(gpus)
            from cupy.cuda import nccl

            gpus.cupy.cuda.nccl = nccl
        stack.enter_context(patch.object(find, "load_cupy", lambda: gpus.cupy))
        stack.enter_context(patch.object(find, "count_gpus", lambda: COUNT))
        yield gpus.cupy
