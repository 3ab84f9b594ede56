"""``recv(source, timeout=...)``: who waits for a message only so long loses nothing."""

from __future__ import annotations

import re

import pytest

from disco_magic.errors import CellError, PlaneAborted

LATE = """
def late(*arguments, **options):
    try:
        recv(*arguments, **options)
    except TimeoutError as error:
        return type(error).__name__, str(error)
"""
LATER = """
if worker_id == 1:
    late({0}, timeout=0.01)
barrier()
if worker_id == 0:
    send(np.ones(2), 1)
if worker_id == 1:
    got = recv({0}, timeout=60)
"""
OTHER_TAG = """
if worker_id == 0:
    send(1, 1, tag="grads")
    gate(0)
else:
    probe(0, tag="grads")
    said = late(0, tag="grad", timeout=0)
    recv(0, tag="grads")
    gate.open()
"""


@pytest.fixture
def s(session):
    started = session(3)
    started.run(LATE)
    return started


@pytest.mark.parametrize("source", ["0", "'any'"])
def test_what_comes_later_is_received_by_the_next_one(s, source):
    s.run(LATER.format(source))
    assert s["got"].get(1).tolist() == [1, 1]


def test_the_error_says_who_is_where_and_what_has_come_instead(gated):
    s = gated(2)
    s.run(LATE)
    s.run(OTHER_TAG)
    kind, said = s["said"].get(1)
    first, sender, unread = said.splitlines()
    assert kind == "SyncTimeout"
    assert re.sub(r"Cell \d+", "Cell", first) == (
        "recv from worker 0 with tag 'grad' at Cell, line 4: no message came to worker 1 within 0 s - "
        "what is sent later is for the next recv"
    )
    assert sender.startswith("  [0] executing Cell")
    assert unread.startswith("  not received: int64 () from worker 0 with tag 'grads', sent at ")


def test_several_that_wait_for_each_other_only_so_long_all_go_on(s):
    s.run("said = late((worker_id + 1) % 3, timeout=0.01)\nbarrier()")
    assert [kind for kind, _ in s["said"].get_all()] == ["SyncTimeout"] * 3


def test_who_waits_for_one_that_waits_only_so_long_is_in_no_deadlock(s):
    s.run(
        "if worker_id == 0:\n    x = recv(1)\nif worker_id == 1:\n    late(0, timeout=0.01)\n    send(7, 0)"
    )
    assert s["x"].get(0) == 7


def test_one_that_can_never_come_is_not_waited_for(session):
    with pytest.raises(CellError) as caught:
        session(2).run("recv(0, timeout=1e9) if worker_id else None")
    assert type(caught.value.failures[1].exception) is PlaneAborted


@pytest.mark.parametrize("limit", ["-1", "'1'", "float('nan')", "[]"])
@pytest.mark.parametrize("verb", ["recv", "probe"])
def test_what_is_no_time_is_refused(session, verb, limit):
    with pytest.raises(CellError, match=r"UsageMistake: timeout is .*, expected a number of seconds >= 0"):
        session(2).run(f"{verb}(0, timeout={limit}) if worker_id else None")


def test_for_ever_is_a_time(s):
    s.run("x = recv(0, timeout=float('inf')) if worker_id == 1 else send(3, 1) if worker_id == 0 else 0")
    assert s["x"].get(1) == 3


def test_who_catches_it_is_not_said_to_have_lost_a_collective(s):
    assert s.run("late((worker_id + 1) % 3, timeout=0)\nbarrier()").caught_by() == {}


def test_a_probe_leaves_the_message_where_it_is(s):
    s.run("if worker_id == 0: send(4, 1)\nif worker_id == 1: x = probe(0, timeout=60), recv(0, timeout=0)")
    assert s["x"].get(1) == (0, 4)


def test_a_stop_ends_the_wait(busy):
    s = busy(2)
    with pytest.raises(KeyboardInterrupt):
        s.run("if worker_id == 0: interrupt_main()\nrecv(1 - worker_id, timeout=1e9)")
    assert s.run("1").values == [1, 1]


def test_where_sends_wait_the_sender_goes_on_when_its_message_is_taken(s):
    s.run("if worker_id == 0: send(6, 1)\nif worker_id == 1: x = recv(0, timeout=60)", rendezvous=True)
    assert s["x"].get(1) == 6
