"""Loops in steps: Ctrl-C ends all workers after the same one, and the next cell goes on from there."""

from __future__ import annotations

import gc
import re

import pytest

import disco_magic as disco
from disco_magic.errors import CellError, SyncTimeout
from disco_magic.functions import stepping
from tests.session.conftest import interrupt_main

LOOP = """
done = 0
for step in worker.steps(range(10**9)):
    total = allreduce(1)
    if worker_id == 1 and done == 5: interrupt_main()
    x = sum(range(1000 * worker_id))
    done += 1
"""
BETWEEN = r"was stopped between two steps: workers \[0-2\] have done (\d+) steps each"


@pytest.mark.parametrize("again", [1, 2])
def test_ctrl_c_ends_all_workers_after_the_same_step(busy, again):
    s = busy(3)
    for _ in range(again):
        with pytest.raises(KeyboardInterrupt, match=BETWEEN) as caught:
            s.run(LOOP)
        (steps,) = map(int, re.search(BETWEEN, str(caught.value)).groups())
        assert steps > 5
        assert s.run("done").values == [steps] * 3
    assert sorted(caught.value.result.errors) == [0, 1, 2]


def test_a_cell_that_ends_before_another_step_begins_was_interrupted_as_it_ended(gated, gate):
    s = gated(2)
    pending = s.run_nowait("loop = worker.steps(range(9))\nfor step in loop: break\ngate()")
    gate.arrived(2)
    pending.stop_soon()
    looks = []

    def look():
        looks.append(pending.ending())
        gate.open()

    with pytest.raises(KeyboardInterrupt, match="was interrupted as it ended"):
        pending.wait(on_look=look)
    assert looks[0].startswith("ends after step 1")


def test_while_the_step_ends_the_handle_says_after_which(gated, gate):
    s = gated(2, interrupt_main=interrupt_main)
    said = []
    pending = s.run_nowait(
        "for step in worker.steps(range(10**9)):\n    barrier()\n"
        "    if step == 3:\n        if worker_id == 0: interrupt_main()\n        gate()"
    )
    assert pending.ending() == ""

    def look():
        if pending.ending():
            said.append(pending.ending())
            gate.open()

    with pytest.raises(KeyboardInterrupt, match=r"between two steps: workers \[0-1\] have done 4 steps each"):
        pending.wait(on_look=look)
    assert said[0] == "ends after step 4 \u00b7 press again to stop at once"


def test_who_has_fewer_steps_than_the_others_stops_them_at_once(busy):
    s = busy(2)
    with pytest.raises(KeyboardInterrupt, match="was stopped on workers"):
        s.run(
            "for step in worker.steps(range(3 if worker_id else 10**9)):\n"
            "    if not worker_id and step == 7: recv(1), interrupt_main()\n"
            "if worker_id: send(1, 0)\nwhile True: pass\n"
        )


def test_who_ends_before_the_last_step_is_told_apart(busy):
    s = busy(2)
    told = r"between two steps: worker 0 has done 8 steps, worker 1 has done 3 steps$"
    with pytest.raises(KeyboardInterrupt, match=told):
        s.run(
            "for step in worker.steps(range(3 if worker_id else 10**9)):\n"
            "    if worker_id == 0 and step == 7: recv(1), interrupt_main()\n"
            "    if worker_id and step == 2: send(1, 0)\n"
            "    while worker_id and step == 2 and worker._steps.count.last is None: pass\n"
            "    while not worker_id and step == 7 and worker._steps.count.last is None: pass\n"
        )


def test_pressed_again_it_stops_them_at_once(busy):
    s = busy(3)
    with pytest.raises(KeyboardInterrupt, match=r"was stopped on workers \[0-2\]; registers may differ"):
        s.run(
            "for step in worker.steps(range(9)):\n    barrier()\n"
            "    if worker_id == 2:\n        interrupt_main()\n"
            "        while worker._steps.count.last is None: pass\n"
            "        interrupt_main()\n    while True: pass\n"
        )
    assert s.run("step").values == [0] * 3


def test_who_is_in_no_such_loop_is_stopped_at_once_with_all_others(busy):
    s = busy(2)
    s.run("for _ in worker.steps(range(3)): pass")  # of another cell: it counts no more
    with pytest.raises(KeyboardInterrupt, match="was stopped on workers"):
        s.run(
            "if worker_id:\n    send(1, 0)\n    for _ in worker.steps(range(10**9)): pass\n"
            "recv(1), interrupt_main()\nwhile True: pass\n"
        )


@pytest.mark.parametrize("left", ["pass", "if _ == 1: break"])
def test_who_has_left_its_loops_is_stopped_at_once(busy, left):
    s = busy(2)
    with pytest.raises(KeyboardInterrupt, match="was stopped on workers"):
        s.run(
            f"for _ in worker.steps(range(3)):\n    {left}\n"
            "barrier()\nif worker_id: interrupt_main()\nwhile True: pass"
        )


@pytest.mark.parametrize("end", ["timeout", "cancel"])
def test_a_time_that_is_over_and_cancel_stop_them_at_once(session, end):
    s = session(2)
    source = "for _ in worker.steps(range(9)):\n    while True: __import__('time').sleep(0.01)\n"
    if end == "timeout":
        with pytest.raises(SyncTimeout):
            s.run(source, timeout=1)
    else:
        pending = s.run_nowait(source)
        pending.cancel()
        with pytest.raises(CellError, match="was cancelled"):
            pending.wait()


def test_what_fails_before_the_step_is_done_is_told(busy):
    s = busy(2)
    with pytest.raises(CellError, match="ZeroDivisionError"):
        s.run(
            "for step in worker.steps(range(10**9)):\n    barrier()\n"
            "    if worker_id:\n        interrupt_main()\n"
            "        while worker._steps.count.last is None: pass\n"
            "    barrier()\n    1 / (worker_id - 1)\n    barrier()\n"
        )


def test_steps_of_several_loops_and_of_loops_in_loops_are_counted_together(busy):
    s = busy(2)
    with pytest.raises(KeyboardInterrupt, match=r"workers \[0-1\] have done [\d,]+ steps each"):
        s.run(
            "inner = 0\nfor _ in worker.steps(range(4)): inner += 1\n"
            "for epoch in worker.steps(range(10**6)):\n"
            "    for batch in worker.steps('abc'):\n"
            "        inner += allreduce(1) // 2\n"
            "        if worker_id and inner == 20: interrupt_main()\n"
        )
    assert len(set(s.run("epoch, batch, inner").values)) == 1


def test_nothing_is_taken_from_what_is_gone_through_before_its_step(busy):
    s = busy(1)
    with pytest.raises(KeyboardInterrupt, match="worker 0 has done 3 steps"):
        s.run(
            "rows = iter(range(10**9)); seen = []\nfor row in worker.steps(rows):\n"
            "    seen.append(row)\n    if row == 2:\n        interrupt_main()\n"
            "        while worker._steps.count.last is None: pass\n"
        )
    assert s.run("seen, next(rows)").values == [([0, 1, 2], 3)]


def test_one_that_is_kept_goes_on_in_the_next_cell(busy):
    s = busy(2)
    with pytest.raises(KeyboardInterrupt, match="steps each"):
        s.run(
            "kept = worker.steps(iter(range(10**9)))\nfor step in kept:\n    barrier()\n"
            "    if worker_id and step == 3: interrupt_main()\n"
        )
    s.run("before = step\nfor step in kept: break")
    assert s.run("step - before").values == [1, 1]


def test_outside_of_a_worker_it_is_what_is_gone_through():
    items = [1, 2]
    assert disco.worker.steps(items) is items


def test_it_is_an_iterator_as_long_as_what_it_goes_through(session):
    s = session(2)
    assert (
        s.run("len(worker.steps(range(7))), list(worker.steps('ab')), worker._steps.count.begun").values
        == [(7, ["a", "b"], 2)] * 2
    )
    with pytest.raises(CellError, match="TypeError: 'int' object is not iterable"):
        s.run("worker.steps(3)")
    with pytest.raises(CellError, match="TypeError: these items have no length"):
        s.run("len(worker.steps(x for x in 'ab'))")
    with pytest.raises(CellError, match=r"worker\.steps was called in a thread that worker 0 has started"):
        s.run(
            "import threading\nfailed = []\ndef run():\n    try: worker.steps('ab')\n"
            "    except Exception as error: failed.append(error)\n"
            "thread = threading.Thread(target=run); thread.start(); thread.join()\nraise failed[0]"
        )


def test_a_loop_from_before_a_restart_is_not_asked(session):
    s = session(2)
    with pytest.raises(CellError) as caught:
        s.run("def train():\n    batches = worker.steps(range(10))\n    for i in batches: i / 0\ntrain()")
    s.restart()
    s.run("1")
    assert stepping.ask(s.id, (0, 1), s.ledger.seq) is None
    del caught  # such an error keeps the frames of the loops, as IPython's last error does


def test_what_counts_steps_is_not_kept():
    with disco.ThreadedSession(2) as s:
        s.run("for _ in worker.steps(range(2)): pass")
        asked = s.id, (0, 1), s.ledger.seq
        assert stepping.done(*asked) == {0: 2, 1: 2}
    del s
    gc.collect()
    assert not stepping.done(*asked)
