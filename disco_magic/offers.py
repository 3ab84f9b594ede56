"""What tab completion offers of our objects: what a user calls, not what parts of ours say to each other."""

from __future__ import annotations

from typing import ClassVar


class Offers:
    """Mixed into what users hold."""

    __slots__ = ()
    _not_offered: ClassVar[frozenset[str]] = frozenset()
    """Names that begin with no underscore and are for other files of ours."""

    def __dir__(self) -> list[str]:
        """All attributes but these."""
        return sorted(set(super().__dir__()) - self._not_offered)
