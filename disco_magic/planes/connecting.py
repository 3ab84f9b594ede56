"""Members of a collective that first make their communicators, each waiting in C code for the others.

These waits cannot be ended from outside: a member that cannot connect raises at once, and the tables of where
workers are say why the others wait. NCCL has communicators that do not block, but cupy 14 cannot make them:
its `NcclConfig` has no field for that, and where ``NCCL_COMM_BLOCKING=0`` is set for the whole process, it
takes NCCL's "in progress" for an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.errors import PlaneError
from disco_magic.phrases import people, words
from disco_magic.planes.meeting import WaitForNobody

if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Sequence

    from disco_magic.planes.calls import Call
    from disco_magic.planes.verdicts import Verdict


class Connecting(WaitForNobody):
    """The wait of members that connect before a collective, until NCCL ends it.

    Attributes:
        failed: a worker that could not connect, and its error.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = {call.worker: call for call in calls}
        self.scope = calls[0].seat.scope
        self.to_wake: list[LockType] = []
        self.verdict: Verdict | None = None
        self.failed: tuple[int, BaseException] | None = None

    def check(self) -> None:
        """Raise if a member has failed to connect."""
        if self.failed is not None:
            raise PlaneError(
                f"{self._outcome()}; {next(iter(self._calls.values())).describe()} was not started"
            )

    def _outcome(self) -> str:
        if self.failed is None:
            return f"connecting {people(tuple(self._calls))} by NCCL"
        worker, error = self.failed
        why = f"{type(error).__name__}: {words(error)}"
        return f"connecting {people(tuple(self._calls))} by NCCL failed on worker {worker}: {why}"

    def call_of(self, worker: int) -> tuple[str, str]:
        """``connecting workers [0-3] by NCCL for allreduce(...)``, ``Cell In[3], line 4``."""
        call = self._calls[worker]
        return self._outcome() + ("" if self.failed else f" for {call.describe()}"), str(call.site)

    def describe(self) -> str:
        """``connecting workers [0-3] by NCCL``, and how it failed."""
        return self._outcome()
