"""`%disco interrupt`: which workers it stops, and what it leaves alone."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError, UsageMistake
from disco_magic.session.current import session
from tests.conftest import until


def test_interrupt_can_stop_some_workers_only(four):
    four.run("import builtins, threading\nbuiltins.gate = threading.Event()")
    handle = four.run(
        "%%disco --nowait\nimport builtins\n"
        "while worker_id in (0, 2):\n    i = 1\n    i += 1\nbuiltins.gate.wait(20)"
    )
    four.run("%disco interrupt -w 0,2")
    said = four.lines
    four.run("builtins.gate.set()")
    with pytest.raises(CellError) as caught:
        handle.wait()
    assert sorted(caught.value.failures) == [0, 2]
    (told,) = said
    assert told.startswith("told to stop: ")  # what, of who has begun it
    assert "idle" not in told
    assert "there is no worker 9" in str(four.fail("%disco interrupt -w 9", UsageMistake))


def test_interrupt_gives_up_a_thread_in_a_call_that_does_not_return(four, gate):
    # The next cell stood behind "being stopped" for as long as the call took.
    four.ip.user_ns["gate"] = gate
    four.run("%disco broadcast gate")
    handle = four.run("%%disco --nowait -w 1\nx = 5\ngate()")
    gate.arrived(1)
    four.run("%disco interrupt")
    told, given_up = four.lines
    assert "Cell In[4] on worker 1" in told
    assert given_up.startswith(
        "the thread of worker 1 did not end and was replaced by a new one with the same"
    )
    assert four.run("%%disco -w 1\nx")[1] == 5
    gate.open()
    with pytest.raises(CellError, match="WorkerInterrupt"):
        handle.wait()


def test_interrupt_lets_loops_of_steps_end_their_step_and_again_stops_them(four, gate):
    four.ip.user_ns["gate"] = gate
    four.run("%disco broadcast gate")
    loop = "for step in worker.steps(range(10**9)):\n    barrier()\n    if step == 5: gate()\n"
    handle = four.run(f"%%disco --nowait -o h\n{loop}")
    gate.arrived(4)
    four.run("%disco interrupt")
    assert four.lines == [
        "told to stop after 6 steps: Cell In[4] on workers [0-3]; %disco interrupt again stops it at once"
    ]
    gate.open()
    with pytest.raises(CellError, match="WorkerInterrupt: stopped after step 6"):
        handle.wait()
    assert four.run("%%disco\nstep").values == [5] * 4
    handle = four.run("%%disco --nowait -o h\nfor step in worker.steps(range(9)):\n    while True: pass\n")
    until(lambda: all(each.site for each in session().doctor().positions))
    four.run("%disco interrupt")
    four.run("%disco interrupt")
    assert four.lines[0].startswith("told to stop: Cell In[")
    with pytest.raises(CellError, match="WorkerInterrupt"):
        handle.wait()


def test_interrupt_lets_a_loop_of_steps_end_its_step_also_where_others_wait_behind_it(four, gate):
    # It was cut in the midst of a step, also by what had been left out before: replicas were apart then.
    four.ip.user_ns["gate"] = gate
    four.run("%disco broadcast gate")
    loop = four.run(
        "%%disco --nowait -w 0,1 -o h\na = b = 0\n"
        "for step in worker.steps(range(9)):\n    a += 1\n    gate()\n    b += 1\n"
    )
    gate.arrived(2)
    left_out = four.run("%%disco --nowait -o left\n1")
    left_out.cancel()
    queued = four.run("%%disco --nowait -o queued\nbarrier()\nwrong = 1")
    until(lambda: [each.state for each in session().doctor().positions][2:] == ["waiting"] * 2)
    assert [each.behind for each in session().doctor().positions] == [2, 2, 1, 1]
    four.run("%disco interrupt")
    assert four.lines == [
        "told to stop after 1 step: Cell In[4] on workers [0-1]; %disco interrupt again stops it at once",
        "told to stop: Cell In[6] on workers [2-3]",
        "what was sent after that is skipped",
    ]
    gate.open()
    with pytest.raises(CellError, match="stopped after step 1"):
        loop.wait()
    with pytest.raises(CellError, match="WorkerInterrupt"):
        queued.wait()
    assert four.run("%%disco\nglobals().get('a'), globals().get('b'), 'wrong' in globals()").values == [
        (1, 1, False),
        (1, 1, False),
        (None, None, False),
        (None, None, False),
    ]


def test_interrupt_leaves_those_who_clean_up_alone(four, gate):
    # A second strike ended a checkpoint that was just being written.
    four.ip.user_ns["gate"] = gate
    four.run("%disco broadcast gate")
    handle = four.run(
        "%%disco --nowait -w 1 -o h\nimport time\nsaved = False\ntry:\n    gate()\n    while True: pass\n"
        "finally:\n    for n in range(150):\n        time.sleep(0.01)\n    saved = True"
    )
    gate.arrived(1)
    gate.open()
    four.run("%disco interrupt")
    assert four.lines[1] == (  # in a terminal, which has no stop button
        "still cleaning up: worker 1; .cancel() of the handle, or Ctrl-C in the next cell, "
        "gives the thread up"
    )
    with pytest.raises(CellError, match="WorkerInterrupt"):
        handle.wait()
    assert four.run("%%disco -w 1\nsaved")[1] is True
