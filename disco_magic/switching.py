"""How often threads take turns at the interpreter, where parts of ours want it otherwise for a while.

``sys.setswitchinterval`` is one for the process. Who saves and restores it alone puts back what another part
has set meanwhile, for good.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from disco_magic.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Iterator


class Switching:
    """The shortest interval that anybody holds; what there was before, when nobody does."""

    def __init__(self) -> None:
        self._lock = new_rlock()
        self._held: dict[object, float] = {}
        self._before = 0.0

    def hold(self, owner: object, seconds: float) -> None:
        """Let it be `seconds` at the most, until `owner` releases it; what it holds already stays."""
        with self._lock:
            if not self._held:
                self._before = sys.getswitchinterval()
            if self._held.setdefault(owner, seconds) <= min(self._held.values()):
                sys.setswitchinterval(seconds)

    def release(self, owner: object) -> None:
        """Hold it no more. Idempotent."""
        with self._lock:
            if self._held.pop(owner, None) is not None:
                sys.setswitchinterval(min(self._held.values(), default=self._before))

    @contextmanager
    def held(self, seconds: float) -> Iterator[None]:
        """`hold` within this."""
        owner = object()
        self.hold(owner, seconds)
        try:
            yield
        finally:
            self.release(owner)


SWITCHING: Final = Switching()
