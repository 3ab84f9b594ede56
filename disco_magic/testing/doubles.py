"""Test doubles that force an order of events without sleeps: gated, scripted and lying stand-ins."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, cast

from disco_magic.core.doctor import Position
from disco_magic.core.messages import CellDone, Lost, Run, full
from disco_magic.core.registers import ABSENT
from disco_magic.core.stats import Account
from disco_magic.core.timeline import Record
from disco_magic.core.topology import Topology
from disco_magic.errors import SessionClosed
from disco_magic.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from disco_magic.core.messages import Command, Event, Message
    from disco_magic.core.snapshot import RegisterInfo
    from disco_magic.errors import Failure
    from disco_magic.session.config import Preset

DEADLINE_S = 60.0


class Gate:
    """Blocks its callers until it is opened, and reports which ones arrived; an open gate does not block.

    A blocked caller sits in a C call that an interrupt cannot end, like a thread that is stuck in foreign
    code. A copy of a gate is the gate itself, so that it can be an argument of `call_packed`.
    """

    def __init__(self) -> None:
        self._arrivals: SimpleQueue[object] = SimpleQueue()
        self._tickets: list[SimpleQueue[None]] = []
        self._is_open = False

    def __call__(self, point: object = None) -> None:
        """Report that `point` was reached; return when the gate is open."""
        # Write the ticket before reading `_is_open`: `open` writes `_is_open` before it reads the tickets.
        ticket: SimpleQueue[None] = SimpleQueue()
        self._tickets.append(ticket)
        self._arrivals.put(point)
        if self._is_open:
            return
        try:
            ticket.get(timeout=DEADLINE_S)
        except Empty:
            raise TimeoutError(f"nobody opened the gate at {point!r} within {DEADLINE_S:g} s") from None

    def arrived(self, count: int = 1) -> list[object]:
        """Wait for the next `count` callers; return the points that they reached, in order of arrival.

        Raises:
            TimeoutError: fewer came within `DEADLINE_S`.
        """
        points: list[object] = []
        try:
            for _ in range(count):
                points.append(self._arrivals.get(timeout=DEADLINE_S))  # noqa: PERF401 - a partial list is the message
        except Empty:
            raise TimeoutError(f"{len(points)} of {count} came to the gate: {points}") from None
        return points

    def open(self) -> None:
        """Let all callers through from now on. Idempotent."""
        self._is_open = True
        for ticket in list(self._tickets):
            ticket.put(None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Gate:
        return self


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
                self.deliver(CellDone(worker, cells[-1].seq, 0.0, (), failure=failure))

    def lose(self, worker: int, reason: str) -> None:
        """Pretend that `worker` is gone."""
        self.deliver(Lost(worker, 0, reason))

    def forsake(self, reason: str) -> None:
        """Do nothing: no worker is in a collective."""

    def prepare(self, worker: int, seq: int, scope: object, context: object) -> None:  # noqa: ARG002 - the contract
        """Record the worker and the cell."""
        self.prepared.append((worker, seq))

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

    def look(self, *, numbered: bool, sample: int) -> list[list[tuple[str, RegisterInfo]]]:  # noqa: ARG002 - the contract
        """Nothing: there are no workers."""
        return [[] for _ in self.channels]

    def marks(self) -> list[dict[str, tuple[str, ...]]]:
        """See `Launcher.marks`; nothing is marked."""
        return [{} for _ in self.places]

    def look_at(self, register: int, since: int) -> list[RegisterInfo | None]:  # noqa: ARG002 - the contract
        """Nothing: there are no workers."""
        return [None for _ in self.channels]

    def examine(
        self,
        register: str,  # noqa: ARG002 - the contract
        function: Callable[..., Any],  # noqa: ARG002 - as above
        arguments: tuple[Any, ...],  # noqa: ARG002 - as above
        circles: Sequence[tuple[int, ...]],
        since: int = 0,  # noqa: ARG002 - as above
    ) -> list[Any]:
        """Return None for each circle: there are no workers."""
        return [None for _ in circles]

    def examine_names(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], workers: Sequence[int]
    ) -> list[Any]:
        """Call `function` with no names: there are no workers."""
        return [function({}, {}, *arguments) for _ in workers]

    def beside(self, worker: int, timeout_s: float) -> AbstractContextManager[bool]:  # noqa: ARG002 - the contract
        """Do nothing: there is no worker's GPU."""
        return nullcontext(enter_result=True)

    def has_rested(self, worker: int, seq: int) -> bool:  # noqa: ARG002 - the contract
        """Return False: the session always has to ask."""
        return False

    def has_left(self, worker: int, seq: int) -> bool:  # noqa: ARG002 - the contract
        """Return False: there are no workers."""
        return False

    def glance(self, worker: int, register: int) -> Any:  # noqa: ARG002 - the contract
        """Return ABSENT: there are no workers."""
        return ABSENT

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

    def records(self, seq: int | None = None) -> list[Record]:  # noqa: ARG002 - a Launcher's signature
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

    def launcher(self, topology: Topology, session_id: int) -> ScriptedLauncher:  # noqa: ARG002 - the presets' signature
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
