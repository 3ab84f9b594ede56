"""Values that tests look at: arrays wherever they live, and one that nobody may touch."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.values.peek import Window
from tests.doubles.arrays import cupy_array, jax_array, tensor

ml_dtypes = pytest.importorskip("ml_dtypes")
ALL = Window()


def grid(*shape, dtype="f8"):
    """Elements that say where they are."""
    return np.arange(np.prod(shape), dtype="i8").astype(dtype).reshape(shape)


MAKERS = [np.asarray, lambda array: np.array(array, order="F"), cupy_array, tensor, jax_array]
wherever = pytest.mark.parametrize("make", MAKERS, ids=["C", "F", "cupy", "torch", "jax"])

NUMBERS = [
    *("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", ">f4"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4),
]
NO_NUMBERS = ["S3", "U3", "V4", "M8[s]", "m8[s]", [("a", "i4")]]


class Touchy:
    """Fails when any of its own code runs."""

    def _no(self, *_):
        raise AssertionError("a user's code ran")

    __repr__ = __str__ = __len__ = __array__ = __hash__ = __eq__ = __iter__ = __getattr__ = _no
    shape = dtype = nbytes = device = __class__ = property(_no)


def net():
    """What keeps its parameters as PyTorch's Module does: ``.0.weight`` and ``.out.weight``."""
    kind = type("Module", (), {"__module__": "torch.nn.modules.module"})

    def make(modules=None, **parameters):
        made = kind()
        made._parameters, made._buffers, made._modules = parameters, {}, modules or {}
        return made

    return make(
        {"0": make(weight=tensor(np.ones((2, 3))), bias=None), "out": make(weight=tensor(np.ones(2)))}
    )
