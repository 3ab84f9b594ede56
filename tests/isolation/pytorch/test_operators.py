"""Operators that workers define, each worker's own, on a stand-in for PyTorch's table of them."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest

from disco_magic.errors import CellError
from tests.conftest import DEADLINE_S
from tests.isolation.pytorch import custom_ops

FOUND = f"import sys; ops = sys.modules[{custom_ops.NAME!r}]"
DEFINED = """
@ops.custom_op("ns::f")
def f(x): return x + worker_id
"""


@pytest.fixture
def ops(monkeypatch):
    return custom_ops.install(monkeypatch)


@pytest.fixture
def s(ops, session):
    """Three workers, which know the stand-in as `ops`."""
    started = session(3)
    started.run(FOUND)
    return started


def called(ops, name, *args, **options):
    """What who is no worker gets of that operator."""
    return ops.OPDEFS[name](*args, **options)


def test_each_worker_calls_its_own_function(s):
    # Each definition destroyed the others', in the midst of it: "Library object has been destroyed".
    for _ in range(3):
        s.run(DEFINED)
        assert s.run("f(10), ops.OPDEFS['ns::f'](10)").values == [(10 + rank,) * 2 for rank in range(3)]


def test_it_is_defined_once(s, ops):
    s.run(DEFINED)
    library = ops.OPDEF_TO_LIB["ns::f"]
    s.run(DEFINED)
    assert ops.OPDEF_TO_LIB["ns::f"] is library
    assert library.m is not None


def test_what_is_registered_for_it_is_each_worker_s(s, ops):
    s.run(DEFINED)
    s.run("f.register_fake(lambda x: -worker_id)")
    s.run("_ = f.register_kernel('cpu')(lambda x: 100 + worker_id)")
    s.run("f.register_torch_dispatch(int, lambda x: 1000 + worker_id)")
    s.run("rule = ops.OPDEF_TO_LIB['ns::f'].rules[int]")
    found = s.run("f(0, device='cpu'), f(0, device='Meta'), rule(0)").values
    assert found == [(100 + rank, -rank, 1000 + rank) for rank in range(3)]


def test_what_is_defined_once_more_has_nothing_registered(s):
    s.run(DEFINED)
    s.run("_ = f.register_kernel('cpu')(lambda x: 'old'); f.register_fake(lambda x: 'old')")
    s.run(DEFINED)
    assert s.run("f(1, device='cpu'), f._abstract_fn").values == [(1 + rank, None) for rank in range(3)]


@pytest.mark.parametrize("others", ["schema='(Tensor x, int n) -> Tensor'", "tags=['pointwise']"])
def test_with_another_schema_it_is_another_one_beside_that_of_others(s, ops, others):
    # What was there was destroyed under those who called it: the process ended.
    s.run(DEFINED)
    library = ops.OPDEF_TO_LIB["ns::f"]
    s.run(f"g = ops.custom_op('ns::f', {others})(lambda x: x * worker_id)", workers=[1])
    assert library.m is not None
    assert s.run("f(10)").values == [10, 11, 12]
    assert s.run("g(10), ops.OPDEFS['ns::f'](10)", workers=[1])[1] == (10, 10)
    s.run(f"g = ops.custom_op('ns::f', {others})(lambda x: x * worker_id)")
    assert s.run("g(10), ops.OPDEFS['ns::f'](10)").values == [(0, 0), (10, 10), (20, 20)]
    s.run(DEFINED)
    assert s.run("ops.OPDEFS['ns::f'](10)").values == [10, 11, 12]
    assert len(ops.OPDEF_TO_LIB) == 2


def test_who_alone_has_it_defines_it_anew(ops, session):
    s = session(1)
    s.run(FOUND)
    s.run(DEFINED)
    library = ops.OPDEF_TO_LIB["ns::f"]
    s.run("f = ops.custom_op('ns::f', schema='(Tensor x, int n) -> Tensor')(lambda x: -x)")
    assert library.m is None
    assert s.run("f(10)")[0] == called(ops, "ns::f", 10) == -10


def test_the_notebook_s_of_another_schema_lies_beside_it(s, ops):
    s.run(DEFINED)
    mine = ops.custom_op("ns::f", schema="(Tensor x, int n) -> Tensor")(lambda x: "the notebook's")
    assert mine(1) == called(ops, "ns::f", 1) == "the notebook's"
    assert s.run("f(10)").values == [10, 11, 12]


def test_of_torch_s_namespace_the_last_one_is_meant(s, ops, monkeypatch):
    namespace = SimpleNamespace(f="the first", f__2="the second")
    torch = SimpleNamespace(ops=SimpleNamespace(ns=namespace))
    s.run(DEFINED)
    monkeypatch.setitem(sys.modules, "torch", torch)
    s.run("g = ops.custom_op('ns::f', schema='(Tensor x, int n) -> Tensor')(lambda x: x)", workers=[0])
    assert namespace.f == "the second"


def test_gradients_are_those_of_who_called_it_whichever_thread_computes_them(s, ops):
    s.run(DEFINED)
    s.run(
        "def remember(ctx, inputs): ctx.seen = inputs\n"
        "f.register_autograd(lambda ctx, g: (g, worker_id, ctx.seen), remember)"
    )
    s.run("ctx = type('Context', (), {})(); f.forward(ctx, worker_id * 10)")
    entry = ops.OPDEFS["ns::f"]
    for rank, ctx in enumerate(s["ctx"].get_all()):
        assert entry.backward(ctx, "g") == ("g", rank, rank * 10)
    with pytest.raises(CellError, match="no autograd"):
        s.run(f"{DEFINED}\nf.backward(type('Context', (), {{}})(), 1)")
    with pytest.raises(RuntimeError, match="register_autograd adds one"):
        entry.backward(SimpleNamespace(), 1)


def test_a_thread_that_executes_a_worker_s_code_calls_that_worker_s(s):
    s.run(DEFINED)
    s.run(
        "import contextvars, threading\nfound = []\ndef call(): found.append(f(10))\n"
        "t = threading.Thread(target=call)\ncontextvars.Context().run(t.start); t.join()"
    )
    assert s.run("found").values == [[10], [11], [12]]


def test_casts_are_each_worker_s_and_go_with_its_definition(s, ops, monkeypatch):
    for _ in range(2):
        s.run(DEFINED)
        s.run("f.register_autocast('CPU', 'half' if worker_id else 'full')", workers=[0, 1])
        s.run("cast = ops.OPDEF_TO_LIB['ns::f'].kernels['AutocastCPU']")
        assert s.run("cast('keys', 1)", workers=[0, 1]).values == [("full", 1), ("half", 1)]
    excluded = []

    class Guard:
        def __init__(self, keys):
            excluded.append(keys)

        def __enter__(self):
            """Nothing."""

        def __exit__(self, *_):
            """Nothing."""

    c = SimpleNamespace(
        _ExcludeDispatchKeyGuard=Guard,
        DispatchKeySet=lambda key: [key],
        DispatchKey=SimpleNamespace(AutocastCPU=7),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=c))
    assert s.run("cast('keys', 1)", workers=[2])[2] == ("as it is", 1)
    assert excluded == [[7]]


def test_the_notebook_s_stays_the_notebook_s(ops, session):
    mine = ops.custom_op("ns::f")(lambda x: "the notebook's")
    mine.register_torch_dispatch(int, lambda x: None)
    s = session(2)
    s.run(FOUND)
    s.run(DEFINED)
    s.run("f.register_torch_dispatch(int, lambda x: None)")
    assert s.run("f(10)").values == [10, 11]
    assert mine(1) == called(ops, "ns::f", 1) == "the notebook's"
    ops.custom_op("ns::f")(lambda x: "once more")
    assert mine(1) == "once more"
    assert s.run("f(10)").values == [10, 11]


def test_the_notebook_defines_what_no_worker_has_as_ever(s, ops):
    for answer in ("first", "second"):
        ops.custom_op("ns::f")(lambda x, answer=answer: answer)
        assert called(ops, "ns::f", 1) == answer
    assert type(ops.OPDEFS["ns::f"]) is ops.CustomOpDef


def test_who_has_not_defined_it_calls_that_of_a_worker_who_has(s, ops):
    s.run(DEFINED, workers=[1, 2])
    assert s.run("ops.OPDEFS['ns::f'](10)").values == [11, 11, 12]
    assert called(ops, "ns::f", 10) == 11


def test_a_thread_that_a_worker_has_started_calls_its_worker_s(s):
    s.run(DEFINED)
    s.run("import threading; found = []; t = threading.Thread(target=lambda: found.append(f(10)))")
    s.run("t.start(); t.join()")
    assert s.run("found").values == [[10], [11], [12]]


def test_it_ends_with_its_workers(ops, session):
    s = session(2)
    s.run(FOUND)
    s.run(DEFINED)
    s.shutdown()
    with pytest.raises(RuntimeError, match="have ended, and it with them; define it again"):
        called(ops, "ns::f", 1)
    assert not hasattr(ops.OPDEFS["ns::f"], "of_no_version")
    ops.custom_op("ns::f")(lambda x: "again")
    assert called(ops, "ns::f", 1) == "again"


def test_a_later_session_defines_it_for_itself(ops, session):
    for add in (0, 5):
        s = session(2)
        s.run(FOUND)
        s.run(DEFINED.replace("worker_id", f"worker_id + {add}"))
        assert s.run("f(10)").values == [10 + add, 11 + add]
        s.shutdown()


def test_what_a_shared_module_defines_outlives_the_worker_that_imports_it(
    ops, session, tmp_path, monkeypatch
):
    (tmp_path / "defines_f.py").write_text(f"{FOUND}\nf = ops.custom_op('ns::f')(lambda x: 'shared')\n")
    monkeypatch.syspath_prepend(tmp_path)
    s = session(2)
    s.run("import defines_f")
    s.shutdown()
    assert sys.modules.pop("defines_f").f(1) == called(ops, "ns::f", 1) == "shared"


def test_a_function_of_a_shared_module_defines_it_for_the_worker_that_calls(
    ops, session, tmp_path, monkeypatch
):
    made = "def make(n): return ops.custom_op('ns::f')(lambda x: x + n)"
    (tmp_path / "makes_f.py").write_text(f"{FOUND}\n{made}\n")
    monkeypatch.syspath_prepend(tmp_path)
    s = session(2)
    s.run("import makes_f; f = makes_f.make(worker_id); barrier()")
    assert s.run("f(10)").values == [10, 11]
    del sys.modules["makes_f"]


def test_what_it_has_not_is_an_attribute_error(s):
    s.run(DEFINED)
    assert s.run("hasattr(f, 'nothing'), hasattr(f, '_nothing_fn')").values == [(False, False)] * 3


def test_a_device_that_only_others_have_registered_is_no_key_error(s):
    s.run(DEFINED)
    s.run("f._backend_fns.clear()")
    with pytest.raises(
        CellError, match=r"NotImplementedError: this worker has registered no function .* 'cpu'"
    ):
        s.run("f._backend_fns['cpu']")


def test_what_a_shared_module_has_defined_once_and_keeps_lives_on(ops, session, tmp_path, monkeypatch):
    # After a restart it said for ever that it had ended with its worker, also in the notebook.
    cached = "@functools.cache\ndef get():\n    return ops.custom_op('ns::f')(lambda x: x + 1)"
    (tmp_path / "keeps_f.py").write_text(f"import functools\n{FOUND}\n{cached}\n")
    monkeypatch.syspath_prepend(tmp_path)
    s = session(2)
    for _ in range(2):
        s.run(f"{FOUND}\nimport keeps_f")
        assert s.run("keeps_f.get()(10)").values == [11, 11]
        s.restart()
    s.run(FOUND)
    s.run("@ops.custom_op('ns::f', '(Tensor x, int n) -> Tensor')\ndef other(x): return -x")
    assert s.run("other(10)").values == [-10, -10]
    s.shutdown()
    assert sys.modules.pop("keeps_f").get()(10) == 11


def test_what_is_registered_by_its_name_does_not_go_to_another_worker(s):
    s.run(DEFINED, workers=[1])
    with pytest.raises(CellError, match="this operator is another worker's"):
        s.run("ops.OPDEFS['ns::f'].register_fake(lambda x: 'mine')", workers=[0])
    s.run("ops.OPDEFS['ns::f'].register_fake(lambda x: 'own')", workers=[1])
    assert s.run("f._abstract_fn(1)", workers=[1])[1] == "own"


def test_a_cast_that_the_process_has_registered_is_everybody_s(ops, session):
    mine = ops.custom_op("ns::f")(lambda x: x)
    mine.register_autocast("CPU", "half")
    s = session(2)
    s.run(FOUND)
    s.run(DEFINED)
    s.run("f.register_autocast('CUDA', 'half')")
    with pytest.raises(CellError, match="AutocastCPU of this operator is what the process has registered"):
        s.run("f.register_autocast('CPU', 'full')")


def test_it_can_be_copied(s):
    s.run(DEFINED)
    assert s.run("import copy; copy.copy(f)(10)").values == [10, 11, 12]


def test_workers_that_define_many_at_once_get_theirs(s):
    s.run("""
for number in range(50):
    each = ops.custom_op(f"ns::g{number}")(lambda x, number=number: (number, worker_id))
    each.register_kernel("cpu")(lambda x, number=number: -number)
    assert each(0) == (number, worker_id)
    assert each(0, device="cpu") == -number
barrier()
found = [ops.OPDEFS[f"ns::g{number}"](0) for number in range(50)]
""")
    assert s.run("found").values == [[(number, rank) for number in range(50)] for rank in range(3)]


def test_after_the_last_session_the_table_is_as_it_was(ops, session):
    constructor = ops.CustomOpDef.__init__
    s = session(2)
    assert ops.CustomOpDef.__init__ is not constructor
    s.shutdown()
    assert ops.CustomOpDef.__init__ is constructor


def test_a_notebook_s_thread_waits_for_a_worker_that_defines(s, ops, monkeypatch):
    inside, go = threading.Event(), threading.Event()
    made = ops.CustomOpDef._qualname.fget

    def slow(self):
        inside.set()
        go.wait(DEADLINE_S)
        return made(self)

    monkeypatch.setattr(ops.CustomOpDef, "_qualname", property(slow))
    pending = s.run_nowait(DEFINED, workers=[0])
    assert inside.wait(DEADLINE_S)
    thread = threading.Thread(target=lambda: ops.custom_op("ns::f")(lambda x: "mine"))
    thread.start()
    go.set()
    thread.join(DEADLINE_S)
    pending.wait()
    assert called(ops, "ns::f", 1) in {"mine", 1}
