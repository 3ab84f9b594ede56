"""Limits tab completion on our objects to what users call, without what is meant for our other files."""

from __future__ import annotations

from typing import ClassVar


class Offers:
    """Mixin for objects that users hold."""

    __slots__ = ()
    _not_offered: ClassVar[frozenset[str]] = frozenset()
    """Names without a leading underscore that are meant for our own files."""

    def __dir__(self) -> list[str]:
        """All attributes except `_not_offered`."""
        return sorted(set(super().__dir__()) - self._not_offered)
