"""What classes are called, as Python keeps it: a metaclass of the user's may raise where it is asked."""

from __future__ import annotations

from typing import Final

# Whose arrays and tables tell their shape, dtype and size without code of the user's.
ARRAY_LIBRARIES: Final = ("torch", "cupy", "jax", "jaxlib", "pandas", "polars")

_NAME: Final = type.__dict__["__name__"]
_QUALNAME: Final = type.__dict__["__qualname__"]
_MODULE: Final = type.__dict__["__module__"]


def name_of(kind: type) -> str:
    """A class's own name."""
    return str(_NAME.__get__(kind))


def qualname_of(kind: type) -> str:
    """Its name with those of the classes and functions around it."""
    return str(_QUALNAME.__get__(kind))


def module_of(kind: type) -> str:
    """The module that it comes from; ``None`` if it says so, ``?`` if it says something else."""
    module = _MODULE.__get__(kind)  # of the class's own dictionary: any object may stand there
    return str(module) if module is None or type(module) is str else "?"


def home_of(kind: type) -> str:
    """The package that it comes from."""
    return module_of(kind).partition(".")[0]


def is_gpu_array(kind: type) -> bool:
    """Whether this is cupy's array itself, and no class derived from it."""
    return name_of(kind) == "ndarray" and home_of(kind) == "cupy"
