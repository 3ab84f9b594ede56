"""Disco's worker functions: who a worker is, messages between workers and groups, and the core it runs on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import CellError, PlaneMismatch, UsageMistake, WorkerError
from disco_magic.functions import affinity
from disco_magic.functions.registry import find_func

groupings = pytest.mark.parametrize(("n", "groups"), [(2, 2), (4, 2), (6, 3), (6, 2)])
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux binds threads to cores")


def func(name):
    return find_func(f"runtime.disco.{name}")


def mine(shape=(2, 3)):
    return np.full(shape, disco.worker().id, "int64")


# --- names -----------------------------------------------------------------------------------------

NAMES = (
    "worker_id",
    "worker_rank",
    "device",
    "bind_worker_to_cpu_core",
    "send_to_worker",
    "recv_from_worker",
    "recv_from_worker0",
    "send_to_next_group",
    "recv_from_prev_group",
    "reduce",
    "copy_to_worker",
    "shift_to_next_group",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_function_of_disco_is_registered_and_says_what_it_does(name):
    assert find_func(f"runtime.disco.{name}").__doc__


def test_they_are_registered_as_soon_as_the_other_builtins_are():
    code = (
        "import disco_magic.functions.builtins\n"
        "from disco_magic.functions.registry import list_funcs\n"
        "print(*list_funcs('runtime.disco.'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert {f"runtime.disco.{name}" for name in (*NAMES, "allreduce")} <= set(done.stdout.split())


# --- who a worker is -------------------------------------------------------------------------------


def test_the_names_of_other_libraries_say_the_same(session):
    value = session(4, 2).run("worker.worker_id, worker.worker_rank, worker.world_size, worker.group_rank")[3]
    assert value == (3, 3, 4, 1)


@pytest.mark.parametrize("name", ["worker_id", "worker_rank", "device"])
def test_outside_of_a_worker_there_is_nobody_to_tell(name):
    with pytest.raises(UsageMistake, match="called outside of a worker"):
        func(name)()


# --- messages between workers ----------------------------------------------------------------------


def around(dst=None):
    """Every worker hands its array to the next one in a ring."""
    me = disco.worker()
    func("send_to_worker")(mine(), (me.id + 1) % me.num_workers)
    return func("recv_from_worker")(dst, (me.id - 1) % me.num_workers)


def test_a_destination_is_filled_and_returned(session):
    s = session(3)
    dst = s.empty((2, 3), "int64")
    out = s.call_packed(around, dst)
    assert [v.tolist() for v in dst.get_all()] == [v.tolist() for v in out.get_all()]
    assert dst.get(0).tolist() == [[2] * 3] * 2
    assert s.call_packed(lambda a, b: a is b, dst, out).get_all() == [True] * 3


@pytest.mark.parametrize(
    ("dst", "here"),
    [(np.zeros(5, "int64"), r"int64 \(5,\)"), (np.zeros(6, "int32"), r"int32 \(6,\)"), ([0] * 6, "list")],
    ids=["count", "dtype", "kind"],
)
def test_a_destination_that_does_not_fit_stays_as_it_is(session, dst, here):
    s = session(2)
    ref = s.call_packed(lambda x: x, dst)
    s.call_packed(around, ref)
    text = rf"worker 0 received int64 \(2, 3\) from worker 1, but the destination is {here}"
    with pytest.raises(WorkerError, match=text) as caught:
        s.sync_all()
    assert isinstance(caught.value.failures[0].exception, PlaneMismatch)
    assert np.array_equal(ref.get(0), dst)


def test_a_destination_of_the_other_byte_order_is_filled(session):
    s = session(2)
    dst = s.call_packed(lambda: np.zeros((2, 3), ">i8"))
    s.call_packed(around, dst)
    assert [v.tolist() for v in dst.get_all()] == [[[1] * 3] * 2, [[0] * 3] * 2]


def test_a_destination_that_cannot_be_written_to_is_a_mistake(session):
    s = session(2)

    def into_fixed():
        dst = mine()
        dst.flags.writeable = False
        return around(dst)

    s.call_packed(into_fixed)
    with pytest.raises(
        WorkerError, match="recv: the destination is read-only; pass a writeable array"
    ) as caught:
        s.sync_all()
    assert isinstance(caught.value.origin.exception, UsageMistake)


def test_the_method_takes_an_exact_destination(session):
    s = session(2)
    result = s.run(
        "if worker_id == 0:\n    send([1, 2], 1)\nelse:\n    x = np.zeros(2, 'int64')\n"
        "    assert worker.recv_from_worker0(x) is x\nx.tolist() if worker_id else None"
    )
    assert result[1] == [1, 2]


# --- messages between groups -----------------------------------------------------------------------


def to_next_group(dst=None):
    me = disco.worker()
    if me.group < me.num_groups - 1:
        func("send_to_next_group")(mine())
    return func("recv_from_prev_group")(dst) if me.group > 0 else None


def test_what_comes_from_the_previous_group_fills_a_destination_of_as_many_elements(session):
    s = session(6, 3)
    dst = s.call_packed(lambda: np.full(6, -1))
    s.call_packed(to_next_group, dst)
    assert [int(v[0]) for v in dst.get_all()] == [-1, -1, 0, 1, 2, 3]


@groupings
def test_the_methods_of_a_worker_do_the_same_with_exact_destinations(session, n, groups):
    s = session(n, groups)
    s.run(
        "x = np.full(2, worker_id)\n"
        "if worker.group + 1 < worker.num_groups: worker.send_to_next_group(10 + worker_id)\n"
        "if worker.group > 0: assert worker.recv_from_prev_group() == 10 + worker_id - worker.group_size\n"
        "if worker.group + 1 < worker.num_groups: worker.send_to_next_group(x)\n"
        "if worker.group > 0: assert worker.recv_from_prev_group(x) is x\n"
    )
    size = n // groups
    assert [int(v[0]) for v in s["x"].get_all()] == [max(w - size, w % size) for w in range(n)]


@pytest.mark.parametrize(
    ("n", "groups", "call", "where", "wrong"),
    [
        (4, 2, "send_to_next_group(1)", "worker 2 of group 1, the last of 2 groups", [2, 3]),
        (4, 2, "recv_from_prev_group()", "worker 0 of group 0, the first of 2 groups", [0, 1]),
        (2, 1, "send_to_next_group(1)", "worker 0 of group 0, the last of 1 group", [0, 1]),
        (2, 1, "recv_from_prev_group()", "worker 0 of group 0, the first of 1 group", [0, 1]),
    ],
)
def test_the_group_at_the_end_is_told_that_there_is_no_other(session, n, groups, call, where, wrong):  # noqa: PLR0917 - a matrix
    with pytest.raises(CellError, match=f"was called on {where}.*; call it where worker.group") as caught:
        session(n, groups).run(f"worker.{call}")
    mistaken = [w for w, f in caught.value.failures.items() if isinstance(f.exception, UsageMistake)]
    assert sorted(mistaken) == wrong


# --- cores -----------------------------------------------------------------------------------------

CORES = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else [0]


def in_a_thread(function):
    """What a function gives in a thread of its own, so that the test's own thread stays unbound."""
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(function()))
    thread.start()
    thread.join()
    return outcome[0]


@needs_linux
def test_a_worker_is_bound_to_the_core_at_its_place_in_the_list(session):
    s = session(3)
    wanted = [CORES[-1], CORES[0], CORES[-1]]
    s.call_packed("runtime.disco.bind_worker_to_cpu_core", wanted)
    assert s.call_packed(os.sched_getaffinity, 0).get_all() == [{core} for core in wanted]
    assert s.run("worker.cpu_core").values == wanted
    assert sorted(os.sched_getaffinity(0)) == CORES


@needs_linux
def test_a_worker_without_a_core_of_its_own_in_the_list_says_so(session):
    s = session(2)
    s.call_packed("runtime.disco.bind_worker_to_cpu_core", CORES[:1])
    with pytest.raises(
        WorkerError, match="1 cores do not reach worker 1; expected one for each of 2"
    ) as caught:
        s.sync_all()
    assert list(caught.value.failures) == [1]


@needs_linux
@pytest.mark.parametrize("core", [-1, 4000, 10**12])
def test_a_core_that_is_not_there_is_refused_and_the_worker_goes_on_unbound(session, core):
    s = session(1)
    s.call_packed("runtime.disco.bind_worker_to_cpu_core", (core,))
    with pytest.raises(WorkerError, match=f"cannot be bound to CPU core {core}: there is no such core"):
        s.sync_all()
    assert s.run("worker.cpu_core is None")[0] is True
    assert s.call_packed(lambda: sorted(os.sched_getaffinity(0))).get(0) == CORES


@needs_linux
def test_the_thread_that_replaces_a_stuck_one_is_bound_like_it(gated, gate):
    s = gated(1)
    s.call_packed("runtime.disco.bind_worker_to_cpu_core", CORES[-1:])
    pending = s.run_nowait("gate(worker_id)")
    gate.arrived()
    s.interrupt()
    assert s.replace_stuck([0]) == [0]
    with pytest.raises(CellError):
        pending.wait()
    assert s.call_packed(os.sched_getaffinity, 0).get(0) == set(CORES[-1:])
    assert s.run("worker.cpu_core")[0] == CORES[-1]


@pytest.fixture
def kernel(monkeypatch):
    """Stands in for the system: notes which thread was bound to which core, has cores 0 to 3."""

    class System:
        def __init__(self):
            self.bound = []
            self.cores = {0, 1, 2, 3}

        def sched_setaffinity(self, pid, cores):
            if not cores <= self.cores:
                raise OSError(22, "Invalid argument")
            self.bound.append((threading.current_thread().name, *cores))

        def sched_getaffinity(self, pid):
            return self.cores

        def getpid(self):
            return 1

    system = System()
    monkeypatch.setattr(affinity, "os", system)
    monkeypatch.setattr(affinity, "sys", SimpleNamespace(platform="linux"))
    return system


def test_only_a_thread_that_is_new_to_a_bound_worker_is_bound_again(kernel, bound_worker):
    bound_worker.keep_bound()
    in_a_thread(bound_worker.keep_bound)
    assert [core for _, core in kernel.bound] == [2, 2]


def test_a_core_that_was_taken_away_meanwhile_leaves_the_next_thread_unbound(kernel, bound_worker):
    kernel.cores = {0}
    in_a_thread(bound_worker.keep_bound)
    assert bound_worker.cpu_core is None
    assert len(kernel.bound) == 1


@pytest.fixture
def bound_worker(kernel):
    from disco_magic.core.topology import Topology
    from disco_magic.functions.context import WorkerContext

    context = WorkerContext(0, Topology(1), None, None)
    context.bind_to_cpu_core(2)
    return context


def test_cores_are_tried_out_in_a_thread_that_ends(kernel):
    affinity.check_cores([3, 1, 3])
    assert kernel.bound == [("disco-cores", 1), ("disco-cores", 3)]
    with pytest.raises(UsageMistake, match=r"CPU core 7: .* name some of \[0-3\], which the main thread may"):
        affinity.check_cores([0, 7, 9])


@pytest.mark.parametrize("attempt", [affinity.bind_thread, lambda core: affinity.check_cores([core])])
def test_another_system_than_linux_says_so(kernel, monkeypatch, attempt):
    monkeypatch.setattr(affinity, "sys", SimpleNamespace(platform="darwin"))
    with pytest.raises(
        UsageMistake, match="darwin has no call for it, only Linux has; leave the binding out"
    ):
        attempt(0)


def test_binding_is_for_a_worker_not_for_the_notebook():
    with pytest.raises(UsageMistake, match="called outside of a worker"):
        func("bind_worker_to_cpu_core")([0])
