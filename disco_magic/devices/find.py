"""Which GPUs exist; the only place where cupy is imported."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from disco_magic.errors import MissingDependency, PlaneUnavailable

# For AMD's GPUs, and for NVIDIA's under WSL, which have no device files of their own.
_OTHER_DRIVERS: Final = ("/dev/kfd", "/dev/dxg")


def load_cupy() -> Any:
    """Return the module `cupy`; takes a second the first time.

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
    """CUDA's reason, unless that is misleading: without a driver it says that the driver is too old."""
    from disco_magic.functions.installed import nvidia_driver

    if nvidia_driver() is None and not has_driver_files():
        return "no driver of a GPU is loaded on this machine"
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return f"{reason}" if chosen is None else f"{reason} (CUDA_VISIBLE_DEVICES is {chosen!r})"


def has_driver_files() -> bool:
    """Whether files of a GPU driver exist; it may still find no GPU. Costs some microseconds."""
    return has_other_driver() or any(map(os.path.exists, ("/dev/nvidia0", "/dev/nvidiactl")))


def has_other_driver() -> bool:
    """Whether there is a driver whose GPUs have no device files of their own."""
    return any(map(os.path.exists, _OTHER_DRIVERS))


def _advice() -> str:
    from disco_magic.functions.support import support

    part = support()["cuda"]
    install = part.install or 'pip install "disco-magic[cuda13]"'
    return f"install it with: {install}"


def has_nccl() -> bool:
    """Whether cupy finds NCCL; loads it if it does."""
    return nccl_of(load_cupy()) is not None


def nccl_of(cupy: Any) -> Any | None:
    """`cupy.cuda.nccl`, None if it finds no NCCL.

    cupy 14 has this module only after it is imported; simulated GPUs have it as an attribute.
    """
    nccl = getattr(cupy.cuda, "nccl", None)
    if nccl is None and sys.modules.get("cupy") is cupy:
        with suppress(ImportError), warnings.catch_warnings():  # cupy was built without it
            warnings.simplefilter("ignore")  # cupy's, that it finds no NCCL: we report that where it matters
            nccl = import_module("cupy.cuda.nccl")
    return nccl if nccl is not None and nccl.available else None


def gpu_kind(cupy: Any) -> str:
    """The kind of GPU that this `cupy` was built for, as devices are named: ``"cuda"`` or ``"rocm"``."""
    return "rocm" if cupy.cuda.runtime.is_hip else "cuda"


def count_gpus() -> int:
    """How many GPUs a session could use; 0 without cupy or a driver, in which case cupy is not imported."""
    # Not imported for sessions on the CPU: importlib.metadata takes 40 ms.
    from disco_magic.functions.installed import has_package, visible_gpus

    if not has_package("cupy") or not (visible_gpus() or has_other_driver()):
        return 0
    try:
        return int(load_cupy().cuda.runtime.getDeviceCount())
    except (MissingDependency, PlaneUnavailable):
        return 0
