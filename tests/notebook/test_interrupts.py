"""The stop button, for every place a worker can be in; the session is usable afterwards, nothing is lost."""

from __future__ import annotations

import random

import pytest

from tests.sampled import EVERY_CASE

SPIN = "while True:\n    i = 1\n    i += 1"
PLACES = {
    "a spinning loop": SPIN,
    "a spinning loop on one worker": "if worker_id == 1:\n    while True:\n        i = 1\n        i += 1",
    "a barrier with a missing rank": f"if worker_id != 2:\n    barrier()\n{SPIN}",
    "asyncio.sleep": "import asyncio\nawait asyncio.sleep(60)",
    "a loop of matmuls": "a = np.ones((64, 64))\nwhile True:\n    a @ a\n    i = 1",
    "a flood of prints": "while True:\n    print('flood')\n    i = 1",
    "a shell command": "!sleep 60",
    "a subprocess": "import subprocess\nsubprocess.run(['sleep', '60'])",
    "time.sleep": "import time\ntime.sleep(60)",
    "a lock": "import threading\nl = threading.Lock()\nl.acquire()\nl.acquire()",
    "a queue": "import queue\nqueue.Queue().get()",
    "an event": "import threading\nthreading.Event().wait()",
    "a pipe": "import os\nends = os.pipe()\nos.read(ends[0], 1)",
}


@pytest.mark.parametrize("place", PLACES)
def test_the_stop_button_ends_a_cell_and_the_next_one_works(fresh, place):
    fresh.ok("%%disco\nkept = worker_id")
    cell = fresh.send(f"%%disco\nprint('ready', flush=True)\n{PLACES[place]}")
    before = fresh.until_text(cell, "ready\n", times=4)
    fresh.interrupt()
    ran = fresh.finish(cell, before)
    assert (ran.status, ran.error["ename"]) == ("error", "KeyboardInterrupt")
    sentences = ["stopped on workers [0-3]"]
    if place == "a spinning loop on one worker":
        sentences = ["stopped on worker 1, done on workers [0,2-3]"]
    if (
        place == "a subprocess"
    ):  # the signal goes to the children, too, and may end the cell first, or on some
        sentences += ["was interrupted as it ended", "stopped on worker"]
    assert any(sentence in ran.traceback for sentence in sentences)
    after = fresh.ok("%%disco\nprint('alive')\nallgather(np.array([kept])).tolist()")
    assert after.value == "[0-3] [0, 1, 2, 3]"
    assert sorted(after.lines) == [f"[{worker}] alive" for worker in range(4)]


def test_the_traceback_of_an_interrupt_shows_no_line_of_the_runtime(fresh):
    cell = fresh.send("%%disco\nprint('ready', flush=True)\nwhile True:\n    i = 1\n    i += 1")
    before = fresh.until_text(cell, "ready\n", times=4)
    fresh.interrupt()
    assert ".py" not in fresh.finish(cell, before).traceback


def test_cells_queued_behind_an_interrupted_one_do_not_run(fresh):
    first = fresh.send("%%disco\nprint('ready', flush=True)\nwhile True:\n    i = 1\n    i += 1")
    second = fresh.send("after = 1")
    before = fresh.until_text(first, "ready\n", times=4)
    fresh.interrupt()
    assert fresh.finish(first, before).status == "error"
    assert fresh.finish(second).status == "aborted"


def test_an_interrupt_puts_the_streams_back(fresh):
    fresh.ok("import sys\nbefore = sys.stdout, sys.stderr, sys.getswitchinterval()")
    cell = fresh.send("%%disco\nprint('ready', flush=True)\nwhile True:\n    i = 1\n    i += 1")
    before = fresh.until_text(cell, "ready\n", times=4)
    fresh.interrupt()
    fresh.finish(cell, before)
    assert fresh.ok("(sys.stdout, sys.stderr, sys.getswitchinterval()) == before").value == "True"


def test_clean_up_in_the_cell_runs_before_the_interrupt_is_reported(fresh):
    cell = fresh.send(
        "%%disco\nprint('ready', flush=True)\ntry:\n    while True:\n        i = 1\n        i += 1\n"
        "finally:\n    cleaned = True"
    )
    before = fresh.until_text(cell, "ready\n", times=4)
    fresh.interrupt()
    fresh.finish(cell, before)
    assert fresh.ok("%%disco\ncleaned").value == "[0-3] True"


def test_a_stuck_worker_prints_nothing_after_it_was_replaced(fresh):
    fresh.ok(
        "import builtins, threading\nbuiltins.gate, builtins.gone = threading.Event(), threading.Event()"
    )
    cell = fresh.send(
        "%%disco -w 0\nimport builtins\nprint('ready', flush=True)\ntry:\n    builtins.gate.wait()\n"
        "finally:\n    print('stray')\n    builtins.gone.set()"
    )
    before = fresh.until_text(cell, "ready\n")
    fresh.interrupt()
    assert "was replaced by a new one" in fresh.finish(cell, before).traceback
    after = fresh.ok("builtins.gate.set(), builtins.gone.wait(20)")
    assert after.value == "(None, True)"
    assert "stray" not in after.text() + "".join(str(m["content"]) for m in after.late)


def test_stops_at_random_moments_all_end_their_cell_and_drop_no_later_one(fresh):
    # Sometimes in its first line, sometimes in a collective, sometimes while others are stopped already.
    body = f"print('ready', flush=True)\nfor _ in range(worker_id * 50):\n    pass\nbarrier()\n{SPIN}"
    dice = random.Random(5)  # noqa: S311 - moments, not secrets
    for stop in range(20 if EVERY_CASE else 8):
        cell = fresh.send(f"%%disco\n{body}")
        before = fresh.until_text(cell, "ready\n", times=dice.randrange(1, 5))
        fresh.interrupt()
        ran = fresh.finish(cell, before)
        assert (ran.status, ran.error["ename"]) == ("error", "KeyboardInterrupt")
        assert fresh.ok(f"%%disco\nallreduce({stop})").value == f"[0-3] {4 * stop}"
