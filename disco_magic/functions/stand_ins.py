"""What stands in the place of a library's function, for everybody who knows that function."""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class StandIn:
    """Does what the function does in whose place it is, or what a subclass says, and is equal to it.

    Compilers and dispatchers have tables of functions, some made before and some made meanwhile: Numba's,
    PyTorch's. In both this is found as that function, and that function as this.

    Args:
        first: the function.
        module: the name of the module where it is found.

    Attributes:
        name: what it is called there.
    """

    def __init__(self, first: Callable[..., Any], module: str) -> None:
        update_wrapper(self, first)
        self.first, self.name = first, first.__name__
        self.__module__, self.__qualname__ = module, self.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives."""
        return self.first(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return other is self or bool(self.first == other)

    def __hash__(self) -> int:
        return hash(self.first)

    def __repr__(self) -> str:
        return f"<function {self.__module__}.{self.name} of each worker's own random state>"

    def __reduce__(self) -> str:
        return self.name  # in its module
