"""Functions of `builtins` that the process has, and names that are new there, beside those of workers."""

from __future__ import annotations

import builtins
import inspect
import sys
from unittest import mock

import pytest

from disco_magic.errors import CellError

pytestmark = pytest.mark.usefixtures("builtins_as_before")

FIRST_OCT = oct
FIRST_INT = int


def test_isinstance_is_the_process_s(session):
    s = session(1)
    s.run("import builtins\nbuiltins.isinstance = isinstance")
    assert vars(builtins)["isinstance"] is isinstance


def test_classes_and_new_names_are_the_process_s(session):
    s = session(1)
    s.run("import builtins\nbuiltins.only_of_this_test = worker_id\nsquare = int\nbuiltins.int = int")
    assert vars(builtins)["int"] is FIRST_INT
    assert vars(builtins).pop("only_of_this_test") == 0


def test_the_notebook_s_own_is_the_process_s_beside_a_worker_s(session, monkeypatch):
    s = session(1)
    s.run("import builtins\nbuiltins.breakpoint = lambda: 'mine'")
    monkeypatch.setattr(builtins, "breakpoint", abs)
    assert breakpoint is builtins.breakpoint is abs
    assert s.run("breakpoint(), builtins.breakpoint()")[0] == ("mine", "mine")


def test_what_all_have_nobody_takes_away(session):
    # It was gone from the process, also for the notebook, for good.
    s = session(2)
    s.run("import builtins\nif worker_id == 0: builtins.input = lambda *_: 'mine'")
    for name in ("input", "len"):
        with pytest.raises(CellError, match=f"{name} is shared by all workers: a worker can replace it"):
            s.run(f"del builtins.{name}", workers=[1])
    s.run("del builtins.input", workers=[0])
    s.shutdown()
    assert (input.__name__, len("a")) == ("input", 1)


def test_a_mock_of_the_process_over_a_worker_s_ends_with_its_patch(session):
    # The worker had taken its own away meanwhile: what stood for that was put back, and called the mock.
    s = session(1)
    s.run("import builtins\nbuiltins.oct = lambda number: 'mine'")
    taken = vars(builtins)["oct"]
    patch = mock.patch("builtins.oct", return_value="mocked")
    patch.start()
    assert oct(8) == "mocked"
    s.run("del builtins.oct")
    patch.stop()
    assert (oct(8), vars(builtins)["oct"]) == ("0o10", FIRST_OCT)
    builtins.oct = taken
    assert vars(builtins)["oct"] is FIRST_OCT
    s.run("taken, builtins.oct = 1, len")
    builtins.oct = taken
    s.run("del builtins.oct")
    assert vars(builtins)["oct"] is FIRST_OCT


def test_a_function_called_underscore_is_everybody_s_and_a_value_the_worker_s(
    session, monkeypatch, module_of
):
    # It was stored where nobody read it: gettext's, and what modules call.
    monkeypatch.delattr(builtins, "_", raising=False)
    name = module_of("def f(): return _('hi')\n")
    s = session(2)
    try:
        s.run(f"import builtins, {name}\nbuiltins._ = str.upper")
        assert s.run(f"builtins._('x'), hasattr(builtins, '_'), {name}.f()").values == [("X", True, "HI")] * 2
    finally:
        vars(builtins).pop("_", None)  # not by `monkeypatch`, which would put this one back at the end
    s.run("builtins._ = worker_id")
    assert s.run("found = builtins._; del builtins._; found, hasattr(builtins, '_')").values == [
        (0, False),
        (1, False),
    ]
    assert not hasattr(builtins, "_")


def test_a_session_that_begins_meanwhile_has_the_process_s(session):
    first, later = session(1), None
    first.run("import builtins\nbuiltins.print = builtins.oct = len")
    later = session(1)
    assert later.run("print is len, oct(8)")[0] == (False, "0o10")
    first.run("builtins.oct = lambda number: 'the first session'")
    assert later.run("oct(8)")[0] == "0o10"


@pytest.fixture
def unknown_there():
    """Names that nothing has put into `builtins`; they are gone again after the test."""
    names = "disco_test_name", "disco_test_other"
    yield names
    for name in names:
        vars(builtins).pop(name, None)


def test_new_names_are_found_by_the_cells_of_all_workers(session, unknown_there):
    one, other = unknown_there
    s = session(3)
    s.run(f"import builtins\nif worker_id == 1: builtins.{one} = 5")
    assert s.run(one).values == [5] * 3
    setattr(builtins, other, 7)
    assert s.run(f"{other} + {one}").values == [12] * 3
    setattr(builtins, other, 8)
    assert s.run(other).values == [8] * 3
    s.run(f"builtins.{other} = lambda f: f", workers=[0])
    assert s.run(f"@{other}\ndef g(): return worker_id\ng()").values == [0, 1, 2]
    s.run(f"del builtins.{one}", workers=[2])
    with pytest.raises(CellError, match=f"name '{one}' is not defined"):
        s.run(one)


def test_what_the_process_changes_the_others_have_where_a_worker_has_its_own(session, unknown_there):
    name, _ = unknown_there
    s = session(2)
    setattr(builtins, name, lambda: "first")
    s.run(f"import builtins\nbuiltins.{name} = lambda: 'own'", workers=[0])
    setattr(builtins, name, lambda: "later")
    assert s.run(f"{name}()").values == ["own", "later"]
    s.run(f"del builtins.{name}", workers=[0])
    assert s.run(f"{name}()").values == ["later", "later"]


def test_what_the_process_takes_away_is_gone_for_a_worker_that_had_its_own(session, unknown_there):
    name, _ = unknown_there
    s = session(2)
    setattr(builtins, name, lambda: "first")
    s.run(f"import builtins\nbuiltins.{name} = lambda: 'own'", workers=[0])
    delattr(builtins, name)
    assert not hasattr(builtins, name)
    assert (
        s.run(f"import builtins\nhasattr(builtins, {name!r}), {name!r} in vars(builtins)").values
        == [(False, False)] * 2
    )
    with pytest.raises(CellError, match=f"name '{name}' is not defined"):
        s.run(name)


def test_what_cells_have_of_ours_is_no_builtin_to_be_replaced(session, unknown_there):
    s = session(2)
    try:
        builtins.worker_id = "mine"
        assert s.run("worker_id").values == [0, 1]
    finally:
        del builtins.worker_id
    assert s.run("worker_id").values == [0, 1]


def test_reading_what_no_worker_has_of_its_own_runs_no_code_of_ours(session):
    session(2).sync_all()
    called = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        read = builtins.sorted
    finally:
        sys.setprofile(None)
    assert (read, called) == (sorted, [])
    assert inspect.getattr_static(builtins, "sorted") is sorted  # as completion reads it
