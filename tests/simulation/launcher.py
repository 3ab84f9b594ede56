"""The real launcher, whose threads do a step when the scheduler says so; it sees what is on the queues."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import count

from disco_magic.launchers.threads import ThreadLauncher
from disco_magic.planes.threads import ThreadPlane
from tests.simulation.stepped import OVER, SteppedThread
from tests.simulation.user_code import EXTRAS
from tests.simulation.worker_reference import require


class Crash(Exception):
    """A bug of the runtime in a worker's loop."""


class TappedChannel:
    """A channel that notes what is sent."""

    def __init__(self, worker, channel, sent):
        self._worker, self._channel, self._sent = worker, channel, sent
        self.close = channel.close

    def send(self, command):
        self._sent.append((self._worker, command))
        self._channel.send(command)


class _SteppedHold:
    """What the launcher holds of a thread: it can wait for it, which lets the workers go on meanwhile."""

    ident = None  # of no thread of the process

    def __init__(self, thread, live_on):
        self.thread = thread
        self._live_on = live_on

    def is_alive(self):
        return self.thread.phase != OVER

    def join(self, timeout):
        self._live_on(timeout)


class SteppedLauncher(ThreadLauncher):
    """A `ThreadLauncher` without threads.

    Attributes:
        sent: (worker, command) in the order of sending.
        outboxes: worker -> events on their way to the controller.
        steppers: worker -> who serves it.
        ghosts: threads that were given up and have not ended.
        no_threads: no thread can be started any more.
    """

    _idents = count(1000)

    def __init__(self, topology, plane, *, session_id, world):
        super().__init__(topology, plane, session_id=session_id, extras=lambda _: EXTRAS)
        self._world = world
        self.sent = []
        self.outboxes = [deque() for _ in range(topology.num_workers)]
        self.steppers = {}
        self.ghosts = []
        self.no_threads = False

    def start(self, deliver):
        self.hear = deliver  # what delivers an event that has arrived
        channels = super().start(lambda event: self.outboxes[event.worker].append(event))
        return [TappedChannel(worker, channel, self.sent) for worker, channel in enumerate(channels)]

    def _spawn(self, worker, lane):
        if worker.id in self.steppers:
            ghost = self.steppers.pop(worker.id)
            ghost.given_up = True
            self.ghosts.append(ghost)
        if self.no_threads:
            raise RuntimeError("can't start new thread")
        thread = SteppedThread(worker, lane, self._channels[worker.id].receive, next(self._idents))
        self.steppers[worker.id] = thread
        return _SteppedHold(thread, self._world.live_on)

    def interrupt(self, through, workers):
        """As it is; the world looks on."""
        should = self._world.interrupting(through, workers)
        done = super().interrupt(through, workers)
        require(done == should, "interrupt found executing (is, should be)", done, should)
        return done

    def withdraw(self, seq, workers):
        should = self._world.withdrawing(seq, workers)
        done = super().withdraw(seq, workers)
        require(done == should, "who had not begun (is, should be)", done, should)
        return done

    def replace_stuck(self, workers):
        should = self._world.replacing(workers)
        done = super().replace_stuck(workers)
        require(done == should, "replaced (are, should be)", done, should)
        return done

    def queued(self, worker):
        return self._channels[worker].size()

    def lose(self, worker):
        """Let the worker's loop fail, as a bug of the runtime would make it."""
        thread = self.steppers[worker]

        def crash(*_):
            raise Crash("simulated")

        self.workers[worker].run = crash
        thread.phase = OVER
        with suppress(Crash):
            self._main(self.workers[worker], thread.lane)


class SteppedPreset:
    """What a session asks for its launcher; `made` are those of all its lives."""

    kind, device, plane_name, carrier = "threads", "cpu", "threads", "threads"
    own_modules = ()
    devices, why = (), ""

    def __init__(self, world):
        self.made = []
        self._world = world

    def launcher(self, topology, session_id):
        plane = ThreadPlane(topology.num_workers)
        self.made.append(SteppedLauncher(topology, plane, session_id=session_id, world=self._world))
        return self.made[-1]
