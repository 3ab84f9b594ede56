"""The interpreter's switch interval, shared by parts of ours that change it for a while.

``sys.setswitchinterval`` applies to the whole process. A part that saved and restored it alone would undo,
for good, what another part has set meanwhile.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Iterator


class Switching:
    """Sets the shortest interval that any owner holds, and the former one when none holds any."""

    def __init__(self) -> None:
        self._lock = new_rlock()
        self._held: dict[object, float] = {}
        self._before = 0.0

    def hold(self, owner: object, seconds: float) -> None:
        """Limit the interval to `seconds` until `owner` releases it; what `owner` holds already stays."""
        with self._lock:
            if not self._held:
                self._before = sys.getswitchinterval()
            self._held.setdefault(owner, seconds)
            sys.setswitchinterval(min((self._before, *self._held.values())))

    @property
    def is_held(self) -> bool:
        """Whether any owner holds an interval now."""
        return bool(self._held)

    def release(self, owner: object) -> None:
        """End an owner's hold. Idempotent."""
        with self._lock:
            if self._held.pop(owner, None) is not None:
                sys.setswitchinterval(min((self._before, *self._held.values())))

    @contextmanager
    def held(self, seconds: float) -> Iterator[None]:
        """Hold an interval in a ``with`` block."""
        owner = object()
        self.hold(owner, seconds)
        try:
            yield
        finally:
            self.release(owner)


SWITCHING: Final = Switching()
