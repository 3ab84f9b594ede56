"""Proxies installed in place of a library's functions, for all code that knows these functions."""

from __future__ import annotations

import copy
import sys
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Kind = TypeVar("_Kind", bound="StandIn")


class StandIn:
    """Proxy for a function: does the same, or what a subclass defines, and is equal to the function.

    Compilers and dispatchers, Numba's and PyTorch's for two, have tables of functions, made before or while
    the proxy is installed. In both, the proxy is found as the function, and vice versa.

    Args:
        first: the function.
        place: the module where it is found, ``"numpy.random"``.

    Attributes:
        name: its name there.
    """

    def __init__(self, first: Callable[..., Any], place: str) -> None:
        update_wrapper(self, first)
        self.first, self.name = first, first.__name__
        self.__module__, self.__qualname__ = place, self.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.first(*args, **kwargs)

    def __get__(self, holder: Any, kind: type | None = None) -> Any:
        return self  # unbound, as what it replaces; and `help` takes this for a function

    def __eq__(self, other: object) -> bool:
        return other is self or bool(self.first == other)

    def __hash__(self) -> int:
        return hash(self.first)

    def __repr__(self) -> str:
        return f"<function {self.__module__}.{self.name} of each worker's own random state>"

    def __reduce__(self) -> Any:
        there = getattr(sys.modules.get(self.__module__), self.name, None)
        # Its name in its module; if that now means something else, a call that returns the function.
        return self.name if there is self else (copy.copy, (self.first,))


_made: Final[dict[tuple[type, str, str], list[StandIn]]] = {}


def standing(kind: type[_Kind], first: Callable[..., Any], place: str, *more: Any) -> _Kind:
    """Return the proxy of that kind for a function, always the same one; arguments as `kind` takes them.

    PyTorch's compilers identify functions by their address. A function that they have seen must stay in
    memory for ever, or another object could be taken for it. Code that has imported a proxy keeps it in later
    sessions, too.
    """
    known: list[Any] = _made.setdefault((kind, place, first.__name__), [])
    for each in known:
        if each.first is first:
            found: _Kind = each
            return found
    made = kind(first, place, *more)
    known.append(made)
    return made
