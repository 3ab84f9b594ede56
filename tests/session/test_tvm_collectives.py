"""Programs that TVM compiled with collectives in them run on our data plane."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import CellError, PlaneAborted, PlaneMismatch, WorkerError
from disco_magic.functions import modules
from disco_magic.threads.patience import wait_until

tvm = pytest.importorskip("tvm", reason="apache-tvm is not installed")

if tvm.support.cc.get_cc() is None:
    pytest.skip("TVM links what it exports with a C compiler, and there is none", allow_module_level=True)

SHAPE = (4, 3)


@pytest.fixture(autouse=True)
def nothing_loaded():
    yield
    modules._loaded.clear()


def program():
    """Each function calls its collective on a float32 array, and doubles what it gets."""
    from tvm import relax

    ccl, build = relax.op.ccl, relax.BlockBuilder()
    for name, collective in {
        "sum": lambda x: ccl.allreduce(x, "sum"),
        "max_of_all": lambda x: ccl.allreduce(x, "max", in_group=False),
        "gathered": lambda x: ccl.allgather(x, 2),
        "first": ccl.broadcast_from_worker0,
        "part": lambda x: ccl.scatter_from_worker0(x, 4),
    }.items():
        x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
        with build.function(name, [x]):
            y = build.emit(collective(x))
            build.emit_func_output(build.emit(relax.op.add(y, y)))
    return build.finalize()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    path = tmp_path_factory.mktemp("tvm") / "collectives.so"
    tvm.compile(program(), "llvm").export_library(str(path))
    return path


def mine():
    return np.arange(12, dtype="f4").reshape(SHAPE) + 100 * disco.worker().id


@pytest.fixture
def crew(session, compiled):
    """Two groups of two workers, the program, and an array on each."""
    s = session(4, num_groups=2)
    module, x = s.load_vm_module(compiled), s.call_packed(mine)
    s.sync_all()  # TVM's own functions are ours only from then on, and tests look them up
    return s, module, x


def arrays(*workers):
    return [np.arange(12, dtype="f4").reshape(SHAPE) + 100 * worker for worker in workers]


def test_a_sum_is_that_of_the_group(crew):
    _, module, x = crew
    first, second = sum(arrays(0, 1)), sum(arrays(2, 3))
    for got, expected in zip(module["sum"](x).get_all(), [first, first, second, second], strict=True):
        np.testing.assert_array_equal(got, 2 * expected)


def test_a_maximum_of_all_workers_is_that(crew):
    _, module, x = crew
    for got in module["max_of_all"](x).get_all():
        np.testing.assert_array_equal(got, 2 * arrays(3)[0])


def test_arrays_are_joined_in_the_group_and_spread_over_all_as_relax_has_it(crew):
    _, module, x = crew
    np.testing.assert_array_equal(module["gathered"](x).get(2), 2 * np.concatenate(arrays(2, 3)))
    np.testing.assert_array_equal(module["first"](x).get(3), 2 * arrays(0)[0])
    np.testing.assert_array_equal(module["part"](x).get(3).ravel(), 2 * arrays(0)[0][3])


def test_what_the_plane_raises_comes_out_of_the_program_as_it_is(crew):
    s, module, x = crew
    s["x"], s["total"], s["largest"] = x, module["sum"], module["max_of_all"]
    with pytest.raises(CellError) as caught:
        s.run("total(x) if worker_id % 2 else allreduce(x, 'prod')")
    assert {type(failure.exception) for failure in caught.value.failures.values()} == {PlaneMismatch}
    with pytest.raises(CellError) as caught:
        s.run("if worker_id % 2: total(x)")
    assert {type(failure.exception) for failure in caught.value.failures.values()} == {PlaneAborted}
    np.testing.assert_array_equal(s.run("total(x)").values[0], 2 * sum(arrays(0, 1)))


def test_an_interrupt_ends_a_program_that_waits_in_a_collective(crew):
    s, module, x = crew
    s["x"], s["total"] = x, module["sum"]
    s.sync_all()
    pending = s.run_nowait("if worker_id == 0:\n    while True: pass\ntotal(x)")
    wait_until(lambda: "allreduce" in str(s.doctor()))
    pending.cancel()
    with pytest.raises(CellError, match="interrupt"):
        pending.wait()
    assert s.run("total(x).shape").values == [SHAPE] * 4


def test_elsewhere_the_functions_are_tvms_own(crew):
    s, _, _ = crew
    name = "runtime.disco.worker_id"
    with pytest.raises(Exception, match="DiscoWorker"):
        tvm.get_global_func(name)()
    assert s.call_packed(lambda: list(tvm.get_global_func(name)())).get_all() == [[0], [1], [2], [3]]


def test_a_reduction_that_nobody_knows_is_refused(crew):
    s, _, _ = crew
    reduce = tvm.get_global_func("runtime.disco.allreduce")
    x = tvm.runtime.tensor(np.zeros(2, "f4"))
    with pytest.raises(WorkerError, match="there is no reduction 7; 0 to 4 are sum, prod, min, max, avg"):
        s.call_packed(lambda: reduce(x, tvm.runtime.ShapeTuple([7]), True, x)).get(0)
