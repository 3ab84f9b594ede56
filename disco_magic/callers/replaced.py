"""Methods of other people's classes, and functions and names of their modules, that are ours for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Replaced:
    """A method of a class, or whatever has a name in a module, in whose place we put another for a while.

    Args:
        owner, name: which, of a class, a module or an object; a class may inherit it, and a module have it by
            its `__getattr__`.
        ours: the other one.

    To be put and taken by one thread at a time.
    """

    def __init__(self, owner: Any, name: str, ours: Any) -> None:
        self._owner, self._name, self._ours = owner, name, ours
        self._has_own = name in vars(owner)
        self._first = vars(owner)[name] if self._has_own else getattr(owner, name)
        self._below: list[Any] = []

    @property
    def below(self) -> Any:
        """What was there before: what ours calls."""
        return (self._below[:1] or [self._first])[0]

    def put(self) -> None:
        """Put ours there. Idempotent."""
        present = vars(self._owner).get(self._name, self._first)
        # If it was there already, it is so still, below somebody else's; unless they have taken both out.
        if not self._below or present in (self._first, self._below[0]):
            self._below[:] = [present]
            setattr(self._owner, self._name, self._ours)

    def take(self) -> None:
        """Put the former one back, unless somebody else has put another one over ours. Idempotent."""
        if not self._below or vars(self._owner).get(self._name) is not self._ours:
            return
        below = self._below.pop()
        if self._has_own or below is not self._first:
            setattr(self._owner, self._name, below)
        else:
            delattr(self._owner, self._name)


def replace_all(replaced: list[Replaced]) -> Callable[[], None]:
    """Put all of them there, or none; returns what puts the former ones back."""

    def take() -> None:
        for each in reversed(replaced):
            each.take()

    try:
        for each in replaced:
            each.put()
    except BaseException:  # an interrupt: half of it would be worse than nothing
        take()
        raise
    return take
