"""Monkeypatches: methods of others' classes, and names in their modules, that we replace for a while."""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    Fit = Callable[[ModuleType], Callable[[], None]]

_NOTHING: Final = object()


class Replaced:
    """A method of a class, or anything with a name in a module, that we replace for a while.

    Args:
        owner, name: the class, module or object, and the name in it; a class may inherit it, and a module may
            have it by its `__getattr__`.
        ours: the replacement.

    Only one thread at a time may call `put` and `take`.
    """

    def __init__(self, owner: Any, name: str, ours: Any) -> None:
        self._owner, self._name, self._ours = owner, name, ours
        self._has_own = name in vars(owner)
        self._first = vars(owner)[name] if self._has_own else getattr(owner, name)
        self._below: list[Any] = []

    @property
    def below(self) -> Any:
        """What was there before; the replacement calls it."""
        return (self._below[:1] or [self._first])[0]

    @property
    def is_up_to_date(self) -> bool:
        """Whether `put` does what a new one would do: it is installed, or what it was made over is back."""
        present = vars(self._owner).get(self._name, _NOTHING)
        if self._below:
            return present is self._ours
        if self._has_own:
            return present is self._first
        # A method of the class is bound anew at each look.
        return present is _NOTHING and bool(getattr(self._owner, self._name) == self._first)

    def put(self) -> None:
        """Install the replacement. Idempotent."""
        present = vars(self._owner).get(self._name, self._first)
        # If it was installed before, it is still there, below another patch, unless both were removed.
        if not self._below or present in (self._first, self._below[0]):
            self._below[:] = [present]
            setattr(self._owner, self._name, self._ours)

    def take(self) -> None:
        """Restore the former one, unless another patch has been put over ours. Idempotent."""
        if not self._below or vars(self._owner).get(self._name) is not self._ours:
            return
        below = self._below.pop()
        if self._has_own or below is not self._first:
            setattr(self._owner, self._name, below)
        else:
            delattr(self._owner, self._name)


def replacing(owner: Any, name: str) -> Callable[[Callable[..., Any]], Replaced]:
    """Turn a function into the `Replaced` that puts it in another one's place; it looks like that one."""

    def made(ours: Callable[..., Any]) -> Replaced:
        return Replaced(owner, name, _like(owner, name, ours))

    return made


def _like(owner: Any, name: str, ours: Callable[..., Any]) -> Callable[..., Any]:
    """Give `ours` the looks of what it replaces.

    Pickle looks for a function in the module that it names: `os.system` names ``posix``, which has no other.
    """
    first = vars(owner).get(name)
    made = wraps(first.__func__ if isinstance(first, classmethod) else getattr(owner, name))(ours)
    if isinstance(owner, ModuleType):
        made.__module__ = owner.__name__
    return made


def replace_all(replaced: list[Replaced]) -> Callable[[], None]:
    """Install all of them, or none; return a function that restores the former ones."""

    def take() -> None:
        for each in reversed(replaced):
            each.take()

    try:
        for each in replaced:
            each.put()
    except BaseException:  # an interrupt: a part of them would be worse than none
        take()
        raise
    return take


def in_place_of(name: str, within: str = "") -> Callable[[Callable[..., Any]], Fit]:
    """Turn a function into what puts it in another one's place in a module, and returns what undoes that.

    It gets the other one, then the arguments of the call; of a method that is a class's, the class first. It
    is called by a frame of ours: code that looks at its caller finds that one frame further up.

    Args:
        name: of the one to be replaced.
        within: the class of the module that has it; "": the module itself.
    """

    def made(ours: Callable[..., Any]) -> Fit:
        def fit(module: ModuleType) -> Callable[[], None]:
            owner = getattr(module, within) if within else module
            is_of_class = isinstance(vars(owner).get(name), classmethod)

            def call(*args: Any, **options: Any) -> Any:
                below = replaced.below.__func__ if is_of_class else replaced.below
                try:
                    return ours(below, *args, **options)
                except TypeError as error:
                    if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                        raise
                # It does not take these arguments: the other one says so, by its own name, or takes them.
                return below(*args, **options)

            call = _like(owner, name, call)
            replaced = Replaced(owner, name, classmethod(call) if is_of_class else call)
            return replace_all([replaced])

        return fit

    return made
