"""Code that acts as a worker's cell, without a session."""

from __future__ import annotations

import contextvars

from disco_magic.core.topology import Topology
from disco_magic.functions.context import WorkerContext, enter_worker
from disco_magic.notebook.output.streams import use_sink


def new_worker(number=0):
    return WorkerContext(number, Topology(4), None, None, session_id=9996)


def as_worker(worker, sink, function, *args):
    """Call `function` as a cell of `worker` does whose output goes to `sink`."""

    def call():
        enter_worker(worker)
        use_sink(sink)
        return function(*args)

    return contextvars.copy_context().run(call)
