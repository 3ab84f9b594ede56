"""What a cell finds of things that it may change for a while, and that a stop may leave changed.

A stop may strike where a ``with`` block begins or ends. So a stopped cell gives back what it has found; of
one whose thread is given up the successor does, and whatever that thread still does, it changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.isolation.own_warnings import restore_warnings, warnings_now
from disco_magic.isolation.pytorch.modes import modes_now, restore_modes
from disco_magic.isolation.pytorch.switches import restore_switches, switches_now

if TYPE_CHECKING:
    from disco_magic.functions.context import WorkerContext


class AsFound:
    """How things are as it is made: switches of PyTorch's, modes of its thread, filters of warnings.

    Args:
        me: the worker, whose own thread makes it. Costs 5 us.
    """

    def __init__(self, me: WorkerContext) -> None:
        self._me = me
        self._switches, self._modes, self._warned = switches_now(me), modes_now(), warnings_now(me)

    def restore(self) -> None:
        """Let it be so again, in the same thread."""
        self.succeed()
        restore_modes(self._modes)

    def succeed(self) -> None:
        """Let it be so again for a thread that takes the place of that one: modes are a thread's own."""
        restore_switches(self._me, self._switches)
        restore_warnings(self._me, self._warned)
