"""Which names the controller knows, while cells and bindings are on their way."""

from __future__ import annotations

from disco_magic.core.ledger import Ledger
from disco_magic.core.messages import CellDone, NotBound


def test_a_late_cell_without_failure_only_tells_its_names():
    ledger = Ledger(1)
    ledger.feed(CellDone(0, 5, 0.1, ("x",)))
    assert ledger.take_failures()[0] == {}
    assert tuple(ledger.names.known()) == ("x",)


def test_names_are_known_in_the_order_they_were_bound_on_any_worker():
    ledger = Ledger(2)
    ledger.feed(CellDone(1, 1, 0.1, ("b", "c")))
    ledger.feed(CellDone(0, 1, 0.1, ("a", "b")))
    assert tuple(ledger.names.known()) == ("a", "b", "c")


def test_a_cell_replaces_the_names_of_its_worker():
    ledger = Ledger(1)
    ledger.feed(CellDone(0, 1, 0.1, ("a",)))
    ledger.feed(CellDone(0, 2, 0.1, ("b",)))
    assert tuple(ledger.names.known()) == ("b",)


def test_a_name_the_controller_binds_is_known_at_once_and_once():
    ledger = Ledger(2)
    ledger.names.bind(1, "x", (0, 1))
    ledger.names.bind(2, "x", (0,))
    assert ledger.names.by_worker == {0: ("x",), 1: ("x",)}


def test_a_name_that_a_worker_could_not_bind_is_not_known_there():
    ledger = Ledger(2)
    ledger.names.bind(1, "x", (0, 1))
    ledger.feed(NotBound(1, 1, "x"))
    assert ledger.names.by_worker == {0: ("x",), 1: ()}


def test_a_name_that_is_bound_again_meanwhile_stays_known():
    ledger = Ledger(2)
    ledger.names.bind(1, "x", (0, 1))
    ledger.names.bind(2, "x", (1,))
    for worker in (0, 1):
        ledger.feed(NotBound(worker, 1, "x"))
    assert ledger.names.by_worker == {0: (), 1: ("x",)}
    ledger.expect(3, (0, 1))
    ledger.feed(CellDone(0, 3, 0.1, ("x",)))
    assert not ledger.names._bound[0]  # a worker answers in order: nothing earlier can come
    assert ledger.names._bound[1]


def test_a_name_the_controller_drops_is_unknown_at_once_on_those_workers():
    ledger = Ledger(2)
    ledger.names.bind(1, "x", (0, 1))
    ledger.names.drop(2, "x", (1,))
    ledger.names.drop(3, "never", (0, 1))
    assert ledger.names.by_worker == {0: ("x",), 1: ()}


def test_a_cell_that_was_sent_before_a_binding_does_not_take_it_back():
    # 1. cell 1 runs; 2. the controller binds x with command 2; 3. cell 1 ends and tells its names, without x.
    ledger = Ledger(1)
    ledger.expect(1, (0,))
    ledger.names.bind(2, "x", (0,))
    ledger.feed(CellDone(0, 1, 0.1, ("a",)))
    assert tuple(ledger.names.known()) == ("a", "x")


def test_a_cell_that_was_sent_before_a_drop_does_not_bring_the_name_back():
    ledger = Ledger(1)
    ledger.names.bind(1, "x", (0,))
    ledger.expect(2, (0,))
    ledger.names.drop(3, "x", (0,))
    ledger.feed(CellDone(0, 2, 0.1, ("x", "a")))
    assert tuple(ledger.names.known()) == ("a",)


def test_a_cell_that_was_sent_after_a_binding_has_the_last_word():
    ledger = Ledger(1)
    ledger.expect(1, (0,))
    ledger.names.bind(2, "x", (0,))
    ledger.expect(3, (0,))
    ledger.feed(CellDone(0, 1, 0.1, ()))
    ledger.feed(CellDone(0, 3, 0.1, ("a",)))
    assert tuple(ledger.names.known()) == ("a",)


def test_a_binding_on_other_workers_does_not_change_what_a_cell_ended_with():
    ledger = Ledger(2)
    ledger.expect(1, (0, 1))
    ledger.names.bind(2, "x", (1,))
    ledger.feed(CellDone(0, 1, 0.1, ("a",)))
    assert ledger.names.by_worker == {0: ("a",), 1: ("x",)}


def test_bindings_are_remembered_only_while_a_cell_before_them_may_still_end():
    ledger = Ledger(1)
    ledger.expect(1, (0,))
    ledger.names.bind(2, "x", (0,))
    ledger.feed(CellDone(0, 1, 0.1, ()))
    ledger.names.bind(3, "y", (0,))
    assert not ledger.names._renamed
    assert tuple(ledger.names.known()) == ("x", "y")


def test_a_name_dropped_after_a_cell_was_forgotten_stays_dropped_when_the_cell_ends():
    ledger = Ledger(2)
    ledger.feed(CellDone(0, 1, 0.0, ("c",)))
    ledger.expect(2, (0, 1))
    ledger.forget(2)
    ledger.names.drop(3, "c", (0, 1))
    ledger.feed(CellDone(0, 2, 0.0, ("c",)))
    assert tuple(ledger.names.known()) == ()
    ledger.feed(CellDone(1, 2, 0.0, ("c",)))
    assert tuple(ledger.names.known()) == ()
    assert not ledger.names._renamed
