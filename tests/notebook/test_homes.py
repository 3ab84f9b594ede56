"""Things of which every worker has its own."""

from __future__ import annotations

import gc
import weakref

from disco_magic.notebook.homes import OfWorkers
from tests.notebook.acting import as_worker, new_worker


def test_every_worker_has_a_thing_of_its_own_from_cell_to_cell(texts, live):
    things = OfWorkers(list)
    workers = [new_worker(number) for number in range(2)]
    _, first_cell = live(texts)
    _, second_cell = live(texts)
    found = [as_worker(workers[n], first_cell[n], things.mine) for n in range(2)]
    assert found[0] is not found[1]
    assert all(as_worker(workers[n], second_cell[n], things.mine) is found[n] for n in range(2))
    assert as_worker(workers[1], None, things.mine) is found[1]  # in a function that no cell called
    assert OfWorkers(list).mine() is None
    assert things.mine() is None


def test_a_thread_that_was_given_up_keeps_its_things_and_its_successor_gets_others(texts, live):
    things, worker = OfWorkers(list), new_worker()
    _, (stuck, _) = live(texts)
    before = as_worker(worker, stuck, things.mine)
    stuck.abandon()
    _, (next_cell, _) = live(texts)
    after = as_worker(worker, next_cell, things.mine)
    assert after is not before
    assert as_worker(worker, stuck, things.mine) is before
    assert as_worker(worker, None, things.mine) is after


def test_things_go_with_their_worker_or_when_they_are_forgotten():
    class Thing:
        pass

    things, worker, other = OfWorkers(Thing), new_worker(), new_worker()
    watched = [weakref.ref(as_worker(each, None, things.mine)) for each in (worker, other)]
    things.forget()
    assert [watch() for watch in watched] == [None, None]
    last = weakref.ref(as_worker(other, None, things.mine))
    del other
    gc.collect()
    assert last() is None
