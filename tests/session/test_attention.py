"""What hears SIGINT while somebody waits, and who hears it afterwards."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import weakref
from functools import partial
from queue import SimpleQueue

import pytest

import disco_magic as disco
from disco_magic.errors import CellError
from disco_magic.libraries import OURS
from disco_magic.session import sigint
from disco_magic.session.failures import Failures
from disco_magic.session.judging import Verdict
from disco_magic.session.pending import PendingCell
from disco_magic.session.pump import INTERRUPT, attentive, sigint_held_back, take_sigint
from disco_magic.session.sigint import sigint_to


@pytest.fixture(autouse=True)
def handler():
    """The handler that was there, which every test must leave there."""
    before = signal.getsignal(signal.SIGINT)
    yield before
    after = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)
    assert after is before


def strike():
    signal.raise_signal(signal.SIGINT)


def test_within_it_a_sigint_is_a_message_and_afterwards_an_exception():
    with attentive() as inbox:
        strike()
        assert inbox.get_nowait() is INTERRUPT
    with pytest.raises(KeyboardInterrupt):
        strike()


def test_the_handler_under_which_a_cell_is_sent_also_hears_for_who_waits_for_it():
    heard = []
    with attentive() as inbox:
        sent_with = signal.getsignal(signal.SIGINT)

        def wait():
            assert signal.getsignal(signal.SIGINT) is sent_with
            strike()

        inbox.heard(partial(heard.append, "waiting"), wait)
        assert (heard, inbox.empty()) == (["waiting"], True)
        strike()
        assert (heard, inbox.get_nowait()) == (["waiting"], INTERRUPT)
    inbox.heard(partial(heard.append, "later"), strike)  # now by a handler of its own
    assert heard == ["waiting", "later"]


@pytest.mark.parametrize("failure", [None, ValueError("why")])
def test_one_that_is_held_back_is_heard_at_the_end_whatever_happened(failure):
    done = []

    def step():
        with sigint_held_back():
            strike()
            done.append(True)
            if failure is not None:
                raise failure

    with pytest.raises(KeyboardInterrupt) as caught:
        step()
    assert done
    assert caught.value.__context__ is failure


def test_the_one_that_began_last_hears_it():
    heard = []
    with sigint_to(lambda: heard.append("outer")):
        with sigint_to(lambda: heard.append("inner")):
            strike()
        strike()
    assert heard == ["inner", "outer"]


def test_they_may_end_in_any_order():
    heard = []
    first, second = (sigint_to(lambda name=name: heard.append(name)) for name in ("first", "second"))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    strike()
    second.__exit__(None, None, None)
    assert heard == ["second"]
    with pytest.raises(KeyboardInterrupt):
        strike()


@pytest.mark.parametrize("moment", ["getsignal", "set_handler"])
def test_one_that_strikes_while_it_ends_is_raised_and_leaves_the_handler_of_before(monkeypatch, moment):
    context = sigint_to(lambda: pytest.fail("nobody hears this any more"))
    context.__enter__()
    real = getattr(sigint, moment)

    def struck(*args):
        monkeypatch.undo()
        strike()
        return real(*args)

    monkeypatch.setattr(sigint, moment, struck)
    with pytest.raises(KeyboardInterrupt):
        context.__exit__(None, None, None)


@pytest.mark.parametrize(("below", "is_heard"), [(signal.SIG_IGN, False), (signal.SIG_DFL, True)])
def test_what_is_no_function_is_put_back_too_and_ignored_stays_ignored(handler, below, is_heard):
    signal.signal(signal.SIGINT, below)
    with attentive() as inbox:
        strike()
    assert inbox.empty() is not is_heard
    assert signal.getsignal(signal.SIGINT) is below
    signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize("name", ["__main__", "trainer"])
def test_a_handler_of_the_program_is_called_and_the_wait_goes_on(handler, name):
    called = []

    def saves_a_checkpoint(number, frame):
        called.append((number, frame is not None))

    saves_a_checkpoint.__module__ = name
    signal.signal(signal.SIGINT, saves_a_checkpoint)
    with attentive() as inbox:
        with sigint_to(lambda: pytest.fail("nobody has to stop")):
            strike()
        strike()
    signal.signal(signal.SIGINT, handler)
    assert called == [(signal.SIGINT, True)] * 2
    assert inbox.empty()


@pytest.mark.parametrize("name", ["asyncio.runners", "pdb", "IPython.some", "ipykernel.some", "ours"])
def test_a_handler_of_a_front_end_is_not_called_but_what_waits_is_stopped(handler, name):
    """asyncio's would only cancel a task that the wait does not let go on."""
    called = []
    # Of ours, a module that is run with -m bears another name.
    file, module = (f"{OURS}notebook/some.py", "__main__") if name == "ours" else ("some.py", name)
    names = {"called": called, "__name__": module}
    exec(compile("def ends_what_runs(*_):\n    called.append(True)\n", file, "exec"), names)
    signal.signal(signal.SIGINT, partial(names["ends_what_runs"]))
    with attentive() as inbox:
        strike()
    signal.signal(signal.SIGINT, handler)
    assert inbox.get_nowait() is INTERRUPT
    assert not called


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit(3), ValueError("half-way")])
def test_a_handler_of_the_program_that_raises_is_what_stops(handler, error):
    def raises(number, frame):
        raise error

    signal.signal(signal.SIGINT, raises)
    with attentive() as inbox:
        strike()
    signal.signal(signal.SIGINT, handler)
    assert inbox.get_nowait() is INTERRUPT
    assert sigint.interrupt("stopped").__cause__ is not None
    with attentive():
        assert sigint.interrupt("stopped").__cause__ is None  # another one


def test_a_handler_of_the_program_is_called_when_a_step_is_done_that_must_not_be_cut_in_two(handler):
    order = []

    def raises(*_):
        order.append("handler")
        raise SystemExit(3)

    signal.signal(signal.SIGINT, raises)

    def step():
        with sigint_held_back():
            strike()
            order.append("step")

    with pytest.raises(SystemExit):
        step()
    signal.signal(signal.SIGINT, handler)
    assert order == ["step", "handler"]


def test_a_cell_that_a_program_s_handler_ends_is_stopped_and_says_by_what(handler):
    def leave(*_):
        sys.exit(3)

    with disco.ThreadedSession(2, devices="cpu") as s:
        signal.signal(signal.SIGINT, leave)
        with pytest.raises(KeyboardInterrupt, match="was stopped") as caught:
            s.run("import os\nif worker_id == 1: os.kill(os.getpid(), 2)\nwhile True: pass")
        signal.signal(signal.SIGINT, handler)
        assert type(caught.value.__cause__) is SystemExit
        assert s.call_packed(int).get_all() == [0, 0]


def test_a_program_with_a_handler_of_its_own_has_its_cell_go_on(handler):
    called = []
    signal.signal(signal.SIGINT, lambda *_: called.append(True))
    with disco.ThreadedSession(2, devices="cpu") as s:
        s.run("import os, signal\nif worker_id == 1: os.kill(os.getpid(), signal.SIGINT)\nx = worker_id")
        assert s["x"].get_all() == [0, 1]
    signal.signal(signal.SIGINT, handler)
    assert called == [True]


def test_waits_that_overlap_for_ever_leave_no_chain_behind():
    last = sigint_to(lambda: None)
    last.__enter__()
    for _ in range(3 * sys.getrecursionlimit()):
        following = sigint_to(lambda: None)
        following.__enter__()
        last.__exit__(None, None, None)
        last = following
    last.__exit__(None, None, None)


def test_a_process_that_a_sigint_ends_is_ended_by_one_that_strikes_while_attention_ends():
    program = (
        "import signal\n"
        "from disco_magic.session import sigint\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "context = sigint.sigint_to(print)\n"
        "context.__enter__()\n"
        "below = sigint.sigint_to.below\n"
        "def struck(handler):\n"
        "    sigint.sigint_to.below = below\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    return below(handler)\n"
        "sigint.sigint_to.below = struck\n"
        "context.__exit__(None, None, None)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], timeout=60, check=False)  # noqa: S603 - ours
    assert ended.returncode == -signal.SIGINT


# --- what is taken out of an inbox, and what is heard after the last look -----------------------------


class StruckInbox:
    """An inbox; a SIGINT comes when the first item has been taken out of it."""

    was_struck = True

    def __init__(self, *items):
        self._queue = SimpleQueue()
        self._armed = True
        for item in items:
            self._queue.put(item)

    def __getattr__(self, name):
        return getattr(self._queue, name)

    def get_nowait(self):
        item = self._queue.get_nowait()
        if self._armed:
            self._armed = False
            strike()
        return item


def test_a_look_for_a_sigint_leaves_the_answers_whenever_one_comes():
    inbox = StruckInbox("an answer", "another one")
    assert take_sigint(inbox)
    assert [inbox.get_nowait(), inbox.get_nowait()] == ["an answer", "another one"]
    assert not take_sigint(inbox)


@pytest.mark.parametrize("source", ["1", "1 / 0"])
def test_run_raises_a_sigint_that_comes_after_the_last_look_with_the_result(session, monkeypatch, source):
    s = session(2)
    look = PendingCell.note_late_sigint

    def late(pending):
        monkeypatch.undo()
        look(pending)
        strike()

    monkeypatch.setattr(PendingCell, "note_late_sigint", late)
    with pytest.raises(KeyboardInterrupt, match="was interrupted as it ended") as caught:
        s.run(source)
    assert caught.value.result.workers == (0, 1)
    assert s.run("worker_id").values == [0, 1]


def test_run_raises_a_sigint_that_comes_as_the_time_is_up(session, monkeypatch):
    s = session(2)
    hand_over = Verdict.hand_over

    def struck(verdict):
        monkeypatch.undo()
        strike()
        return hand_over(verdict)

    monkeypatch.setattr(Verdict, "hand_over", struck)
    with pytest.raises(KeyboardInterrupt):
        s.run("while True: pass", timeout=0.05)
    assert s.run("worker_id").values == [0, 1]


def test_cancel_raises_a_sigint_that_comes_while_it_looks_for_one(session):
    pending = session(1).run_nowait("while True: pass")
    verdict, inbox = pending._verdict, pending._verdict.inbox

    class Struck:
        """Its inbox; a SIGINT comes once somebody takes something out of it, and all have answered."""

        was_struck = True  # so that it is looked for

        def get_nowait(self):
            if verdict.done_by_now:
                verdict.inbox = inbox
                strike()
            return inbox.get_nowait()

        def __getattr__(self, name):
            return getattr(inbox, name)

    settle = verdict.settle
    verdict.done_by_now = False

    def settled():
        settle()
        verdict.done_by_now = True

    verdict.settle, verdict.inbox = settled, Struck()
    with pytest.raises(KeyboardInterrupt, match="was stopped"):
        pending.cancel()


def test_an_error_that_nobody_holds_takes_its_frames_along_at_once(session):
    s = session(1)
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(CellError) as caught:
            s.run("1 / 0")
        error = weakref.ref(caught.value)
        del caught
        assert error() is None
    finally:
        gc.enable()


def test_what_failed_in_a_dropped_cell_is_told_although_a_sigint_comes_as_it_is_looked_for(
    session, monkeypatch
):
    s = session(1)
    s.run_nowait("1 / 0")
    adopt = Failures._adopt

    def struck(self, orphan):
        monkeypatch.undo()
        strike()
        adopt(self, orphan)

    monkeypatch.setattr(Failures, "_adopt", struck)
    with pytest.raises(KeyboardInterrupt):
        s.sync_all()
    with pytest.raises(disco.errors.WorkerError, match="division by zero"):
        s.sync_all()
    assert s.unheard == {}
