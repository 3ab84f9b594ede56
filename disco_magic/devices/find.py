"""Which GPUs there are, and the one place where cupy is imported."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from disco_magic.errors import MissingDependency, PlaneUnavailable

# Of AMD's GPUs, and of NVIDIA's under WSL, which have no device files of their own.
_OTHER_DRIVERS: Final = ("/dev/kfd", "/dev/dxg")


def load_cupy() -> Any:
    """The module `cupy`; takes a second the first time.

    Raises:
        MissingDependency: it is not installed; the message names the extra.
        PlaneUnavailable: it is, but cannot be used: no driver, or one that is too old.
    """
    try:
        import cupy
    except ImportError as reason:
        raise MissingDependency(
            f"GPUs need cupy, which cannot be imported ({reason}); {_advice()}"
        ) from reason
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as reason:
        raise PlaneUnavailable(
            f"cupy {cupy.__version__} finds no GPU that it can use: {_why_none(reason)}; disco.support() says"
            " what is there"
        ) from reason
    return cupy


def _why_none(reason: Exception) -> str:
    """What CUDA says, unless it does not say what is wrong: without a driver it calls that one too old."""
    from disco_magic.functions.installed import nvidia_driver

    if nvidia_driver() is None and not has_driver_files():
        return "no driver of a GPU is loaded on this machine"
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return f"{reason}" if chosen is None else f"{reason} (CUDA_VISIBLE_DEVICES is {chosen!r})"


def has_driver_files() -> bool:
    """Whether there are files of a GPU's driver; it may still find none. Costs some microseconds."""
    return has_other_driver() or any(map(os.path.exists, ("/dev/nvidia0", "/dev/nvidiactl")))


def has_other_driver() -> bool:
    """Whether a driver is there whose GPUs have no device files of their own."""
    return any(map(os.path.exists, _OTHER_DRIVERS))


def _advice() -> str:
    from disco_magic.functions.support import support

    part = support()["cuda"]
    return f"install it with: {part.install}" if part.install else 'pip install "disco-magic[cuda13]"'


def has_nccl() -> bool:
    """Whether cupy finds an NCCL; loads it, if there is one."""
    return nccl_of(load_cupy()) is not None


def nccl_of(cupy: Any) -> Any | None:
    """`cupy.cuda.nccl`, None if it finds no NCCL.

    cupy 14 has it when it is imported and no sooner; simulated GPUs have it as an attribute.
    """
    nccl = getattr(cupy.cuda, "nccl", None)
    if nccl is None and sys.modules.get("cupy") is cupy:
        with suppress(ImportError), warnings.catch_warnings():  # it was built without
            warnings.simplefilter("ignore")  # cupy's, that it finds no NCCL: who needs it is told by us
            nccl = import_module("cupy.cuda.nccl")
    return nccl if nccl is not None and nccl.available else None


def gpu_kind(cupy: Any) -> str:
    """Whose GPUs this `cupy` was built for, as devices are named: ``"cuda"`` or ``"rocm"``."""
    return "rocm" if cupy.cuda.runtime.is_hip else "cuda"


def count_gpus() -> int:
    """How many GPUs a session could use; 0 without cupy or a driver, and then cupy is not imported."""
    # Not for sessions on the CPU: importlib.metadata takes 40 ms.
    from disco_magic.functions.installed import has_package, visible_gpus

    if not has_package("cupy") or not (visible_gpus() or has_other_driver()):
        return 0
    try:
        return int(load_cupy().cuda.runtime.getDeviceCount())
    except (MissingDependency, PlaneUnavailable):
        return 0
