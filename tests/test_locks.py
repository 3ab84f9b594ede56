"""Our locks beside interrupts: none stays taken."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

import disco_magic
from disco_magic.errors import WorkerInterrupt
from disco_magic.threads.locks import EnteredAtOnce, new_lock, new_rlock, takes
from disco_magic.threads.stacks import frame_of
from disco_magic.workers.injection import inject
from tests.conftest import DEADLINE_S, asked, until
from tests.locks import StrikesWhoTakes, taken_elsewhere


def is_free(lock):
    """Whether another thread can have it."""
    return asked(lambda: lock.acquire(timeout=1) and not lock.release())


def for_3_14():
    return EnteredAtOnce(threading.Lock())


@pytest.mark.parametrize("make", [new_lock, new_rlock, for_3_14])
def test_what_strikes_a_thread_that_has_waited_leaves_the_lock_free(make):
    """Python 3.14 struck it between a lock's `__enter__` and the block."""
    lock, caught = make(), []

    def enters():
        with lock:
            caught.append("block")

    def acts():
        try:
            enters()
        except WorkerInterrupt:
            caught.append("interrupt")

    with taken_elsewhere(lock):
        thread = threading.Thread(target=acts)
        thread.start()
        until(lambda: frame_of(thread.ident).f_code.co_name in ("enters", "__enter__"))
        inject(thread.ident)
    thread.join(DEADLINE_S)
    assert caught[-1] == "interrupt"
    assert is_free(lock)


def test_who_is_struck_while_a_loop_takes_a_lock_knows_that_it_is_taken():
    """What a call returns is not yet known to anybody when an interrupt strikes behind it."""
    lock, mine = StrikesWhoTakes(), False

    def act():
        nonlocal mine
        for mine in takes(lock, 0.0):  # noqa: B007 - read below
            break
        until(lambda: False)  # it has been struck by now

    with pytest.raises(WorkerInterrupt):
        act()
    assert mine


def test_a_lock_that_another_thread_has_is_not_taken():
    with taken_elsewhere(lock := new_lock()):
        assert list(takes(lock, 0.0)) == []
    assert next(takes(lock, 1.0)) is True


def test_a_reentrant_lock_is_taken_and_released_as_often():
    lock = EnteredAtOnce(threading.RLock())
    with lock as is_taken, lock:
        assert is_taken
        assert not is_free(lock)
    assert is_free(lock)


def test_a_condition_can_be_made_of_it():
    condition = threading.Condition(EnteredAtOnce(threading.RLock()))
    with condition, condition:
        assert not condition.wait(0)
        condition.notify()
    assert is_free(condition)


def test_only_what_no_interrupt_reaches_is_a_lock_of_another_make():
    # That of the inspectors was, which every cell takes: a Ctrl-C there could leave it taken for good.
    home = Path(disco_magic.__file__).parent
    made = re.compile(r"threading\.(R?Lock|Condition)\(\)")
    files = [path for path in home.rglob("*.py") if made.search(path.read_text("utf-8"))]
    names = {path.relative_to(home).as_posix() for path in files}
    assert {name for name in names if not name.startswith("testing/")} == {
        "threads/locks.py",
        "devices/pinned.py",
    }
