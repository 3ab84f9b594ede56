"""Element types, by the names that parameter files use.

Files hold little-endian numbers, and so do the dtypes made here; on all but a few machines that is the
native order. Types that NumPy lacks come from `ml_dtypes`, which is imported when a file needs it.
"""

from __future__ import annotations

import importlib
from typing import Any, Final, cast

import numpy as np

from disco_magic.errors import MissingDependency, UsageMistake

# The name of a type in safetensors files -> its name in NumPy or ml_dtypes.
_SAFETENSORS: Final = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
_NUMPY: Final = frozenset(
    f"{kind}{bits}"
    for kind, sizes in {"uint": (8, 16, 32, 64), "int": (8, 16, 32, 64), "float": (16, 32, 64)}.items()
    for bits in sizes
) | {"bool", "complex64"}
_ML_DTYPES: Final = frozenset(
    {
        "bfloat16",
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    }
)


def of_safetensors(code: str, where: str) -> np.dtype[Any]:
    """Return the dtype that safetensors files call `code`, such as ``BF16``; `where` begins the error."""
    if code not in _SAFETENSORS:
        raise UsageMistake(
            f"{where}: the dtype is {code!r}, which cannot be read; those that can: {', '.join(_SAFETENSORS)}"
        )
    return named(_SAFETENSORS[code], where)


def named(name: str, where: str) -> np.dtype[Any]:
    """Return the dtype that TVM, NumPy or ml_dtypes calls `name`; raises as `of_safetensors`."""
    if name in _NUMPY:
        return np.dtype(name).newbyteorder("<")
    if name in _ML_DTYPES:
        return _from_ml_dtypes(name, where)
    known = ", ".join(sorted(_NUMPY | _ML_DTYPES))
    raise UsageMistake(f"{where}: the dtype is {name!r}, which cannot be read; those that can: {known}")


def dtype_of(given: Any, where: str) -> np.dtype[Any]:
    """Return ``numpy.dtype(given)``, or a dtype that only `ml_dtypes` has; `where` begins the error."""
    if isinstance(given, str) and given in _ML_DTYPES:
        return _from_ml_dtypes(given, where)
    kind: np.dtype[Any] = np.dtype(given)
    return kind


def _from_ml_dtypes(name: str, where: str) -> np.dtype[Any]:
    try:
        kinds = importlib.import_module("ml_dtypes")
    except ImportError:
        raise MissingDependency(
            f"{where}: the dtype is {name}, which NumPy alone does not have; "
            'install the package that does: pip install "disco-magic[loader]"'
        ) from None
    kind = getattr(kinds, name, None)
    if kind is None:
        raise MissingDependency(
            f"{where}: the dtype is {name}, which the installed ml_dtypes {kinds.__version__} does not have; "
            "a newer one does: pip install --upgrade ml_dtypes"
        )
    return cast("np.dtype[Any]", np.dtype(kind))
