"""Requests that cannot be meant: refused with a sentence, nothing is sent, the session goes on."""

from __future__ import annotations

import operator
import os
from collections import ChainMap

import numpy as np
import pandas as pd
import pytest

import disco_magic as disco
from disco_magic.errors import CellError, SessionClosed, UnknownName, UsageMistake
from disco_magic.functions.registry import register_func


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda s: s.load_safetensors("f", progress="x"), "load_safetensors: progress is 'x', expected True"),
        (
            lambda s: s.load_safetensors("f", in_group=2),
            "load_safetensors: in_group is 2, expected True",
        ),
        (
            lambda s: s.load_tensor_cache("f", check_md5="no"),
            "load_tensor_cache: check_md5 is 'no', expected",
        ),
        (lambda s: s.run("1", rendezvous="no"), "run: rendezvous is 'no', expected True or False"),
        (lambda s: s.run_file("f.py", reload="f"), "run_file: reload is 'f', expected True or False"),
        (lambda s: s.run_module("m", rendezvous=None), "run_module: rendezvous is None, expected True or"),
        (lambda s: s.check(values=["w"]), r"check: values is \['w'\], expected True or False"),
        (lambda s: s.check(in_group="tp"), "check: in_group is 'tp'; pass axes of the mesh as over="),
        (lambda s: s.registers(numbered="w"), "registers: numbered is 'w', expected True or False"),
        (lambda s: s.empty(1, "f4", "cpu", "all"), "empty: worker0_only is 'all', expected True or False"),
        (lambda s: s.broadcast(np.ones(1), in_group=1.5), "broadcast: in_group is 1.5, expected True or"),
        (
            lambda _: register_func("of.tests", print, override="f"),
            "register_func: override is 'f', expected",
        ),
    ],
)
def test_what_is_neither_true_nor_false_counts_as_neither(session, ask, sentence):
    # All text was true, also "no", and a value that was meant for another parameter.
    s = session(2)
    before = s.ledger.seq
    with pytest.raises(UsageMistake, match=sentence):
        ask(s)
    assert s.ledger.seq == before


def test_true_and_false_are_taken_as_numpys_and_as_numbers_too(session):
    s = session(2)
    assert s.registers(numbered=np.bool_(True)).rows == s.registers(numbered=0).rows == ()
    assert s.run("allreduce(1, in_group=np.bool_(False)), allreduce(1, in_group=1)").values == [(2, 2)] * 2
    assert s.run("allreduce(1, in_group=np.array(True))").values == [2, 2]


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda s: s.run(None), "source text, got NoneType"),
        (lambda s: s.run(["1"]), "source text, got list"),
        (lambda s: s.run("1", timeout="1"), "timeout is '1'"),
        (lambda s: s.run("1", timeout=-1), "timeout is -1"),
        (lambda s: s.sync_all(timeout=float("nan")), "timeout is nan"),
        (lambda s: s.copy_from_worker_0(np.zeros(2), None), "expected a DRef"),
        (lambda s: s.copy_to_worker_0(np.ma.array([1, 2], mask=[1, 0])), "lose its mask"),
        (lambda s: s.broadcast(pd.Series([1, 2])), "a Series would lose its index and its name"),
        (lambda s: s.scatter(pd.DataFrame({"a": [1, 2]})), "a DataFrame would lose its columns' names"),
        (lambda s: s.broadcast(ChainMap({"a": 1})), "got ChainMap, which NumPy can only hold as objects"),
        (lambda s: s.copy_to_worker_0([[1], [1, 2]]), "makes no array"),
        (lambda s: s.get_global_func(None), "name is text"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_sent(session, ask, sentence):
    s = session(2)
    before = (s.ledger.seq, s.ledger.live_registers)
    with pytest.raises(UsageMistake, match=sentence):
        ask(s)
    assert (s.ledger.seq, s.ledger.live_registers) == before
    assert s.run("worker_id").values == [0, 1]


@pytest.mark.parametrize(
    "use",
    [
        np.sum,
        np.asarray,
        lambda ref: np.add(ref, 1),
        lambda ref: np.ones(2) * ref,
        lambda ref: ref + 1,
        lambda ref: 1 - ref,
        lambda ref: ref @ ref,
        lambda ref: -ref,
        lambda ref: divmod(ref, 2),
        lambda ref: 6 & ref,
        lambda ref: ref > 0,
        lambda ref: ref >= 0,
        float,
        int,
        round,
        lambda ref: ref[0],
        lambda ref: operator.setitem(ref, 0, 1),
        list,
        lambda ref: 1 in ref,
    ],
)
def test_a_reference_is_no_number_and_says_how_to_come_to_its_values(session, use):
    ref = session(2).call_packed(np.ones, 2)
    with pytest.raises(TypeError, match=r"a DRef refers to values .* ref\.get\(worker\) .*call_packed"):
        use(ref)


def test_attributes_of_a_value_are_asked_of_the_value(session):
    ref = session(2).call_packed(np.ones, 2)
    with pytest.raises(
        AttributeError, match=r"'DRef' object has no attribute 'shape': a DRef refers to"
    ) as no:
        _ = ref.shape
    assert no.value.name == "shape"
    assert not hasattr(ref, "_repr_html_")
    with pytest.raises(AttributeError, match=r"'_repr_html_'$"):
        _ = ref._repr_html_


def test_numbers_of_numpy_are_timeouts(session):
    s = session(1)
    s.sync_all(timeout=np.float32(30))
    assert s.run("7", timeout=np.int64(30)).values == [7]


def test_a_closed_session_says_so_whatever_is_asked(session):
    s = session(1)
    s.run("x = 1")
    ref = s["x"]
    s.shutdown()
    for ask in (lambda: s["x"], lambda: s.__delitem__("x"), ref.info, s.__enter__, s.registers):
        with pytest.raises(SessionClosed):
            ask()


def test_a_cell_that_clears_its_globals_loses_its_registers_only(session):
    s = session(2)
    s.run("x = 1")
    s.run("globals().clear()")
    assert s.run("(allreduce(1), np.add(1, worker_id), __name__[:9])").values == [
        (2, 1, "__disco__"),
        (2, 2, "__disco__"),
    ]
    assert "x" not in s


def test_a_function_of_a_cell_is_not_registered_for_the_process(session):
    s = session(2)
    source = (
        "import disco_magic as disco\n"
        "@disco.register_func('test_misuse.mine')\n"
        "def mine(): return worker_id\n"
    )
    with pytest.raises(CellError, match="register it in the notebook"):
        s.run(source)
    with pytest.raises(UsageMistake):
        s.get_global_func("test_misuse.mine")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("call", ["allreduce(1)", "barrier()", "recv(1)"])
def test_in_a_forked_child_of_a_worker_collectives_say_that_the_others_are_not_there(session, call):
    s = session(2)
    code = f"""
import os
child = os.fork() if worker_id == 0 else None
if child == 0:
    try:
        {call}
    except BaseException as error:
        os._exit(0 if "this is a forked process" in str(error) else 2)
    os._exit(1)
child and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
    assert s.run(code, timeout=60)[0] == 0
    assert s.run("int(allreduce(1))").values == [2, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_in_a_forked_child_a_session_says_that_its_workers_are_not_there(session):
    s = session(2)
    child = os.fork()
    if child == 0:
        try:
            s.run("1", timeout=60)
        except SessionClosed as error:
            os._exit(0 if "fork" in str(error) else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert s.run("worker_id").values == [0, 1]


def test_a_value_in_the_place_of_the_destination_is_told_how_it_gets_a_name(session):
    with pytest.raises(
        UsageMistake, match=r"has to be a DRef of session \d+, got range; .*session\.put\('a', v"
    ):
        session(2).scatter(["a", "b"], range(2))


def test_a_reduction_in_the_place_of_the_destination_is_told_apart(session):
    s = session(2)
    x = s.store(1.0)
    with pytest.raises(UsageMistake, match=r"got 'max'; a reduction is given as op='max'"):
        s.allreduce(x, "max")
    assert s.allreduce(x, op="max").get(0) == 1.0


@pytest.mark.parametrize(
    ("count", "told"), [(10, "x0, x1, x2, x3, x4, x5, x6, x7, x8, x9"), (12, "x0, x1, x10, x11, x2")]
)
def test_of_many_registers_some_are_named_where_another_one_is_asked_for(session, count, told):
    s = session(1)
    s.run(f"globals().update((f'x{{i}}', i) for i in range({count}))")
    with pytest.raises(UnknownName) as caught:
        s["nothing_like_it"]
    text = str(caught.value)
    assert f"there are: {told}" in text
    assert text.endswith("and 2 more") is (count == 12)


@pytest.mark.parametrize("verb", ["broadcast", "scatter"])
def test_a_root_without_an_array_is_told_that_it_gave_none(session, verb):
    s = session(2)
    with pytest.raises(
        CellError, match=f"{verb}: worker 1 is the root and gave None - the root has to pass an array"
    ):
        s.run(f"{verb}(None, root=1)")
    assert s.run(f"{verb}(np.ones(2) if worker_id else None, root=1) is not None").values == [True, True]


def test_who_has_to_bring_an_array_is_told_that_it_gave_none(session):
    with pytest.raises(CellError, match="allreduce: worker 0 gave None - pass an array, a number or"):
        session(2).run("allreduce(None)")
    with pytest.raises(CellError, match=r"worker 0 gave None - in cells send_object\(x, to\) takes any"):
        session(1).run("send(None, 0)")


@pytest.mark.parametrize("verb", ["broadcast", "scatter"])
def test_a_list_of_masked_arrays_is_refused_as_one_of_them_is(session, verb):
    s = session(2)
    masked = np.ma.array([1.0, 1e20], mask=[0, 1])
    with pytest.raises(UsageMistake, match="would drop the masks of what is in this list"):
        getattr(s, verb)([masked, masked])
    with pytest.raises(CellError, match="would drop the masks of what is in this list"):
        s.run("m = np.ma.array([1.0, 1e20], mask=[0, 1])\nallreduce([m, m])")


def test_a_method_of_a_value_is_called_where_the_value_is(session):
    s = session(2)
    s.run("from collections import Counter\nc = Counter()")
    with pytest.raises(AttributeError, match=r"session\.call_packed\(lambda x: x\.total\(\), ref\) computes"):
        s["c"].total()
    assert s.call_packed(lambda x: x.total(), s["c"]).get(1) == 0
    with pytest.raises(AttributeError, match=r"ref\.info\(\) shows its shape on every worker"):
        s["c"].shape  # noqa: B018 - that it fails


@pytest.mark.parametrize("name", ["ProcessSession", "SocketSession"])
def test_sessions_that_are_not_there_yet_name_the_one_that_is(name):
    with pytest.raises(AttributeError, match=r"disco_magic\.ThreadedSession\(4\) takes the same calls"):
        getattr(disco, name)
