"""Values are copies, in both directions and for every worker."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from disco_magic.errors import UsageMistake, WorkerError
from tests.session.conftest import fail_on, give, who


def append(target, value):
    target.append(value)
    return target


def test_a_value_comes_back_as_a_copy(session):
    s = session(1)
    ref = s.call_packed(list)
    ref.get(0).append("mine")
    assert ref.get(0) == []


def test_a_value_goes_out_as_a_copy(session):
    s = session(1)
    mine = [1]
    ref = s.call_packed(give, mine)
    mine.append(2)
    assert ref.get(0)[0] == ([1],)


def test_every_worker_gets_a_copy_of_an_argument_of_its_own(session):
    s = session(3)
    ref = s.call_packed(append, [], s.call_packed(who))
    assert ref.get_all() == [[0], [1], [2]]


def test_an_array_can_be_reused_by_the_caller_at_once(session, gated, gate):
    s = gated(2)
    pending = s.run_nowait("gate()")
    gate.arrived(2)
    mine = np.zeros(3)
    ref = s.call_packed(give, mine)
    mine[:] = 7
    gate.open()
    pending.wait()
    assert ref.get(0)[0][0].tolist() == [0, 0, 0]


def test_set_replaces_the_value_on_one_worker_by_a_copy(session):
    s = session(3)
    ref = s.call_packed(who)
    mine = [1]
    ref.set(1, mine)
    mine.append(2)
    assert ref.get_all() == [0, [1], 2]


def test_set_heals_a_poisoned_register(session):
    s = session(2)
    ref = s.call_packed(fail_on, 1)
    with pytest.raises(WorkerError):
        s.sync_all()
    ref.set(1, "healed")
    assert ref.get_all() == ["fine", "healed"]


def test_discos_debug_names_mean_get_and_set(session):
    ref = session(2).call_packed(who)
    ref.debug_copy_from(1, "new")
    assert ref.debug_get_from_remote(1) == "new"


@pytest.mark.parametrize("way", ["argument", "keyword", "set", "put"])
def test_what_cannot_be_copied_is_refused_before_anything_is_sent(session, way):
    s = session(2)
    ref = s.call_packed(who)
    ref.get_all()
    before = (s.ledger.seq, s.ledger.live_registers, s.names())
    lock = threading.Lock()
    ways = {
        "argument": lambda: s.call_packed(give, [lock]),
        "keyword": lambda: s.call_packed(give, key=lock),
        "set": lambda: ref.set(0, lock),
        "put": lambda: s.put("x", lock),
    }
    with pytest.raises(UsageMistake, match="cannot be copied between controller and worker"):
        ways[way]()
    assert (s.ledger.seq, s.ledger.live_registers, s.names()) == before


def test_a_value_that_cannot_be_copied_back_is_that_gets_error(session):
    s = session(2)
    ref = s.call_packed(threading.Lock)
    with pytest.raises(WorkerError, match="cannot be copied") as caught:
        ref.get(0)
    assert isinstance(caught.value.origin.exception, UsageMistake)
    s.sync_all()
