"""Tables of registers: taken at any time, without waiting and without code of the values."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.core.snapshot import RegisterInfo
from disco_magic.errors import SessionClosed
from disco_magic.session import dref
from tests.conftest import DEADLINE_S


def who():
    return disco.worker().id


def test_the_picture_of_a_session_has_the_named_registers(session):
    s = session(2)
    s.run("x = worker_id\nsame = [1]\n_hidden = 1")
    kept = s.call_packed(who)
    s.sync_all()
    picture = s.registers()
    assert [row.name for row in picture.rows] == ["x", "same"]
    assert [row.differs for row in picture.rows] == [True, False]
    assert kept.register


def test_the_picture_has_numbered_registers_on_request(session):
    s = session(2)
    s.run("x = 1").release()
    kept = s.call_packed(who)
    s.sync_all()
    assert [row.name for row in s.registers(numbered=True).rows] == ["x", f"#{kept.register}"]


def test_names_that_only_some_workers_have_differ(session):
    s = session(3)
    s.run("x = 1", workers=[1])
    assert [cell is None for cell in s.registers().row("x").cells] == [True, False, True]


def test_a_picture_is_taken_while_a_cell_runs(gated, gate):
    s = gated(2)
    pending = s.run_nowait("import numpy\nx = numpy.ones(4)\ngate()\nx = None")
    gate.arrived(2)
    assert [cell.shape for cell in s.registers().row("x").cells] == [(4,), (4,)]
    gate.open()
    pending.wait()
    assert [cell.type for cell in s.registers().row("x").cells] == ["NoneType", "NoneType"]


def test_a_picture_runs_no_code_of_the_values(session):
    s = session(1)
    s.run(
        "class Loud:\n    def __repr__(self): raise SystemExit\n    __len__ = __str__ = __repr__\nx = Loud()"
    )
    assert s.registers().row("x").cells[0].type == "Loud"


def test_there_is_no_picture_of_a_session_that_ended(session):
    s = session(2)
    s.run("x = 1")
    s.shutdown()
    with pytest.raises(SessionClosed, match="was shut down"):
        s.registers()


def test_info_describes_one_register_per_worker(session):
    s = session(2)
    ref = s.call_packed(np.full, (2, 2), 3.0)
    s.sync_all()
    info = ref.info()
    assert info.name == f"#{ref.register}"
    assert [(cell.shape, cell.mean, cell.nbytes) for cell in info.cells] == [((2, 2), 3.0, 32)] * 2


def test_info_of_a_name_s_new_reference_has_its_value(session, monkeypatch):
    monkeypatch.setattr(dref, "_MOMENT_S", DEADLINE_S)  # on a busy machine a worker may not run for a tenth
    s = session(2)
    s.put("x", np.ones(3))
    for _ in range(20):
        assert [cell.shape for cell in s["x"].info().cells] == [(3,)] * 2


def test_info_waits_for_nobody_who_has_more_to_do(gated, gate):
    s = gated(1)
    pending = s.run_nowait("gate()")
    gate.arrived()
    ref = s.call_packed(who)
    assert ref.info().cells == (None,)
    gate.open()
    pending.wait()


def test_info_tells_what_is_not_there_yet_from_what_never_was(gated, gate):
    s = gated(2)
    pending = s.run_nowait("if worker_id:\n    gate()")
    gate.arrived()
    ref = s.call_packed(who)
    only = s.call_packed(int, workers=[0])
    while ref.info().cells[0] is None or only.info().cells[0] is None:
        pass
    info = ref.info()
    assert info.coming == {1}
    assert not info.differs
    assert repr(info).splitlines()[1].endswith("[1] not there yet")
    later = s.call_packed(int)
    gate.open()
    pending.wait()
    s.sync_all()
    assert "not there yet" not in repr(ref.info()) + repr(later.info())
    assert repr(only.info()).splitlines()[1].endswith("[1] no value")


def test_info_knows_what_was_sent_though_no_queue_has_it(gated, gate, monkeypatch):
    s = gated(1)
    pending = s.run_nowait("gate()")
    gate.arrived()
    monkeypatch.setattr(s._launcher, "backlog", lambda: [0])  # as a moment after a command was sent, on 3.13
    ref = s.call_packed(who)
    assert ref.info().coming == {0}
    gate.open()
    pending.wait()


def test_info_expects_nothing_of_a_worker_that_was_not_asked(gated, gate):
    s = gated(2)
    pending = s.run_nowait("if worker_id:\n    gate()")
    gate.arrived()
    only = s.call_packed(len, "abc", workers=[0]).as_function("three")
    while only.info().cells[0] is None:
        pass
    assert repr(only.info()).splitlines()[1].endswith("[1] no value")
    gate.open()
    pending.wait()


def test_info_of_what_all_have_still_to_do_is_one_line(gated, gate):
    s = gated(2)
    pending = s.run_nowait("gate()")
    gate.arrived(2)
    ref = s.call_packed(who)
    assert repr(ref.info()) == f"  #{ref.register}  [0-1] not there yet"
    gate.open()
    pending.wait()


def test_info_shows_nothing_of_a_reference_that_had_the_register_before(gated, gate):
    s = gated(1)
    former = s.call_packed(str, "stale")
    s.sync_all()
    register = former.register
    pending = s.run_nowait("gate()")
    gate.arrived()
    del former
    ref = s.call_packed(who)
    assert ref.register == register
    assert ref.info().cells == (None,)
    assert s.examine(ref, repr) == [None]
    gate.open()
    pending.wait()
    s.sync_all()
    assert ref.info().cells[0].type != "str"
    assert s.examine(ref, repr) != [None]


def test_a_reference_that_takes_a_register_over_knows_when_it_was_filled(gated, gate):
    s = gated(1)
    ref = s.call_packed(str, "there")
    s.sync_all()
    pending = s.run_nowait("gate()")
    gate.arrived()
    function = ref.as_function("late")
    assert function.info().cells[0].type == "str"
    gate.open()
    pending.wait()


def test_info_of_a_poisoned_register_shows_the_failure(session):
    s = session(1)
    ref = s.call_packed(int, "no number")
    with pytest.raises(disco.errors.WorkerError):
        s.sync_all()
    (cell,) = ref.info().cells
    assert isinstance(cell, RegisterInfo)
    assert cell.type == "failed"
    assert cell.text.startswith("ValueError: invalid literal")
