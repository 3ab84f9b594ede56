"""A wait that an import by a waiting worker makes hopeless is given up."""

from __future__ import annotations

import threading
import weakref
from importlib import _bootstrap

from disco_magic.errors import PlaneAborted, PlaneError, PlaneMismatch
from disco_magic.planes import board
from tests.planes.conftest import finish, seat


def looked_at(plane, answers):
    """What a worker that imports a module, and waits in a barrier, raises if its looks are answered so."""
    told, seen = [], iter(answers)
    locks = vars(_bootstrap)["_module_locks"]

    def held_up(worker):
        assert worker == 0
        answer = next(seen, None)
        if answer is None:
            plane.abort(1, "no more looks")
            return ""
        return answer

    plane.observe(lambda _: "away", held_up, lambda *_: "")

    def waits():
        lock = vars(_bootstrap)["_ModuleLock"]("of_a_test")
        locks["of_a_test"] = weakref.ref(lock)
        lock.acquire()
        try:
            plane.barrier(seat(0, count=2))
        except PlaneError as error:
            told.append(error)
        finally:
            lock.release()
            del locks["of_a_test"]

    thread = threading.Thread(target=waits, daemon=True)
    thread.start()
    finish(plane, [thread])
    return told[0]


def test_a_wait_that_looks_hopeless_twice_in_the_same_way_is_given_up(make, monkeypatch):
    monkeypatch.setattr(board, "_LIGHTLY_S", 0.001)
    given_up = looked_at(make(2), ["", "worker 1 imports", "worker 1 imports"])
    assert type(given_up) is PlaneMismatch
    assert str(given_up).startswith("barrier() that worker 0 waits in at ")
    assert str(given_up).endswith(" can never complete: worker 1 imports")


def test_a_wait_that_looks_hopeless_for_a_moment_goes_on(make, monkeypatch):
    monkeypatch.setattr(board, "_LIGHTLY_S", 0.001)
    given_up = looked_at(make(2), ["a", "b", "", "b", ""])
    assert type(given_up) is PlaneAborted
    assert str(given_up).startswith("no more looks")
