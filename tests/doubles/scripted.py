"""Sessions, launchers and clocks that do what a test says: no threads, no sleeps."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from disco_magic.core.doctor import Position, State
from disco_magic.core.messages import CellDone, Lost, Run, full
from disco_magic.core.registers import ABSENT
from disco_magic.core.stats import Account
from disco_magic.core.timeline import Record
from disco_magic.core.topology import Topology
from disco_magic.errors import SessionClosed
from disco_magic.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from disco_magic.core.messages import Command, Event, Message
    from disco_magic.core.snapshot import RegisterInfo
    from disco_magic.errors import Failure
    from disco_magic.session.config import Preset


class ScriptedChannel:
    """Keeps every command that is sent; implements `disco_magic.core.interfaces.Channel`."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.closed = False

    def send(self, command: Message) -> None:
        """Keep `command`."""
        if self.closed:
            raise SessionClosed(f"{type(full(command)).__name__} cannot be sent: the channel is closed")
        self.commands.append(full(command))

    def close(self) -> None:
        """Refuse further commands."""
        self.closed = True


class ScriptedLauncher:
    """A launcher without workers: records the session's calls; the test supplies the workers' events.

    Events that are due while the session waits come from `on_interrupt` and `on_replace`, which the session
    calls without holding its lock; all others are given to `deliver` beforehand.

    Attributes:
        channels: one per worker, by id.
        interrupts: ``(through, workers)`` of every interrupt.
        replaced: workers of every call of `replace_stuck`.
        stops: ``(timeout_s, through)`` of every call of `stop`.
        unread: what `backlog` returns.
        places: what `positions` reports: for each worker the command that it executes.
        on_interrupt: called as ``on_interrupt(through, workers)`` after an interrupt was recorded.
        on_replace: called as ``on_replace(workers)``; returns who was replaced.
    """

    def __init__(self, num_workers: int) -> None:
        self.channels = [ScriptedChannel() for _ in range(num_workers)]
        self.interrupts: list[tuple[int, tuple[int, ...]]] = []
        self.replaced: list[tuple[int, ...]] = []
        self.prepared: list[tuple[int, int]] = []
        self.stops: list[tuple[float, int]] = []
        self.unread = [0] * num_workers
        self.places = ["what the test made up"] * num_workers
        self.on_interrupt: Callable[[int, tuple[int, ...]], object] | None = None
        self.on_replace: Callable[[tuple[int, ...]], list[int]] | None = None
        self._deliver: Callable[[Event], None] | None = None

    @property
    def commands(self) -> list[Command]:
        """The commands that worker 0 was sent so far."""
        return self.channels[0].commands

    def start(self, deliver: Callable[[Event], None]) -> Sequence[ScriptedChannel]:
        """Note where events go."""
        self._deliver = deliver
        return self.channels

    def deliver(self, *events: Event) -> None:
        """Send `events` to the session, as workers would."""
        for event in events:
            cast("Callable[[Event], None]", self._deliver)(event)

    def cell_done(self, failure: Failure | None = None, workers: Sequence[int] | None = None) -> None:
        """Report to the session that its last cell has ended on `workers`; None: on all it was sent to."""
        for worker, channel in enumerate(self.channels):
            cells = [command for command in channel.commands if isinstance(command, Run)]
            if cells and (workers is None or worker in workers):
                own = failure and replace(failure, worker=worker)
                self.deliver(CellDone(worker, cells[-1].seq, 0.0, (), failure=own))

    def lose(self, worker: int, reason: str) -> None:
        """Pretend that `worker` is gone."""
        self.deliver(Lost(worker, 0, reason))

    def forsake(self, reason: str) -> None:
        """Do nothing: no worker is in a collective."""

    def prepare(self, seq: int, scope: object, contexts: Mapping[int, object]) -> None:
        """Record the workers and the cell."""
        self.prepared += [(worker, seq) for worker in contexts]

    def interrupt(self, through: int, workers: Sequence[int]) -> list[int]:
        """Record the call, then call `on_interrupt`."""
        self.interrupts.append((through, tuple(workers)))
        if self.on_interrupt is not None:
            self.on_interrupt(through, tuple(workers))
        return list(workers)

    def skip(self, through: int, workers: Sequence[int]) -> None:
        """Do nothing: all commands that were sent have begun."""

    def withdraw(self, seq: int, workers: Sequence[int]) -> list[int]:
        """As `interrupt`; all workers have begun the cell."""
        self.interrupt(seq, workers)
        return []

    def replace_stuck(self, workers: Sequence[int]) -> list[int]:
        """Record the call, then call `on_replace`, if set."""
        self.replaced.append(tuple(workers))
        return [] if self.on_replace is None else self.on_replace(tuple(workers))

    def look(self, *, numbered: bool, sample: int) -> list[list[tuple[str, RegisterInfo]]]:
        """Nothing: there are no workers."""
        return [[] for _ in self.channels]

    def marks(self) -> list[dict[str, tuple[str, ...]]]:
        """See `Launcher.marks`; nothing is marked."""
        return [{} for _ in self.places]

    def look_at(self, register: int, since: int) -> list[RegisterInfo | None]:
        """Nothing: there are no workers."""
        return [None for _ in self.channels]

    def examine(
        self,
        register: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        circles: Sequence[tuple[int, ...]],
        since: int = 0,
    ) -> list[Any]:
        """Return None for each circle: there are no workers."""
        return [None for _ in circles]

    def examine_names(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], workers: Sequence[int]
    ) -> list[Any]:
        """Call `function` with no names: there are no workers."""
        return [function({}, {}, *arguments) for _ in workers]

    def beside(self, worker: int, timeout_s: float) -> AbstractContextManager[bool]:
        """Do nothing: there is no worker's GPU."""
        return nullcontext(enter_result=True)

    def has_rested(self, worker: int, seq: int) -> bool:
        """Return False: the session always has to ask."""
        return False

    def has_left(self, worker: int, seq: int) -> bool:
        """Return False: there are no workers."""
        return False

    def glance(self, worker: int, register: int) -> Any:
        """Return ABSENT: there are no workers."""
        return ABSENT

    def stopping(self, workers: Sequence[int]) -> dict[int, State]:
        """None: what executes was not interrupted, see `positions`."""
        return {}

    def given_up(self) -> int:
        """No thread was given up."""
        return 0

    def positions(self) -> list[Position]:
        """Every worker executes the command in `places`."""
        return [Position(worker, "executing", command) for worker, command in enumerate(self.places)]

    def backlog(self) -> list[int]:
        """A copy of `unread`."""
        return list(self.unread)

    def accounts(self) -> list[Account]:
        """Empty accounts: there are no workers."""
        return [
            Account(registers=0, nbytes=0, running_s=0.0, waiting_s=0.0, idle_s=0.0) for _ in self.channels
        ]

    def records(self, seq: int | None = None) -> list[Record]:
        """Empty records: there are no workers."""
        return [Record() for _ in self.channels]

    def stop(self, timeout_s: float, through: int = 0) -> list[Position]:
        """Record the call; all workers have ended."""
        self.stops.append((timeout_s, through))
        return []


class ScriptedPreset:
    """A row of the presets' table that makes scripted launchers, and keeps them in `made`."""

    kind = "scripted"
    device = "cpu"
    devices = ()
    why = ""
    plane_name = carrier = "none"
    own_modules = ()

    def __init__(self) -> None:
        self.made: list[ScriptedLauncher] = []

    def launcher(self, topology: Topology, session_id: int) -> ScriptedLauncher:
        """Make a new scripted launcher."""
        self.made.append(ScriptedLauncher(topology.num_workers))
        return self.made[-1]


def scripted_session(num_workers: int, num_groups: int = 1) -> tuple[Session, ScriptedLauncher]:
    """A real session on a scripted launcher: the session's logic without threads."""
    preset = ScriptedPreset()
    session = Session(Topology(num_workers, num_groups), cast("Preset", preset))
    return session, preset.made[0]


class JumpingClock:
    """Replaces the module `time`: pretends that `step_s` seconds pass between any two calls."""

    def __init__(self, step_s: float) -> None:
        self._looks = itertools.count()
        self._step_s = step_s

    def monotonic(self) -> float:
        """The pretended seconds since the first call."""
        return next(self._looks) * self._step_s
