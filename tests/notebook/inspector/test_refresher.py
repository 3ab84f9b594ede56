"""When inspectors are refreshed, and that their thread ends with the last of them."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue

import pytest

from disco_magic.notebook.inspector import refresher as module
from disco_magic.notebook.inspector.refresher import Refresher

PATIENCE_S = 30


class Recorded:
    """Counts what is asked of it."""

    def __init__(self, *, live=False):
        self.live = live
        self.is_busy = False
        self.refreshed = SimpleQueue()
        self.cells = 0

    def refresh(self):
        self.refreshed.put(threading.current_thread().name)

    def cell_ended(self):
        self.cells += 1


@pytest.fixture
def refresher(monkeypatch):
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    made = Refresher()
    yield made
    for inspector in made.inspectors():
        made.remove(inspector)
    made.join()


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "disco-inspector"]


def is_left_alone(refresher, shown):
    """Whether an inspector is not refreshed any more, once the end is drawn, while a live one is."""
    refresher.add(live := Recorded(live=True))
    for _ in range(3):  # by now the end of the cell is drawn, too
        live.refreshed.get(timeout=PATIENCE_S)
    while not shown.refreshed.empty():
        shown.refreshed.get()
    for _ in range(3):
        live.refreshed.get(timeout=PATIENCE_S)
    return shown.refreshed.empty()


def test_a_cell_that_ends_refreshes_every_inspector_in_another_thread(refresher):
    one, other = Recorded(), Recorded()
    refresher.add(one)
    refresher.add(other)
    refresher.cell_ended()
    assert [one.cells, other.cells] == [1, 1]
    assert one.refreshed.get(timeout=PATIENCE_S) == "disco-inspector"
    assert other.refreshed.get(timeout=PATIENCE_S) == "disco-inspector"


def test_without_an_inspector_nothing_happens(refresher):
    refresher.cell_ended()
    assert threads() == []


def test_only_live_ones_are_refreshed_when_nothing_ends(refresher, monkeypatch):
    monkeypatch.setattr(module, "PERIOD_S", 0.001)
    live, still = Recorded(live=True), Recorded()
    refresher.add(still)
    refresher.add(live)
    for _ in range(3):
        live.refreshed.get(timeout=PATIENCE_S)
    with pytest.raises(Empty):
        still.refreshed.get_nowait()


def test_a_cell_that_runs_long_is_looked_into_again_and_again_until_it_ends(refresher, monkeypatch):
    monkeypatch.setattr(module, "FIRST_S", 0.001)
    monkeypatch.setattr(module, "AGAIN_S", 0.001)
    monkeypatch.setattr(module, "PERIOD_S", 0.001)
    monkeypatch.setattr(module, "_SHARE", 0)
    shown = Recorded()
    refresher.add(shown)
    refresher.cell_began()
    for _ in range(3):
        shown.refreshed.get(timeout=PATIENCE_S)
    refresher.cell_ended()
    assert is_left_alone(refresher, shown)


def test_workers_that_go_on_after_their_cell_are_looked_at_until_after_their_end(refresher, monkeypatch):
    monkeypatch.setattr(module, "AGAIN_S", 0.001)
    monkeypatch.setattr(module, "PERIOD_S", 0.001)
    monkeypatch.setattr(module, "_SHARE", 0)
    shown = Recorded()
    shown.is_busy = True
    refresher.add(shown)
    refresher.cell_began()
    refresher.cell_ended()
    for _ in range(3):
        shown.refreshed.get(timeout=PATIENCE_S)
    shown.is_busy = False
    assert is_left_alone(refresher, shown)


def test_a_cell_that_opens_an_inspector_and_runs_on_is_looked_into(refresher, monkeypatch):
    monkeypatch.setattr(module, "FIRST_S", 0.001)
    refresher.cell_began()
    refresher.add(shown := Recorded())
    assert shown.refreshed.get(timeout=PATIENCE_S) == "disco-inspector"


def test_looks_into_a_running_cell_that_take_long_are_rarer(refresher, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: clock[0])
    waits, wait = SimpleQueue(), refresher._changed.wait

    def noted(timeout):
        waits.put(timeout)
        return wait(timeout)

    class Slow(Recorded):
        def refresh(self):
            clock[0] += 3
            super().refresh()

    refresher.add(slow := Slow())
    monkeypatch.setattr(refresher._changed, "wait", noted)
    refresher.cell_began()
    clock[0] += module.FIRST_S
    refresher.changed()
    slow.refreshed.get(timeout=PATIENCE_S)
    while (pause := waits.get(timeout=PATIENCE_S)) != 60:
        assert pause in (None, module.FIRST_S, 0.0)


def test_one_that_comes_while_the_thread_sleeps_wakes_it(refresher, monkeypatch):
    monkeypatch.setattr(module, "PERIOD_S", 0.001)
    still, live = Recorded(), Recorded(live=True)
    refresher.add(still)
    refresher.soon()
    still.refreshed.get(timeout=PATIENCE_S)
    asleep = threading.Event()
    wait = refresher._changed.wait
    monkeypatch.setattr(refresher._changed, "wait", lambda timeout: (asleep.set(), wait(timeout))[1])
    refresher.changed()
    asleep.wait(PATIENCE_S)
    refresher.add(live)
    live.refreshed.get(timeout=PATIENCE_S)


def test_an_inspector_that_becomes_live_is_refreshed_from_then_on(refresher, monkeypatch):
    monkeypatch.setattr(module, "PERIOD_S", 0.001)
    inspector = Recorded()
    refresher.add(inspector)
    inspector.live = True
    refresher.changed()
    inspector.refreshed.get(timeout=PATIENCE_S)


def test_the_thread_ends_with_the_last_inspector_and_begins_again_with_the_next(refresher):
    inspector = Recorded()
    refresher.add(inspector)
    assert len(threads()) == 1
    refresher.remove(inspector)
    refresher.remove(inspector)
    refresher.join()
    assert threads() == []
    refresher.add(inspector)
    refresher.soon()
    inspector.refreshed.get(timeout=PATIENCE_S)


def test_an_inspector_may_remove_itself_while_it_is_refreshed(refresher):
    class Closing(Recorded):
        def refresh(self):
            refresher.remove(self)
            super().refresh()

    inspector = Closing()
    refresher.add(inspector)
    refresher.soon()
    inspector.refreshed.get(timeout=PATIENCE_S)
    refresher.join()
    assert threads() == []


def test_cells_that_end_during_a_refresh_lead_to_one_more(refresher):
    gate, inside = threading.Event(), threading.Event()

    class Slow(Recorded):
        def refresh(self):
            inside.set()
            gate.wait(PATIENCE_S)
            super().refresh()

    inspector = Slow()
    refresher.add(inspector)
    refresher.soon()
    inside.wait(PATIENCE_S)
    for _ in range(5):
        refresher.cell_ended()
    gate.set()
    inspector.refreshed.get(timeout=PATIENCE_S)
    inspector.refreshed.get(timeout=PATIENCE_S)
    refresher.remove(inspector)
    refresher.join()
    with pytest.raises(Empty):
        inspector.refreshed.get_nowait()


def test_an_inspector_whose_thread_cannot_be_started_is_not_open_and_the_next_one_tries_again(
    refresher, monkeypatch
):
    def start(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start"):
            refresher.add(Recorded())
    assert refresher.inspectors() == []
    refresher.join()
    refresher.add(inspector := Recorded())
    refresher.soon()
    assert inspector.refreshed.get(timeout=PATIENCE_S) == "disco-inspector"


def test_what_is_about_to_end_is_looked_at_before_the_caller_goes_on(refresher):
    one = Recorded()
    refresher.add(one)
    refresher.now()
    assert one.refreshed.get(block=False) == threading.current_thread().name
