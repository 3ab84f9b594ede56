"""One look at the threads of all workers.

What Python says of its threads it says of all at once. Asked for each worker anew, that takes time in the
square of how many there are.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from disco_magic.callers.sites import Stand, stand_of
from disco_magic.core.seat import hopes
from disco_magic.threads.stacks import frames, import_waited_for
from disco_magic.workers.injection import cleaning_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType


class Look:
    """What some threads do, in plain facts.

    Args:
        thread_ids: of those threads.

    Attributes:
        imports: thread -> the module that it waits for another thread to import, and that one's id.
    """

    def __init__(self, thread_ids: Sequence[int]) -> None:
        self._threads = thread_ids
        self._stands: dict[int, Stand] = {}
        self.imports: dict[int, tuple[str, int]] = {}
        self._see(frames())
        self._needs: dict[int, tuple[Any, tuple[int, ...]]] = {}

    def _see(self, there: Mapping[int, FrameType]) -> None:
        for each in self._threads:
            frame = there.get(each)
            self._stands[each] = stand_of(frame)
            waited = import_waited_for(frame, each)
            if waited is not None:
                self.imports[each] = waited

    def stand(self, thread_id: int) -> Stand:
        """Where a thread is."""
        return self._stands.get(thread_id) or stand_of(None)

    @cached_property
    def cleaning(self) -> set[int]:
        """Those that clean up after an interrupt."""
        return cleaning_up(self._threads)

    def needs(self, wait: Any, left: Sequence[int]) -> tuple[int, ...]:
        """Whom the workers in a plane's wait need, see `hopes`; one answer for all that are in it."""
        if id(wait) not in self._needs:
            self._needs[id(wait)] = wait, tuple(hopes(wait, left) or wait.missing())
        return self._needs[id(wait)][1]
