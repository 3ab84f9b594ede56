"""Programs that TVM compiled, on every worker: loaded, called with registers, compared with NumPy."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections import deque

import numpy as np
import pytest

from disco_magic.errors import CellError, UnknownName, WorkerError
from disco_magic.functions import modules
from disco_magic.functions.aligned import aligned_empty
from tests.session.conftest import until

shapes = [None]  # for workers, who are in this process; as an argument it would be copied


@pytest.fixture(scope="module")
def tvm():
    """The package. All processes of a run collect these tests, and to import it takes half a second."""
    package = pytest.importorskip("tvm", reason="apache-tvm is not installed")
    if package.support.cc.get_cc() is None:
        pytest.skip("TVM links what it exports with a C compiler, and there is none")
    return package


@pytest.fixture(autouse=True)
def nothing_loaded(tvm):
    yield
    modules._loaded.clear()


def program(tvm):
    """`mlp`: relu(x @ w) + x[:, :3] of any number of rows; `same`: its argument; `both`: two results."""
    from tvm import relax

    def inputs():
        x = relax.Var("x", relax.TensorType((tvm.tirx.Var("n", "int64"), 4), "float32"))
        return x, relax.Var("w", relax.TensorType((4, 3), "float32"))

    op, build = relax.op, relax.BlockBuilder()
    x, w = inputs()
    with build.function("mlp", [x, w]):
        hidden = build.emit(op.nn.relu(op.matmul(x, w)))
        build.emit_func_output(op.add(hidden, op.strided_slice(x, axes=[1], begin=[0], end=[3])))
    x, _ = inputs()
    with build.function("same", [x]):
        build.emit_func_output(x)
    x, _ = inputs()
    with build.function("both", [x]):
        build.emit_func_output(relax.Tuple([build.emit(op.exp(x)), build.emit(op.tanh(x))]))
    return build.finalize()


@pytest.fixture(scope="module")
def compiled(tvm, tmp_path_factory):
    """The program as a virtual machine's executable: ``program.so``."""
    path = tmp_path_factory.mktemp("tvm") / "program.so"
    tvm.compile(program(tvm), target="llvm").export_library(str(path))
    return path


def inputs(s):
    """Registers x, of another length on every worker, and w; in memory that TVM can borrow."""
    s.put("empty", aligned_empty)
    s.run("x = empty((worker_id + 2, 4), 'float32')")
    s.run("x[...] = np.random.default_rng(worker_id).normal(size=x.shape)")
    s["w"] = s.store(np.arange(12, dtype="float32").reshape(4, 3) - 5)
    return s["x"], s["w"]


def expected(x, w):
    return np.maximum(x @ w, 0) + x[:, :3]


def address(array):
    return array.ctypes.data


@pytest.mark.parametrize("n", [1, 4])
def test_a_compiled_program_agrees_with_numpy_on_every_worker(session, compiled, n):
    s = session(n)
    mlp = s.load_vm_module(compiled)["mlp"]
    x, w = inputs(s)
    for y, a, b in zip(mlp(x, w).get_all(), x.get_all(), w.get_all(), strict=True):
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, expected(a, b), rtol=1e-5)


def test_results_are_registers_like_any_other(session, compiled):
    s = session(2)
    mlp = s.load_vm_module(compiled)["mlp"]
    s["y"] = mlp(*inputs(s))
    s.run("total = allreduce(y.sum()); y += 1")
    assert s["total"].get(0) == s["total"].get(1)


def test_a_register_is_lent_and_comes_back_without_a_copy(session, compiled, tvm):
    s = session(4)
    same = s.load_vm_module(compiled, tvm.cpu())["same"]
    x, _ = inputs(s)
    back = same(x)
    assert s.call_packed(address, back).get_all() == s.call_packed(address, x).get_all()
    assert s.call_packed(address, same(same(back))).get_all() == s.call_packed(address, x).get_all()
    s["back"] = back
    s.run("back[0, 0] = 100 + worker_id")
    assert [value[0, 0] for value in x.get_all()] == [100, 101, 102, 103]


@pytest.mark.parametrize("verb", ["broadcast", "store"])
def test_large_arrays_that_workers_were_given_are_lent_without_a_copy(session, compiled, verb):
    s = session(2)
    same = s.load_vm_module(compiled)["same"]
    x = getattr(s, verb)(np.ones((50_000, 4), "float32"))
    assert s.call_packed(address, same(x)).get_all() == s.call_packed(address, x).get_all()


def test_a_result_is_lent_to_the_next_function_without_a_copy(session, compiled):
    s = session(2)
    module = s.load_vm_module(compiled)
    s.run("x = np.ones((50_000, 4), 'float32')")  # so large an array of NumPy's own is never aligned
    first, second = s.call_packed(tuple, module["both"](s["x"])).get(0)
    np.testing.assert_allclose(first, np.full((50_000, 4), np.e), rtol=1e-5)
    np.testing.assert_allclose(second, np.tanh(np.ones((50_000, 4))), rtol=1e-5)
    exp = s.call_packed(lambda pair: pair[0], module["both"](s["x"]))
    assert s.call_packed(address, module["same"](exp)).get_all() == s.call_packed(address, exp).get_all()


def test_a_collective_and_a_compiled_function_work_on_each_others_results(session, compiled):
    s = session(3)
    mlp = s.load_vm_module(compiled)["mlp"]
    x = s.scatter(np.arange(3 * 5 * 4, dtype="float32").reshape(3, 5, 4))
    w = s.broadcast(np.ones((4, 3), "float32"))
    total = s.allreduce(mlp(x, w)).get(2)
    parts = np.arange(60, dtype="float32").reshape(3, 5, 4)
    np.testing.assert_allclose(total, sum(expected(part, np.ones((4, 3))) for part in parts), rtol=1e-5)


def test_every_worker_has_a_machine_of_its_own_over_one_library(session, compiled):
    s = session(4)
    module = s.load_vm_module(compiled)
    machines = [module.get(worker) for worker in range(4)]
    assert len({id(machine.library) for machine in machines}) == 4
    assert len({id(machine._executable) for machine in machines}) == 1


def test_workers_compute_at_the_same_time_and_do_not_disturb_each_other(session, compiled):
    s = session(4)
    mlp = s.load_vm_module(compiled)["mlp"]
    x, w = inputs(s)
    results = [mlp(x, w) for _ in range(500)]
    reference = [expected(a, b) for a, b in zip(x.get_all(), w.get_all(), strict=True)]
    for result in results[::50]:
        for y, right in zip(result.get_all(), reference, strict=True):
            np.testing.assert_allclose(y, right, rtol=1e-5)


# --- looking up ----------------------------------------------------------------------------------------


def test_functions_are_those_of_the_program(session, compiled):
    module = session(2).load_vm_module(compiled)
    assert module.function_names() == ["both", "mlp", "same"]
    assert "mlp" in module
    assert "vm.builtin.make_shape" not in module


def test_what_else_the_machine_can_do_is_found_too(session, compiled):
    arity = session(2).load_vm_module(compiled)["get_function_arity"]
    assert arity("mlp").get_all() == [2, 2]


def test_a_module_in_a_register_is_asked_remotely(session, compiled):
    s = session(4)
    module = s.load_vm_module(compiled)
    same = s.call_packed("runtime.ModuleGetFunction", module, "same", False)
    x, _ = inputs(s)
    for back, a in zip(s.call_packed(same, x).get_all(), x.get_all(), strict=True):
        assert (back == a).all()
    missing = s.call_packed("runtime.ModuleGetFunction", module, "sam")
    with pytest.raises(WorkerError, match="did you mean 'same'"):
        s.call_packed(missing, x).get(3)


def test_tvms_own_functions_are_found_by_name(session, compiled):
    s = session(2)
    module = s.load_vm_module(compiled)
    assert s.get_global_func("ffi.ModuleGetKind")(module).get_all() == ["relax.VirtualMachine"] * 2
    with pytest.raises(UnknownName, match=r"did you mean 'ffi\.ModuleGetKind'"):
        s.get_global_func("ffi.ModuleGetKin")


# --- interrupts ------------------------------------------------------------------------------------------


def test_an_interrupt_never_strikes_where_tvm_makes_objects_of_a_callbacks_arguments(session, tvm):
    # Struck there, it gives the argument back twice: each of these interrupts did that, or the next one.
    s, shape = session(2), tvm.runtime.ShapeTuple((3, 4, 5))
    kept = tvm.runtime.convert([shape] * 200)  # of what is given back too often, something is left to look at
    references = ctypes.c_uint32.from_address(shape._tvm_ffi_cached_object.__chandle__())
    taken = deque(maxlen=1)  # of C: an event that is set when the interrupt strikes may stay locked
    tvm.register_global_func("tests.disco.takes", lambda shape: taken.append(1), override=True)
    s["apply"], s["takes"] = s.get_global_func("testing.apply"), s.get_global_func("tests.disco.takes")
    shapes[0] = shape
    s.run(f"import sys; shape = sys.modules[{__name__!r}].shapes[0]")
    for _ in range(20):
        taken.clear()
        before, cell = references.value, s.run_nowait("while True: apply(takes, shape)")
        until(lambda: taken)
        cell.cancel()
        with pytest.raises(CellError, match="interrupted"):
            cell.wait()
        assert references.value == before
    assert len(kept) == 200


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="it is given up like a call into C, after a second")
def test_an_interrupt_ends_a_python_function_that_tvm_calls(session, tvm):
    began = threading.Event()

    def spin():
        began.set()
        while True:
            pass

    tvm.register_global_func("tests.disco.spins", spin, override=True)
    s = session(2)
    s["spins"] = s.get_global_func("tests.disco.spins")
    cell = s.run_nowait("spins()")
    assert began.wait(60)
    cell.cancel()
    with pytest.raises(CellError) as caught:
        cell.wait()
    assert "replaced" not in str(caught.value)


# --- failures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("mlp(np.ones((2, 5), 'float32'), np.ones((4, 3), 'float32'))", "shape"),
        (
            "mlp(np.ones((2, 4)), np.ones((4, 3), 'float32'))",
            "expect Tensor with dtype float32 but get float64",
        ),
        ("mlp(np.ones((2, 4), 'float32'))", "expects 2 arguments"),
        ("mlp(3, 4)", "expect a Tensor but get int"),
        ("mlp(np.array(['a']), 4)", "an array of dtype <U1 cannot be handed to TVM"),
    ],
    ids=["shape", "dtype", "count", "number", "text"],
)
def test_wrong_arguments_are_errors_of_the_worker_that_goes_on(session, compiled, call, text):
    s = session(2)
    s["mlp"] = s.load_vm_module(compiled)["mlp"]
    s.run("x = np.ones((2, 4), 'float32'); w = np.ones((4, 3), 'float32')")
    with pytest.raises(WorkerError, match=text):
        s.run(f"if worker_id: {call}")
    s.run("y = mlp(x, w)")
    assert s["y"].get(1).tolist() == [[5.0] * 3] * 2


def test_what_is_no_library_is_an_error_of_the_workers(session, tmp_path):
    s = session(2)
    (tmp_path / "lib.so").write_text("not a library")
    module = s.load_vm_module(tmp_path / "lib.so")
    with pytest.raises(WorkerError, match="Failed to load dynamic shared library"):
        module["f"]


@pytest.mark.parametrize("missing", [100, 20_000])
def test_a_library_whose_end_is_missing_is_refused_and_not_loaded(session, compiled, tmp_path, missing):
    whole = compiled.read_bytes()
    cut = tmp_path / "lib.so"
    cut.write_bytes(whole[:-missing])
    module = session(2).load_vm_module(cut)
    told = rf"lib.so' is cut off: it has {len(whole) - missing:,} of {len(whole):,} bytes"
    with pytest.raises(WorkerError, match=told):
        module["mlp"]


LEAVE = """
import sys
import disco_magic as disco
import numpy as np
from disco_magic.session import current
current._AT_EXIT_S = 60  # else what a busy machine has not done within 0.1 s is told of
s = disco.ThreadedSession(4)
module = s.load_vm_module(sys.argv[1])
x = s.store(np.ones((1000, 4), "float32"))
kept = [module["both"](x) for _ in range(100)]
print(len(kept[0].get(0)))
"""


def test_a_process_that_ends_while_machines_are_in_use_ends_well(compiled):
    command = [sys.executable, "-c", LEAVE, str(compiled)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=120)  # noqa: S603 - our own
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")
