"""A worker whose commands a test feeds by hand, in its own thread."""

from __future__ import annotations

import contextvars

import pytest

from disco_magic.core.messages import Call, Stop, full
from disco_magic.core.topology import Topology
from disco_magic.workers.worker import Worker
from tests.worker.bridging import served  # noqa: F401 - a fixture


def noted(injected):
    """Stands for `injection.inject`: notes the threads in a list."""

    def inject(thread_id, _):
        injected.append(thread_id)
        return True

    return inject


class Plane:
    """Keeps who left which command, and how often a departure was told."""

    def __init__(self):
        self.left = [-1, -1]
        self.waiting = {}
        self.mail = [{}, {}]
        self.told = []
        self.messages = []

    def leave(self, worker, scope, failure=None):
        self.left[worker] = scope
        self.told.append((scope, None if failure is None else failure.summary))

    def waited_s(self, worker):
        return 0.0

    def waiting_s(self, worker):
        return 1.5

    def unread(self, worker, scope):
        return self.messages


class Bench:
    """A worker whose commands come from a list; `serve` returns when they are used up."""

    def __init__(self, *, bare=False):
        self.bare = bare
        self.events = []
        self.plane = Plane()
        self.worker = Worker(1, Topology(2), self.plane, self.events.append, session_id=9998)

    def serve(self, *commands):
        if self.bare:
            commands = [bare(command) for command in commands]
        source = iter([*commands, Stop(10_000)])
        contextvars.copy_context().run(self.worker.run, self.worker.lane, lambda block: next(source))
        return self.events

    def call(self, function):
        """Call `function` as a command; what it returned."""
        outcome = []
        self.serve(Call(1, 5, lambda: outcome.append(function()), ()))
        return outcome[0]

    @property
    def values(self):
        return self.worker.registers.values


def bare(command):
    """A call as it travels if it has neither keywords nor a choice of workers."""
    if not isinstance(command, Call) or command.kwnames or command.workers is not None:
        return command
    ordinary = (*command[:5], command.kills)
    assert full(ordinary) == command
    return ordinary


@pytest.fixture(params=[False, True], ids=["named", "bare"])
def bench(request):
    made = Bench(bare=request.param)
    dispose, made.worker.dispose = (
        made.worker.dispose,
        lambda: None,
    )  # the test looks at the registers afterwards
    yield made
    dispose()
