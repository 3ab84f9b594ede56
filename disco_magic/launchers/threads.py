"""Workers as threads of this process: the default, which needs nothing but Python.

The threads are daemons: a notebook must be able to end while a worker is stuck in C code. Their owner
stops them; `session.current` does so at interpreter exit too.
"""

from __future__ import annotations

import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Final

from disco_magic.channels.thread import ThreadChannel
from disco_magic.core.doctor import held_by_imports
from disco_magic.core.messages import Lost, Stop
from disco_magic.errors import LaunchError
from disco_magic.functions import bridges
from disco_magic.functions.execution import unheard
from disco_magic.functions.places import HOST_PLACE
from disco_magic.isolation.logs import leave_records, mark_records
from disco_magic.launchers.last_calls import note_given_up
from disco_magic.launchers.onlooker import Onlooker
from disco_magic.phrases import class_name, words
from disco_magic.threads.ends import has_ended, wait_for_end
from disco_magic.threads.own_threads import start_thread
from disco_magic.values.sights import sights_of
from disco_magic.workers.injection import LAST_PAUSES_S
from disco_magic.workers.striking import strike_all
from disco_magic.workers.worker import Worker

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.core.doctor import Position
    from disco_magic.core.interfaces import Plane
    from disco_magic.core.messages import Event, Message
    from disco_magic.core.place import Place
    from disco_magic.core.topology import Topology
    from disco_magic.functions.execution.running import CellScope
    from disco_magic.workers.lane import Lane
    from disco_magic.workers.serving import Extras


LOOK_UP_S: Final = 0.1


class ThreadLauncher(Onlooker):
    """Owns the threads and workers of one session.

    Args:
        topology: how many workers.
        plane: their data plane.
        session_id, extras: see `Serving`.
        places: where each worker's arrays are; None: on the host.

    Attributes:
        workers: by id.
        stuck: threads that were given up; they end by themselves when their C call returns.
    """

    def __init__(
        self,
        topology: Topology,
        plane: Plane,
        *,
        session_id: int = 0,
        extras: Extras | None = None,
        places: Sequence[Place] | None = None,
    ) -> None:
        self.topology = topology
        self.places = places or [HOST_PLACE] * topology.num_workers
        self._sights = sights_of(self.places)
        self.plane = plane
        self.workers: list[Worker] = []
        self.stuck: list[threading.Thread] = []
        self._session_id = session_id
        self._extras = extras
        self._channels: list[ThreadChannel] = []
        self._threads: list[threading.Thread] = []
        self._ended: set[int] = set()
        self._left_to_parent: list[Message] = []  # kept, because their finalizers must not run twice

    def start(self, deliver: Callable[[Event], None]) -> Sequence[ThreadChannel]:
        """Start all workers; their events go to `deliver`.

        Raises:
            LaunchError: a thread could not be started, or `extras` failed; nothing is left running.
        """
        self._deliver = deliver
        mark_records(self)
        mine = weakref.ref(self)  # a dropped session is freed at once, without the garbage collector
        self.plane.observe(
            partial(_missing_because, mine),
            partial(_held_up_because, mine),
            partial(_unreceived_because, mine),
        )
        try:
            for number in range(self.topology.num_workers):
                worker = Worker(
                    number,
                    self.topology,
                    self.plane,
                    deliver,
                    session_id=self._session_id,
                    extras=self._extras,
                    place=self.places[number],
                )
                self.workers.append(worker)
                self._channels.append(ThreadChannel())
            for worker in self.workers:
                self._threads.append(self._spawn(worker, worker.lane))
        except BaseException as reason:
            for channel in self._channels[: len(self._threads)]:
                channel.send(Stop(0))
            self.stop(timeout_s=1.0)
            for worker in self.workers:  # also of workers whose thread never ran
                worker.dispose()
            if not isinstance(reason, Exception):  # Ctrl-C
                raise
            raise LaunchError(
                f"{self.topology.num_workers} worker threads could not be started: {reason}"
            ) from reason
        return self._channels

    def _spawn(self, worker: Worker, lane: Lane) -> threading.Thread:
        # A session may be made on a worker of another one, to which its workers do not belong.
        return start_thread(f"disco-{self._session_id}-worker-{worker.id}", self._main, worker, lane)

    def _main(self, worker: Worker, lane: Lane) -> None:
        bridges.serve(lane, worker.mutex)
        unheard.listen(partial(worker.unheard, lane))
        try:
            worker.run(lane, self._channels[worker.id].receive)
        except BaseException as error:
            # A bug of the runtime, not of the user: report it now instead of hanging at the next sync.
            self._deliver(Lost(worker.id, 0, f"{class_name(error)}: {words(error)}"))
            self.plane.close()
            worker.dispose()
            raise
        if lane is worker.lane:  # else its thread was given up
            self._ended.add(worker.id)
        if len(self._ended) == len(self.workers):
            self.plane.close()  # if the session was dropped, nothing else would
            leave_records(self)  # likewise

    def forsake(self, reason: str) -> None:
        """See `Launcher.forsake`."""
        me = threading.get_ident()
        for worker, channel in zip(self.workers, self._channels, strict=False):
            if worker.lane.thread_id == me:
                worker.lane.forked = True  # it ends with its command; the queued ones are for the parent
                while not channel.empty():
                    self._left_to_parent.append(channel.receive(block=False))
        self.plane.forsake(reason)

    def prepare(self, seq: int, scope: CellScope, contexts: Mapping[int, contextvars.Context]) -> None:
        """Tell workers in what scope, and each in what context, to execute cell `seq`, which is sent next."""
        for worker, context in contexts.items():
            self.workers[worker].scopes[seq] = (scope, context)

    def interrupt(self, through: int, workers: Sequence[int]) -> list[int]:
        """Interrupt `workers`; return those that were executing something and may still be.

        A calling worker is struck last: otherwise its own interrupt would end this. During a restart some do
        not exist yet: they have nothing to execute.
        """
        chosen = self._own_last(workers)
        for number in chosen:
            self.workers[number].claim(through)
        return [each.id for each in strike_all([self.workers[number] for number in chosen])]

    def skip(self, through: int, workers: Sequence[int]) -> None:
        """See `Launcher.skip`."""
        for number in self._own_last(workers):
            self.workers[number].skip(through)

    def withdraw(self, seq: int, workers: Sequence[int]) -> list[int]:
        """End cell `seq` on `workers`, or keep it from beginning; return those that had not begun it."""
        chosen = {number: self.workers[number].claim_cell(seq) for number in self._own_last(workers)}
        strike_all([self.workers[number] for number, (_, claimed) in chosen.items() if claimed])
        return [number for number, (unbegun, _) in chosen.items() if unbegun]

    def _own_last(self, workers: Sequence[int]) -> list[int]:
        """Those of `workers` that exist, the calling thread's own last."""
        me, there = threading.get_ident(), dict(enumerate(self.workers))
        return sorted(there.keys() & workers, key=lambda number: (there[number].lane.thread_id == me, number))

    def replace_stuck(self, workers: Sequence[int]) -> list[int]:
        """Give every worker that ignores its interrupt a new thread; return these workers.

        A worker for which no thread can be started is lost.
        """
        self.stuck = [thread for thread in self.stuck if not has_ended(thread)]
        replaced, given_up = list[int](), list[threading.Thread]()
        try:
            for number in workers:
                worker = self.workers[number]
                lane = worker.abandon()
                if lane is None:
                    continue
                given_up.append(self._threads[number])
                self.stuck.append(self._threads[number])
                try:
                    self._threads[number] = self._spawn(worker, lane)
                except RuntimeError as reason:  # too many threads, or the interpreter is ending
                    self._deliver(Lost(number, 0, f"no thread could be started for it: {reason}"))
                    self.plane.close()  # as in `_main`: nothing may wait for a worker that never comes
                else:
                    replaced.append(number)
        finally:
            note_given_up(given_up)
        return replaced

    def stop(self, timeout_s: float, through: int = 0) -> list[Position]:
        """End all workers, after Stop was sent; return where they were when the time was over. Idempotent.

        What was sent is executed for `timeout_s` seconds at most; then what is left of it, up to command
        `through`, is interrupted. A thread that does not end within another half second is in C code or
        cleans up; it is a daemon, and ends by itself when that is done.
        """
        alive = self._join(list(range(len(self._threads))), timeout_s)
        unfinished = self.positions() if alive else []
        for pause in LAST_PAUSES_S:
            if not alive:
                break
            self.interrupt(through, alive)
            alive = self._join(alive, pause)
        # Successors of stuck threads take what is left in the queue, so that no caller waits for an answer.
        alive = self._join(alive, 1.0) if self.replace_stuck(alive) else alive
        self.plane.close()
        leave_records(self)
        return unfinished

    def _join(self, workers: list[int], timeout_s: float) -> list[int]:
        deadline = time.monotonic() + timeout_s
        for number in workers:
            # In slices: a Ctrl-C between Python's last check for one and the wait does not end the wait.
            while not has_ended(self._threads[number]) and (left := deadline - time.monotonic()) > 0:
                wait_for_end(self._threads[number], min(left, LOOK_UP_S))
        return [number for number in workers if not has_ended(self._threads[number])]


def _missing_because(launcher: weakref.ref[ThreadLauncher], worker: int) -> str:
    alive = launcher()
    return "its session was dropped" if alive is None else alive.workers[worker].missing_because()


def _held_up_because(launcher: weakref.ref[ThreadLauncher], worker: int) -> str:
    alive = launcher()
    return "" if alive is None else held_by_imports(alive.positions(), worker)


def _unreceived_because(
    launcher: weakref.ref[ThreadLauncher], worker: int, scope: int, source: int, tag: int | str
) -> str:
    alive = launcher()
    if alive is None:
        return ""
    return alive.workers[worker].context._why_unreceived(scope, source, tag)  # noqa: SLF001 - as `_unwaited`
