"""Messages that a member receives from whichever member sends first."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError


def test_messages_can_be_received_from_any_member(gives):
    line = """
outs = [t(0), t(0)]
if worker_id == 0:
    asked = [world.recv_anysource([out], 4) for out in outs]
    before = asked[0].source_rank()
    barrier()
    came = [[work.is_completed(), work.wait(), work._source_rank()] for work in asked]
else:
    if worker_id == 2: world.send([t(20)], 0, 4)
    barrier()
    if worker_id == 1: world.send([t(10)], 0, 4)
"""
    assert gives(line, "*outs")[0] == [[20], [10]]
    assert gives("", "t(before, came[0][2], came[1][2]) if worker_id == 0 else t()")[0] == [[-1, 2, 1]]
    assert gives("", "t(*came[0][:2]) if worker_id == 0 else t()")[0] == [[1, 1]]


def test_what_was_asked_of_a_member_before_is_not_taken_as_anybody_s(gives):
    line = """
a, b = t(0), t(0)
if worker_id == 0:
    named, other = world.recv([a], 1), world.recv_anysource([b], 0)
    other.wait()
if worker_id == 1: world.send([t(1)], 0), world.send([t(2)], 0)
"""
    assert gives(line, "a, b")[0] == [[1], [2]]


def test_messages_of_anybody_are_taken_in_the_order_in_which_they_were_asked_for(gives):
    line = """
a, b, c = t(0), t(0), t(0)
if worker_id == 0:
    barrier()
    first, other, last = world.recv_anysource([a], 0), world.recv([b], 1), world.recv_anysource([c], 0)
    last.wait()
    done = first.is_completed(), other.is_completed()
else:
    if worker_id == 1: world.send([t(1)], 0), world.send([t(2)], 0), world.send([t(3)], 0)
    barrier()
"""
    assert gives(line, "a, b, c")[0] == [[1], [2], [3]]
    assert gives("", "t(*done) if worker_id == 0 else t()")[0] == [[1, 1]]


def test_what_one_member_was_asked_for_leaves_others_for_whoever_asks_anybody(gives):
    line = """
a, b = t(0), t(0)
if worker_id == 0:
    named, other = world.recv([a], 1), world.recv_anysource([b], 0)
    early = other.is_completed()
    barrier()                           # the message of worker 1 is there
    late = other.is_completed()
    world.send([t(0)], 2)
    other.wait()
    source = other.source_rank()
    named.wait()
else:
    if worker_id == 1: world.send([t(1)], 0)
    barrier()
    if worker_id == 2: world.recv([a], 0).wait(), world.send([t(2)], 0)
"""
    assert gives(line, "a, b")[0] == [[1], [2]]
    assert gives("", "t(early, late, source) if worker_id == 0 else t()")[0] == [[0, 0, 2]]


def test_a_receive_that_names_a_member_waits_behind_one_that_names_none(gives):
    line = """
a, b = t(0), t(0)
if worker_id == 2:
    barrier()                           # the message of worker 1 is there
    other, named = world.recv_anysource([a], 0), world.recv([b], 0)
    named.wait()
    done = other.is_completed()
else:
    if worker_id == 1: world.send([t(1)], 2)
    barrier()
    if worker_id == 0: world.send([t(5)], 2)
"""
    assert gives(line, "a, b")[2] == [[1], [5]]
    assert gives("", "t(done) if worker_id == 2 else t()")[2] == [[1]]


def test_who_has_asked_anybody_does_not_keep_a_sender_waiting_that_waits_to_be_asked(s):
    cell = """
a = t(0)
if worker_id == 0:
    asked = world.recv_anysource([a], 0)
    world.send([t(7)], 1).wait()
    asked.wait()
elif worker_id == 1:
    world.send([t(5)], 0).wait()
    world.recv([a], 0).wait()
"""
    s.run(cell, rendezvous=True)
    assert s.run("seen(a)").values[:2] == [[[5]], [[7]]]


def test_a_message_of_anybody_that_does_not_fit_can_be_waited_for_again(s):
    s.run(
        "x = t(0, 0)\nwrong = right = None\n"
        "if worker_id == 1: world.send([t(5)], 0), world.send([t(6, 7)], 0)\n"
        "if worker_id == 0:\n"
        "    asked = world.recv_anysource([x], 0)\n"
        "    try: asked.wait()\n"
        "    except Exception as reason: wrong = type(reason).__name__\n"
        "    right = asked.wait()"
    )
    assert s.run("seen(x)")[0] == [[6, 7]]
    assert s.run("wrong, right")[0] == ("PlaneMismatch", True)


def test_a_message_of_anybody_that_will_not_come_is_an_error(s):
    with pytest.raises(
        CellError, match=r"workers .1-2. finished without a send for recv from any of workers"
    ):
        s.run("if worker_id == 0: world.recv_anysource([t(0)], 0).wait()")
    with pytest.raises(CellError, match="recv: no other worker is in this process group"):
        s.run("alone = dist.new_group([0])\nif worker_id == 0: alone.recv_anysource([t(0)], 0)")
    s.run("asked = world.recv_anysource([t(0)], 0)")
    with pytest.raises(CellError, match="recv: a message of any rank was asked for in another cell - wait"):
        s.run("asked.wait()")
