"""State that a cell may change for a while, and that an interrupt may leave changed.

An interrupt may strike where a ``with`` block begins or ends. So a stopped cell restores what it has found;
if its thread is given up, the successor does, and nothing that the old thread still does changes that.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from disco_magic.isolation.own_warnings import restore_warnings, warnings_now
from disco_magic.isolation.pytorch.modes import modes_now, restore_modes
from disco_magic.isolation.pytorch.own_values import own_values_now, restore_own_values
from disco_magic.isolation.pytorch.switches import restore_switches, switches_now

if TYPE_CHECKING:
    from disco_magic.functions.context import WorkerContext


class AsFound:
    """A snapshot of PyTorch's switches, own values and modes, and of the filters of warnings.

    Args:
        me: the worker, whose own thread takes it. Costs 5 us.
    """

    def __init__(self, me: WorkerContext) -> None:
        self._me = me
        self._warned = warnings_now(me)
        is_loaded = "torch" in sys.modules
        self._switches = switches_now(me) if is_loaded else {}
        self._modes = modes_now() if is_loaded else None
        self._own_values = own_values_now(me)

    def restore(self) -> None:
        """Restore the state, in the same thread."""
        self.succeed()
        restore_modes(self._modes)

    def succeed(self) -> None:
        """Restore the state in a thread that replaces the original one; not modes, which are per thread."""
        restore_switches(self._me, self._switches)
        restore_own_values(self._me, self._own_values)
        restore_warnings(self._me, self._warned)
