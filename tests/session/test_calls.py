"""Calls, values and waits through sessions of 1 to 4 worker threads."""

from __future__ import annotations

import functools
import threading

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import SessionClosed, SyncTimeout, UnknownName, UsageMistake, WorkerError
from disco_magic.functions.registry import register_func, remove_func

sizes = pytest.mark.parametrize("n", [1, 2, 3, 4])


def who():
    return disco.worker().id


def fail_on(worker, error=ValueError("boom")):  # noqa: B008 - one exception for all is what a user's module has
    if disco.worker().id == worker:
        raise error
    return "fine"


def append(target, value):
    target.append(value)
    return target


def give(*args, **kwargs):
    return args, kwargs


# --- calls -----------------------------------------------------------------------------------------


@sizes
def test_a_function_runs_on_every_worker(session, n):
    assert session(n).call_packed(who).get_all() == list(range(n))


@pytest.mark.parametrize("workers", [[0], [1], [2, 0], (1, 2), {0, 2}, range(1, 3), np.array([0, 2])], ids=str)
def test_a_call_can_be_restricted_to_some_workers(session, workers):
    s = session(3)
    ref = s.call_packed(who, workers=workers)
    for worker in {int(w) for w in workers}:
        assert ref.get(worker) == worker
    for worker in set(range(3)) - set(workers):
        with pytest.raises(WorkerError, match=f"is not defined on worker {worker}"):
            ref.get(worker)


@pytest.mark.parametrize(
    ("workers", "text"),
    [
        ([3], "there is no worker 3; this session has workers [0-2]"),
        ([-1], "there is no worker -1"),
        ([5, 0, 9], "there is no worker 5, 9"),
        ([], "no worker was named"),
        (["0"], "given as a list of whole numbers"),
        ([0, "1"], "given as a list of whole numbers"),
        ([1.0], "given as a list of whole numbers"),
        (2, "given as a list of whole numbers, not as 2"),
    ],
    ids=str,
)
def test_wrong_worker_numbers_are_refused_and_nothing_is_sent(session, workers, text):
    s = session(3)
    before = s.ledger.seq
    with pytest.raises(UsageMistake) as caught:
        s.call_packed(who, workers=workers)
    assert text in str(caught.value)
    assert s.ledger.seq == before


@pytest.mark.parametrize("verb", ["get", "sync_worker", "run", "interrupt", "set", "put"])
def test_every_method_that_names_workers_refuses_a_wrong_one(session, verb):
    s = session(2)
    ref = s.call_packed(who)
    methods = {
        "get": lambda: ref.get(2),
        "sync_worker": lambda: s.sync_worker(2),
        "run": lambda: s.run("1", workers=[2]),
        "interrupt": lambda: s.interrupt([2]),
        "set": lambda: ref.set(2, 0),
        "put": lambda: s.put("x", 1, only=2),
    }
    with pytest.raises(UsageMistake, match="there is no worker 2"):
        methods[verb]()
    s.sync_all()


def test_arguments_of_all_kinds_arrive(session):
    s = session(2)
    ref = s.call_packed(who)
    values = (None, True, 2**62, 1.5, 1j, "text", b"raw", (1, [2]), {"k": {3}}, int, len, np.float32(2))
    args, kwargs = s.call_packed(give, ref, *values, key=ref, other=[ref.get(0)]).get(1)
    assert args == (1, *values)
    assert kwargs == {"key": 1, "other": [0]}


def test_keywords_may_have_any_name(session):
    s = session(1)
    names = {"function": 1, "self": [2], "args": 3, "seq": 4}
    assert s.call_packed(give, np.zeros(1), **names).get(0)[1] == names


def test_a_function_may_live_in_a_register_and_take_arrays_and_references(session):
    s = session(2)
    function = s.call_packed(lambda: give)
    ref = s.call_packed(who)
    args, kwargs = s.call_packed(function, [1], ref, x=ref, y=[2]).get(1)
    assert (args, kwargs) == (([1], 1), {"x": 1, "y": [2]})


def test_a_reference_may_be_the_argument_of_a_call_that_is_its_last_use(session):
    s = session(2)
    assert s.call_packed(give, s.call_packed(who)).get(1)[0] == (1,)


def test_partial_functions_and_classes_can_be_called(session):
    s = session(1)
    assert s.call_packed(functools.partial(max, 3), 2).get(0) == 3
    assert s.call_packed(dict, a=1).get(0) == {"a": 1}


@pytest.mark.parametrize("what", [5, None, [len]], ids=str)
def test_what_cannot_be_called_is_refused(session, what):
    with pytest.raises(UsageMistake, match="expected a DRef of a function, a registered name or a callable"):
        session(1).call_packed(what)


# --- registered functions --------------------------------------------------------------------------


@pytest.fixture
def scale():
    register_func("test_calls.scale", lambda x, by=2: x * by, override=True)
    yield "test_calls.scale"
    remove_func("test_calls.scale")


def test_a_registered_function_is_called_by_name(session, scale):
    assert session(2).call_packed(scale, 5, by=3).get_all() == [15, 15]


def test_a_packed_function_is_called_like_a_function(session, scale):
    s = session(2)
    function = s.get_global_func(scale)
    assert isinstance(function, disco.DPackedFunc)
    assert function(s.call_packed(who), by=10).get_all() == [0, 10]


@pytest.mark.parametrize("verb", ["call_packed", "get_global_func"])
def test_an_unknown_function_names_near_misses_and_leaks_no_register(session, scale, verb):
    s = session(2)
    before = (s.ledger.seq, s.ledger.live_registers)
    with pytest.raises(UnknownName, match="'test_calls.scal'; did you mean 'test_calls.scale'"):
        getattr(s, verb)("test_calls.scal")
    assert (s.ledger.seq, s.ledger.live_registers) == before


# --- copies ----------------------------------------------------------------------------------------


def test_a_value_comes_back_as_a_copy(session):
    s = session(1)
    ref = s.call_packed(list)
    ref.get(0).append("mine")
    assert ref.get(0) == []


def test_a_value_goes_out_as_a_copy(session):
    s = session(1)
    mine = [1]
    ref = s.call_packed(give, mine)
    mine.append(2)
    assert ref.get(0)[0] == ([1],)


def test_every_worker_gets_a_copy_of_an_argument_of_its_own(session):
    s = session(3)
    ref = s.call_packed(append, [], s.call_packed(who))
    assert ref.get_all() == [[0], [1], [2]]


def test_an_array_can_be_reused_by_the_caller_at_once(session, gated, gate):
    s = gated(2)
    pending = s.run_nowait("gate()")
    gate.arrived(2)
    mine = np.zeros(3)
    ref = s.call_packed(give, mine)
    mine[:] = 7
    gate.open()
    pending.wait()
    assert ref.get(0)[0][0].tolist() == [0, 0, 0]


def test_set_replaces_the_value_on_one_worker_by_a_copy(session):
    s = session(3)
    ref = s.call_packed(who)
    mine = [1]
    ref.set(1, mine)
    mine.append(2)
    assert ref.get_all() == [0, [1], 2]


def test_set_heals_a_poisoned_register(session):
    s = session(2)
    ref = s.call_packed(fail_on, 1)
    with pytest.raises(WorkerError):
        s.sync_all()
    ref.set(1, "healed")
    assert ref.get_all() == ["fine", "healed"]


def test_discos_debug_names_mean_get_and_set(session):
    ref = session(2).call_packed(who)
    ref.debug_copy_from(1, "new")
    assert ref.debug_get_from_remote(1) == "new"


@pytest.mark.parametrize("way", ["argument", "keyword", "set", "put"])
def test_what_cannot_be_copied_is_refused_before_anything_is_sent(session, way):
    s = session(2)
    ref = s.call_packed(who)
    ref.get_all()
    before = (s.ledger.seq, s.ledger.live_registers, s.names())
    lock = threading.Lock()
    ways = {
        "argument": lambda: s.call_packed(give, [lock]),
        "keyword": lambda: s.call_packed(give, key=lock),
        "set": lambda: ref.set(0, lock),
        "put": lambda: s.put("x", lock),
    }
    with pytest.raises(UsageMistake, match="cannot be copied between controller and worker"):
        ways[way]()
    assert (s.ledger.seq, s.ledger.live_registers, s.names()) == before


def test_a_value_that_cannot_be_copied_back_is_that_gets_error(session):
    s = session(2)
    ref = s.call_packed(threading.Lock)
    with pytest.raises(WorkerError, match="cannot be copied") as caught:
        ref.get(0)
    assert isinstance(caught.value.origin.exception, UsageMistake)
    s.sync_all()


# --- failures --------------------------------------------------------------------------------------


@sizes
@pytest.mark.parametrize("way", ["sync_all", "sync_worker", "get", "run", "read name"])
def test_a_failure_is_raised_once_at_the_next_wait(session, n, way):
    s = session(n)
    s.run("known = 1")
    good = s.call_packed(who)
    s.call_packed(fail_on, n - 1)
    ways = {
        "sync_all": s.sync_all,
        "sync_worker": lambda: s.sync_worker(n - 1),
        "get": lambda: good.get(n - 1),
        "run": lambda: s.run("1"),
        "read name": lambda: s["known"].get(n - 1),
    }
    with pytest.raises(WorkerError, match=f"fail_on failed on worker {n - 1}") as caught:
        ways[way]()
    assert caught.value.origin.summary == "ValueError: boom"
    s.sync_all()
    assert good.get_all() == list(range(n))


def test_dependents_inherit_the_origin_and_it_is_raised_once(session):
    s = session(2)
    bad = s.call_packed(fail_on, 1)
    further = s.call_packed(give, s.call_packed(give, bad))
    with pytest.raises(WorkerError) as caught:
        s.sync_all()
    assert {w: f.summary for w, f in caught.value.failures.items()} == {1: "ValueError: boom"}
    s.sync_all()
    with pytest.raises(WorkerError) as caught:
        further.get(1)
    assert caught.value.origin.command == "call fail_on"
    assert further.get(0) == (((("fine",), {}),), {})


def test_only_the_first_failure_of_each_worker_is_kept(session):
    s = session(2)
    for text in ("first", "second"):
        s.call_packed(fail_on, 1, RuntimeError)
        s.call_packed(int, text)
    with pytest.raises(WorkerError) as caught:
        s.sync_all()
    assert sorted(caught.value.failures) == [0, 1]
    assert isinstance(caught.value.failures[1].exception, RuntimeError)
    s.sync_all()


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_origin_comes_first_and_the_released_ones_last(session, n):
    s = session(n)

    def reduce_but_one(x):
        if disco.worker().id == n - 1:
            raise ValueError("boom")
        return disco.worker().allreduce(x)

    s.call_packed(reduce_but_one, s.call_packed(who))
    with pytest.raises(WorkerError) as caught:
        s.sync_all()
    assert sorted(caught.value.failures) == list(range(n))
    assert caught.value.origin.worker == n - 1
    kinds = [type(f.exception).__name__ for f in caught.value.failures.values()]
    assert kinds == ["ValueError"] + ["PlaneAborted"] * (n - 1)
    assert s.call_packed(who).get_all() == list(range(n))


def test_a_traceback_shows_the_users_lines_and_none_of_the_runtimes(session):
    s = session(1)
    s.call_packed(fail_on, 0)
    with pytest.raises(WorkerError) as caught:
        s.sync_all()
    text = caught.value.origin.traceback_text
    assert "in fail_on" in text
    assert "worker.py" not in text


def test_a_collectives_error_ends_at_the_line_that_called_it(session):
    s = session(2)
    with pytest.raises(disco.errors.CellError) as caught:
        s.run("def f():\n    allreduce([1.0, 2.0][: worker_id + 1])\nf()")
    text = caught.value.origin.traceback_text
    assert "line 2, in f" in text
    assert "planes" not in text


# --- waiting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["sync_all", "get", "get_all"])
def test_a_wait_that_takes_too_long_says_where_the_workers_are(gated, gate, way):
    s = gated(2)
    s.run("def hold(): gate()")
    ref = s.call_packed(s["hold"])
    gate.arrived(2)
    ways = {
        "sync_all": lambda: s.sync_all(timeout=0),
        "get": lambda: ref.get(1, timeout=0),
        "get_all": lambda: ref.get_all(timeout=0),
    }
    with pytest.raises(SyncTimeout, match="did not answer within 0 s and go on") as caught:
        ways[way]()
    assert "worker 1: executing call hold" in str(caught.value)
    gate.open()
    s.sync_all()
    assert ref.get_all() == [None, None]


def test_a_timeout_shows_who_waits_in_which_collective(gated, gate):
    s = gated(2)
    pending = s.run_nowait("if worker_id == 0: gate()\nallreduce(1.0)")
    gate.arrived()
    with pytest.raises(SyncTimeout) as caught:
        _until(lambda: 1 in s._launcher.plane.waiting)
        s.sync_all(timeout=0)
    assert "worker 1: executing Cell" in str(caught.value)
    assert "waiting in" in str(caught.value)
    assert "allreduce" in str(caught.value)
    gate.open()
    pending.wait()


def _until(condition):
    pause = threading.Event()
    for _ in range(60_000):
        if condition():
            return
        pause.wait(0.001)
    pytest.fail("it never came to that")


def test_waiting_for_one_worker_does_not_wait_for_the_others(gated, gate):
    s = gated(2)
    pending = s.run_nowait("if worker_id == 1: gate()")
    gate.arrived()
    s.sync_worker_0()
    s.sync_worker(0)
    assert not pending.done()
    gate.open()
    pending.wait()


def test_a_late_answer_after_a_timeout_disturbs_nobody(gated, gate):
    s = gated(1)
    pending = s.run_nowait("gate()")
    gate.arrived()
    for _ in range(3):
        with pytest.raises(SyncTimeout):
            s.sync_all(timeout=0)
    gate.open()
    pending.wait()
    assert s.call_packed(who).get(0) == 0
    assert not s.ledger.expecting


# --- several threads, several sessions -------------------------------------------------------------


def test_two_threads_may_use_one_session(session, background):
    s = session(3)

    def work(number):
        for step in range(50):
            ref = s.call_packed(give, number, step)
            assert ref.get(step % 3)[0] == (number, step)
            name = f"x{number}"
            s.run(f"{name} = {step}")
            assert s[name].get(0) == step

    results = [background(work, number) for number in range(3)]
    for result in results:
        result()
    s.sync_all()


@pytest.mark.parametrize("use", ["get", "argument", "name", "function"])
def test_a_reference_of_another_session_is_refused(session, use):
    mine, other = session(1), session(1)
    ref = other.call_packed(who)
    uses = {
        "get": lambda: mine.fetch(ref, (0,)),
        "argument": lambda: mine.call_packed(give, 1, ref),
        "name": lambda: mine.__setitem__("x", ref),
        "function": lambda: mine.call_packed(ref),
    }
    text = f"<DRef #1 on 1 workers of session {other.id}> belongs to session {other.id}, this is session {mine.id}"
    before = mine.ledger.seq
    with pytest.raises(UsageMistake) as caught:
        uses[use]()
    assert str(caught.value) == text
    assert mine.ledger.seq == before


def test_after_shutdown_a_call_is_refused(session):
    s = session(1)
    ref = s.call_packed(who)
    s.shutdown()
    for use in (lambda: s.call_packed(who), ref.get, s.sync_all, lambda: s.run("1"), lambda: s.store(1)):
        with pytest.raises(SessionClosed, match=f"session {s.id} was shut down; start another one"):
            use()
