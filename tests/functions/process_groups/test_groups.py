"""What a process group of PyTorch's gathers, scatters and reduces, on stand-ins for its tensors."""

from __future__ import annotations

import sys
import threading

import pytest

from disco_magic.errors import CellError


def test_whole_numbers_have_no_average(s):
    calls = (
        "world.allreduce([x], opts('AVG'))",
        "world.reduce([x], opts('AVG'))",
        "world.reduce_scatter_single(t(0, dtype='i4'), x, opts('AVG'))",
    )
    for call in calls:
        with pytest.raises(CellError, match=r"ReduceOp.AVG of int32: .* use ReduceOp.SUM"):
            s.run(f"x = t(1, 2, 3, dtype='i4')\n{call}")


def test_what_is_reduced_is_written_where_it_was(gives):
    assert gives("x = t(me, 1)\nworld.allreduce([x], opts()).wait()", "x") == [[[3, 3]]] * 3
    assert gives("x = t(me, 1)\nworld.allreduce([x], opts('MAX'))", "x") == [[[2, 1]]] * 3
    assert gives("x = t(me, 1)\nworld.allreduce(x)", "x") == [[[3, 3]]] * 3
    assert gives("x, y = t(me), t(1, 2)\nworld.allreduce_coalesced([x, y])", "x, y") == [[[3], [3, 6]]] * 3
    assert gives("x = t(me, 1)\nworld.reduce([x], opts('AVG', 1))", "x") == [[[0, 1]], [[1, 1]], [[2, 1]]]


def test_an_operation_that_we_lack_is_refused_by_its_name(s):
    with pytest.raises(
        CellError, match=r"ReduceOp.BAND is none of SUM, AVG, PRODUCT, MIN, MAX, which workers"
    ):
        s.run("world.allreduce([t(1)], opts('BAND'))")


def test_what_pytorch_writes_into_options_may_be_given_in_their_place(gives):
    assert gives("x = t(me)\nworld.broadcast(x, 2).wait()", "x") == [[[2]]] * 3
    assert gives("x = t(me)\nworld.broadcast([x], root=1)", "x") == [[[1]]] * 3
    assert gives("x = t(me)\nworld.reduce(x, 1)", "x") == [[[0]], [[3]], [[2]]]
    assert gives("x = t(me)\nworld.reduce(x, 2, opts('MAX').reduceOp)", "x")[2] == [[2]]
    assert gives("x = t(me)\nworld.allreduce(x, op=opts('MAX').reduceOp)", "x") == [[[2]]] * 3
    assert (
        gives("outs = [t(0) for _ in range(3)]\nworld.allgather(outs, t(me))", "*outs")
        == [[[0], [1], [2]]] * 3
    )
    gathered = "outs = [t(0) for _ in range(3)]\nworld.gather(outs, t(me), 1)"
    assert gives(gathered, "*outs")[1] == [[0], [1], [2]]
    scattered = "x = t(0)\nworld.scatter(x, [t(4), t(5), t(6)] if worker_id == 1 else [], root=1)"
    assert gives(scattered, "x") == [[[4]], [[5]], [[6]]]
    reduced = "x = t(0)\nworld.reduce_scatter(x, [t(1), t(2), t(3)], op=opts('AVG').reduceOp)"
    assert gives(reduced, "x") == [[[1]], [[2]], [[3]]]


@pytest.mark.parametrize("name", ["reduce_scatter_single", "_reduce_scatter_base"])
def test_of_one_tensor_each_gets_a_part_reduced(gives, name):
    line = f"x, out = t(1, 2, 3, 4, 5, 6), t(0, 0)\nworld.{name}(out, x, opts())"
    assert gives(line, "out") == [[[3, 6]], [[9, 12]], [[15, 18]]]


def test_of_several_tensors_each_gets_its_own_reduced(gives):
    equal = "out = t(0, 0)\nworld.reduce_scatter([out], [[t(1, 2), t(3, 4), t(5, 6)]], opts())"
    assert gives(equal, "out") == [[[3, 6]], [[9, 12]], [[15, 18]]]
    uneven = "out = t(*range(worker_id))\nworld.reduce_scatter([out], [[t(), t(1), t(2, me)]], opts())"
    assert gives(uneven, "out") == [[[]], [[3]], [[6, 3]]]
    several = (
        "a, b = t(0), t(0)\nworld.reduce_scatter_tensor_coalesced([a, b], [t(1, 2, 3), t(4, 5, 6)], opts())"
    )
    assert gives(several, "a, b") == [[[3], [12]], [[6], [15]], [[9], [18]]]


def test_all_get_what_all_give(gives):
    lists = "outs = [t(0, 0) for _ in range(3)]\nworld.allgather([outs], [t(me, 1)])"
    assert gives(lists, "*outs") == [[[0, 1], [1, 1], [2, 1]]] * 3
    uneven = "outs = [t(*[0] * n) for n in (1, 2, 3)]\nworld.allgather([outs], [t(*[me] * (worker_id + 1))])"
    assert gives(uneven, "*outs") == [[[0], [1, 1], [2, 2, 2]]] * 3
    assert gives("out = t(0, 0, 0)\nworld._allgather_base(out, t(me))", "out") == [[[0, 1, 2]]] * 3
    several = "a, b = t(0, 0, 0), t(0, 0, 0)\nworld.all_gather_single_coalesced([a, b], [t(me), t(2 * me)])"
    assert gives(several, "a, b") == [[[0, 1, 2], [0, 2, 4]]] * 3
    by_rank = "outs = [[t(0), t(0)] for _ in range(3)]\nworld.allgather_coalesced(outs, [t(me), t(-me)])"
    assert gives(by_rank, "*outs[2]") == [[[2], [-2]]] * 3
    assert gives("", "t(*(part.version for part in outs[2]))") == [[[1, 1]]] * 3  # that they were changed


@pytest.mark.parametrize("takes", ["outs = t(0, 0), t(0, 0), t(0, 0, 0)", "outs = t(0, 0), t(0), t(0, 0, 0)"])
def test_what_is_to_be_filled_has_to_be_as_long(s, takes):
    # The second one has as many elements in all, which were put into wrong tensors.
    with pytest.raises(CellError, match="PlaneMismatch"):
        s.run(
            f"{takes}\nif worker_id < 1: world.allgather([outs], [t(me, 1)])\n"
            "else: world.allgather([[t(0, 0)] * 3], [t(me, 1)])"
        )
    with pytest.raises(CellError, match=r"5 elements were received, for tensors of \[2\] - what is to be"):
        s.run("world.gather_single(t(0, 0), t(*[me] * (1 + worker_id // 2 * 2)), opts(root=0))")


@pytest.mark.parametrize("given", ["[t(1), t(2, 3, 4), t(5, 6)]", "[t(1, 2), t(3, 4, 5), t(6)]"])
def test_a_root_scatters_tensors_of_one_length(s, given):
    with pytest.raises(CellError, match="takes one of 2 itself - all members get as many"):
        s.run(f"world.scatter([t(0, 0)], [{given}] if worker_id == 0 else [], opts(root=0))")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "world.allgather([[t(0), t(0, 0, 0), t(0, 0)]], [t(me, 1)])",
            "all_gather: rank . gives 2 elements, and tensor . of its list takes .* as large as what that ",
        ),
        (
            "world.alltoall([t(0), t(0, 0), t()], [t(1, 2)] * 3)",
            "all_to_all: the members give worker 0 .* - lengths have to fit rank by rank",
        ),
    ],
)
def test_lengths_have_to_fit_rank_by_rank(s, line, told):
    with pytest.raises(CellError, match=told):
        s.run(line)
    with pytest.raises(CellError, match="all_to_all: 2 input tensors were passed for 3 members"):
        s.run("world.alltoall([t(0)] * 3, [t(me)] * 2)")
    with pytest.raises(CellError, match="2 output tensors were passed for 3 members"):
        s.run("world.allgather([[t(0), t(0)]], [t(me)])")


@pytest.mark.parametrize("takes", ["t(0), t(0), t(0, 0)", "t(0, 0), t(0), t(0, 0, 0)"])
def test_a_root_gathers_tensors_of_one_length(s, takes):
    with pytest.raises(CellError, match="gives one of 2 itself - all members give as many"):
        s.run(f"world.gather([[{takes}]] if worker_id == 0 else [], [t(me, 1)], opts(root=0))")


def test_a_root_gathers_no_longer_tensor_in_place_of_a_shorter_one(s):
    s.run("outs = [[t(0, 0), t(0, 0), t(0, 0)]] if worker_id == 0 else []")
    with pytest.raises(CellError, match="gather"):
        s.run("world.gather(outs, [t(*[me] * [2, 1, 3][worker_id])], opts(root=0))")


@pytest.mark.parametrize(
    "line",
    [
        "world.alltoall([t(*[0] * n) for n in ([2, 1, 3] if me == 0 else [2] * 3)], [t(me, me)] * 3)",
        (
            "n = [2, 1, 3] if me == 0 else [2] * 3\n"
            "world.all_to_all_single(t(*[0] * 6), t(*[me] * 6), n, [2] * 3)"
        ),
    ],
)
def test_what_one_member_gives_another_has_to_be_as_long_as_the_room_for_it(s, line):
    said = (
        r"all_to_all\w*: the members give worker 0 \[2, 2, 2\] \w+, by rank, and it has room for \[2, 1, 3\]"
    )
    with pytest.raises(CellError, match=said):
        s.run(line)


def test_the_root_gets_what_all_give_and_all_get_what_it_gives(gives):
    empty = "[[t(0) for _ in range(3)]] if worker_id == 1 else []"
    lists = f"outs = {empty}\nworld.gather(outs, [t(me)], opts(root=1))"
    assert gives(lists, "*sum(outs, [])") == [[], [[0], [1], [2]], []]
    one = "out = t(0, 0, 0)\nworld.gather_single(out, t(me), opts(root=2))"
    assert gives(one, "out") == [[[0, 0, 0]], [[0, 0, 0]], [[0, 1, 2]]]
    parts = "[[t(1, 2), t(3, 4), t(5, 6)]] if worker_id == 2 else []"
    scattered = f"out = t(0, 0)\nworld.scatter([out], {parts}, opts(root=2))"
    assert gives(scattered, "out") == [[[1, 2]], [[3, 4]], [[5, 6]]]
    assert gives("x = t(me, 7)\nworld.broadcast([x], opts(root=1)).wait()", "x") == [[[1, 7]]] * 3


def test_each_gets_of_each_what_is_meant_for_it(gives):
    equal = "out = t(0, 0, 0)\nworld.all_to_all_single(out, t(me, me + 10, me + 20), [], [])"
    assert gives(equal, "out") == [[[0, 1, 2]], [[10, 11, 12]], [[20, 21, 22]]]
    sizes = "n = worker_id\nout = t(*[0] * 3 * n)\nworld.alltoall_base(out, t(1, 2, 3), [n] * 3, [0, 1, 2])"
    assert gives(sizes, "out") == [[[]], [[1, 1, 1]], [[2, 3] * 3]]
    lists = "outs = [t(*[0] * worker_id) for _ in range(3)]\nworld.alltoall(outs, [t(), t(me), t(me, 5)])"
    assert gives(lists, "*outs") == [[[], [], []], [[0], [1], [2]], [[0, 5], [1, 5], [2, 5]]]


def test_groups_of_some_work_among_themselves(s):
    s.run("pair = dist.new_group([0, 2])\nx = t(me)")
    s.run("if worker_id != 1:\n    pair.allreduce([x])\n    pair.barrier(opts=None).wait()")
    assert s.run("seen(x)").values == [[[2]], [[1]], [[2]]]
    with pytest.raises(CellError, match=r"worker 1 is not a member of the process group of \[0, 2\]"):
        s.run("if worker_id == 0: dist.pair = pair\nbarrier()\ndist.pair.barrier()")


def test_who_has_not_made_a_group_that_others_made_is_told_that_groups_are_counted(s):
    s.run("if worker_id < 2: pair = dist.new_group([0, 1])\nall_of_them = dist.new_group([0, 1, 2])")
    with pytest.raises(CellError, match=r"worker has to call new_group for every group"):
        s.run("all_of_them.allreduce([t(1)])")


def test_groups_of_the_same_members_do_not_meet(s):
    s.run("one, two = dist.new_group([0, 1, 2]), dist.new_group([0, 1, 2])")
    s.run("x, y = t(1), t(10)\nfor group, each in ((world, x), (one, y), (two, x)): group.allreduce([each])")
    assert s.run("seen(x, y)").values == [[[9], [30]]] * 3
    with pytest.raises(CellError, match=r"(?s)in a circle.*\(1,\), op=sum, over=group 2\)"):
        s.run("for group in (one, two) if worker_id else (two, one): group.allreduce([t(1)])")


def test_messages_name_a_group_by_what_it_is_for(s):
    s.run("pair = dist.new_group([0, 2], group_desc='mesh_tp')")
    s.run("trio = dist.new_group([0, 1, 2], group_desc='')")
    with pytest.raises(CellError, match=r"joining all_reduce\(.*, over=group 1 \(mesh_tp\)\)"):
        s.run("if worker_id == 0: pair.allreduce([t(1)])")
    with pytest.raises(CellError, match=r"joining all_reduce\(.*, over=group 2\)"):
        s.run("if worker_id == 0: trio.allreduce([t(1)])")


def test_errors_name_the_line_that_called_pytorch(s):
    called = s.run_nowait("x = t(*range(worker_id))\nworld.allreduce([x])")
    with pytest.raises(CellError) as caught:
        called.wait()
    assert "all_reduce: the members disagree on shape" in str(caught.value)
    assert f"all_reduce(float32 (2,), op=sum) at {called.label}, line 2" in str(caught.value)
    assert "groups.py" not in str(caught.value)


def test_what_pytorch_asks_of_a_backend_is_answered(s):
    s.run("b = world._get_backend('cpu')\nworld.monitored_barrier(1.0, wait_all_ranks=True)")
    line = "b.getBackendName(), b.supports_splitting, b.supports_coalescing, b.size(), world._device_types"
    assert s.run(line).values == [("disco", False, False, 3, ["cpu"])] * 3


def test_a_backend_has_options_with_a_timeout(s):
    # PyTorch's compiler reads it before it makes a group of its own, and failed there.
    assert s.run("world._get_backend('cpu').options._timeout.total_seconds()").values == [1800.0] * 3


def test_gradients_are_computed_in_the_workers_own_thread(s):
    told = []
    autograd = sys.modules["torch"].autograd
    autograd.set_multithreading_enabled = lambda on: told.append((on, threading.get_ident()))
    s.run("import threading\nworld.barrier(), world.barrier()\nmine = threading.get_ident()")
    assert sorted(told) == sorted((False, thread) for thread in s["mine"].get_all())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("torch.distributed.distributed_c10d", "WorkerWork"),
        ("users.own", "Done"),
        ("torch._ops", "Done"),
        ("torch.nn", "Done"),
    ],
)
def test_who_calls_through_c_plus_plus_gets_work_of_its_own(s, name, kind):
    s.run(f"exec('def call(group, x): return group.allreduce([x])', names := {{'__name__': {name!r}}})")
    s.run(
        "x = t(me)\nwork = names['call'](world, x)\ngot = type(work).__name__, work.get_future().value == [x]"
    )
    assert s["got"].get_all() == [(kind, True)] * 3
    assert s.run("seen(x)").values == [[[3]]] * 3


def test_a_limit_may_be_given_to_what_is_waited_for(s):
    assert (
        s.run("world.allreduce([t(1)]).wait(1.0), world.barrier().get_future().value").values
        == [(True, [])] * 3
    )


def test_a_monitored_barrier_is_one_and_elsewhere_what_it_was(s):
    # "only implemented for GLOO backend", also where that was asked for.
    s.run("dist.monitored_barrier()\ndist.monitored_barrier(world, wait_all_ranks=True)")
    s.run("dist.distributed_c10d.monitored_barrier(timeout=None)")
    with pytest.raises(CellError, match=r"monitored_barrier|barrier\(\)"):
        s.run("if worker_id: dist.monitored_barrier()")
    with pytest.raises(ValueError, match="only implemented for GLOO"):
        sys.modules["torch.distributed"].monitored_barrier()
    with pytest.raises(CellError, match="only implemented for GLOO"):
        s.run("dist.monitored_barrier('another group')")
