"""Names of classes as Python itself keeps them: a metaclass of the user's may raise when it is asked."""

from __future__ import annotations

import sys
import types
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.callers.module_classes import is_plain_module
from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.core.held import NOT_IMPORTED
from disco_magic.libraries import is_of_library

if TYPE_CHECKING:
    from collections.abc import Iterable

# Libraries whose arrays and tables report their shape, dtype and size without running user code.
ARRAY_LIBRARIES: Final = ("torch", "cupy", "jax", "jaxlib", "pandas", "polars")

_ARRAYS: Final = (np.ndarray, np.memmap, np.matrix, np.recarray)

LAZY_IMPORT: Final[Any] = getattr(types, "LazyImportType", None)
"""The class of what ``lazy import`` binds in Python 3.15 and newer, else None."""
_NAME: Final = type.__dict__["__name__"]
_QUALNAME: Final = type.__dict__["__qualname__"]
_MODULE: Final = type.__dict__["__module__"]


def name_of(kind: type) -> str:
    """A class's own name."""
    return str(_NAME.__get__(kind))


def qualname_of(kind: type) -> str:
    """A class's name, qualified by those of the classes and functions around it."""
    return str(_QUALNAME.__get__(kind))


def module_of(kind: type) -> str:
    """The module that a class comes from; ``None`` if it says so, ``?`` if it says something else."""
    module = _MODULE.__get__(kind)  # from the class's own dictionary, which may have any object there
    return str(module) if module is None or type(module) is str else "?"


def home_of(kind: type) -> str:
    """The package that a class comes from."""
    return module_of(kind).partition(".")[0]


def is_numpy_number(kind: type) -> bool:
    """Whether it is a class of NumPy's own for numbers; one derived from it could have code of its own."""
    return home_of(kind) == "numpy" and issubclass(kind, np.number | np.bool_)


def is_array_of_any(kind: type) -> bool:
    """Whether it is a NumPy array, or of a library of `ARRAY_LIBRARIES`."""
    return issubclass(kind, np.ndarray) or home_of(kind) in ARRAY_LIBRARIES


def is_the_users(kind: type) -> bool:
    """Whether a class comes from a cell, or from a file that is no library's."""
    return is_users_module(module_of(kind))


@lru_cache
def is_users_module(module: str) -> bool:
    """Whether a module of that name is no library's."""
    if module in (CELL_MODULE, "__main__"):
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return type(file) is str and not is_of_library(file)


def is_any_of(kind: type, kinds: Iterable[object]) -> bool:
    """Whether it is one of these itself; `in` would ask a metaclass of the user's how to compare."""
    return any(kind is each for each in kinds)


def is_all_elements(kind: type) -> bool:
    """Whether such a NumPy array consists of its elements alone; a masked one has a mask, too."""
    return is_any_of(kind, _ARRAYS)


def is_long(dtype: np.dtype[Any]) -> bool:
    """Whether its numbers are `numpy.longdouble`, or complex ones; its letter is that of others, too."""
    return issubclass(dtype.type, np.longdouble | np.clongdouble)


def is_gpu_array(kind: type) -> bool:
    """Whether this is cupy's array class itself, and none derived from it."""
    return _NAME.__get__(kind) == "ndarray" and home_of(kind) == "cupy"


def is_tensor(kind: type) -> bool:
    """Whether this is PyTorch's tensor or parameter class itself, and none derived from them."""
    return home_of(kind) == "torch" and name_of(kind) in ("Tensor", "Parameter")


def is_like_tensor(kind: type) -> bool:
    """Whether this is derived from PyTorch's tensor class, and keeps its elements as that does."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    if type(kind) is type or tensor is None or not issubclass(kind, tensor) or is_uninitialized(kind):
        return False
    return kind is not tensor and kind.__torch_dispatch__ is tensor.__torch_dispatch__  # type: ignore[attr-defined]


def is_uninitialized(kind: type) -> bool:
    """Whether this is a class of PyTorch's parameters and buffers that have no shape yet."""
    return home_of(kind) == "torch" and name_of(kind) in ("UninitializedParameter", "UninitializedBuffer")


def is_scripted(kind: type) -> bool:
    """Whether this is a class of modules that TorchScript has compiled."""
    return module_of(kind).startswith("torch.jit.") and name_of(kind).endswith("ScriptModule")


def is_split_tensor(kind: type) -> bool:
    """Whether this is PyTorch's DTensor: the worker's own part of a tensor on a mesh, or its own copy."""
    return home_of(kind) == "torch" and name_of(kind) == "DTensor"


def is_jax_array(kind: type) -> bool:
    """Whether this is JAX's array class; not that of tracers or of random keys."""
    return home_of(kind) == "jaxlib" and name_of(kind) == "ArrayImpl"


def is_of_framework(kind: type) -> bool:
    """Whether this is PyTorch's tensor class or JAX's array class."""
    return is_tensor(kind) or is_jax_array(kind)


def type_name(kind: type) -> str:
    """``int``, ``ndarray``, ``pandas.DataFrame``; classes that cells define without their module."""
    if kind is LAZY_IMPORT:
        return NOT_IMPORTED
    name, module = qualname_of(kind), module_of(kind)
    plain = kind is np.ndarray or module in ("builtins", CELL_MODULE)
    return name if plain else f"{module}.{name}"


def what_it_is(value: Any) -> str:
    """The name of a function, class or module; of any other value, its class with the module.

    Of a lazy import what it will import: ``json``, ``json.dumps``.
    """
    kind = type(value)
    if kind is LAZY_IMPORT:
        return repr(value).partition(" '")[2].rstrip("'>")
    if issubclass(kind, type):
        return qualname_of(value)
    if kind is types.FunctionType or kind is types.BuiltinFunctionType:
        return str(value.__qualname__)
    if is_plain_module(kind):
        return str(value.__name__)
    module = module_of(kind)  # says nothing if cells define the class
    return qualname_of(kind) if module == CELL_MODULE else f"{module}.{qualname_of(kind)}"
