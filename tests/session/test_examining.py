"""Looking into values where they are: by the calling thread, without waiting for a worker."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from disco_magic.errors import SessionClosed, UnknownName, UsageMistake, WorkerError
from disco_magic.values import describe
from disco_magic.values.peek import Window, difference_of, picture_of, statistics_of

every_size = pytest.mark.parametrize("n", [1, 2, 3])


def thread_of(value):
    return threading.current_thread()


def same(value):
    return value


def no_queue_has_anything(session):
    return not any(channel.size() for channel in session._launcher._channels)


@pytest.fixture
def stuck(gated, gate):
    """Sessions whose workers hold x and y and sit in a call that nobody can end: ``stuck(3)``."""
    pending = []

    def start(n):
        s = gated(n)
        s.run("import numpy\nx = numpy.arange(6.0).reshape(2, 3) + worker_id\ny = worker_id\n_z = 1")
        pending.append(s.run_nowait("z = 'new'\ngate()"))
        gate.arrived(n)
        return s

    yield start
    gate.open()
    for each in pending:
        each.wait()


@every_size
def test_a_function_gets_each_workers_value_while_all_are_stuck(stuck, n):
    s = stuck(n)
    assert s.examine("x", np.sum) == [15.0 + 6 * worker for worker in range(n)]
    assert s.examine("z", same) == ["new"] * n
    pictures = s.examine("x", picture_of, Window(), 2)
    assert [picture.values[0, 0] for picture in pictures] == list(range(n))
    assert s.examine("x", statistics_of)[-1].minimum == n - 1


@every_size
def test_a_function_gets_two_workers_values_while_all_are_stuck(stuck, n):
    s = stuck(n)
    found = s.examine_pair("x", difference_of, Window(), workers=(0, n - 1))
    assert (found.max_abs, found.size) == (n - 1.0, 6)
    assert s.examine_pair("y", lambda *values: values, 5, workers=(n - 1, 0)) == (n - 1, 0, 5)


@every_size
def test_the_calling_thread_looks_and_nothing_is_sent(stuck, n):
    s = stuck(n)
    before = s.ledger.seq
    assert s.examine("x", thread_of) == [threading.current_thread()] * n
    assert (
        s.examine_pair("x", lambda a, b: threading.current_thread(), workers=(0, 0))
        is threading.current_thread()
    )
    assert s.ledger.seq == before
    assert no_queue_has_anything(s)


def test_some_workers_are_asked_in_the_order_of_their_ids(stuck):
    s = stuck(3)
    assert s.examine("y", same, workers=[2, 0]) == [0, 2]
    assert s.examine("y", pow, 2, workers=(1,)) == [1]


def test_a_reference_is_looked_into_and_so_is_its_label(session):
    s = session(2)
    ref = s.call_packed(np.full, (2,), 3.0)
    s.sync_all()
    assert s.examine(ref, np.sum) == [6.0, 6.0]
    assert s.examine(f"#{ref.register}", np.sum) == [6.0, 6.0]
    assert s.examine_pair(ref, np.dot, workers=(0, 1)) == 18.0


def test_a_worker_without_a_value_gives_none(session):
    s = session(3)
    s.run("x = 1", workers=[1])
    assert s.examine("x", same) == [None, 1, None]
    assert s.examine("x", same, workers=[0]) == [None]
    assert s.examine_pair("x", max, workers=(0, 1)) is None
    assert s.examine_pair("x", max, workers=(1, 1)) == 1


def test_a_command_that_has_not_come_yet_and_one_that_failed_give_none(stuck):
    s = stuck(1)
    assert s.examine(s.call_packed(int), same) == [None]


def test_a_failed_register_gives_none(session):
    s = session(2)
    ref = s.call_packed(int, "no number")
    with pytest.raises(WorkerError):
        s.sync_all()
    assert s.examine(ref, same) == [None, None]
    assert s.examine(f"#{ref.register}", same) == [None, None]
    assert s.examine_pair(ref, max, workers=(0, 1)) is None


def test_a_function_may_return_none_itself(session):
    s = session(2)
    s.run("x = None")
    assert s.examine("x", same) == [None, None]


@pytest.mark.parametrize(
    ("register", "says"),
    [
        ("weight", "register 'weight' is not defined on any worker; did you mean 'weights'?"),
        ("other", "register 'other' is not defined on any worker; there are: weights"),
        ("_hidden", "register '_hidden' is not defined on any worker; there are: weights"),
        ("#77", "register '#77' is not defined on any worker; there are: weights, #"),
    ],
)
def test_an_unknown_register_is_refused_with_near_misses(session, register, says):
    s = session(2)
    s.run("weights = 1\n_hidden = 2")
    for look in (lambda: s.examine(register, same), lambda: s.examine_pair(register, max, workers=(0, 1))):
        with pytest.raises(UnknownName) as caught:
            look()
        assert str(caught.value).startswith(says)


def test_an_unknown_register_of_an_empty_session(session):
    with pytest.raises(UnknownName, match="there are none"):
        session(1).examine("x", same)


def test_what_the_function_raises_comes_out(session):
    s = session(2)
    s.run("x = worker_id")
    with pytest.raises(ZeroDivisionError):
        s.examine("x", lambda value: 1 // value)


@pytest.mark.parametrize("workers", [(), (0,), (0, 1, 0)])
def test_a_pair_is_two_workers(session, workers):
    s = session(2)
    s.run("x = 1")
    with pytest.raises(UsageMistake, match=f"takes two workers, got {len(workers)}"):
        s.examine_pair("x", max, workers=workers)


def test_workers_have_to_be_there(session):
    s = session(2)
    s.run("x = 1")
    for look in (lambda: s.examine("x", same, workers=[2]), lambda: s.examine_pair("x", max, workers=(0, 2))):
        with pytest.raises(UsageMistake, match="there is no worker 2"):
            look()


def test_a_register_is_a_name_or_a_reference(session):
    s, other = session(1), session(1)
    ref = other.call_packed(int)
    with pytest.raises(UsageMistake, match="belongs to session"):
        s.examine(ref, same)
    with pytest.raises(UsageMistake, match="expected a DRef of session"):
        s.examine(5, same)


def test_a_session_that_ended_is_not_looked_into(session):
    s = session(2)
    s.run("x = 1")
    ref = s.call_packed(int)
    s.shutdown()
    for register in ("x", ref):
        with pytest.raises(SessionClosed, match="was shut down"):
            s.examine(register, same)
        with pytest.raises(SessionClosed, match="was shut down"):
            s.examine_pair(register, max, workers=(0, 1))


# --- pictures of a sample --------------------------------------------------------------------------


@every_size
def test_a_picture_of_the_session_looks_at_as_many_elements_as_asked(session, n):
    s = session(n)
    s.run("import numpy\nx = numpy.arange(100.0)\nx[3] = numpy.nan\ndel numpy")
    ref = s.call_packed(np.zeros, 50)
    s.sync_all()
    full, part, header = (
        s.registers(numbered=True),
        s.registers(numbered=True, sample=10),
        s.registers(sample=0),
    )
    assert [cell.nans for cell in full.row("x").cells] == [1] * n
    assert all(sum(cell.histogram) <= 10 and cell.sampled for cell in part.row("x").cells)
    assert sum(part.row(f"#{ref.register}").cells[0].histogram) == 10
    assert [(cell.shape, cell.minimum, cell.fingerprint) for cell in header.row("x").cells] == [
        ((100,), None, b"")
    ] * n


@pytest.mark.parametrize("sample", [-1, 1.5, "all", True])
def test_a_sample_is_a_whole_number(session, sample):
    with pytest.raises(UsageMistake, match="expected a whole number of elements, 0 or more"):
        session(1).registers(sample=sample)


def test_registers_are_looked_at_as_a_whole_while_they_are_not_too_large_together(session, monkeypatch):
    s = session(3)
    s.run("x = np.ones((500, 400)); x[123, 321] = np.nan if worker_id == 2 else 1\nn = [*range(3000)]")
    s.run("if worker_id == 1: n[2345] = 0")
    x, n = (s.registers().row(name) for name in "xn")
    assert (x.odd(), n.odd()) == ((False, False, True), (False, True, False))
    assert [cell.nans for cell in x.cells] == [0, 0, 1]
    assert not any(cell.sampled for cell in x.cells)
    monkeypatch.setattr(describe, "WHOLE_NBYTES", s.registers().row("x").cells[0].nbytes)
    assert all(cell.sampled for cell in s.registers().row("x").cells)
    assert all(cell.sampled for cell in s.registers(sample=1000).row("x").cells)


def counted(bound, behind, more):
    return sorted(name for name in bound if not name.startswith("__")), behind["worker_id"], more


@every_size
def test_a_function_gets_the_names_that_cells_see_while_all_are_stuck(stuck, n):
    s = stuck(n)
    names = ["_z", "numpy", "x", "y", "z"]
    assert s.examine_names(counted, "more") == [(names, worker, "more") for worker in range(n)]
    assert s.examine_names(counted, 5, workers=[n - 1]) == [(names, n - 1, 5)]
    assert no_queue_has_anything(s)


def test_the_names_handed_over_are_copies_that_are_emptied(stuck):
    s = stuck(1)
    ((bound, behind),) = s.examine_names(lambda *names: names)
    assert (bound, behind) == ({}, {})
    s.examine_names(lambda bound, behind: (bound.clear(), behind.clear(), None)[-1])
    assert s.examine("x", np.sum) == [15.0]
    with pytest.raises(ZeroDivisionError):
        s.examine_names(lambda *_: 1 / 0)


def test_names_of_workers_that_there_are_not_cannot_be_examined(stuck):
    s = stuck(2)
    with pytest.raises(UsageMistake, match="2"):
        s.examine_names(counted, 1, workers=[2])


def test_names_of_a_session_that_is_closed_cannot_be_examined(gated):
    s = gated(1)
    s.shutdown()
    with pytest.raises(SessionClosed):
        s.examine_names(counted, 1)


# --- parts -------------------------------------------------------------------------------------------

PARAMS = "p = {'w': np.full((2, 3), worker_id + 1.0), 'l': [np.zeros(2), 3]}"


def test_a_part_is_what_is_written_behind_the_name(session):
    s = session(3)
    s.run(PARAMS)
    assert s.examine("p['w']", np.sum) == [6, 12, 18]
    assert s.examine("p['l'][1]", same) == [3, 3, 3]
    assert s.examine("p['w']", np.sum, workers=[2]) == [18]
    assert s.examine_pair("p['w']", difference_of, Window(), workers=(0, 2)).max_abs == 2
    kept = s.run("p")
    assert s.examine(f"#{kept.reference.register}['l'][0]", np.size) == [2, 2, 2]


def test_a_part_that_some_have_is_none_of_the_others(session):
    s = session(3)
    s.run("p = [np.ones(2)] if worker_id else []")
    assert s.examine("p[0]", np.size) == [None, 2, 2]
    assert s.examine("p[0]", np.size, workers=[0]) == [None]
    assert s.examine_pair("p[0]", lambda *_: 1, workers=(0, 1)) is None


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("p['v']", r"register 'p' has no part \"\['v'\]\" on any worker; did you mean \"p\['w'\]\""),
        ("p.w", r"register 'p' has no part '.w' on any worker; did you mean \"p\['w'\]\"\?"),
        ("p['l'][9]", r"did you mean \"p\['l'\]\[0\]\""),
        ("q['w']", r"register 'q' is not defined on any worker; there are: p, x, n, m"),
        ("x[3]", r"no part '\[3\]' on any worker; numbers and slices select parts of its shape, \(3,\)"),
        ("n[0]", r"register 'n' has no part '\[0\]' on any worker; it has no parts"),
        ("m[0]", r"register 'm' has no part '\[0\]' on any worker; it has no parts"),
    ],
)
def test_a_part_that_nobody_has_is_unknown(session, label, said):
    s = session(2)
    s.run(PARAMS + "; x = np.ones(3); n = 5; m = np.ma.ones(3)")
    with pytest.raises(UnknownName, match=said):
        s.examine(label, same)
    with pytest.raises(UnknownName, match=said):
        s.look_at(label)


def test_a_part_that_is_none_is_there(session):
    s = session(2)
    s.run("p = {'a': None}")
    assert s.examine("p['a']", same) == [None, None]


def test_a_look_at_a_register_or_a_part_is_a_row(stuck):
    s = stuck(2)
    row = s.look_at("x")
    assert (row.name, row.differs, [cell.mean for cell in row.cells]) == ("x", True, [2.5, 3.5])
    assert row == s.registers().row("x")
    with pytest.raises(UnknownName, match="'nothing' is not defined"):
        s.look_at("nothing")


def test_a_row_of_a_part_shows_itself(session):
    s = session(2)
    s.run(PARAMS)
    shown = repr(s.look_at("p['l'][0]"))
    assert shown == "  p['l'][0]  [0-1] float64 2 \u00b7 cpu \u00b7 16 B \u00b7 min 0 mean 0 max 0"
    assert s.look_at("p['w']").differs
