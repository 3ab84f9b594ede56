"""Several workers that are stopped together."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from disco_magic.threads import stacks
from disco_magic.workers import fragile
from disco_magic.workers.lane import Lane
from disco_magic.workers.striking import Striking, strike_all
from tests.conftest import asked, until


class Struck:
    """A worker that notes how it is struck."""

    is_open = Striking.is_open

    def __init__(self, number, noted):
        self.id = number
        self.mutex = threading.RLock()
        self.lane = Lane()
        self.lane.thread_id = 1000 + number
        self.lane.interrupted = object()
        self.cells = SimpleNamespace(cancel=None)
        self._noted = noted

    def strike(self, *, is_hit=False):
        self._noted.append((self.id, is_hit))
        return True


@pytest.fixture
def noted():
    return []


@pytest.fixture
def crew(noted, monkeypatch):
    """Three workers of which the first can be hit with others, and not the second."""

    def strike_others(threads):
        noted.append(threads)
        return threads[:1]

    monkeypatch.setattr(fragile, "strike_all", strike_others)
    return [Struck(number, noted) for number in range(3)]


def test_workers_are_hit_together_and_those_that_are_not_one_by_one(crew, noted):
    assert strike_all(crew) == crew
    assert noted == [[1000, 1001, 1002], (0, True), (1, False), (2, False)]


def closed_lane(worker):
    worker.lane.shielded = 1


def crossing(worker):
    worker.lane.crossing = 1


def pursued(worker):
    worker.lane.pursued = object()


def told(worker):
    worker.lane.told = True


def awaiting(worker):
    worker.cells.cancel = int


def ended(worker):
    worker.lane.interrupted = None


def hit_already(worker):
    worker.lane.inject_at = float("inf")


def the_callers_own(worker):
    worker.lane.thread_id = threading.get_ident()


@pytest.mark.parametrize(
    "state", [closed_lane, crossing, pursued, told, awaiting, ended, hit_already, the_callers_own]
)
def test_a_worker_that_may_not_be_injected_into_is_not_hit_with_the_others(crew, noted, state):
    state(crew[1])
    strike_all(crew)
    assert noted[0] == [1000, 1002]


@pytest.mark.parametrize("state", [told, awaiting])
def test_the_next_interrupt_hits_also_who_has_caught_the_first_one(crew, noted, state):
    state(crew[1])
    crew[1].lane.released = True
    strike_all(crew)
    assert noted[0] == [1000, 1001, 1002]


def test_nobody_waits_for_a_worker_that_is_about_to_end_before_the_others_are_hit(crew, noted):
    crew[1].mutex = SimpleNamespace(acquire=lambda _: False, release=crew.clear)
    strike_all(crew)
    assert noted[0] == [1000, 1002]
    assert crew


def test_workers_are_free_to_go_on_when_they_were_hit(crew):
    strike_all(crew)
    for each in crew:
        assert asked(lambda each=each: each.mutex.acquire(blocking=False))


def test_workers_are_free_to_go_on_if_hitting_them_fails(crew, monkeypatch):
    def fail(threads):
        raise KeyboardInterrupt

    monkeypatch.setattr(fragile, "strike_all", fail)
    with pytest.raises(KeyboardInterrupt):
        strike_all(crew)
    for each in crew:
        assert asked(lambda each=each: each.mutex.acquire(blocking=False))


def test_who_was_hit_is_not_hit_again_at_once(crew):
    strike_all(crew)
    assert crew[0].lane.inject_at > 0
    assert crew[1].lane.inject_at == 0


@pytest.mark.parametrize("n", [3, 12])
def test_workers_are_looked_at_together_however_many_are_stopped(session, monkeypatch, n):
    """A look for each asked Python for the frames of all: 256 workers took 15 s instead of 1."""
    s, looks = session(n), []
    frames = stacks.frames
    pending = s.run_nowait("from time import sleep\nwhile True: sleep(0.01)")
    workers = s._launcher.workers
    until(lambda: all(each.cells.started is not None for each in workers))
    monkeypatch.setattr(fragile, "frames", lambda: looks.append(1) or frames())
    monkeypatch.setattr(fragile, "perf_counter", lambda: 0.0)  # no slice is ever over
    monkeypatch.setattr(fragile, "_slice", fragile._Slice())
    struck = s._launcher.interrupt(pending.seq, range(n))
    assert {*struck} <= {*range(n)}  # one that has ended already is not among them
    assert len(looks) == 1
    pending.cancel()
