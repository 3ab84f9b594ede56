"""Things of which every worker has its own."""

from __future__ import annotations

import gc
import weakref

import pytest

from disco_magic.notebook.libraries import homes
from disco_magic.notebook.libraries.homes import Home, OfWorkers
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


@pytest.mark.parametrize("successor_asks_first", [True, False])
def test_a_thread_that_first_asks_when_it_was_given_up_shares_nothing(texts, live, successor_asks_first):
    # A sink remembers a home from the first ask on; one that has none would be told the worker's present one.
    things, worker = OfWorkers(list), new_worker()
    _, (stuck, _) = live(texts)
    stuck.abandon()
    _, (next_cell, _) = live(texts)
    order = (next_cell, stuck) if successor_asks_first else (stuck, next_cell)
    found = [as_worker(worker, sink, things.mine) for sink in order]
    assert found[0] is not found[1]
    assert all(as_worker(worker, order[n], things.mine) is found[n] for n in range(2))


@pytest.mark.parametrize("asks_again", [False, True])
def test_output_that_somebody_keeps_does_not_keep_the_things_of_a_worker_that_is_gone(
    texts, live, asks_again
):
    # A handle in `Out` refers to its cell's sinks, a sink to a home; a thread left behind may ask late.
    class Thing:
        pass

    things, worker = OfWorkers(Thing), new_worker()
    _, sinks = live(texts)
    thing = weakref.ref(as_worker(worker, sinks[0], things.mine))
    sinks[0].finish()
    if asks_again:
        assert as_worker(worker, sinks[0], things.mine) is thing()
    assert thing() is not None
    del worker
    gc.collect()
    assert thing() is None


@pytest.mark.parametrize("given_up_before", [False, True])
def test_a_finalizer_may_ask_while_its_thread_is_being_given_a_home(
    texts, live, background, monkeypatch, given_up_before
):
    # Making a home may collect garbage, whose finalizers run on the same thread, which has the lock.
    things, worker, asked = OfWorkers(list), new_worker(), []
    _, (first, _) = live(texts)
    if given_up_before:
        asked.append(as_worker(worker, first, things.mine))
        first.abandon()

    class Collecting(Home):
        def __init__(self):
            super().__init__()
            monkeypatch.setattr(homes, "Home", Home)
            asked.append(things.mine())

    monkeypatch.setattr(homes, "Home", Collecting)
    asked.append(background(as_worker, worker, None, things.mine)())
    assert asked[-1] is asked[-2]
    assert len({id(each) for each in asked}) == 1 + given_up_before
