"""A controller that runs far ahead of its workers waits for them."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import SyncTimeout, UsageMistake, WorkerError, WorkerLost
from tests.doubles.scripted import scripted_session
from tests.loader.files import write_safetensors
from tests.session.conftest import MAIN, main_waits, until


@pytest.fixture
def when_waiting():
    """Does something in another thread as soon as the main thread waits in a session."""
    threads = []

    def start(act):
        def watch():
            until(main_waits)
            act()

        threads.append(threading.Thread(target=watch))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()


def test_a_worker_is_never_further_behind_than_the_bound(session, gate, when_waiting):
    s = session(2, max_outstanding=50)
    most = []
    s.call_packed(gate, "begun", workers=[1])
    gate.arrived()

    def look_and_open():
        most.append([each.outstanding for each in s.stats()])
        gate.open()

    when_waiting(look_and_open)
    for number in range(200):
        s.call_packed(int, number)
    s.sync_all()
    # Fifty with the call at the gate, and the command that says when they are done.
    assert most[0][1] == 51
    assert [each.outstanding for each in s.stats()] == [0, 0]


def test_every_kind_of_command_is_held_up(session, gate, when_waiting):
    s = session(1, max_outstanding=5)
    s.call_packed(gate, "begun")
    gate.arrived()
    when_waiting(gate.open)
    kept = [s.run_nowait("x = 1") for _ in range(20)]
    s["y"] = s.call_packed(int)
    for _ in range(20):
        s["y"] = s["x"]
    assert all(cell.done() for cell in kept[:10])


def test_workers_that_keep_up_are_not_waited_for(session):
    s = session(2, max_outstanding=10)
    for _ in range(10):
        s.call_packed(int)
    s.sync_all()
    sent = s.ledger.seq
    for _ in range(8):
        s.call_packed(int)
    assert s.ledger.seq == sent + 8  # no marker of ours in between


def test_a_command_to_other_workers_waits_for_whoever_is_behind_too():
    s, launcher = scripted_session(2)
    launcher.unread = [0, 10_000]
    s._pace_at = 1
    s.call_packed(int)
    answered = threading.Thread(target=lambda: launcher.lose(1, "it was a test"))
    answered.start()
    with pytest.raises(WorkerLost, match="worker 1 is gone"):
        s.call_packed(int, workers=[0])
    answered.join()
    s.shutdown()


def test_a_worker_that_calls_its_own_session_is_not_held_up(session):
    s = session(1, max_outstanding=3)

    def flood():
        return len([s.call_packed(int) for _ in range(20)])

    assert s.call_packed(flood).get() == 20


def test_ctrl_c_ends_the_wait_and_nothing_was_sent(session, gate, when_waiting):
    s = session(1, max_outstanding=3)
    s.call_packed(gate, "begun")
    gate.arrived()
    kept = [s.call_packed(int) for _ in range(2)]
    free = s.ledger.live_registers
    when_waiting(lambda: signal.pthread_kill(MAIN, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        s.call_packed(int)
    assert s.ledger.live_registers == free
    gate.open()
    assert [ref.get() for ref in kept] == [0, 0]


def test_a_cell_that_is_held_up_can_be_stopped_by_ctrl_c(session, gate, when_waiting):
    s = session(1, max_outstanding=3)
    s.call_packed(gate, "begun")
    gate.arrived()
    kept = [s.call_packed(int) for _ in range(2)]
    when_waiting(lambda: signal.pthread_kill(MAIN, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        s.run("sent = 1")
    gate.open()
    s.sync_all()
    assert "sent" not in s
    assert len(kept) == 2


def test_the_timeout_of_a_cell_counts_while_it_is_held_up(session, gate):
    s = session(1, max_outstanding=3)
    s.call_packed(gate, "begun")
    gate.arrived()
    kept = [s.call_packed(int) for _ in range(2)]
    with pytest.raises(SyncTimeout, match=r"the cell was not sent: worker 0 was 3 commands behind"):
        s.run("sent = 1", timeout=0.01)
    gate.open()
    s.sync_all()
    assert "sent" not in s
    assert len(kept) == 2


ASKED = {
    "load_safetensors": lambda s, ref: s.load_safetensors(s.path, timeout=0),
    "copy_to_worker_0": lambda s, ref: s.copy_to_worker_0(np.ones(3), ref, timeout=0),
    "sync_all": lambda s, ref: s.sync_all(0),
    "sync_worker": lambda s, ref: s.sync_worker(1, 0),
    "get": lambda s, ref: ref.get(0, 0),
    "copy_from_worker_0": lambda s, ref: s.copy_from_worker_0(np.ones(3), ref, timeout=0),
    "import_python_module": lambda s, ref: s.import_python_module("json", 0),
    "check": lambda s, ref: s.check("x", timeout=0),
    "call_packed": lambda s, ref: s.call_packed(int),
}


@pytest.mark.parametrize("way", ASKED)
def test_who_asks_again_and_again_is_held_at_the_bound_too(session, gate, way, tmp_path):
    s = session(2, max_outstanding=20)
    s.path = write_safetensors(tmp_path / "m.safetensors", {"w": np.ones(3)})
    s.put("x", np.zeros(3))
    ref = s["x"]
    s.call_packed(gate, "begun")
    gate.arrived(2)
    s.timeout = 0 if way == "call_packed" else None  # the others have one of their own
    for _ in range(100):
        with suppress(SyncTimeout):
            ASKED[way](s, ref)
    # The bound, a mark, and the command that found the last place.
    assert max(each.outstanding for each in s.stats()) <= 22
    with pytest.raises(SyncTimeout, match=r"was not sent: worker.* 20 commands behind .*within 0 s; .*Gate"):
        ASKED[way](s, ref)
    s.timeout = None
    gate.open()
    s.sync_all()
    s.run("x = 2")
    assert [each.outstanding for each in s.stats()] == [0, 0]


def test_what_is_asked_beyond_the_bound_is_answered_when_there_is_room(session, gate, when_waiting):
    s = session(1, max_outstanding=3)
    s.call_packed(gate, "begun")
    gate.arrived()
    last = [s.call_packed(int, number) for number in range(2)][-1]
    when_waiting(gate.open)
    assert last.get() == 1


def test_a_wait_that_gave_up_leaves_one_marker_for_all_that_follow(session, gate):
    s = session(2, max_outstanding=3)
    kept = [s.call_packed(gate, "begun", workers=[1])]
    gate.arrived()
    kept += [s.call_packed(int, workers=[1]) for _ in range(2)]
    found = [each.outstanding for each in s.stats()]
    answers = []

    def ask():
        for _ in range(20):
            with suppress(SyncTimeout):
                s.sync_worker(1, 0.001)
        s.sync_worker(1)
        answers.append(s.stats()[1].outstanding)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: s.stats()[1].outstanding > found[1])
    with pytest.raises(SyncTimeout):
        s.sync_worker(1, 0.01)
    assert s.stats()[1].outstanding == found[1] + 1
    gate.open()
    for thread in threads:
        thread.join()
    assert len(answers) == 3
    assert [ref.get(1) for ref in kept[1:]] == [0, 0]


def test_who_asks_a_worker_that_is_not_behind_waits_for_nobody(session, gate):
    s = session(2, max_outstanding=5)
    s.put("x", np.zeros(3))
    ref = s["x"]
    kept = [s.call_packed(gate, "begun", workers=[0])]
    gate.arrived()
    kept += [s.call_packed(int, workers=[0]) for _ in range(4)]
    assert ref.get(1).tolist() == [0, 0, 0]
    s.sync_worker(1)
    with pytest.raises(SyncTimeout, match="get was not sent: worker 0 was"):
        ref.get(0, 0)
    gate.open()
    assert len(kept) == 5


def test_a_mark_that_was_left_on_one_worker_holds_nobody_up_who_is_ahead_of_another(session, gate):
    s = session(2, max_outstanding=5)
    other, third = type(gate)(), type(gate)()
    kept = [s.call_packed(gate, "0", workers=[0]), s.call_packed(int, workers=[0])]
    kept += [s.call_packed(third, "0", workers=[0]), s.call_packed(other, "1", workers=[1])]
    gate.arrived()
    other.arrived()
    s.timeout = 0
    with suppress(SyncTimeout):
        while True:
            kept.append(s.call_packed(int, workers=[1]))
    s.timeout = None
    gate.open()
    third.arrived()  # worker 0 stands at its third command, worker 1 has done everything
    other.open()
    kept += [s.call_packed(int, workers=[1]) for _ in range(30)]
    s.sync_worker(1)
    third.open()
    s.sync_all()


def test_nothing_is_sent_beyond_the_bound_of_a_worker_that_is_gone():
    s, launcher = scripted_session(2)
    launcher.unread = [0, 10_000]
    s._pace_at = 1
    s.call_packed(int)
    launcher.lose(1, "it was a test")
    sent = s.ledger.seq
    for _ in range(10):
        with pytest.raises(WorkerLost, match="worker 1 is gone"):
            s.call_packed(int)
    assert s.ledger.seq == sent
    assert s._pump._inboxes == {}
    s.shutdown()


def test_a_restart_forgets_the_marker(session, gate):
    s = session(1, max_outstanding=3)
    s.call_packed(gate, "begun")
    gate.arrived()
    kept = [s.call_packed(int) for _ in range(2)]
    with pytest.raises(SyncTimeout):
        s.sync_all(0)
    gate.open()
    s.restart()
    assert [s.call_packed(int, number).get() for number in range(20)] == list(range(20))
    assert len(kept) == 2


def test_several_threads_may_run_ahead_at_once(session):
    s = session(2, max_outstanding=20)
    threads = [threading.Thread(target=lambda: [s.call_packed(int) for _ in range(500)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    s.sync_all()
    assert [each.outstanding for each in s.stats()] == [0, 0]


def test_references_that_another_thread_drains_first_are_no_error(session):
    s = session(1)

    class Emptied:
        """Says that there is something, until the lock is held: another thread took it meanwhile."""

        def __init__(self):
            self.answers = [False, True]

        def empty(self):
            return self.answers.pop(0) if self.answers else True

    s._dead = Emptied()
    s.flush()
    assert s._dead.answers == []


@pytest.mark.parametrize("bound", [0, -1, 2.5, True, "many", None])
def test_an_impossible_bound_is_refused(bound):
    with pytest.raises(UsageMistake, match="expected a whole number of commands >= 1"):
        disco.ThreadedSession(2, max_outstanding=bound)


def test_the_bound_is_ten_thousand_by_default(session):
    assert session(1).max_outstanding == 10_000


def test_cells_whose_handles_are_dropped_leave_nothing_behind(session):
    s = session(2, max_outstanding=8)
    for _ in range(300):
        s.run_nowait("1/0")
    assert len(s.unheard) <= 120
    with pytest.raises(WorkerError, match="ZeroDivisionError"):
        s.sync_all()
