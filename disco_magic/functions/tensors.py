"""Tensors of PyTorch in the host's memory as arrays of NumPy, without importing it."""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from typing import Any

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.functions.kinds import is_tensor
from disco_magic.phrases import words

Array = np.ndarray[Any, Any]


def bits_of(tensor: Any) -> Array | None:
    """The elements of a tensor, of any strides; where NumPy lacks their dtype, integers with their bits.

    They share the tensor's memory, but for complex numbers that are conjugated when they are read. None if it
    is not on the CPU, is sparse, nested or quantized, or has no elements yet.
    """
    try:
        if str(tensor.device) != "cpu" or str(tensor.dtype).startswith("torch.q"):
            return None
        with suppress(TypeError):  # of such a dtype
            return np.asarray(tensor.numpy(force=True))
        integers = getattr(sys.modules["torch"], f"int{8 * tensor.element_size()}")
        return np.asarray(tensor.detach().view(integers).numpy())
    except Exception:  # noqa: BLE001 - there are ever more kinds of tensors that NumPy cannot look at
        return None


def numbers_of(tensor: Any) -> Array | None:
    """The elements as numbers, in float32 where NumPy lacks their dtype; None as `bits_of`."""
    bits = bits_of(tensor)
    if bits is None or bits.dtype.name == str(tensor.dtype).removeprefix("torch."):
        return bits
    try:
        return np.asarray(tensor.detach().float().numpy())
    except Exception:  # noqa: BLE001 - complex halves, or several numbers in a byte
        return None


def array_of(tensor: Any) -> Array:
    """A tensor's own memory as an array; of bfloat16 and float8 with the dtypes of `ml_dtypes`.

    Raises:
        UsageMistake: there is no such array.
    """
    if tensor.requires_grad:
        raise UsageMistake("it requires grad - use .detach(), which shares its memory")
    try:
        return np.asarray(tensor.numpy())
    except (TypeError, RuntimeError, NotImplementedError) as reason:
        bits = bits_of(tensor)
        if type(reason) is not TypeError or bits is None:  # conjugated, sparse, quantized
            raise UsageMistake(words(reason)) from None
    try:
        name = str(tensor.dtype).removeprefix("torch.")
        return bits.view(getattr(importlib.import_module("ml_dtypes"), name))
    except (ImportError, AttributeError):
        raise UsageMistake(f"NumPy has no {tensor.dtype} - use .float(), or install ml_dtypes") from None


def read_out(verb: str, out: Any) -> Any:
    """What a caller wants filled: of a tensor on the CPU its memory as an array, anything else as it is.

    Raises:
        UsageMistake: nothing can be written into that tensor.
    """
    if not is_tensor(type(out)) or str(out.device) != "cpu":
        return out
    try:
        return array_of(out)
    except UsageMistake as reason:
        raise UsageMistake(
            f"{verb}: nothing can be written to out, a {type(out).__name__}: {reason}"
        ) from None
