"""Every call of the public API that waits ends when its time is over, and says who is where."""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import suppress
from queue import Empty

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import SyncTimeout, UsageMistake
from disco_magic.session import dispatch, looks
from tests.conftest import DEADLINE_S
from tests.session.conftest import until

MODULE = "def double(x):\n    return 2 * x\n"


@pytest.fixture
def held(session, gate):
    """A session whose workers are held up, and a register of an array."""
    s = session(2, timeout=60)
    s.run("x = 1")
    ref = s.put("array", np.zeros(3)) or s["array"]
    s.sync_all()
    s.call_packed(gate)
    gate.arrived(2)
    return s, ref


# Each with a timeout of its own.
WAYS = {
    "sync_all": lambda s, ref, t: s.sync_all(t),
    "sync_worker": lambda s, ref, t: s.sync_worker(1, t),
    "sync_worker_0": lambda s, ref, t: s.sync_worker_0(t),
    "sync_all_async": lambda s, ref, t: asyncio.run(s.sync_all_async(t)),
    "get": lambda s, ref, t: ref.get(1, t),
    "get_all": lambda s, ref, t: ref.get_all(t),
    "debug_get_from_remote": lambda s, ref, t: ref.debug_get_from_remote(1, t),
    "copy_to_worker_0": lambda s, ref, t: s.copy_to_worker_0(np.ones(3), ref, timeout=t),
    "copy_from_worker_0": lambda s, ref, t: s.copy_from_worker_0(np.ones(3), ref, timeout=t),
    "import_python_module": lambda s, ref, t: s.import_python_module("json", t),
    "check": lambda s, ref, t: s.check("array", timeout=t),
}
# Those that take none: the session's.
WITHOUT = {
    "result": lambda s, ref: s.run_nowait("1").wait().values,
    "back pressure": lambda s, ref: [s.call_packed(int) for _ in range(s.max_outstanding + 1)],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_wait_ends_when_its_time_is_over_and_shows_the_doctors_table(held, gate, way):
    s, ref = held
    with pytest.raises(SyncTimeout, match="executing call Gate") as caught:
        WAYS[way](s, ref, 0.01)
    assert {each.state for each in caught.value.diagnosis.positions} == {"executing"}
    gate.open()
    WAYS[way](s, ref, 60)


def test_an_answer_that_comes_when_the_time_is_over_is_no_less_given(session, monkeypatch):
    s = session(2)
    s.put("x", 7)
    ref, take = s["x"], dispatch.take

    def late(inbox, *_):
        inbox.put(take(inbox, 60))
        monkeypatch.undo()
        raise Empty

    monkeypatch.setattr(dispatch, "take", late)
    assert ref.get(1, timeout=0.01) == 7


@pytest.mark.parametrize("way", [*WAYS, *WITHOUT])
def test_a_wait_without_a_timeout_has_the_sessions(held, gate, way):
    s, ref = held
    s.max_outstanding = 100
    s._pace_at = 0
    wait = WITHOUT.get(way) or (lambda s, ref: WAYS[way](s, ref, None))
    s.timeout = 0.01
    with pytest.raises(SyncTimeout, match="executing call Gate"):
        wait(s, ref)
    s.timeout = None
    gate.open()
    wait(s, ref)


def test_a_number_without_end_that_is_no_float_is_an_impossible_time(session):
    with pytest.raises(UsageMistake, match="expected a number of seconds"):
        session(1).sync_all(timeout=10**400)


@pytest.mark.parametrize("way", WAYS)
def test_an_impossible_time_is_refused_before_anything_is_sent(session, way):
    s = session(2)
    s.put("array", np.zeros(3))
    ref = s["array"]
    s.sync_all()
    sent = s.ledger.seq
    with pytest.raises(UsageMistake, match="expected a number of seconds"):
        WAYS[way](s, ref, -1)
    assert s.ledger.seq == sent


def test_a_wait_without_end_is_possible_in_a_session_that_has_a_timeout(held, gate, background):
    s, ref = held
    s.timeout = 0.01
    waiter = background(ref.get, 1, float("inf"))
    with pytest.raises(SyncTimeout):
        ref.get(1)
    gate.open()
    assert waiter().tolist() == [0, 0, 0]


@pytest.mark.parametrize("timeout", [-1, "1", float("nan")], ids=str)
def test_an_impossible_timeout_of_a_session_is_refused(session, timeout):
    with pytest.raises(UsageMistake, match="expected a number of seconds"):
        session(1, timeout=timeout)
    s = session(1)
    with pytest.raises(UsageMistake, match="expected a number of seconds"):
        s.timeout = timeout
    assert s.timeout is None


def test_a_cell_that_takes_longer_than_the_sessions_timeout_is_stopped(session, here):
    s = session(2, timeout=0.05, extras=lambda context: {"here": here})
    pending = s.run_nowait("n = 0\nhere()\nwhile True:\n    n += 1")
    here.arrived(2)
    with pytest.raises(SyncTimeout, match=r"took longer than 0.05 s and was stopped; "):
        pending.wait(stop=True)
    assert s.run("allreduce(1)", timeout=60).values == [2, 2]


def test_functions_of_a_module_are_not_waited_for_longer_than_asked(session, gate, tmp_path):
    path = tmp_path / "slow.py"
    path.write_text(MODULE)
    s = session(2)
    s.call_packed(gate)
    gate.arrived(2)
    module = s.load_vm_module(path)
    with pytest.raises(SyncTimeout, match="executing call Gate"):
        module.function_names(0.01)
    s.timeout = 0.01
    for wait in (lambda: module["double"], lambda: list(module), lambda: "double" in module):
        with pytest.raises(SyncTimeout, match="executing call Gate"):
            wait()
    gate.open()
    s.timeout = 60
    assert module["double"](4).get_all() == [8, 8]
    for name in [name for name in sys.modules if name.startswith("_disco_")]:
        del sys.modules[name]


def test_the_doctor_needs_a_session_that_is_open(session):
    s = session(2)
    assert s.doctor().sentence == "all workers are idle"
    s.shutdown()
    with pytest.raises(disco.SessionClosed):
        s.doctor()


def test_the_doctor_lets_a_worker_take_up_what_it_was_sent(session, monkeypatch):
    monkeypatch.setattr(looks, "_TAKEN_UP_S", DEADLINE_S)  # a busy machine may not let it run for 20 ms
    s = session(2)
    s.sync_all()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10.0)  # no worker comes to run before somebody waits
    try:
        s.call_packed(len, ())
        told = s.doctor().sentence
    finally:
        sys.setswitchinterval(interval)
    assert told == "all workers are idle"


def test_the_doctor_knows_what_was_sent_and_has_not_begun(session, gate):
    s = session(1)
    s.call_packed(gate)
    s.call_packed(int)
    gate.arrived()
    (position,) = s.doctor().positions
    assert (position.state, position.behind, position.at_most) == ("executing", 2, True)
    gate.open()


AWAITING = """import asyncio
async def inside():
    await asyncio.get_running_loop().run_in_executor(None, gate)
class Awaitable:
    def __await__(self):
        yield from inside().__await__()
"""


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("await inside()", "line 3"),
        ("1\nawait asyncio.gather(inside())", "line 2"),
        ("1\n[await each for each in [inside()]]", "line 3"),
        ("1\nawait Awaitable()", "line 6"),
        ("1\nawait asyncio.create_task(inside())", "line 2"),
    ],
)
def test_the_doctor_tells_the_line_of_a_cell_at_which_it_awaits(session, gate, cell, line):
    s = session(1, extras=lambda context: {"gate": gate})
    s.run(AWAITING)
    pending = s.run_nowait(cell)
    gate.arrived()
    until(lambda: s.doctor().positions[0].site.endswith(f", {line}"))  # it may be on its way into the await
    assert s.doctor().positions[0].doing.startswith("executing Cell ")
    gate.open()
    pending.wait()


def test_who_has_not_come_is_where_it_is_when_a_wait_is_hopeless_and_finished_in_the_error(session, gate):
    others, then = type(gate)(), []
    s = session(3, extras=lambda context: {"gate": gate, "others": others, "then": then})
    wait = "    try: allreduce(1)\n    except Exception as error: then.append(str(error)); raise"
    pending = s.run_nowait(f"if worker_id == 1:\n    gate()\nelse:\n    others()\nif worker_id == 0:\n{wait}")
    gate.arrived()
    others.open()
    until(lambda: s._launcher.plane.left[0] >= pending.seq)
    gate.open()
    with pytest.raises(disco.CellError) as caught:
        pending.wait()
    assert "worker 2 finished without joining allreduce(int64 (), op=sum) that worker 0" in then[0]
    assert re.search(r"  \[1\] executing Cell \d+ at Cell \d+, line 2 for .*\n  \[2\] finished", then[0])
    sentence, *table = str(caught.value.failures[0].exception).splitlines()
    assert sentence.startswith("workers [1-2] finished without joining allreduce(int64 (), op=sum) that wor")
    assert re.fullmatch(r"  \[0\] waiting in allreduce\(int64 \(\), op=sum\) at Cell \d+, line 6", table[0])
    assert table[1] == "  [1-2] finished"


FAILS_ON_0 = "if worker_id == 0:\n    1 / 0\nhere()\nwhile True:\n    pass"


@pytest.fixture
def half_failed(session, here):
    """A cell that has failed on worker 0 and does not end on worker 1."""
    s = session(2, timeout=60, extras=lambda context: {"here": here})
    pending = s.run_nowait(FAILS_ON_0)
    here.arrived()
    until(lambda: s.ledger.failed_in(pending.seq))
    yield s, pending
    with suppress(disco.DiscoError):
        pending.cancel()


def test_a_cell_that_took_too_long_says_who_had_failed_in_it_and_where(half_failed):
    _, pending = half_failed
    with pytest.raises(SyncTimeout, match="took longer than 0 s and was stopped") as caught:
        pending.wait(0, stop=True)
    line = r"\nworker 0 failed meanwhile: ZeroDivisionError: division by zero at Cell \d+, line 2$"
    assert re.search(line, str(caught.value))
    assert list(caught.value.failures) == [0]
    assert isinstance(caught.value.__cause__, disco.CellError)
    assert list(caught.value.__cause__.failures) == [0]  # the other was stopped, which is no news


def test_what_a_timeout_has_told_of_is_not_raised_again(half_failed):
    s, pending = half_failed
    with pytest.raises(SyncTimeout, match="failed meanwhile"):
        pending.wait(0, stop=True)
    s.sync_all()
    assert s.run("1").values == [1, 1]


def test_a_cell_that_goes_on_says_who_has_failed_in_it_and_fails_in_the_end(half_failed):
    _, pending = half_failed
    with pytest.raises(SyncTimeout, match=r"goes on(.|\n)*worker 0 failed meanwhile: ZeroDivisionError"):
        pending.wait(0)
    pending.cancel()
    with pytest.raises(disco.CellError, match="ZeroDivisionError"):
        pending.wait()
