"""What can be seen, from outside and without a message, of workers that are threads of this process."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from disco_magic.core.doctor import IMPORT, LOAD
from disco_magic.core.registers import ABSENT, Poison
from disco_magic.devices.visiting import visiting
from disco_magic.functions.claims import load_waited_for
from disco_magic.functions.copies import is_shared
from disco_magic.functions.places import HOST_PLACE
from disco_magic.values.describe import describe_all
from disco_magic.values.members import visible
from disco_magic.values.sights import seen_by
from disco_magic.workers.injection import cleaning_up
from disco_magic.workers.look import Look

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from disco_magic.channels.thread import ThreadChannel
    from disco_magic.core.doctor import Position, State
    from disco_magic.core.interfaces import Plane
    from disco_magic.core.place import Place
    from disco_magic.core.snapshot import RegisterInfo
    from disco_magic.core.stats import Account
    from disco_magic.core.timeline import Record
    from disco_magic.values.sights import Sight
    from disco_magic.workers.worker import Worker


class Onlooker:
    """The observing half of a `ThreadLauncher`, which has these attributes. No method waits for a worker."""

    workers: list[Worker]
    _session_id: int
    _threads: list[threading.Thread]
    plane: Plane
    places: Sequence[Place]
    _sights: Sequence[Sight | None]
    _channels: list[ThreadChannel]

    def look(self, *, numbered: bool, sample: int) -> list[list[tuple[str, RegisterInfo]]]:
        """Per worker ``(label, picture)`` of its named registers; with `numbered`, of all registers."""
        held = [
            [
                (label, value)
                for label, value in worker.registers.contents()
                if numbered or not label.startswith("#")
            ]
            for worker in self.workers
        ]
        sights = (sight for each, sight in zip(held, self._sights, strict=True) for _ in each)
        pictures = iter(describe_all((value for each in held for _, value in each), sample, sights))
        return [[(label, next(pictures)) for label, _ in each] for each in held]

    def marks(self) -> list[dict[str, tuple[str, ...]]]:
        """Per worker the registers marked as equal, with the axes along which each is."""
        # CPython copies a dictionary with str keys in one step, and the workers' threads may change theirs.
        return [dict(worker.context.marks.names) for worker in self.workers]

    def look_at(self, register: int, since: int) -> list[RegisterInfo | None]:
        """Per worker the picture of one numbered register, None if there is none."""
        held = [self._content(number, f"#{register}", since) for number in range(len(self.workers))]
        there = [pair for pair in zip(held, self._sights, strict=True) if pair[0] is not ABSENT]
        pictures = iter(describe_all([value for value, _ in there], sights=[sight for _, sight in there]))
        return [None if value is ABSENT else next(pictures) for value in held]

    def examine(
        self,
        register: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        circles: Sequence[tuple[int, ...]],
        since: int = 0,
    ) -> list[Any]:
        """``function(*values, *arguments)`` for each circle of workers, in the calling thread."""
        held = {
            number: self._content(number, register, since)
            for number in {number for circle in circles for number in circle}
        }
        missing = {number for number, value in held.items() if value is ABSENT or type(value) is Poison}
        found: list[Any] = []
        for circle in circles:
            if missing.intersection(circle):
                found.append(None)
                continue
            with seen_by(self._sight(circle)):
                found.append(function(*(held[number] for number in circle), *arguments))
        return found

    def examine_names(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], workers: Sequence[int]
    ) -> list[Any]:
        """``function(bound, behind, *arguments)`` for each of `workers`, in the calling thread."""
        found = []
        for number in workers:
            with seen_by(self._sights[number]), visible(self.workers[number].registers.names) as names:
                found.append(function(*names, *arguments))
        return found

    def has_rested(self, worker: int, seq: int) -> bool:
        """Whether a worker sleeps, and has executed and reported everything up to command `seq`.

        Its idle clock starts when it has reported the results of its commands and released all of them, and
        stops before it takes the next one. On a GPU its work may go on while it sleeps.
        """
        if self.plane.left[worker] != seq:  # also while the worker has not started yet
            return False
        me = self.workers[worker]
        return me.idle.is_running and me.context.place is HOST_PLACE

    def has_left(self, worker: int, seq: int) -> bool:
        """See `Launcher.has_left`. A command that was taken and has not begun counts nowhere else."""
        return self.plane.left[worker] >= seq

    def beside(self, worker: int, timeout_s: float) -> AbstractContextManager[bool]:
        """See `visiting`."""
        return visiting(self.places[worker], timeout_s)

    def glance(self, worker: int, register: int) -> Any:
        """The value of a register of a worker that has rested, if nothing can change it, else ABSENT."""
        value = self.workers[worker].registers.values.get(register, ABSENT)
        return value if is_shared(value) else ABSENT

    def _content(self, worker: int, label: str, since: int) -> Any:
        """What a worker holds under a label; ABSENT before it has executed command `since`."""
        if not self.has_left(worker, since):  # first, because the register may be reused at any later time
            return ABSENT
        return self.workers[worker].registers.labelled(label)

    def _sight(self, circle: Sequence[int]) -> Sight | None:
        sights = [sight for number in circle if (sight := self._sights[number]) is not None]
        return sights[0].with_others(sights[1:]) if sights else None

    def given_up(self) -> int:
        """See `Launcher.given_up`; found by name, because a restart of the session does not end them."""
        mine = f"disco-{self._session_id}-worker-"
        there = [thread for thread in threading.enumerate() if thread.name.startswith(mine)]
        present = {*self._threads}
        return sum(thread not in present for thread in there)

    def positions(self) -> list[Position]:
        """What every worker is doing now."""
        look = Look([worker.lane.thread_id for worker in self.workers if worker.is_executing])
        ids: dict[int, tuple[int, ...]] = {}
        for worker in self.workers:
            thread = worker.lane.thread_id
            ids[thread] = (*ids.get(thread, ()), worker.id)
        places = [self._with_module(worker.position(look), look, ids) for worker in self.workers]
        return [
            replace(place, state="queued" if place.state == "idle" and behind else place.state, behind=behind)
            for place, behind in zip(places, self.backlog(), strict=True)
        ]

    def _with_module(self, place: Position, look: Look, ids: dict[int, tuple[int, ...]]) -> Position:
        """`place`, as waiting if the worker waits until another one has imported or loaded a module.

        `ids`: the workers of each thread.
        """
        if place.state != "executing":
            return place
        thread = self.workers[place.worker].lane.thread_id
        for what, found in (IMPORT, look.imports.get(thread)), (LOAD, load_waited_for(thread)):
            if found is not None and (needs := ids.get(found[1])):
                return replace(place, state="waiting", call=f"{what} {found[0]}", needs=needs)
        return place

    def stopping(self, workers: Sequence[int]) -> dict[int, State]:
        """See `Launcher.stopping`."""
        there = [self.workers[number] for number in workers if number < len(self.workers)]
        threads = {each.id: each.lane.thread_id for each in there if each.lane.interrupted is not None}
        cleaning = cleaning_up(threads.values()) if threads else set[int]()
        return {each: "cleaning" if thread in cleaning else "stopping" for each, thread in threads.items()}

    def backlog(self) -> list[int]:
        """Per worker the commands sent and not done, without cells that were withdrawn.

        The queue is read first: a command taken meanwhile counts twice for a moment, never not at all. A
        command that was taken and has not begun yet does not count.
        """
        return [
            max(0, channel.size() - len(worker.withdrawals)) + worker.is_executing
            for channel, worker in zip(self._channels, self.workers, strict=True)
        ]

    def accounts(self) -> list[Account]:
        """What every worker holds and how it spent its time."""
        places = {str(place.device): place for place in self.places}
        told = {device: _memory(place) for device, place in places.items()}
        accounts = [worker.account() for worker in self.workers]
        return [replace(account, memory=told[account.device]) for account in accounts]

    def records(self, seq: int | None = None) -> list[Record]:
        """What every worker did and when, as far as that is kept; of the command `seq`, None: of all."""
        return [worker.record(seq) for worker in self.workers]


def _memory(place: Place) -> tuple[int, int] | None:
    try:
        return place.memory()
    except Exception:  # noqa: BLE001 - a lost GPU cannot report its memory
        return None
