"""Messages in a process group of PyTorch's: who receives them, and in which order."""

from __future__ import annotations

import re
from textwrap import indent

import pytest

from disco_magic.errors import CellError


def test_messages_are_received_when_they_are_waited_for(gives):
    ring = """
out = t(0, 0)
asked = world.recv([out], (worker_id - 1) % 3, 0)
before = asked.is_completed()
barrier()
world.send([t(me, 9)], (worker_id + 1) % 3, 0).wait()
after = asked.wait(), asked.is_completed(), asked.is_success(), asked.wait(), asked.result() == [out]
source = asked.source_rank()
"""
    assert gives(ring, "out") == [[[2, 9]], [[0, 9]], [[1, 9]]]
    assert gives("", "t(before, *after)") == [[[0, 1, 1, 1, 1, 1]]] * 3
    assert gives("", "t(source)") == [[[2]], [[0]], [[1]]]


def test_messages_of_one_source_and_tag_are_taken_in_the_order_in_which_they_were_asked_for(gives):
    line = """
a, b, c = t(0), t(0), t(0)
if worker_id == 0:
    first, other, second = world.recv([a], 1, 3), world.recv([b], 1), world.recv([c], 1, 3)
    second.get_future()
    early = first.is_completed(), other.is_completed()
    other.wait()
if worker_id == 1:
    for number, tag in ((1, 3), (2, 0), (3, 3)):
        world.send([t(number)], 0, tag)
"""
    assert gives(line, "a, b, c")[0] == [[1], [2], [3]]
    assert gives("", "t(*(early if worker_id == 0 else ()))")[0] == [[1, 1]]


def test_who_asks_again_and_again_whether_a_message_has_come_gets_it(gives):
    line = """
a, b = t(0), t(0, 0)
if worker_id == 0:
    first, second = world.recv([a], 1), world.recv([b], 1)
    barrier()
    while not second.is_completed(): pass
    over = first.is_completed()
else:
    barrier()
    if worker_id == 1: world.send([t(1)], 0), world.send([t(2, 3)], 0)
"""
    assert gives(line, "a, b")[0] == [[1], [2, 3]]
    assert gives("", "t(over) if worker_id == 0 else t()")[0] == [[1]]


@pytest.mark.parametrize(
    ("asked", "kind"), [("world.recv([t(0)], 1)", "PlaneAborted"), ("world.send([t(0)], 1)", "PlaneMismatch")]
)
def test_who_asks_again_and_again_hears_that_the_other_one_has_ended(s, asked, kind):
    line = f"""
if worker_id == 0: work = {asked}
barrier()
if worker_id == 0:
    while not work.is_completed(): pass
    work.wait()
"""
    with pytest.raises(CellError, match=kind):
        s.run(line, rendezvous=True)


def test_those_that_are_asked_for_together_are_over_together(gives):
    line = """
a, b = t(0), t(0)
world._start_coalescing("cpu")
if worker_id == 0: world.recv([a], 1), world.recv([b], 2)
asked = world._end_coalescing("cpu")
before = asked.is_completed()
barrier()
if worker_id: world.send([t(me)], 0)
while not asked.is_completed(): pass
"""
    assert gives(line, "a, b")[0] == [[1], [2]]
    assert gives("", "t(before)") == [[[0]], [[1]], [[1]]]


def rendezvous(s, code):
    return s.run(f"other = [1, 0, 2][worker_id]\nif worker_id < 2:\n{indent(code, '    ')}", rendezvous=True)


@pytest.mark.parametrize(
    "code",
    [
        "world.send([t(1)], other).wait()\nworld.recv([x], other).wait()",
        "asked = world.send([t(1)], other)\nasked.synchronize()\nworld.recv([x], other)",
    ],
)
def test_sends_that_wait_need_somebody_who_receives(s, code):
    s.run("x = t(0)")
    with pytest.raises(CellError, match=r"workers \[0-1\] wait for each other in a circle") as caught:
        rendezvous(s, code)
    hint = "Let one of them receive first, or post the receive before the send (irecv, batch_isend_irecv)."
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    "code",
    [
        "asked = world.recv([x], other)\nworld.send([t(me, 2)], other).wait()\nasked.wait()",
        "sent = world.send([t(me, 2)], other)\nworld.recv([x], other).wait()\nsent.wait()",
        """sent = world.send([t(me, 2)], other)
asked = world.recv([x], other)
while not sent.is_completed(): pass
asked.wait()""",
        """world._start_coalescing('cpu')
world.send([t(me, 2)], other)
world.recv([x], other)
world._end_coalescing('cpu').wait()""",
    ],
)
def test_what_is_asked_for_first_or_waited_for_last_is_no_circle(s, code):
    s.run("x = t(0, 0)")
    rendezvous(s, code)
    assert s.run("seen(x)").values[:2] == [[[1, 2]], [[0, 2]]]


def test_messages_of_all_are_those_of_cells(gives):
    sent = "x = t(0)\nif worker_id == 0: send(t(4), 1)\nif worker_id == 1: world.recv([x], 0).wait()"
    with pytest.raises(CellError, match="received: float32"):
        gives(
            "x = t(0, 0)\nif worker_id == 0: send(t(4), 1)\nif worker_id == 1: world.recv([x], 0).wait()", "x"
        )
    assert gives(sent, "x")[1] == [[4]]
    received = "if worker_id == 0: world.send([t(5)], 1, 2)\nif worker_id == 1: x = t(*recv(0, tag=2))"
    assert gives(received, "x")[1] == [[5]]


def test_messages_of_other_groups_are_kept_apart(s):
    s.run("one, two = dist.new_group([0, 1]), dist.new_group([0, 1])\na, b = t(0), t(0)")
    s.run(
        "if worker_id == 0: [group.send([t(n)], 1) for n, group in enumerate((one, two))]\n"
        "if worker_id == 1: two.recv([b], 0).wait(), one.recv([a], 0).wait()"
    )
    assert s.run("seen(a, b)")[1] == [[0], [1]]


def test_several_that_are_asked_for_together_are_one_to_wait_for(gives):
    line = """
outs = [t(0), t(0)]
world._start_coalescing("cpu")
for out, source in zip(outs, ((worker_id - 1) % 3, (worker_id + 1) % 3)):
    world.recv([out], source)
    world.send([t(me)], source)
all_of_them = world._end_coalescing("cpu")
all_of_them.wait()
filled = all_of_them.result() == outs
"""
    assert gives(line, "*outs, t(filled)") == [[[2], [1], [1]], [[0], [2], [1]], [[1], [0], [1]]]


def test_who_is_written_to_or_asked_has_to_be_a_member(s):
    for call in ("world.send([t(1)], -1)", "world.send([t(1)], 3)", "world.recv([t(1)], 7)"):
        with pytest.raises(CellError, match="is not a rank of this process group of 3 members"):
            s.run(call)


def test_what_a_cell_has_asked_for_ends_with_it(s):
    with pytest.raises(CellError):
        s.run("asked = world.recv([t(0)], 1) if worker_id == 0 else world._start_coalescing('cpu')\n1 / 0")
    s.run("x = t(0)\nif worker_id == 1: world.send([t(5)], 0)\nif worker_id == 0: world.recv([x], 1).wait()")
    assert s.run("seen(x)")[0] == [[5]]
    with pytest.raises(CellError, match="recv: the message of worker 1 was asked for in another cell - wait"):
        s.run("if worker_id == 0: asked.wait()")


def test_a_message_that_does_not_fit_leaves_what_is_to_be_filled_to_be_waited_for(s):
    s.run(
        """
x = t(0)
if worker_id == 1:
    world.send([t(1, 2)], 0), world.send([t(3)], 0)
if worker_id == 0:
    asked = world.recv([x], 1)
    try:
        asked.wait()
    except Exception as error:
        told = type(error).__name__, asked._finish is None
    asked.wait()
"""
    )
    assert s["told"].get(0) == ("PlaneMismatch", False)
    assert s.run("seen(x)")[0] == [[3]]


def test_a_message_that_was_not_waited_for_is_told_of_with_the_line_that_asked_for_it(s):
    line = (
        "if worker_id == 0: asked = world.recv([t(0)], 1){}\n"
        "elif worker_id == 1: world.send([t(1)], 0){}\nbarrier()"
    )
    cell = s.run_nowait(line.format("", ""))
    with pytest.raises(CellError) as caught:
        cell.wait()
    told = f"from worker 1, sent at {cell.label}, line 2 - irecv at {cell.label}, line 1 asked for a message,"
    assert f"{told} and nothing waited for it: call its wait()" in str(caught.value)
    for more in (
        line.format(".wait()", ", world.send([t(1)], 0)"),
        "if worker_id == 1: send(1, 0)\nbarrier()",
    ):
        with pytest.raises(CellError, match="worker 0 finished without receiving") as caught:
            s.run(more)
        assert "irecv" not in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("[t(0)], 2", "still asked for one from worker 2 with tag 0 (irecv at {0}, line 1)"),
        ("[t(0)], 1, 3", "still asked for one from worker 1 with tag 3 (irecv at {0}, line 1)"),
        ("[t(0, 0)], 1", "irecv at {0}, line 1 asked for a message, and nothing waited for it: call its"),
    ],
    ids=["another source", "another tag", "another shape"],
)
def test_who_ends_without_a_message_is_told_what_it_asked_for_in_its_place(s, asked, said):
    asks = f"if worker_id == 0: asked = world.recv({asked})"
    sends = "if worker_id == 1: world.send([t(1)], 0)"
    late = "if worker_id == 1:\n    while not worker._has_left(0): pass"
    cell = s.run_nowait(f"{asks}\n{sends}\nbarrier()")
    with pytest.raises(CellError, match="worker 0 finished without receiving") as caught:
        cell.wait()
    assert said.format(cell.label) in str(caught.value)
    cell = s.run_nowait(f"{asks}\n{late}\n{sends}")  # only the sender can say so
    with pytest.raises(CellError, match="worker 0 has finished without receiving") as caught:
        cell.wait()
    assert said.format(cell.label) in str(caught.value)
    cell = s.run_nowait(f"{late}\n{sends}")
    with pytest.raises(CellError) as caught:
        cell.wait()
    assert "asked for" not in str(caught.value)


LIMITED = """
a, told = t(0), []
if worker_id == 0:
    work = world.{}
    for limit in (0.001, timedelta(milliseconds=10)):
        try: work.wait(limit)
        except TimeoutError as error: told.append(str(error))
barrier()
if worker_id == 1: world.send([t(5)], 0)
if worker_id == 0: work.wait(60.0)
"""


@pytest.mark.parametrize("asked", ["recv([a], 1)", "recv_anysource([a])"])
def test_what_is_waited_for_only_so_long_can_be_waited_for_again(s, gives, asked):
    s.run("from datetime import timedelta")
    assert gives(LIMITED.format(asked), "a")[0] == [[5]]
    told = s["told"].get(0)
    said = [re.search(r"no message came to worker 0 within 0(\.0\d\d?)? s - ", each) for each in told]
    assert len(said) == 2
    assert all(said)


WITHOUT_LIMIT = """
a = t(0)
if worker_id == 0: world.recv([a], 1).wait({})
if worker_id == 1:
    while not (0 in worker._plane.waiting or worker._has_left(0)): pass
    world.send([t(5)], 0)
"""


@pytest.mark.parametrize("limit", ["timedelta(0)", "0.0", "None"])
def test_a_limit_of_0_is_none(s, gives, limit):
    # As in PyTorch, where it is the default: with gloo, wait(timedelta(0)) returns when the message is there.
    s.run("from datetime import timedelta")
    assert gives(WITHOUT_LIMIT.format(limit), "a")[0] == [[5]]


LIMITED_BATCH = """
from datetime import timedelta
a, b, told = t(0), t(0), []
world._start_coalescing(None)
if worker_id == 0: world.recv([a], 1); world.recv([b], 1)
work = world._end_coalescing(None)
if worker_id == 0:
    for limit in (0.001, timedelta(milliseconds=2)):
        try: work.wait(limit)
        except TimeoutError as error: told.append(type(error).__name__)
    send(1, 1)
if worker_id == 1:
    recv(0)
    world.send([t(5)], 0); world.send([t(6)], 0)
if worker_id == 0: work.wait(timedelta(0))
"""


def test_messages_that_are_waited_for_together_only_so_long_can_be_waited_for_again(s, gives):
    assert gives(LIMITED_BATCH, "a, b")[0] == [[5], [6]]
    assert s["told"].get(0) == ["SyncTimeout"] * 2


def test_a_limit_that_is_no_time_is_refused(s):
    with pytest.raises(CellError, match="UsageMistake: timeout is -1, expected a number of seconds"):
        s.run("world.recv([t(0)], 1).wait(-1) if worker_id == 0 else None")
