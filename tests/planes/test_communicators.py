"""How communicators end, on a stand-in for NCCL whose calls take as long as a test wants."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from disco_magic.errors import PlaneAborted
from disco_magic.planes.communicators import Communicators
from tests.conftest import DEADLINE_S, until


class Slow:
    """A communicator; `split` and `abort` last until they are let.

    Attributes:
        made: all that there are, of all members.
        splitting, may_split, may_abort: what a split has set, and what it and an abort wait for.
        aborts: how often it was aborted.
    """

    def __init__(self, *_):
        self.aborts = 0
        type(self).made.append(self)

    def commSplit(self, *_):  # noqa: N802 - as cupy calls it
        self.splitting.set()
        assert self.may_split.wait(DEADLINE_S)
        return type(self)()

    def abort(self):
        self.aborts += 1
        assert self.may_abort.wait(DEADLINE_S)


@pytest.fixture
def slow():
    events = {name: threading.Event() for name in ("splitting", "may_split", "may_abort")}
    kind = type("OneSlow", (Slow,), {"made": [], **events})
    yield kind
    for event in events.values():
        event.set()


@pytest.fixture
def made(slow):
    """Makes the communicators of a plane of four workers in two groups."""
    nccl = SimpleNamespace(NcclCommunicator=slow, get_unique_id=lambda: b"")
    return lambda: Communicators(nccl, 4, [(0, 1), (2, 3)])


EVERYBODY = (0, 1, 2, 3)


def test_what_was_made_for_nobody_is_aborted_once_also_beside_the_end(slow, made, background):
    communicators = made()
    communicators.prepare(EVERYBODY)
    connecting = background(communicators.connect, 0, EVERYBODY, lambda: True)
    assert slow.splitting.wait(DEADLINE_S)
    closing = background(communicators.close)
    until(lambda: slow.made[0].aborts)
    slow.may_split.set()
    with pytest.raises(PlaneAborted, match="worker 0 has left"):
        connecting()
    slow.may_abort.set()
    closing()
    until(lambda: not communicators.are_ending)
    assert [each.aborts for each in slow.made] == [1] * len(slow.made)


def test_groups_connect_by_themselves_where_cupy_does_not_split():
    """As cupy 13: with its first collective, a session with groups failed for a name that cupy lacks."""
    kind = type("Old", (), {"__init__": lambda self, *_: None, "abort": lambda _: None})
    nccl = SimpleNamespace(NcclCommunicator=kind, get_unique_id=lambda: b"")
    communicators = Communicators(nccl, 4, [(0, 1), (2, 3)])
    for members in (EVERYBODY, (2, 3)):
        assert not communicators.prepare(members)
        made = [communicators.connect(worker, members) for worker in members]
        assert communicators.of(members) == made
    assert communicators.of((0, 1)) is None
    communicators.close()


@pytest.mark.parametrize("gives_up", [False, True])
def test_who_connects_waits_for_what_an_earlier_plane_aborts(slow, made, background, gives_up):
    slow.may_split.set()
    earlier, later = made(), made()
    earlier.prepare(EVERYBODY)
    earlier.connect(0, EVERYBODY)
    earlier.in_thread(slow.made[0].abort)
    until(lambda: slow.made[0].aborts)
    later.prepare(EVERYBODY)
    over, before = threading.Event(), len(slow.made)
    connecting = background(later.connect, 0, EVERYBODY, over.is_set)
    assert not slow.may_abort.wait(0.05)
    assert len(slow.made) == before
    (over if gives_up else slow.may_abort).set()
    if gives_up:
        with pytest.raises(PlaneAborted):
            connecting()
        slow.may_abort.set()
    else:
        connecting()
    assert len(slow.made) > before


def test_who_looks_at_the_end_finds_none_that_is_about_to_be_aborted(slow, made, background):
    slow.may_split.set()
    communicators = made()
    communicators.prepare(EVERYBODY)
    held = [communicators.connect(worker, EVERYBODY) for worker in EVERYBODY]
    with communicators.launching:  # a start goes on meanwhile
        closing = background(communicators.close)
        until(lambda: communicators.of(EVERYBODY) is None)
        assert not communicators.are_held(EVERYBODY, held)
        assert not any(each.aborts for each in slow.made)
    slow.may_abort.set()
    closing()
    until(lambda: not communicators.are_ending)
    assert [each.aborts for each in slow.made] == [1] * len(slow.made)


def test_whether_an_abort_goes_on_is_not_asked_of_its_thread(made, gate, monkeypatch):
    # All workers ask again and again. CPython 3.11 answers two that ask while a thread ends with "release
    # unlocked lock": each takes the thread's lock for a moment, and one takes the other's for the thread's.
    def is_alive(thread):
        raise RuntimeError("release unlocked lock")

    communicators = made()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "is_alive", is_alive)
        assert communicators.in_thread(gate)
        gate.arrived()
        assert communicators.are_ending
        gate.open()
        until(lambda: not communicators.are_ending)
