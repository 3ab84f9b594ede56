"""A session, its workers and all between them, in one thread; what happens next is drawn from a seed."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from disco_magic.core.topology import Topology
from disco_magic.session.session import Session
from tests.simulation.clockwork import Clockwork, Parts, installed
from tests.simulation.controller_reference import ControllerReference
from tests.simulation.controlling import MOST_REFS
from tests.simulation.launcher import SteppedLauncher, SteppedPreset
from tests.simulation.plane_reference import PlaneReference
from tests.simulation.stepped import OVER
from tests.simulation.waiting import Waiting
from tests.simulation.worker_reference import Order, WorkerReference, require
from tests.simulation.working import FOREVER, Working

MOST_QUEUED = 8

# What the controller does, and how often in relation to the rest.
CALM = {
    "call": 40,
    "store": 5,
    "set_register": 4,
    "load": 4,
    "bind": 4,
    "put": 3,
    "unbind": 3,
    "cell": 10,
    "sync": 6,
    "fetch": 8,
    "flush": 2,
    "drop": 25,
    "collect": 25,
    "forget": 1.5,
    "orphan": 3,
    "interrupt": 5,
    "withdraw": 3,
    "replace": 5,
    "run_out_of_threads": 0.06,
    "lose_somebody": 0.08,
    "restart": 0.25,
}
# The same with more that goes wrong.
STORM = {
    **CALM,
    "interrupt": 12,
    "withdraw": 6,
    "replace": 15,
    "run_out_of_threads": 0.3,
    "lose_somebody": 0.4,
    "restart": 1,
}
SENDING = {"call", "store", "set_register", "load", "bind", "put", "unbind", "cell", "sync", "fetch"}


@dataclass
class Life:
    """One life of the session, from its start to its end or restart."""

    launcher: SteppedLauncher
    ledger: object
    book: ControllerReference
    crew: list[WorkerReference]
    stage: PlaneReference
    refs: list = field(default_factory=list)
    tools: list = field(default_factory=list)
    waits: list = field(default_factory=list)
    nothing: Order = field(default_factory=lambda: Order("lost"))

    @property
    def plane_closed(self):
        return self.launcher.plane._board.ended >= FOREVER


class World(Working, Waiting):
    """The simulated world; a context manager.

    Args:
        rng: what everything is drawn from; only `step` and what it calls look at it.
        size: number of workers.
        actions: what the controller does, with weights.
        talk: how likely a command makes plane calls.
        parts: the classes under test.
        trace: called with a line of text for everything that happens.

    Attributes:
        counts: how often which kind of thing happened.
    """

    def __init__(self, rng, size, *, actions=CALM, talk=0.35, parts=None, trace=None):
        self.rng = rng
        self.size = size
        self.clock = Clockwork()
        self.counts = Counter()
        self._actions = actions
        self.talk = talk
        self._parts = parts or Parts()
        self._trace = trace

    def __enter__(self):
        self._installed = installed(self.clock, self._parts)
        self._preset = SteppedPreset(self)
        self.life = None
        try:
            self.session = Session(Topology(self.size), self._preset)
            self._live()
        except BaseException:
            self._installed.close()  # else every later session of the process would stand still
            raise
        return self

    def __exit__(self, *_):
        """Without a word if something went wrong; the caller has `drain`ed it otherwise."""
        try:
            self._abandon_session()
        finally:
            self._installed.close()

    def _abandon_session(self):
        life = self.life
        life.refs.clear()
        life.waits.clear()
        self.session.closed = self.session._taken_down = True
        for launcher in self._preset.made[-2:]:  # a restart that failed half-way has begun the next life
            for worker in launcher.workers:
                worker.dispose()
            for hold in launcher._threads:
                hold.thread.phase = OVER
            launcher.stop(0.0)

    def _live(self):
        del self._preset.made[:-1]
        self.life = Life(
            self._preset.made[-1],
            self.session.ledger,
            ControllerReference(self.size),
            [WorkerReference(w) for w in range(self.size)],
            PlaneReference(self.size),
        )

    def note(self, kind, *facts):
        self.counts[kind] += 1
        if self._trace is not None:
            self._trace(f"{kind}: {' '.join(map(str, facts))}")

    # --- the scheduler -------------------------------------------------------------------------------------

    def step(self):
        """Something happens, and everything still holds."""
        self.clock.now += 0.001
        fate = self.rng.random()
        threads, mail = self.threads(), self.mail()
        if fate < 0.12 or not (threads or mail):
            self.act(self.rng.choices(list(self._actions), self._actions.values())[0])
        elif mail and (fate < 0.3 or not threads):
            self.deliver(self.rng.choice(mail))
        else:
            self.step_thread(self.rng.choice(threads))
        self.check()

    def act(self, name):
        """The controller does something; False if it cannot now."""
        life = self.life
        if name in SENDING and max(map(life.launcher.queued, range(self.size))) >= MOST_QUEUED:
            name = "drop" if life.book.lost is None and not any(c.lost for c in life.crew) else "restart"
        if len(life.refs) >= MOST_REFS:
            name = "drop"
        return getattr(self, name)()

    def check(self):
        """The invariants."""
        life = self.life
        if not life.stage.closed and life.plane_closed:
            life.stage.close()
        for crew, worker in zip(life.crew, life.launcher.workers, strict=True):
            crew.check(worker.registers)
        life.stage.check(life.launcher.plane.waiting)
        life.book.check(life.ledger)
        for wait in life.waits:
            due = wait.order.seq in life.book.answered or life.book.lost is not None
            told = not wait.inbox.empty()
            require(told == due, f"{wait.order} is told (is, should be)", told, due)

    # --- ends ----------------------------------------------------------------------------------------------

    def live_on(self, timeout):
        """Somebody waits for a thread of the current life: the workers go on, nobody sends anything."""
        if self.session.closed and self.session._taken_down:
            return
        self.clock.now += timeout
        for _ in range(self.rng.randrange(40)):
            threads = self.threads(stuck=False)
            if not threads:
                return
            self.step_thread(self.rng.choice(threads))
            self.check()

    def drain(self):
        """Let everything come to its end, and see that nobody is left."""
        self._run_dry()
        while self.collect() is not False:
            self.check()
        self._require_quiet()

    def _run_dry(self):
        while True:
            threads, mail = self.threads(), self.mail()
            if not (threads or mail):
                return
            if mail and (not threads or self.rng.random() < 0.3):
                self.deliver(self.rng.choice(mail))
            else:
                self.step_thread(self.rng.choice(threads))
            self.check()

    def _require_quiet(self):
        """Nothing goes on any more: then nobody waits, and nothing is on its way."""
        life = self.life
        require(not life.stage.resting, "workers sleep for ever", sorted(life.stage.resting))
        for crew in life.crew:
            require(not crew.said, f"worker {crew.worker} has not said", list(crew.said))
            if crew.lost:
                continue
            require(not crew.stream and crew.order is None, f"worker {crew.worker} has not done", crew.stream)
            known, real = set(life.book.names[crew.worker]), set(crew.names)
            if life.launcher.steppers[crew.worker].phase is not OVER:
                require(known == real, f"names of {crew.worker} (known, real)", known, real)
        if life.book.lost is None:
            require(not life.book.awaited, "expectations are left", life.book.awaited)
            left = [wait.order for wait in life.waits if wait.inbox.empty()]
            require(not left, "waits are left", left)

    def restart(self):
        """End all workers, begin again; what is left of the life before reaches nobody."""
        self._shut(self.session.restart)
        self._live()
        self.note("restart", "controller")

    def shutdown(self):
        """End all workers for good."""
        self._shut(lambda: self.session.shutdown(0.0))

    def _shut(self, act):
        life = self.life
        life.book.seq += 1
        order = Order("stop", life.book.seq, life.book.everybody)
        for crew in life.crew:
            crew.stream.append(order)
        act()
        require(life.plane_closed, "the plane of a session that was shut down goes on")
        life.stage.close()
        self._run_dry()
        self._require_quiet()
        steppers = life.launcher.steppers.items()
        alive = [w for w, thread in steppers if thread.phase is not OVER and not life.crew[w].lost]
        require(not alive, "workers that did not end", alive)
        life.waits.clear()
        life.refs.clear()


def run(seed, steps, *, size=None, actions=None, trace=None, **options):
    """Simulate `steps` steps and the end of everything, odd seeds in a storm; the counts of what happened."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    actions = actions or (STORM if seed % 2 else CALM)
    with World(rng, size or rng.randint(1, 4), actions=actions, trace=trace, **options) as world:
        number = 0
        try:
            for number in range(1, steps + 1):
                world.note("--- step", number)
                world.step()
            world.drain()
            world.shutdown()
        except BaseException as error:
            error.add_note(f"replay: python -m tests.simulation --seed {seed} --steps {number} --trace")
            raise
        return world.counts
