"""Methods of other people's classes, and functions of their modules, that are ours for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


class Replaced:
    """A method of a class or a function of a module, in whose place we put another one for a while.

    Args:
        owner, name: which.
        ours: the other one.
    """

    def __init__(self, owner: type | ModuleType, name: str, ours: Callable[..., Any]) -> None:
        self._owner, self._name, self._ours = owner, name, ours
        self._first = vars(owner)[name]
        self._below: list[Callable[..., Any]] = []

    @property
    def below(self) -> Callable[..., Any]:
        """What was there before: what ours calls."""
        return (self._below[:1] or [self._first])[0]

    def put(self) -> None:
        """Put ours there. Idempotent."""
        present = vars(self._owner)[self._name]
        # If it was there already, it is so still, below somebody else's; unless they have taken both out.
        if not self._below or present in (self._first, self._below[0]):
            self._below[:] = [present]
            setattr(self._owner, self._name, self._ours)

    def take(self) -> None:
        """Put the former one back, unless somebody else has put another one over ours. Idempotent."""
        if self._below and vars(self._owner)[self._name] is self._ours:
            setattr(self._owner, self._name, self._below.pop())
