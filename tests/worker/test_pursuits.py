"""Threads that are watched until they may be struck."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from disco_magic.workers import pursuits
from disco_magic.workers.pursuits import Pursuits
from tests.conftest import DEADLINE_S, until


@pytest.fixture
def crowd():
    """Threads that live until the end of the test."""
    end = threading.Event()
    threads = [threading.Thread(target=end.wait) for _ in range(12)]
    for each in threads:
        each.start()
    yield [each.ident for each in threads]
    end.set()
    for each in threads:
        each.join()


def watchers():
    return [each for each in threading.enumerate() if each.name == "disco-pursuit"]


def test_one_look_at_a_time_serves_all_that_are_pursued(crowd, monkeypatch):
    """A watcher for each: 64 workers that waited for an import took 28 times as long as 16."""
    looks, struck, go = [], [], threading.Event()

    def strikable(threads):
        assert go.wait(DEADLINE_S)
        looks.append(threads)
        return threads if len(looks) == 3 else []

    monkeypatch.setattr(pursuits, "strikable", strikable)
    pursued = Pursuits()
    before = len(watchers())
    for each in crowd:
        pursued.begin(each, lambda may, each=each: may and (struck.append(each) or True))
    assert len(watchers()) == before + 1
    go.set()
    until(lambda: len(struck) == len(crowd))
    assert struck == crowd
    assert len(looks) <= 4  # the first one may have been before all were there
    until(lambda: pursued._thread is None)


def test_a_pursuit_that_begins_when_the_last_one_is_over_has_a_thread_of_its_own(crowd):
    pursued, over = Pursuits(), []
    for each in crowd[:2]:
        pursued.begin(each, lambda may: over.append(may) or True)
        until(lambda: pursued._thread is None)
    assert over == [True, True]


def test_a_thread_that_has_ended_is_not_pursued_any_more():
    """Its number may be that of a new thread, of the watcher itself for instance."""
    gone = threading.Thread(target=int)
    gone.start()
    gone.join()
    pursued, attempts = Pursuits(), []
    pursued.begin(gone.ident, lambda may: attempts.append(may) or True)
    until(lambda: pursued._thread is None)
    assert attempts == []


def test_a_watcher_that_cannot_be_started_leaves_nothing_behind(crowd, monkeypatch):
    def refuse(*_):
        raise RuntimeError("too many threads")

    pursued, attempts = Pursuits(), []
    with monkeypatch.context() as patch:
        patch.setattr(pursuits, "start_thread", refuse)
        with pytest.raises(RuntimeError, match="too many"):
            pursued.begin(crowd[0], attempts.append)
    pursued.begin(crowd[1], lambda _: True)
    until(lambda: pursued._thread is None)
    assert attempts == []


@pytest.mark.parametrize(
    ("took", "looks", "expected"),
    [(0.001, 1, ["shortened", 0.0005]), (0.5, 1, [0.0005]), (0.001, 2000, [0.05])],
    ids=["few compute", "many compute", "after a while"],
)
def test_turns_are_shortened_meanwhile_unless_many_threads_wait_for_theirs(
    monkeypatch, took, looks, expected
):
    """All that wait wake in each turn: 256 that do so every microsecond leave nothing for the rest."""
    done = []

    @contextmanager
    def held(_):
        done.append("shortened")
        yield

    monkeypatch.setattr(pursuits, "SWITCHING", SimpleNamespace(held=held))
    monkeypatch.setattr(pursuits, "pause", done.append)
    Pursuits()._pause([SimpleNamespace(looks=looks)], took)
    assert done == expected
