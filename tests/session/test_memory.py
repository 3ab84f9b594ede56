"""What a session keeps alive, and what it must not."""

from __future__ import annotations

import gc
import weakref

import pytest

from disco_magic.errors import CellError, PlaneMismatch, WorkerError


class Thing:
    """Something that can be watched."""

    def __deepcopy__(self, memo):
        return self


def test_frames_of_failed_cells_die_with_their_error(session):
    # A poisoned value register once held the traceback, whose frames held the register.
    s = session(2)
    s.run("class Thing: pass\nseen = []\nimport weakref")
    for _ in range(3):
        with pytest.raises(CellError):
            s.run("def f():\n    thing = Thing()\n    seen.append(weakref.ref(thing))\n    1 / 0\nf()")
    s.run("pass")
    gc.collect()
    assert s.run("[ref() is None for ref in seen]").values == [[True] * 3] * 2


def test_what_a_failed_call_held_dies_also_where_another_one_has_inherited_its_failure(session):
    s, seen = session(2), []

    def fail(_):
        thing = Thing()
        seen.append(weakref.ref(thing))
        raise ValueError("boom")

    def failing():
        first = s.call_packed(fail, 1)
        s.call_packed(lambda value: value, first)
        with pytest.raises(WorkerError):
            s.sync_all()

    failing()
    s.run("pass")
    s.sync_all()
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


def test_a_keyword_operand_dies_with_its_register(session):
    s = session(1)
    thing = Thing()
    seen = weakref.ref(thing)
    ref = s.call_packed(lambda it: it, thing)
    s.call_packed(lambda *, it: None, it=ref)
    del thing, ref
    s.sync_all()
    s.sync_all()
    gc.collect()
    assert seen() is None


def test_an_error_is_the_same_length_however_often_it_is_raised(session):
    pending = session(1).run_nowait("1 / 0")
    lengths = []
    for _ in range(3):
        with pytest.raises(CellError) as caught:
            pending.wait()
        lengths.append(len(caught.traceback))
    assert len(set(lengths)) == 1


def test_the_failure_of_a_cell_whose_handle_was_dropped_is_raised_by_the_next_wait(session):
    s = session(2)
    s.run_nowait("1 / 0 if worker_id else None")
    with pytest.raises(WorkerError, match="ZeroDivisionError"):
        s.sync_all()
    s.sync_all()


def test_the_failure_of_a_cell_with_a_handle_belongs_to_the_handle(session):
    s = session(2)
    pending = s.run_nowait("1 / 0")
    assert s.run("'fine'").values == ["fine", "fine"]
    with pytest.raises(CellError, match="ZeroDivisionError"):
        pending.wait()


def test_a_cell_names_its_own_failure_first(session):
    s = session(1)
    first = s.call_packed(int, "no number")
    with pytest.raises(WorkerError) as caught:
        s.run("1 / 0")
    assert isinstance(caught.value.origin.exception, ZeroDivisionError)
    del first


@pytest.mark.parametrize(
    "options", [{}, {"workers": [0, 1]}, {"named": 1}], ids=["ordinary", "chosen workers", "keywords"]
)
def test_a_message_that_a_call_left_unread_is_an_error(session, options):
    s = session(2)

    def send_only(named=0):
        import disco_magic

        me = disco_magic.worker()
        if me.id == 0:
            me.send([1.0], 1)
        me.barrier()

    s.call_packed(send_only, **options)
    with pytest.raises(WorkerError) as caught:
        s.sync_all()
    assert isinstance(caught.value.failures[1].exception, PlaneMismatch)
    assert "without receiving" in str(caught.value)
    assert s.run("allreduce(1)").values == [2, 2]


def test_an_error_names_the_registered_function_also_when_arguments_are_copied(session):
    s = session(1)
    s.get_global_func("runtime.disco.allreduce")(["no number"], "sum", True)
    with pytest.raises(WorkerError, match=r"call runtime\.disco\.allreduce failed"):
        s.sync_all()
