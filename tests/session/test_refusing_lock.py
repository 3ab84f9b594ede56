"""One thread at a time sends, to all workers or to none, whatever strikes meanwhile."""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import signal
import sys
import threading

import pytest

import disco_magic as disco
from disco_magic.core.messages import Call, Kill, Sync
from disco_magic.errors import SyncTimeout, UsageMistake
from disco_magic.session.dref import DRef
from disco_magic.session.refusing_lock import RefusingLock
from tests.conftest import until
from tests.doubles.scripted import scripted_session


class Striking:
    """Stands for a channel's send, after which signals are looked at: every call of it is struck."""

    def __init__(self, send, times):
        self.send, self.times = send, times

    def __call__(self, command):
        self.send(command)
        if self.times:
            self.times.pop()
            raise KeyboardInterrupt


@pytest.fixture
def stage():
    session, launcher = scripted_session(3)
    yield session, launcher
    session.shutdown()


def strike(session, times=1):
    times = list(range(times))
    session._sends = tuple(Striking(send, times) for send in session._sends)


WAYS = {
    "call": (lambda s: s.call_packed(int), Call),
    "call with a keyword": (lambda s: s.call_packed(int, base=2), Call),
    "kill": (lambda s: s.flush(), Kill),
    "sync": (lambda s: s.sync_all(), Sync),
}


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_a_command_that_ctrl_c_strikes_half_way_goes_to_all_workers(stage, way, times):
    session, launcher = stage
    send, kind = WAYS[way]
    session.call_packed(int)  # dropped: there is something to kill
    strike(session, times)
    with pytest.raises(KeyboardInterrupt):
        send(session)
    for channel in launcher.channels:
        assert [type(command) for command in channel.commands] == [Call, kind]
    assert not session.ledger.expecting


def test_kills_travel_once_although_ctrl_c_strikes_their_command(stage):
    session, launcher = stage
    kept = [session.call_packed(int) for _ in range(3)]
    kept.clear()
    strike(session)
    with pytest.raises(KeyboardInterrupt):
        session.call_packed(int)
    kept.append(session.call_packed(int))
    kills = [command.kills for command in launcher.channels[2].commands]
    assert kills[:3] == [(), (), ()]
    assert sorted(kills[3]) == [1, 2, 3]
    assert kills[4] == (kept[0].register,)  # of the reference that the struck call made
    assert session.ledger.live_registers == 1


NEXT = {
    "a call": lambda s: s.call_packed(int),
    "a call to one worker": lambda s: s.call_packed(int, workers=[0]),
    "a flush": lambda s: s.flush(),
    "a sync": lambda s: s.send(Sync),
}


@pytest.mark.parametrize("following", NEXT)
@pytest.mark.parametrize("dead", [1, 2])
def test_kills_that_were_taken_and_not_sent_go_with_the_next_command(stage, monkeypatch, dead, following):
    # They did not go with a call, which took one of the ids: the command after that killed a live register.
    session, launcher = stage
    kept = [session.call_packed(int) for _ in range(dead)]
    kept.clear()

    def struck(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(DRef, "__init__", struck)
    with pytest.raises(KeyboardInterrupt):
        session.call_packed(int)
    monkeypatch.undo()
    kept.append(NEXT[following](session))
    last = launcher.channels[1].commands[-1]
    assert sorted(last.kills) == list(range(1, dead + 1))
    kept.append(session.call_packed(max, 1, 2))
    session.flush()
    later = launcher.channels[1].commands[dead + 1 :]
    assert not [command for command in later if set(command.kills) & {ref.register for ref in kept if ref}]


def test_a_cell_whose_sending_ctrl_c_strikes_is_stopped_and_forgotten(session):
    s = session(3)
    sends = s._sends
    s._sends = (sends[0], lambda command: (sends[1](command), signal.raise_signal(signal.SIGINT)), sends[2])
    with pytest.raises(KeyboardInterrupt, match=r"Cell \d+ was interrupted as it was sent"):
        s.run_nowait("n = 0\nwhile True:\n    n += 1\n")
    s._sends = sends
    assert not s.ledger.expecting
    assert s.run("allreduce(1)").values == [3, 3, 3]


def test_ctrl_c_while_a_session_closes_leaves_no_worker_behind(session):
    s = session(2)
    sends = s._sends
    s._sends = (lambda command: (sends[0](command), signal.raise_signal(signal.SIGINT)), sends[1])
    with pytest.raises(KeyboardInterrupt):
        s.shutdown()
    assert s.closed
    assert not any(thread.is_alive() for thread in s._launcher._threads)


# --- finalizers and signal handlers -------------------------------------------------------------------


class Calls:
    """In a circle of garbage: its finalizer calls the session."""

    def __init__(self, session, said):
        self.session, self.said, self.me = session, said, self

    def __del__(self):
        try:
            self.session.call_packed(int)
        except UsageMistake as mistake:
            self.said.append(str(mistake))
        else:
            self.said.append("sent")


def test_a_finalizer_that_calls_the_session_in_the_middle_of_a_call_gets_an_error_and_no_deadlock(session):
    s = session(2)
    said = []
    gc.disable()  # or it may be collected before
    try:
        Calls(s, said)
        s._locked(gc.collect)
    finally:
        gc.enable()
    assert said[0].startswith("the session was called by a finalizer or a signal handler that struck while")
    assert "nothing was sent" in said[0]
    s.sync_all()


def test_a_finalizer_between_two_calls_may_call_the_session(session):
    s = session(2)
    said = []
    Calls(s, said)
    gc.collect()
    assert said == ["sent"]
    s.sync_all()


def test_the_collector_may_run_at_any_moment_in_any_thread(session):
    s = session(2)
    said = []
    thresholds = gc.get_threshold()
    gc.set_threshold(5)
    try:

        def work():
            for _ in range(200):
                Calls(s, said)
                s.call_packed(max, 1, 2).get(1)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert len(said) == 800
    assert s.run("allreduce(1)").values == [2, 2]


def test_a_signal_handler_that_calls_the_session_in_the_middle_of_a_call_gets_an_error(session):
    s = session(2)
    before = signal.signal(signal.SIGUSR1, lambda *_: s.call_packed(int))
    try:
        with pytest.raises(UsageMistake, match="by a finalizer or a signal handler"):
            s._locked(lambda: signal.raise_signal(signal.SIGUSR1))
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    s.sync_all()


def test_a_turn_that_raises_is_over():
    lock = RefusingLock()
    with pytest.raises(ZeroDivisionError):
        lock(lambda: 1 / 0)
    assert lock(lambda: 5) == 5


# --- Ctrl-C at every moment ------------------------------------------------------------------------------


HOME = disco.__file__.rpartition("/")[0]
# After these instructions CPython looks for signals.
LOOKS = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME"}


@functools.cache
def instructions(code):
    """Offset -> (name, where an exception there goes to)."""
    bytecode = dis.Bytecode(code)

    def handler(offset):
        entries = [entry for entry in bytecode.exception_entries if entry.start <= offset < entry.end]
        return entries[-1].target if entries else None

    return {each.offset: (each.opname, handler(each.offset)) for each in bytecode}


def struck_at(number, act):
    """Call `act` with a Ctrl-C where CPython looks for one the `number`-th time; whether it came so far.

    Where disco_magic's own code runs and SIGINT means KeyboardInterrupt. A look at the end of a ``try`` is
    left out: what strikes there still belongs to it, while the trace function is called after it.
    """
    left = number
    previous = signal.getsignal(signal.SIGINT)
    before = {}

    def trace(frame, event, _):
        nonlocal left
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            name, handler = instructions(frame.f_code)[frame.f_lasti]
            came_from = before.get(frame)
            before[frame] = name, handler
            if came_from and came_from[0] in LOOKS and came_from[1] == handler:
                left -= signal.getsignal(signal.SIGINT) is previous
                if left == 0:
                    left = -1
                    signal.raise_signal(signal.SIGINT)
        return trace

    measuring = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # 3.12 looks at this when the function is set, and not again
    with contextlib.suppress(KeyboardInterrupt):
        sys.settrace(trace)
        try:
            act()
        finally:
            sys.settrace(measuring)
    return left < 0


def some_calls(s):
    kept = s.call_packed(int)
    other = s.call_packed(max, kept, 2)
    del kept
    s.call_packed(max, other, 2)
    del other
    s.call_packed(int)


def stopped(s):
    pending = s.run_nowait("while True:\n    n = 1")
    try:
        pending.cancel()
    except KeyboardInterrupt:
        pending.cancel()  # it may have struck before anything was done
        raise


def held_at_the_bound(s):
    s._launcher.backlog = lambda: [s.max_outstanding, 0]  # what it says; the worker answers at once
    s._pace_at = 0
    with contextlib.suppress(SyncTimeout):
        s.sync_all(0)


ACTS = {
    "a wait at the bound": held_at_the_bound,
    "calls": some_calls,
    "a cell without end, and its stop": stopped,
    "get": lambda s: s.call_packed(int).get(1),
    "sync": lambda s: s.sync_all(),
    "cell": lambda s: s.run("here = worker_id"),
    "asynchronous cell": lambda s: s.run_nowait("here = worker_id"),
    "named register": lambda s: s.put("other", 5),
}


# Hypothesis has a callback of the collector's: what strikes in it Python only tells of, and it strikes again.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("act", ACTS)
def test_ctrl_c_at_any_moment_leaves_a_session_that_works(session, act):
    s = session(2)
    got = [[], []]
    s._sends = tuple(
        lambda command, send=send, into=into: (into.append(command), send(command))
        for send, into in zip(s._sends, got, strict=True)
    )
    number = 0
    reached = True
    while reached:
        number += 1
        reached = struck_at(number, lambda: ACTS[act](s))
        until(lambda: not s._locked.taken)  # a worker may be telling of its end
        assert s.run("allreduce(worker_id + 1)", timeout=60).values == [3, 3]
        to_all = [
            [c[0] for c in commands if len(getattr(c, "workers", None) or (0, 1)) == 2] for commands in got
        ]
        assert to_all[0] == to_all[1]
        assert not s.ledger.expecting
    assert number > 10
