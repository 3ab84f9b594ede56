"""References and the registers behind them: ids, kills, pictures."""

from __future__ import annotations

import copy
import gc
import pickle
import sys

import pytest

import disco_magic as disco
from disco_magic.core.messages import Call, Kill
from disco_magic.errors import SessionClosed, UsageMistake
from tests.doubles.scripted import scripted_session

sizes = pytest.mark.parametrize("n", [1, 2, 3, 4])


def who():
    return disco.worker().id


def held(s):
    """Numbers of the registers that exist, per worker."""
    s.sync_all()
    return [sorted(worker.registers.values) for worker in s._launcher.workers]


# --- when registers are freed ----------------------------------------------------------------------


def test_a_register_is_freed_although_it_is_poisoned(session):
    s = session(2)
    bad = s.call_packed(int, "no number")
    with pytest.raises(disco.errors.WorkerError):
        s.sync_all()
    assert all(worker.registers.poisons for worker in s._launcher.workers)
    del bad
    s.sync_all()
    assert not any(worker.registers.poisons for worker in s._launcher.workers)


def test_a_reference_may_be_dropped_in_the_middle_of_a_turn(session, background):
    # A garbage collection can strike at any line, also inside of the locked part of a call.
    s = session(2)
    refs = [s.call_packed(who)]

    def drop():
        s._locked(refs.clear)

    background(drop)()
    assert held(s) == [[], []]


def test_kills_travel_with_the_next_command_to_everybody():
    s, launcher = scripted_session(2)
    ref = s.call_packed(who)
    del ref
    kept = s.call_packed(who)
    assert launcher.commands[-1] == Call(2, 1, who, (), (), (), (1,))
    assert kept.register == 1
    s.shutdown()


def test_kills_go_alone_before_a_command_for_some_workers_only():
    s, launcher = scripted_session(2)
    ref = s.call_packed(who)
    del ref
    kept = s.call_packed(who, workers=[1])
    assert launcher.channels[0].commands[1:] == [Kill(2, (1,))]
    assert [type(command) for command in launcher.channels[1].commands[1:]] == [Kill, Call]
    assert launcher.channels[1].commands[-1].seq == 3
    assert kept.register == 1
    s.shutdown()


def test_many_dropped_references_travel_together():
    s, launcher = scripted_session(1)
    refs = [s.call_packed(who) for _ in range(3)]
    refs.clear()
    s.flush()
    s.flush()
    (kill,) = launcher.commands[3:]
    assert (type(kill), kill.seq, sorted(kill.kills)) == (Kill, 4, [1, 2, 3])
    s.shutdown()


def test_flushing_after_shutdown_does_nothing():
    s, launcher = scripted_session(1)
    ref = s.call_packed(who)
    s.shutdown()
    count = len(launcher.commands)
    del ref
    s.flush()
    assert len(launcher.commands) == count


@sizes
def test_sequence_numbers_strictly_grow_on_every_channel(n):
    s, launcher = scripted_session(n)
    for step in range(5):
        s.call_packed(who)
        s.call_packed(who, workers=[step % n])
        s["x"] = s.store(1)
        s.run_nowait("1")
    for channel in launcher.channels:
        numbers = [command.seq for command in channel.commands]
        assert numbers == sorted(set(numbers))
    s.shutdown()


# --- references ------------------------------------------------------------------------------------


def test_a_reference_says_where_it_is(session):
    s = session(3)
    ref = s.call_packed(who)
    assert repr(ref) == f"<DRef #1 on 3 workers of session {s.id}>"
    s.shutdown()
    assert repr(ref) == f"<DRef #1 on 3 workers of session {s.id}, closed>"


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps, lambda ref: copy.deepcopy([ref])])
def test_a_reference_cannot_be_copied(session, how):
    ref = session(1).call_packed(who)
    with pytest.raises(UsageMistake, match="a DRef cannot be copied or pickled"):
        how(ref)


class Model:
    """Part of a circle, and does something with its reference where that is found."""

    def __init__(self, ref, end):
        self.ref, self.end, self.me = ref, end, self

    def __del__(self):
        self.end(self)


USES = {
    "its value": lambda s, ref: ref.get(0),
    "an argument": lambda s, ref: s.call_packed(int, ref),
    "a function": lambda s, ref: s.call_packed(ref),
    "a name": lambda s, ref: s.__setitem__("w", ref),
    "told": lambda s, ref: ref.info(),
    "set": lambda s, ref: ref.set(0, 1),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("later", [False, True], ids=["at once", "after its resurrection"])
def test_a_reference_that_the_garbage_collector_has_freed_says_so(session, use, later):
    # Its finalizer comes before those of the circle: by then its register may be somebody else's.
    s = session(2)
    others, said, kept = [], [], []

    def end(model):
        others.append(s.call_packed(who))
        if later:
            kept.append(model.ref)
        else:
            try_to_use(model.ref)

    def try_to_use(ref):
        with pytest.raises(UsageMistake, match=r"#1 on 2 workers .* was found in a circle") as caught:
            use(s, ref)
        said.append(caught.value)

    Model(s.call_packed(who), end)
    gc.collect()
    for ref in kept:
        try_to_use(ref)
    assert len(said) == 1
    assert [other.register for other in others] == [1]
    assert others[0].get_all() == [0, 1]


def test_a_function_that_the_garbage_collector_has_freed_is_not_called(session):
    s = session(2)
    said, others = [], []

    def end(model):
        others.append(s.call_packed(who))
        with pytest.raises(UsageMistake, match="circle of garbage") as caught:
            model.ref()
        said.append(caught.value)

    Model(s.get_global_func("runtime.disco.barrier"), end)
    gc.collect()
    assert len(said) == 1


def test_dropping_a_reference_runs_no_python_code_that_a_signal_could_strike(session):
    s = session(2)
    ref = s.call_packed(who)
    seen = []
    sys.setprofile(lambda frame, event, argument: seen.append((event, frame.f_code.co_name)))
    try:
        del ref
    finally:
        sys.setprofile(None)
    assert not [name for event, name in seen if event == "call"]
    assert held(s) == [[], []]


def test_a_packed_function_owns_the_register_and_frees_it_once(session):
    s = session(2)
    function = s.get_global_func("runtime.disco.barrier")
    assert held(s) == [[1], [1]]
    assert s.ledger.live_registers == 1
    del function
    assert held(s) == [[], []]
    assert s.ledger.live_registers == 0


# --- restart ---------------------------------------------------------------------------------------


def test_a_reference_of_the_life_before_gives_a_clear_error(session):
    s = session(2)
    old = s.call_packed(who)
    s.restart()
    for use in (old.get, old.info, lambda: old.set(0, 1), lambda: s.call_packed(who, old)):
        with pytest.raises(SessionClosed, match=f"is from before the restart of session {s.id}"):
            use()


def test_a_reference_of_the_life_before_frees_no_register_of_this_one(session):
    s = session(2)
    old = s.call_packed(who)
    s.restart()
    new = s.call_packed(who)
    assert new.register == old.register
    del old
    assert held(s) == [[1], [1]]
    assert new.get_all() == [0, 1]
