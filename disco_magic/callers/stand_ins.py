"""What stands in the place of a library's function, for everybody who knows that function."""

from __future__ import annotations

import copy
import sys
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Kind = TypeVar("_Kind", bound="StandIn")


class StandIn:
    """Does what the function does in whose place it is, or what a subclass says, and is equal to it.

    Compilers and dispatchers have tables of functions, some made before and some made meanwhile: Numba's,
    PyTorch's. In both this is found as that function, and that function as this.

    Args:
        first: the function.
        place: where it is found, ``"numpy.random"``.

    Attributes:
        name: what it is called there.
    """

    def __init__(self, first: Callable[..., Any], place: str) -> None:
        update_wrapper(self, first)
        self.first, self.name = first, first.__name__
        self.__module__, self.__qualname__ = place, self.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives."""
        return self.first(*args, **kwargs)

    def __get__(self, holder: Any, kind: type | None = None) -> Any:
        return self  # as what it stands for; and `help` takes what has this for a function

    def __eq__(self, other: object) -> bool:
        return other is self or bool(self.first == other)

    def __hash__(self) -> int:
        return hash(self.first)

    def __repr__(self) -> str:
        return f"<function {self.__module__}.{self.name} of each worker's own random state>"

    def __reduce__(self) -> Any:
        there = getattr(sys.modules.get(self.__module__), self.name, None)
        # Its name, in its module; where something else is called so by now, what makes the function of it.
        return self.name if there is self else (copy.copy, (self.first,))


_made: Final[dict[tuple[type, str, str], list[StandIn]]] = {}


def standing(kind: type[_Kind], first: Callable[..., Any], place: str, *more: Any) -> _Kind:
    """What is of that kind in the place of a function, always the same one; arguments as `kind` takes them.

    PyTorch's compilers know functions by where they are in memory. What they have once seen must stay there
    for ever, or something else would be taken for it. And who has imported one has it in later sessions, too.
    """
    known: list[Any] = _made.setdefault((kind, place, first.__name__), [])
    for each in known:
        if each.first is first:
            found: _Kind = each
            return found
    made = kind(first, place, *more)
    known.append(made)
    return made
