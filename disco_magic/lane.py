"""How a command and an interrupt agree on who ends it, without a lock on the path of every command.

  1. Before executing, the worker's thread puts the command into `running`; then it looks at the worker's
     `skip_through`. An interrupt raises `skip_through` first and looks at `running` second: one of them sees
     the other.
  2. After executing, the thread takes the command out with ``running.pop()``. An interrupt takes it out with
     the same operation, which CPython makes atomic. Exactly one of them gets it; the other sees IndexError.
  3. If the interrupt got it (`seize`), it may inject, and the thread, on its IndexError, goes to `end`, which
     lets an injection strike that has not struck yet; only then the worker changes any state.
  4. An injection that strikes between user code and step 3 escapes from `Worker.serve`; `Worker.run` ends
     the command.

`seize` and `end` are called with the worker's mutex held, and so is everything that injects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic import injection
from disco_magic.core.messages import full
from disco_magic.errors import WorkerInterrupt

if TYPE_CHECKING:
    from disco_magic.core.messages import Command, Message


class Lane:
    """One thread's hold on a worker; a thread that is stuck loses it to a new one.

    Attributes:
        running: the command that is executed, as it came, or empty.
        interrupted: the command that an interrupt has taken out of `running`, until the thread ended it.
        abandoned: the thread was given up; it must not touch the worker any more.
        shielded: the thread is inside a plane call, where nothing is injected.
        thread_id: of the thread; 0 before it began.
    """

    __slots__ = ("abandoned", "interrupted", "running", "shielded", "thread_id")

    def __init__(self) -> None:
        self.running: list[Message] = []
        self.interrupted: Command | None = None
        self.abandoned = False
        self.shielded = False
        self.thread_id = 0

    def seize(self, through: int) -> Command | None:
        """Take the command that is executed away from its thread, if its `seq` is ``<= through``."""
        try:
            command = self.running[-1]
            if command[0] <= through:
                command = self.running.pop()
        except IndexError:
            return None  # idle, or it ended in this moment
        if command[0] > through:
            return None  # it moved on between the two looks; the worker finishes it all the same
        self.interrupted = full(command)
        return self.interrupted

    def end(self) -> bool:
        """The thread is done with its command: whether it was interrupted. Nothing is injected any more."""
        interrupted = self.interrupted is not None
        if interrupted:
            try:  # noqa: SIM105 - suppress() is Python code of its own, in which it could strike
                injection.let_strike()
            except WorkerInterrupt:
                pass  # expected here, and only here: whoever injects holds the mutex
        self.interrupted = None
        self.running.clear()
        return interrupted
