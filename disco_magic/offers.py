"""What our objects offer: completion without what is meant for our other files, and hints for other names."""

from __future__ import annotations

from typing import ClassVar, NoReturn


class Offers:
    """Mixin for objects that users hold."""

    __slots__ = ()
    _not_offered: ClassVar[frozenset[str]] = frozenset()
    """Names without a leading underscore that are meant for our own files."""

    def __dir__(self) -> list[str]:
        """All attributes except `_not_offered`, and what is `Missing`."""
        known = {name: each for kind in reversed(type(self).__mro__) for name, each in vars(kind).items()}
        missing = {name for name, each in known.items() if type(each) is Missing}
        own = getattr(self, "__dict__", {})
        return sorted(set(super().__dir__()) - self._not_offered - missing.difference(own))


class Missing:
    """An attribute that objects of a class have not: whoever asks for it is told what to write instead.

    Not by a ``__getattr__``: of a class that has one, CPython 3.11 finds no attribute in its fast way. Each
    that is there would take 100 ns, not 10.

    Args:
        name: the attribute.
        said: the message; ``{kind}`` and ``{name}`` stand for the names of the class and the attribute.
    """

    def __init__(self, name: str, said: str) -> None:
        self._name = name
        self._said = said

    def __get__(self, obj: object | None, owner: type) -> NoReturn:
        if obj is None:
            raise AttributeError(f"type object {owner.__name__!r} has no attribute {self._name!r}")
        said = self._said.format(kind=type(obj).__name__, name=self._name)
        raise AttributeError(said, name=self._name, obj=obj)
