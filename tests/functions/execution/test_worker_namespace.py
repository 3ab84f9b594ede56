"""What the first worker of the process puts there, and the last one takes away."""

from __future__ import annotations

import threading

from disco_magic.core.topology import Topology
from disco_magic.functions.context import WorkerContext
from disco_magic.functions.execution.changes import CHANGES
from disco_magic.functions.execution.worker_namespace import drop_namespace, new_namespace
from tests.locks import Told, beside


def worker(session):
    return WorkerContext(0, Topology(1), None, None, session_id=session)


def test_a_worker_that_begins_as_the_last_one_ends_keeps_what_it_needs(monkeypatch):
    # The last one had seen that no other was there, took `Thread.start` from the new one, and its `print`.
    told, start = Told(CHANGES._lock), threading.Thread.start
    monkeypatch.setattr(CHANGES, "_lock", told)
    last, new = worker(session=9998), worker(session=9999)
    of_last = new_namespace(last, {})
    of_new, threads = [], []

    def begin():
        threads.append(beside(lambda: of_new.append(new_namespace(new, {})), told.awaited))

    CHANGES._undo["of this test"] = begin  # called as the last one's changes are undone, before all others
    drop_namespace(last, of_last)
    threads[0].join(20)
    try:
        assert threading.Thread.start is not start
    finally:
        drop_namespace(new, of_new[0])
    assert threading.Thread.start is start
