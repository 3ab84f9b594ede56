"""NCCL's numbers for dtypes and operations, and the arrays that it cannot reduce."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from disco_magic.errors import UsageMistake

# ncclDataType_t of nccl.h; cupy has no names for all of them.
BYTES: Final = 1
_TYPES: Final = {
    "int8": 0,
    "uint8": 1,
    "int32": 2,
    "uint32": 3,
    "int64": 4,
    "uint64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
    "float8_e4m3fn": 10,
    "float8_e5m2": 11,
}
# ncclRedOp_t.
_OPS: Final = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
# On bytes of 0 and 1: *or*, *and*.
_OF_BOOLS: Final = {"sum": "max", "prod": "min", "min": "min", "max": "max"}


class Wire(NamedTuple):
    """How arrays of one dtype are reduced with one operation.

    Attributes:
        dtype: what arrays are converted to first; None: they are taken as they are.
        code: NCCL's type of the elements that it sees.
        per_element: how many of those one element of the array is.
        op: NCCL's number for the operation.
        divide: whether to divide by the number of members afterwards.
    """

    dtype: np.dtype[np.float64] | None
    code: int
    per_element: int
    op: int
    divide: bool


@lru_cache(maxsize=256)
def wire(verb: str, op: str, dtype: np.dtype[np.generic]) -> Wire:
    """How NCCL reduces arrays of `dtype` with `op`.

    NCCL adds in the arrays' own precision, also float16, and in its own order; all members get the same bits.

    Raises:
        UsageMistake: NCCL cannot reduce them; the message says what to do instead.
    """
    if op == "avg" and dtype.kind in "biu":  # the average is a float64, as on all planes
        return Wire(np.dtype(np.float64), _TYPES["float64"], 1, _OPS["sum"], divide=True)
    if dtype.kind == "b":
        return Wire(None, BYTES, 1, _OPS[_OF_BOOLS[op]], divide=False)
    if dtype.kind == "c":
        if op not in ("sum", "avg"):
            raise UsageMistake(
                f"{verb}: NCCL has no {op} of complex numbers - allgather them and reduce the result"
            )
        return Wire(None, _TYPES[f"float{dtype.itemsize * 4}"], 2, _OPS[op], divide=False)
    code = _TYPES.get(dtype.name)
    if code is None:
        wider = {"int16": "int32", "uint16": "uint32"}.get(dtype.name)
        advice = f"convert with x.astype('{wider}') first" if wider else "convert first"
        raise UsageMistake(f"{verb}: NCCL cannot reduce arrays of dtype {dtype} - {advice}")
    return Wire(None, code, 1, _OPS[op], divide=False)
