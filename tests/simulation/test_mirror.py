"""`SteppedThread` does what `Serving.run` and `Serving.serve` do, whatever they are fed."""

from __future__ import annotations

import contextvars
import random

import pytest

from disco_magic.core.messages import (
    Call,
    DropNames,
    Fetch,
    Kill,
    LoadName,
    Run,
    Stop,
    Store,
    StoreName,
    Sync,
)
from disco_magic.core.topology import Topology
from disco_magic.errors import WorkerInterrupt
from disco_magic.workers.worker import Worker
from tests.simulation.clockwork import Clockwork, Parts, installed
from tests.simulation.stepped import CLAIM, IDLE, LOOK, OVER, RESOLVE, SteppedThread, SteppedWorker
from tests.simulation.user_code import CELLS, EXTRAS, NAMES, SCENE, Boom, combine
from tests.simulation.worker_reference import facts_of, key_of

SEEDS = range(40)
LENGTH = 60
LATE = Call(1, 5, combine, ())


class Plane:
    """Keeps who left what; somebody always waits, so that every departure is told."""

    def __init__(self, unread):
        self.left, self.waiting, self.mail = [-1, -1], {0: None}, [{}, {0: "mail"}]
        self.told = []
        self._unread = unread

    def leave(self, worker, scope, failure=None):
        self.left[worker] = scope
        self.told.append((scope, failure and key_of(failure)))

    def unread(self, worker, scope):
        return ["a message"] if scope in self._unread else []

    def waited_s(self, worker):
        return 0.0


class Script:
    """What one seed sends, and what user code does in it."""

    def __init__(self, seed):
        self.rng = random.Random(seed)  # noqa: S311 - no secret
        self.subject = None
        self.unread = {self.rng.randrange(LENGTH) for _ in range(3)}
        self.commands = [self._command(seq) for seq in range(1, LENGTH)]

    def _command(self, seq):
        pick = self.rng.choice
        register, dest = self.rng.randint(1, 8), self.rng.randint(1, 8)
        kills = tuple(self.rng.sample(range(1, 9), pick((0, 0, 0, 1, 2))))
        how = pick(("raise", "stop me", "stop others", "replace me", "odd", "withdraw"))
        target = pick((combine, self._misbehave(how)))
        refs = pick(((), (0,), (0, 1)))
        made = [
            (seq, dest, pick((target, target, register)), (register, 3), refs, kills),
            (seq, dest, target, (register, 3), refs, kills),
            (seq, dest, target, (register, 3), refs, kills),
            Call(seq, dest, target, (register, 4), refs, ("k",), kills),
            Call(seq, dest, target, (register, 4), refs, (), kills, (1,)),
            Store(seq, dest, seq, pick((None, (0,), (1,), (0, 1))), kills),
            Fetch(seq, register, kills),
            LoadName(seq, dest, pick(NAMES), kills),
            StoreName(seq, pick(NAMES), register, kills),
            DropNames(seq, (pick(NAMES),), kills),
            Run(seq, dest, pick(CELLS).cell, kills),
            Sync(seq, kills),
            Kill(seq, kills),
        ]
        return pick(made)

    def _misbehave(self, how):
        def function(*_, **__):
            worker, command = self.subject, SCENE.seq
            if how == "raise":
                raise Boom("as it should")
            if how == "stop others":
                worker.interrupt(command + 3 if command % 2 else command - 1)
            if how == "withdraw":
                assert worker.withdraw(command + 1 + command % 3)
            if how in {"stop me", "replace me", "odd"}:
                assert worker.interrupt(command)
            if how == "replace me":
                worker.abandon()
            if how == "odd":
                raise WorkerInterrupt
            return combine()

        function.__qualname__ = how
        return function


class Subject:
    """A worker, and a look at it before every command."""

    def __init__(self, kind, seed, clock):
        self.script = Script(seed)
        self.events, self.looks = [], []
        self.plane = Plane(self.script.unread)
        self.worker = kind(
            1, Topology(2), self.plane, self.events.append, session_id=9997, extras=lambda _: EXTRAS
        )
        self.script.subject = self.worker
        self.clock = clock
        self._commands = iter([*self.script.commands, Stop(LENGTH)])

    def get(self, _):
        registers = self.worker.registers
        poisons = {register: (key_of(p.failure), p.reported) for register, p in registers.poisons.items()}
        names = {name: registers.names[name] for name in registers.public_names()}
        running = (len(self.worker.lane.running), self.worker.lane.interrupted, self.plane.left[1])
        self.looks.append((dict(registers.values), poisons, names, running, self.worker.skip_through))
        command = next(self._commands)
        SCENE.worker, SCENE.seq, SCENE.results = 1, command[0], ()
        self.clock.now += 1.0
        return command

    def result(self):
        return self.looks, [facts_of(event) for event in self.events], self.plane.told


def really(seed, clock):
    """Through `Worker.run`, in the calling thread; a replaced thread's successor goes on where it was."""
    subject = Subject(Worker, seed, clock)
    lane = None
    while lane is not subject.worker.lane:
        lane = subject.worker.lane
        contextvars.copy_context().run(subject.worker.run, lane, subject.get)
    return subject.result()


def stepped(seed, clock):
    """Through `SteppedThread`."""
    subject = Subject(SteppedWorker, seed, clock)
    thread = None
    while thread is None or thread.lane is not subject.worker.lane:
        thread = SteppedThread(subject.worker, subject.worker.lane, subject.get, 1)
        while thread.phase is not OVER:
            step(thread)
    return subject.result()


def step(thread):
    steps = {
        IDLE: thread.take,
        CLAIM: thread.claim,
        RESOLVE: thread.resolve,
        LOOK: thread.look,
        "BODY": thread.call,
    }
    steps.update(ENDED=thread.end, WRITE=thread.write, TELL=thread.tell)
    steps[thread.phase]()


@pytest.mark.parametrize("seed", SEEDS)
def test_stepwise_and_really_are_the_same(seed):
    clock = Clockwork()
    with installed(clock, Parts()):
        real, mirrored = really(seed, clock), stepped(seed, clock)
    assert mirrored == real


def struck_late_really(clock):
    """1. user code returns; 2. an interrupt seizes the command; 3. its injection escapes from `serve`."""
    subject = Subject(Worker, 0, clock)
    worker, events = subject.worker, iter(["strike", Stop(2)])

    def get(_):
        event = next(events)
        if event == "strike":
            worker.interpreter.feed(LATE)
            worker.lane.running.append(LATE)
            assert worker.interrupt(1)
            raise WorkerInterrupt("late")
        return event

    contextvars.copy_context().run(worker.run, worker.lane, get)
    return subject


def struck_late_stepwise(clock):
    subject = Subject(SteppedWorker, 0, clock)
    thread = SteppedThread(subject.worker, subject.worker.lane, lambda _: LATE, 1)
    for act in (thread.take, thread.claim, thread.look, thread.call):
        act()
    assert subject.worker.interrupt(1)
    thread.end_late()
    subject.worker.dispose()
    return subject


def test_a_late_strike_is_settled_as_run_does_it():
    clock = Clockwork()
    with installed(clock, Parts()):
        real, mirrored = struck_late_really(clock), struck_late_stepwise(clock)
    assert [facts_of(event) for event in mirrored.events] == [facts_of(event) for event in real.events]
    assert facts_of(real.events[0])[3] == (1, 1, "WorkerInterrupt")
    assert real.plane.told[:2] == mirrored.plane.told
