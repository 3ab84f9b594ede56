"""What calls are sent to which workers, and what is refused; what they return is in `tests/surface`."""

from __future__ import annotations

import functools
import weakref

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import UnknownName, UsageMistake, WorkerError
from disco_magic.functions.registry import register_func, remove_func
from tests.conftest import until


def who():
    return disco.worker().id


def give(*args, **kwargs):
    return args, kwargs


# --- calls -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "workers", [[0], [1], [2, 0], (1, 2), {0, 2}, range(1, 3), np.array([0, 2])], ids=str
)
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
        "put": lambda: s.put("x", 1, workers=[2]),
    }
    with pytest.raises(UsageMistake, match="there is no worker 2"):
        methods[verb]()
    s.sync_all()


@pytest.mark.parametrize("worker", ["0", True, 1.0])
def test_what_is_no_worker_s_number_is_named(session, worker):
    s = session(2)
    with pytest.raises(UsageMistake, match=f"a worker is a whole number, not {worker!r}; this session has"):
        s.call_packed(who).get(worker)


def test_keywords_may_have_any_name(session):
    s = session(1)
    names = {"function": 1, "self": [2], "args": 3, "seq": 4}
    assert s.call_packed(give, np.zeros(1), **names).get(0)[1] == names


def test_partial_functions_and_classes_can_be_called(session):
    s = session(1)
    assert s.call_packed(functools.partial(max, 3), 2).get(0) == 3
    assert s.call_packed(dict, a=1).get(0) == {"a": 1}


@pytest.mark.parametrize("what", [5, None, [len]], ids=str)
def test_what_cannot_be_called_is_refused(session, what):
    with pytest.raises(UsageMistake, match="expected a DRef of a function, a registered name or a callable"):
        session(1).call_packed(what)


# --- what is not kept, and what is missing ---------------------------------------------------------


@pytest.fixture
def scale():
    register_func("test_calls.scale", lambda x, by=2: x * by, override=True)
    yield "test_calls.scale"
    remove_func("test_calls.scale")


def test_a_function_that_some_workers_were_sent_is_not_kept(session):
    class Model:
        def __call__(self):
            return 1

    s = session(2)
    models = [Model()]
    there = weakref.ref(models[0])
    function = s.call_packed(models.pop, workers=[0])
    s.sync_all()
    result = s.call_packed(function, workers=[0])
    s.sync_all()
    del function, result
    s.call_packed(abs, 1)
    s.sync_all()
    until(lambda: there() is None)  # workers release by themselves what is dropped


def test_a_call_on_a_register_that_some_workers_have_not_got_names_them_once(session):
    s = session(3)
    partly = s.call_packed(who, workers=[0])
    bad = s.call_packed(give, s.call_packed(give, partly))
    with pytest.raises(
        WorkerError, match=f"register '#{partly.register}' is not defined on worker {{worker_id}}"
    ) as caught:
        s.sync_all()
    assert sorted(caught.value.failures) == [1, 2]
    assert all(isinstance(f.exception, UnknownName) for f in caught.value.failures.values())
    s.sync_all()
    assert bad.get(0) == ((((0,), {}),), {})
