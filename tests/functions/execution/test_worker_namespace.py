"""What the first worker of the process puts there, and the last one takes away."""

from __future__ import annotations

import threading

import pytest

from disco_magic.callers import namespaces
from disco_magic.core.topology import Topology
from disco_magic.functions.context import WorkerContext
from disco_magic.functions.execution import worker_namespace
from disco_magic.functions.execution.worker_namespace import drop_namespace, new_namespace
from disco_magic.isolation import adopted
from tests.locks import Told, beside


@pytest.fixture
def told(monkeypatch):
    lock = Told(worker_namespace._FIRST_OR_LAST)
    monkeypatch.setattr(worker_namespace, "_FIRST_OR_LAST", lock)
    return lock


def worker(session):
    return WorkerContext(0, Topology(1), None, None, session_id=session)


def test_a_worker_that_begins_as_the_last_one_ends_keeps_what_it_needs(monkeypatch, told):
    # The last one had seen that no other was there, took `Thread.start` from the new one, and its `print`.
    start = threading.Thread.start
    last, new = worker(session=9998), worker(session=9999)
    of_last = new_namespace(last, {})
    of_new, threads, in_use = [], [], namespaces.in_use

    def look():
        found = in_use()
        threads.append(beside(lambda: of_new.append(new_namespace(new, {})), told.awaited))
        return found

    monkeypatch.setattr(namespaces, "in_use", look)
    drop_namespace(last, of_last)
    monkeypatch.setattr(namespaces, "in_use", in_use)
    threads[0].join(20)
    try:
        assert threading.Thread.start is not start
    finally:
        drop_namespace(new, of_new[0])
    assert threading.Thread.start is start


def test_of_two_workers_that_end_at_once_one_takes_it_away_after_the_other(monkeypatch, told):
    # Both took `Thread.start` away at the same moment, and the second one's thread died of an IndexError.
    first, second = worker(session=9998), worker(session=9999)
    of_first, of_second = new_namespace(first, {}), new_namespace(second, {})
    log, threads, end = [], [], adopted.end

    def taken_away():
        log.append("begins")
        if not threads:
            threads.append(beside(lambda: drop_namespace(second, of_second), told.awaited))
        end()
        log.append("is done")

    monkeypatch.setattr(namespaces, "in_use", set)  # both have seen that nobody is left
    monkeypatch.setattr(adopted, "end", taken_away)
    drop_namespace(first, of_first)
    threads[0].join(20)
    assert log == ["begins", "is done"] * 2
